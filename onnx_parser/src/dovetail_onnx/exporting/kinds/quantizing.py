"""Quantize and dequantize."""

from __future__ import annotations

from dovetail.graph.tensor import DType
from dovetail.layers import Dequantize, Quantize

from ..rules import Saying, says
from ..unexportable import Unexportable


@says(Quantize)
def quantize(say: Saying) -> str:
    """Say rounding to integers."""
    quantization, dtype = say.descriptor.quantization, say.descriptor.dtype
    if say.dtype is not DType.FLOAT32:
        raise Unexportable(f"ONNX divides {say.dtype} by a scale of that type, not of float32")
    scale, zero = say.quantization(quantization, dtype)
    return say.op("QuantizeLinear", say.input(), scale, zero, dtype=dtype, axis=quantization.axis)


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
