"""What quantizations of layers come to: zero points, factors from sums to results, clamps, tables.

Sums are exact, in 32 bits. Results are rounded once, to the nearest integer, ties to even, as ONNX
has it (QLinearConv, QuantizeLinear): what a network says that spells quantization out. The fixed
point of TensorFlow Lite's reference kernels rounds twice, and differs by one in some 3 of 1000.
Tables of bytes (`dovetail.quantized.tables`) have its bits.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dovetail import Layer, Quantization
from dovetail.graph.tensor import TensorInfo
from dovetail.quantized.bounds import bounds_of

from ..convolution.images import root_of
from ..elementwise import input_info

SOURCE = "quantized/requantization.cl"
"""What turns sums into results."""


def scheme(info: TensorInfo) -> Quantization:
    """Return the quantization of a tensor that has one."""
    assert info.quantization is not None, "the claims ask for it"
    return info.quantization


def clamp_range(layer: Layer) -> tuple[int, int]:
    """Return the least and the greatest integer of a result, by its type and its activation."""
    descriptor, info = root_of(layer), layer.output.known_info
    activation = getattr(descriptor, "activation", None)
    if activation is None:
        return info.dtype.limits
    return bounds_of(activation, descriptor.activation_alpha, descriptor.activation_beta, info)


def single(factors: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """Return factors in float32, finite, so that none makes a NaN of zero."""
    return np.minimum(np.asarray(factors, np.float64), np.finfo(np.float32).max).astype(np.float32)


def factors_of(layer: Layer, filters: int) -> npt.NDArray[np.float32]:
    """Return the factor from sums to results of each filter.

    Args:
        layer: A product: of an input, and of weights.
        filters: How many there are.
    """
    given, weights = scheme(input_info(layer, 0)), scheme(input_info(layer, 1))
    scales = np.broadcast_to(np.asarray(weights.scale, np.float64), (filters,))
    return single(given.scale[0] * scales / scheme(layer.output.known_info).scale[0])


def weight_zeros(layer: Layer, filters: int) -> npt.NDArray[np.int32]:
    """Return the zero point of the weights of each filter."""
    return np.broadcast_to(np.asarray(scheme(input_info(layer, 1)).zero_point, np.int32), (filters,))
