"""Sums of products of quantized tensors by TensorFlow Lite's rules.

They are integers up to the rescaling, which then rounds.

Source: TensorFlow Lite's 8-bit quantization specification;
tensorflow/lite/kernels/internal/reference/integer_ops/conv.h.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dovetail import DType, Quantization
from dovetail.layers import ActivationFunction

from ..cases import Array
from .quantized_elementwise import quantized

EIGHT_BITS = (DType.INT8, DType.UINT8)
QUANTIZATIONS = ("per_tensor", "none")
"""What 8-bit integers may stand for, the plain case first.

Other types are not quantized, whatever the parameter says."""
INPUT_SCALE = float(np.float32(0.05))
_TYPICAL = 74.0
"""Root of the mean square of integers spread over 8 bits."""
_SPREAD = 40.0
"""Quanta in a result's standard deviation: few results saturate, one term is many quanta."""


def of_type(how: str, dtype: DType) -> str:
    """Return the quantization that a tensor of this type has."""
    return how if dtype in EIGHT_BITS or how not in QUANTIZATIONS else "none"


def input_quantization(dtype: DType) -> Quantization:
    """Quantization of the images or rows."""
    return Quantization.per_tensor(INPUT_SCALE, -3 if dtype is DType.INT8 else 120)


def _weights_zero(dtype: DType) -> int:
    return 0 if dtype is DType.INT8 else 131


def weights_quantization(dtype: DType, filters: int, axis: int | None, rng: np.random.Generator) -> Quantization:
    """Return a quantization of the weights, per tensor or along an axis.

    int8 weights are symmetric, as the specification has it.
    """
    zero = _weights_zero(dtype)
    if axis is None:
        return Quantization.per_tensor(float(np.float32(0.013)), zero)
    scales = rng.uniform(0.008, 0.02, filters).astype(np.float32)
    return Quantization.per_axis(scales.tolist(), [zero] * filters, axis=axis)


def result_quantization(weights: Quantization, terms: int, dtype: DType) -> Quantization:
    """Choose a scale that suits sums of so many products."""
    scale = INPUT_SCALE * float(np.mean(weights.scale)) * math.sqrt(max(terms, 1)) * _TYPICAL**2 / _SPREAD
    return Quantization.per_tensor(float(np.float32(scale)), -7 if dtype is DType.INT8 else 100)


def bias_quantization(weights: Quantization) -> Quantization:
    """Quantization of an int32 bias: the scale of the products, zero point 0."""
    scales = [float(np.float32(INPUT_SCALE * scale)) for scale in weights.scale]
    if weights.is_per_axis:
        return Quantization.per_axis(scales, [0] * len(scales), axis=0)
    return Quantization.per_tensor(scales[0])


def eight_bits(dtype: DType, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Integers of the whole range."""
    minimum, maximum = np.iinfo(dtype.numpy).min, np.iinfo(dtype.numpy).max
    return rng.integers(minimum, maximum, shape, dtype.numpy, endpoint=True)


def eight_bit_weights(dtype: DType, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Make integers at least 32 from their zero point, so that none goes missing unseen.

    The specification has no -128.
    """
    zero = _weights_zero(dtype)
    far = np.where(rng.random(shape) < 0.5, rng.integers(-127, -32, shape), rng.integers(32, 124, shape, endpoint=True))
    return np.asarray(far + zero, dtype.numpy)


def quantized_sums(
    sums: Callable[[Array, Array], Array],
    operands: tuple[Array, Array],
    bias: Array | None,
    quantizations: tuple[Quantization, Quantization, Quantization],
    filter_axis: int,
    dtype: DType,
    activation: ActivationFunction | None = None,
) -> Array:
    """Sum integer products without zero points, exactly; then rescale, clamp and round to nearest.

    Args:
        sums: Of int64 operands.
        operands: Input and weights, stored.
        bias: int32, per filter, of the scale of the products.
        quantizations: Of input, weights and result.
        filter_axis: Axis of the sums that counts the filters.
        dtype: Of the result.
        activation: A clamp.
    """
    given, weighed, result = quantizations
    x = operands[0].astype(np.int64) - given.zero_point[0]
    weights = operands[1].astype(np.int64) - weighed.zero_point[0]  # all zero points of the cases are alike
    total = sums(x, weights)
    along = tuple(-1 if axis == filter_axis else 1 for axis in range(total.ndim))
    if bias is not None:
        total = total + bias.astype(np.int64).reshape(along)
    scales = np.asarray(weighed.scale, np.float32).astype(np.float64)
    factors = scales.reshape(along) if weighed.is_per_axis else scales[0]
    return quantized(total * (float(np.float32(given.scale[0])) * factors), result, dtype, activation)
