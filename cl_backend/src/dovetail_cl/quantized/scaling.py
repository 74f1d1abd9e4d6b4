"""What a product needs besides its geometry: zero points, and factors from sums to results."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dovetail import Layer
from dovetail.ground.records import NamedTuple

from ..convolution.geometry import Geometry
from ..elementwise import input_info
from .arithmetic import clamp_range, factors_of, scheme, weight_zeros


class Scaling(NamedTuple):
    """From sums to results.

    Attributes:
        zeros: Of the input and of the result.
        bounds: Least and greatest result.
        factors: Of each filter of all groups.
        weight_zeros: Zero points of the weights of each filter.
    """

    zeros: tuple[int, int]
    bounds: tuple[int, int]
    factors: npt.NDArray[np.float32]
    weight_zeros: npt.NDArray[np.int32]


def scaling_of(layer: Layer, filters: int) -> Scaling:
    """Return the scaling of a product, whose weights have so many filters."""
    given, result = input_info(layer, 0), layer.output.known_info
    return Scaling(
        (scheme(given).zero_point[0], scheme(result).zero_point[0]),
        clamp_range(layer),
        factors_of(layer, filters),
        weight_zeros(layer, filters),
    )


def whole_weights(layer: Layer, geometry: Geometry, scaling: Scaling) -> npt.NDArray[np.int16]:
    """Return weights less their zero points, [group, filter, depth]."""
    weights = layer.constant(1)
    assert weights is not None, "it was asked before"
    matrix = geometry.matrix(weights).reshape(geometry.groups, geometry.filters, geometry.depth).astype(np.int16)
    return matrix - scaling.weight_zeros.astype(np.int16).reshape(geometry.groups, geometry.filters, 1)
