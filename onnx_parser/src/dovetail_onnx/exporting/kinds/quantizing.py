"""Quantize and dequantize."""

from __future__ import annotations

from dovetail.graph.element_types import DType
from dovetail.layers import Dequantize, Quantize, TieRounding

from ..rules import Saying, says
from ..unexportable import Unexportable


@says(Quantize)
def quantize(say: Saying) -> str:
    """Say rounding to integers."""
    quantization, dtype = say.descriptor.quantization, say.descriptor.dtype
    if say.dtype is not DType.FLOAT32:
        raise Unexportable(f"ONNX divides {say.dtype} by a scale of that type, not of float32")
    scale, zero = say.quantization(quantization, dtype)
    if say.descriptor.rounding is TieRounding.TO_EVEN:
        return say.op("QuantizeLinear", say.input(), scale, zero, dtype=dtype, axis=quantization.axis)
    if quantization.is_per_axis:
        raise Unexportable("ONNX rounds ties to even, and others are written with one scale alone")
    whole = _away_from_zero(say, say.op("Div", say.input(), scale))
    return say.op("QuantizeLinear", whole, say.scalar(1.0), zero, dtype=dtype)


def _away_from_zero(say: Saying, ratio: str) -> str:
    """Round a number, ties away from zero: ONNX's Round takes them to even."""
    half, even = say.scalar(0.5), say.op("Round", ratio)
    distance = say.op("Abs", say.op("Sub", ratio, even))
    beyond = say.op("Add", ratio, say.op("Mul", say.op("Sign", ratio), half))
    return say.op("Where", say.op("Equal", distance, half), beyond, even)


@says(Dequantize)
def dequantize(say: Saying) -> str:
    """Say multiplication by a scale."""
    quantization, dtype = say.descriptor.quantization, say.descriptor.dtype
    if dtype is not DType.FLOAT32:
        raise Unexportable(f"ONNX multiplies by a scale of {dtype}, not of float32")
    scale, zero = say.quantization(quantization, say.dtype)
    if say.dtype is DType.INT32:
        if any(quantization.zero_point):
            raise Unexportable("ONNX has no zero point for int32")
        zero = ""
    return say.op("DequantizeLinear", say.input(), scale, zero, dtype=dtype, axis=quantization.axis)
