"""Sums of products of quantized tensors by TensorFlow Lite's rules.

They are integers up to the rescaling, which then rounds.

Source: TensorFlow Lite's 8-bit quantization specification;
tensorflow/lite/kernels/internal/reference/integer_ops/conv.h.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dovetail import DType, Quantization
from dovetail.layers import ActivationFunction

from ..cases import Array, Bits
from .quantized_elementwise import quantized
from .standards import fixed_point, in_double, is_power_of_two, litert_bits, onnx_bits, wide_fixed_point

EIGHT_BITS = (DType.INT8, DType.UINT8)
QUANTIZATIONS = ("per_tensor", "none")
"""What 8-bit integers may stand for, the plain case first.

Other types are not quantized, whatever the parameter says."""
_INPUT_SCALES = {8: float(np.float32(0.05)), 16: float(np.float32(0.0003))}
_TYPICAL = {8: 74.0, 16: 18918.0}
"""Root of the mean square of integers spread over so many bits."""
_SPREAD = {8: 40.0, 16: 8000.0}
"""Quanta in a result's standard deviation: few results saturate, one term is many quanta."""


@dataclass(frozen=True, slots=True)
class LitertScaling:
    """How a kernel of LiteRT turns sums into results.

    Attributes:
        rescale: Multiplies integers by real factors.
        single: Element types for which the scales of input and weights are multiplied in float32.
        wide: As `rescale`, of sums of 64 bits.
    """

    rescale: Callable[[Array, Array], Array] = fixed_point
    single: tuple[DType, ...] = ()
    wide: Callable[[Array, Array], Array] = wide_fixed_point

    def is_single(self, dtype: DType) -> bool:
        """Tell whether the scales of input and weights are multiplied in float32."""
        return dtype in self.single


CONVOLUTIONS = LitertScaling(single=(DType.UINT8,))
"""kernel_util.cc, GetQuantizedConvolutionMultipler and PopulateConvolutionQuantizationParams."""
BATCHED_PRODUCTS = LitertScaling(single=(*EIGHT_BITS, DType.INT16))
FULLY_CONNECTED = LitertScaling(in_double, wide=in_double)


def of_type(how: str, dtype: DType) -> str:
    """Return the quantization that a tensor of this type has."""
    return how if dtype in EIGHT_BITS else "none" if how in QUANTIZATIONS else how


def input_quantization(dtype: DType) -> Quantization:
    """Quantization of the images or rows."""
    return Quantization.per_tensor(_INPUT_SCALES[dtype.bits], _zero(dtype, -3, 120))


def _zero(dtype: DType, signed: int, unsigned: int) -> int:
    """Return one of these for bytes; words have no zero point."""
    return 0 if dtype is DType.INT16 else signed if dtype is DType.INT8 else unsigned


def _weights_zero(dtype: DType) -> int:
    return _zero(dtype, 0, 131)


def weights_quantization(dtype: DType, filters: int, axis: int | None, rng: np.random.Generator) -> Quantization:
    """Return a quantization of the weights, per tensor or along an axis.

    int8 weights are symmetric, as the specification has it.
    """
    zero = _weights_zero(dtype)
    if axis is None:
        return Quantization.per_tensor(float(np.float32(0.013)), zero)
    scales = rng.uniform(0.008, 0.02, filters).astype(np.float32)
    return Quantization.per_axis(scales.tolist(), [zero] * filters, axis=axis)


def result_quantization(weights: Quantization, terms: int, dtype: DType, stored: DType = DType.INT8) -> Quantization:
    """Choose a scale that suits sums of so many products by weights of a type."""
    products = _TYPICAL[dtype.bits] * _TYPICAL[stored.bits] * math.sqrt(max(terms, 1))
    scale = _INPUT_SCALES[dtype.bits] * float(np.mean(weights.scale)) * products / _SPREAD[dtype.bits]
    return Quantization.per_tensor(float(np.float32(scale)), _zero(dtype, -7, 100))


def bias_quantization(given: Quantization, weights: Quantization) -> Quantization:
    """Quantization of an int32 bias: the scale of the products, zero point 0."""
    scales = [float(np.float32(given.scale[0] * scale)) for scale in weights.scale]
    if weights.is_per_axis:
        return Quantization.per_axis(scales, [0] * len(scales), axis=0)
    return Quantization.per_tensor(scales[0])


TIES = "ties"
"""Values of which every second result lies between two integers, by scales of powers of two."""


def ties(
    dtype: DType, stored: DType, shapes: tuple[tuple[int, ...], tuple[int, ...]], terms: int, rng: np.random.Generator
) -> tuple[Array, Array, tuple[Quantization, Quantization, Quantization]]:
    """Make operands whose sums are multiples of half a quantum, and all quantizations.

    Zero points of results are even: at a tie, standards that round before it is added and
    standards that round after it then agree.
    """
    zero, weights_zero = _zero(dtype, -3, 120), _weights_zero(stored)
    reach = max(1, round(_SPREAD[8] * math.sqrt(3.0 / max(terms, 1))))
    x = rng.integers(-min(reach, 100), min(reach, 100), shapes[0], endpoint=True) + zero
    weights = 32 * rng.choice([-3, -2, -1, 1, 2, 3], shapes[1]) + weights_zero
    given, weighed = Quantization.per_tensor(2.0**-4, zero), Quantization.per_tensor(2.0**-7, weights_zero)
    result = Quantization.per_tensor(2.0**-5, _zero(dtype, -6, 100))
    return x.astype(dtype.numpy), weights.astype(stored.numpy), (given, weighed, result)


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
    *,
    litert: LitertScaling,
) -> tuple[Array, dict[str, Bits]]:
    """Sum integer products without zero points, exactly; then rescale, clamp and round to nearest.

    Args:
        sums: Of int64 operands.
        operands: Input and weights, stored.
        bias: int32 or int64, per filter, of the scale of the products.
        quantizations: Of input, weights and result.
        filter_axis: Axis of the sums that counts the filters.
        dtype: Of the result.
        activation: A clamp.
        litert: How LiteRT's kernel of the kind rescales.

    Returns:
        The result, and its bits by standard.
    """
    given, weighed, result = quantizations
    x = operands[0].astype(np.int64) - given.zero_point[0]
    weights = operands[1].astype(np.int64) - weighed.zero_point[0]  # all zero points of the cases are alike
    total = sums(x, weights)
    along = tuple(-1 if axis == filter_axis else 1 for axis in range(total.ndim))
    if bias is not None:
        total = total + bias.astype(np.int64).reshape(along)
    scales = np.asarray(weighed.scale, np.float32)
    factors = scales.reshape(along) if weighed.is_per_axis else scales[0]
    scale = np.float32(given.scale[0])
    reals = total * (float(scale) * factors.astype(np.float64))
    product = scale * factors if litert.is_single(dtype) else float(scale) * factors.astype(np.float64)
    # Sums of words have 64 bits, unless their bias has 32.
    is_wide = dtype is DType.INT16 and (bias is None or bias.dtype == np.int64)
    rescaled = (litert.wide if is_wide else litert.rescale)(
        total, np.asarray(product, np.float64) / float(np.float32(result.scale[0]))
    )
    bits = {
        "litert": litert_bits(rescaled, result, dtype, activation),
        "onnx": onnx_bits(reals, result, dtype, activation, is_exact=is_power_of_two(given, weighed, result)),
    }
    return quantized(reals, result, dtype, activation), bits
