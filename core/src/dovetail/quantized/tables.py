"""What tables of 256 bytes hold: activations, functions and other quantizations of one element.

Indices are elements as they are stored, int8 by its two's complement, and so are entries. They are
what TensorFlow Lite's kernels give: in fixed point for ReLU and its like and for hard swish, else
the function of a real number, rounded half away from zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ..graph.element_types import DType
from ..graph.tensor import Quantization, TensorInfo
from ..layers import Activation, ActivationFunction, ElementwiseUnary, UnaryOperation
from .bounds import bounds_of
from .fixed_point import high_half, power_of_two, scaled, scaling, shifted_half

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
Table = npt.NDArray[np.uint8]


def stored(dtype: DType) -> Integers:
    """Return the integer that each byte is, in the order of bytes."""
    return np.arange(256, dtype=np.uint8).view(dtype.numpy).astype(np.int64)


def packed(values: npt.NDArray[Any], dtype: DType) -> Table:
    """Return integers as the bytes of a table: clamped to those that a type has."""
    return np.asarray(np.clip(values, *dtype.limits).astype(np.int64) & 0xFF, np.uint8)


def table_of(descriptor: Activation | ElementwiseUnary, info: TensorInfo, result: TensorInfo) -> Table:
    """Return what a function of one element makes of each byte: uint8 [256].

    Args:
        descriptor: The function.
        info: The operand: int8 or uint8, quantized per tensor.
        result: The same of the result.
    """
    mine, theirs, dtype = _meaning(info), _meaning(result), result.dtype
    if isinstance(descriptor, ElementwiseUnary):
        function = _UNARY.get(descriptor.operation) or getattr(np, descriptor.operation.value)
        return _of_reals(function, mine, theirs, dtype)
    table = _in_fixed_point(descriptor, mine, theirs, result)
    if table is not None:
        return table
    alpha, beta = descriptor.alpha, descriptor.beta
    of_one = _ACTIVATIONS[descriptor.function]
    return _of_reals(lambda x: of_one(x, alpha, beta), mine, theirs, dtype)


def requantizing(mine: Quantization, theirs: Quantization, dtype: DType) -> Table:
    """Return what each byte of one quantization is under another: uint8 [256].

    Source: TensorFlow Lite, reference_ops::ConcatenationWithScaling, in float32.
    """
    scale = min(_quotient(np.float32(mine.scale[0]), theirs), _FAR)
    value = stored(dtype).astype(np.float32) * scale + np.float32(-mine.zero_point[0]) * scale
    return packed(_half_away(value) + theirs.zero_point[0], dtype)


def _meaning(info: TensorInfo) -> Quantization:
    if info.quantization is None:
        raise ValueError("a table of bytes needs quantized tensors")
    return info.quantization


def _half_away(x: npt.NDArray[Any]) -> Reals:
    """Round to nearest, halves away from zero."""
    wide = x.astype(np.float64)
    return np.asarray(np.copysign(np.floor(np.abs(wide) + 0.5), wide))


_FAR = np.float32(1e30)
"""Of a factor: any integer but 0 times it is beyond 8 bits, and 0 times it is 0."""


def _quotient(value: Any, theirs: Quantization) -> Any:
    """Divide by a scale as TensorFlow Lite does, by its inverse; small ones have none."""
    with np.errstate(all="ignore"):
        scale = np.float32(theirs.scale[0])
        inverse = np.float32(1.0) / scale
        return value * inverse if np.isfinite(inverse) else value / scale


def _as_float32(x: Reals) -> Reals:
    """Round to float32 what that holds."""
    narrow = x.astype(np.float32).astype(np.float64)
    return np.where(np.isinf(narrow), x, narrow)


def _of_reals(function: Callable[[Reals], Any], mine: Quantization, theirs: Quantization, dtype: DType) -> Table:
    with np.errstate(all="ignore"):
        reals = np.float64(np.float32(mine.scale[0])) * (stored(dtype) - mine.zero_point[0])
        values = np.asarray(function(_as_float32(reals)), np.float64)
        narrow = values.astype(np.float32)
        far = values / np.float64(np.float32(theirs.scale[0]))
        made = _half_away(np.where(np.isinf(narrow), far, _quotient(narrow, theirs).astype(np.float64)))
    return packed(np.where(np.isnan(made), 0.0, made) + theirs.zero_point[0], dtype)


def _in_fixed_point(descriptor: Activation, mine: Quantization, theirs: Quantization, result: TensorInfo) -> Table | None:
    """Return the table of a function that TensorFlow Lite computes so, if its factors fit."""
    low, high = bounds_of(None, 0.0, 0.0, result)
    if descriptor.function is ActivationFunction.LEAKY_RELU:
        return _two_slopes(descriptor.alpha, mine, theirs, result.dtype, (low, high))
    if descriptor.function in (ActivationFunction.RELU, ActivationFunction.BOUNDED_RELU):
        bounds = bounds_of(descriptor.function, descriptor.alpha, descriptor.beta, result)
        return _two_slopes(1.0, mine, theirs, result.dtype, bounds)
    if descriptor.function is ActivationFunction.HARD_SWISH:
        return _hard_swish(mine, theirs, result.dtype)
    return None


def _two_slopes(slope: float, mine: Quantization, theirs: Quantization, dtype: DType, bounds: tuple[int, int]) -> Table | None:
    """x where it is at least 0, else slope * x, clamped.

    Source: TensorFlow Lite, reference_ops::QuantizeLeakyRelu and QuantizedReluX; factors are formed
    in float32.
    """
    with np.errstate(all="ignore"):
        ratios = [np.float32(mine.scale[0]) / np.float32(theirs.scale[0])]
        ratios.append(np.float32(mine.scale[0]) * np.float32(slope) / np.float32(theirs.scale[0]))
    if not all(abs(ratio) < 1 << 20 for ratio in ratios):
        return None
    x = stored(dtype) - mine.zero_point[0]
    above, below = (scaled(x, scaling(float(ratio))) for ratio in ratios)
    return packed(np.clip(np.where(x >= 0, above, below) + theirs.zero_point[0], *bounds), dtype)


def _hard_swish(mine: Quantization, theirs: Quantization, dtype: DType) -> Table | None:
    """x * max(0, min(1, x / 6 + 0.5)), in 16 bits.

    Source: TensorFlow Lite, reference_ops::HardSwish, which takes no output scale below 1/128 of
    the input's. Where the input's is so coarse that nothing but a ReLU is left, there is no table.
    """
    fine = np.float32(1 / 128) * np.float32(mine.scale[0])
    output = scaling(float(fine / np.float32(theirs.scale[0])))
    gate = scaling(float(fine / (np.float32(3.0) / np.float32(32768.0))))
    if output.shift > 0 or gate.shift > 20:
        return None
    value = (stored(dtype) - mine.zero_point[0]) * 128
    # All shifts but one come before the product: what saturates here does so below.
    share = high_half(shifted_half(value, max(gate.shift - 1, 0)), gate.half, rounds=True)
    share = shifted_half(share, 1) if gate.shift > 0 else power_of_two(share, -gate.shift)
    share = (share + (1 << 15)) >> 1  # from [-1, 1) to [0, 1)
    value = high_half(share, high_half(value, output.half, rounds=True), rounds=False)
    return packed(power_of_two(value, -output.shift) + theirs.zero_point[0], dtype)


# --- functions of real numbers --------------------------------------------------------------------

_erf = np.vectorize(math.erf, [np.float64])
_erfc = np.vectorize(math.erfc, [np.float64])


def _softplus(x: Reals) -> Reals:
    return np.asarray(np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x))))


def _sigmoid(x: Reals) -> Reals:
    small = np.exp(-np.abs(x))  # neither overflows nor cancels
    return np.where(x >= 0, 1.0 / (1.0 + small), small / (1.0 + small))


def _gelu_tanh(x: Reals) -> Reals:
    """x / 2 * (1 + tanh(u)) as x * sigmoid(2 u): the sum would cancel far below zero."""
    return np.asarray(x * _sigmoid(math.sqrt(8 / math.pi) * (x + 0.044715 * x**3)))


_ACTIVATIONS: dict[ActivationFunction, Callable[[Reals, float, float], Any]] = {
    ActivationFunction.LINEAR: lambda x, a, b: a * x + b,
    ActivationFunction.RELU: lambda x, a, b: np.maximum(x, 0.0),
    ActivationFunction.BOUNDED_RELU: lambda x, a, b: np.minimum(a, np.maximum(b, x)),
    ActivationFunction.LEAKY_RELU: lambda x, a, b: np.where(x < 0, a * x, x),
    ActivationFunction.THRESHOLDED_RELU: lambda x, a, b: np.where(x > a, x, 0.0),
    ActivationFunction.ELU: lambda x, a, b: np.where(x < 0, a * np.expm1(x), x),
    ActivationFunction.SELU: lambda x, a, b: b * np.where(x > 0, x, a * np.expm1(x)),
    ActivationFunction.CELU: lambda x, a, b: np.where(x < 0, a * np.expm1(x / a), x),
    ActivationFunction.SIGMOID: lambda x, a, b: _sigmoid(x),
    ActivationFunction.TANH: lambda x, a, b: np.tanh(x),
    ActivationFunction.HARD_SIGMOID: lambda x, a, b: np.clip(a * x + b, 0.0, 1.0),
    ActivationFunction.HARD_SWISH: lambda x, a, b: x * np.clip(x / 6 + 0.5, 0.0, 1.0),
    ActivationFunction.SWISH: lambda x, a, b: x * _sigmoid(a * x),
    ActivationFunction.GELU: lambda x, a, b: 0.5 * x * _erfc(-x / math.sqrt(2)),
    ActivationFunction.GELU_TANH: lambda x, a, b: _gelu_tanh(x),
    ActivationFunction.SOFTPLUS: lambda x, a, b: _softplus(x),
    ActivationFunction.SOFTSIGN: lambda x, a, b: x / (1 + np.abs(x)),
    ActivationFunction.MISH: lambda x, a, b: x * np.tanh(_softplus(x)),
    ActivationFunction.SHRINK: lambda x, a, b: np.where(x < -a, x + b, np.where(x > a, x - b, 0.0)),
}

_UNARY: dict[UnaryOperation, Callable[[Reals], Any]] = {
    UnaryOperation.NEG: np.negative,
    UnaryOperation.RSQRT: lambda x: 1.0 / np.sqrt(x),
    UnaryOperation.ERF: _erf,
    UnaryOperation.ROUND: np.rint,
    UnaryOperation.ASIN: np.arcsin,
    UnaryOperation.ACOS: np.arccos,
    UnaryOperation.ATAN: np.arctan,
    UnaryOperation.ASINH: np.arcsinh,
    UnaryOperation.ACOSH: np.arccosh,
    UnaryOperation.ATANH: np.arctanh,
}
"""Those that NumPy calls otherwise."""
