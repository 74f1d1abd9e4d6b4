"""Between real numbers and the integers that stand for them."""

from __future__ import annotations

from dovetail.graph.layer import OutputSlot
from dovetail.layers import Cast, Dequantize

from ..call import Call
from ..registry import operator
from ..unsupported import Unsupported


@operator("QUANTIZE", newest=4)
def quantize(call: Call) -> OutputSlot:
    """Translate quantization, of real numbers or from one scale to another."""
    x = call.input(0)
    if call.outputs[0].quantization is None:
        raise call.malformed("has a result without quantization")
    if call.dtype_of(x).is_integer and call.quantization_of(x) is None:
        raise call.malformed("reads integers without quantization")
    return call.quantized(call.real(x))


@operator("DEQUANTIZE", newest=6)
def dequantize(call: Call) -> OutputSlot:
    """Translate dequantization; float16 is only widened."""
    x, dtype = call.input(0), call.outputs[0].dtype
    if call.dtype_of(x).is_float:
        return call.add(Cast(dtype=dtype), x)
    quantization = call.quantization_of(x)
    if quantization is None:
        raise call.malformed("reads integers without quantization")
    return call.add(Dequantize(quantization=quantization, dtype=dtype), x)


@operator("DENSIFY")
def densify(call: Call) -> OutputSlot:
    """Translate filling in a sparse constant, which is done where it is read."""
    if call.constant(0) is None:
        raise Unsupported("its input is not a constant")
    return call.input(0)
