"""What a product needs besides its geometry: zero points, and factors from sums to results."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dovetail import DType, Layer
from dovetail.ground.records import NamedTuple
from dovetail.layers import FullyConnected

from ..convolution.geometry import Geometry
from ..elementwise import input_info
from ..kernels import Kernels
from .arithmetic import clamp_range, factors_of, fixed_point, scheme, weight_zeros


class Scaling(NamedTuple):
    """From sums to results.

    Attributes:
        zeros: Of the input and of the result.
        bounds: Least and greatest result.
        multipliers: Of each filter of all groups: fixed point, or in double.
        shifts: The same; of what is scaled in double, nothing.
        weight_zeros: Zero points of the weights of each filter.
    """

    zeros: tuple[int, int]
    bounds: tuple[int, int]
    multipliers: npt.NDArray[Any]
    shifts: npt.NDArray[np.int32]
    weight_zeros: npt.NDArray[np.int32]

    @property
    def is_double(self) -> bool:
        """Whether sums are scaled in double."""
        return self.multipliers.dtype == np.float64


def scaling_of(layer: Layer, kernels: Kernels, filters: int) -> Scaling:
    """Return the scaling of a product, whose weights have so many filters."""
    given, result = input_info(layer, 0), layer.output.known_info
    is_connected = isinstance(layer.descriptor, FullyConnected)
    is_convolution = not is_connected and layer.kind != "dovetail.MatMul"
    is_single = given.dtype is DType.UINT8 if is_convolution else not is_connected
    factors = factors_of(layer, filters, is_single=is_single)
    multipliers, shifts = fixed_point(factors)
    if is_connected and "cl_khr_fp64" in kernels.device.facts["extensions"].split():
        multipliers = factors  # type: ignore[assignment]
    return Scaling(
        (scheme(given).zero_point[0], scheme(result).zero_point[0]),
        clamp_range(layer),
        multipliers,
        shifts,
        weight_zeros(layer, filters),
    )


def whole_weights(layer: Layer, geometry: Geometry, scaling: Scaling) -> npt.NDArray[np.int16]:
    """Return weights less their zero points, [group, filter, depth]."""
    weights = layer.constant(1)
    assert weights is not None, "it was asked before"
    matrix = geometry.matrix(weights).reshape(geometry.groups, geometry.filters, geometry.depth).astype(np.int16)
    return matrix - scaling.weight_zeros.astype(np.int16).reshape(geometry.groups, geometry.filters, 1)
