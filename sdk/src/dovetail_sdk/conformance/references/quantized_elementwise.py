"""Quantized arithmetic of two tensors, through the real numbers that the integers stand for.

TensorFlow Lite rescales with 31-bit fixed-point factors; the real numbers differ from that by far
less than a quantum, so that both round to the same integer or, near a tie, to neighbours.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dovetail import DType, Quantization
from dovetail.layers import ActivationFunction

from ..cases import Array, Tolerance
from .fused import clamp
from .samples import limits

ONE_QUANTUM = Tolerance(0.0, 1.0, "rescaling in fixed point or in float32 may fall on the other side of a tie: one quantum")


def real(array: Array, quantization: Quantization) -> Array:
    """Return what the integers stand for; the scale is a float32, as in a model's file."""
    return float(np.float32(quantization.scale[0])) * (array.astype(np.float64) - quantization.zero_point[0])


def quantized(values: Array, quantization: Quantization, dtype: DType, activation: ActivationFunction | None = None) -> Array:
    """Round to the nearest integer that stands for a real number, in the type and the clamp."""
    wanted = values / float(np.float32(quantization.scale[0])) + quantization.zero_point[0]
    low, high = clamp(activation, quantization)
    minimum, maximum = limits(dtype)
    return np.clip(np.rint(np.clip(wanted, low, high)), minimum, maximum).astype(dtype.numpy)


def combined(
    function: Callable[[Array, Array], Array],
    operands: tuple[Array, Array],
    quantizations: tuple[Quantization, Quantization, Quantization],
    dtype: DType,
    activation: ActivationFunction | None = None,
) -> Array:
    """Compute on real numbers and quantize; quantizations are of both operands and the result."""
    a, b = (real(operand, one) for operand, one in zip(operands, quantizations[:2], strict=True))
    return quantized(function(a, b), quantizations[2], dtype, activation)
