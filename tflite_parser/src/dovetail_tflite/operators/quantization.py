"""Between real numbers and the integers that stand for them."""

from __future__ import annotations

from dovetail import DType, Quantization
from dovetail.graph.layer import OutputSlot
from dovetail.layers import BinaryOperation, Cast, Dequantize, TieRounding

from ..call import Call
from ..elementwise_parts import combined
from ..fixed_point import limited, multiplier_of, number, raised
from ..registry import operator
from ..tables import add_table, has_table, requantized
from ..unsupported import Unsupported

_MOST_BITS = 31
"""Of an integer before it is multiplied by 31 bits."""


@operator("QUANTIZE", newest=5)
def quantize(call: Call) -> OutputSlot:
    """Translate quantization, of real numbers or from one scale to another."""
    x = call.input(0)
    if call.outputs[0].quantization is None:
        raise call.malformed("has a result without quantization")
    if call.dtype_of(x).is_integer and call.quantization_of(x) is None:
        raise call.malformed("reads integers without quantization")
    stated, quantization = call.outputs[0], call.quantization_of(x)
    if quantization is None or (stated.quantization and quantization.scale == stated.quantization.scale):
        return call.quantized(call.real(x), ties=TieRounding.AWAY_FROM_ZERO)
    if has_table(call, x):
        return add_table(call, x, requantized(call, x))
    if max(stated.dtype.bits, call.dtype_of(x).bits) <= 16:
        return call.quantized(call.real(x))
    return _requantized(call, x, quantization)


def _requantized(call: Call, x: OutputSlot, mine: Quantization) -> OutputSlot:
    """Multiply integers that have more digits than float32 by the ratio of two scales."""
    stated, theirs = call.outputs[0], call.outputs[0].quantization
    assert theirs is not None
    if mine.axis is not None or theirs.axis is not None:
        raise Unsupported("integers of more than 16 bits have several scales")
    multiplier, shift = multiplier_of(mine.scale[0] / theirs.scale[0])
    if not 0 <= shift <= _MOST_BITS - call.dtype_of(x).bits:
        # Their product has more bits than integers, or the result fewer digits than float64.
        wide = Dequantize(quantization=mine, dtype=DType.FLOAT64)
        return call.quantized(call.add(wide, x, part="real"))
    whole = raised(call, call.add(Cast(dtype=DType.INT64), x, part="whole"), -mine.zero_point[0], "centered")
    factor = number(call, multiplier << shift, DType.INT64, "factor")
    product = raised(call, combined(call, BinaryOperation.MUL, whole, factor, "product"), 1 << 30, "rounded")
    result = combined(call, BinaryOperation.SHIFT_RIGHT, product, number(call, 31, DType.INT64, "unit"), "quotient")
    result = raised(call, result, theirs.zero_point[0], "shifted")
    return limited(call, result, stated.dtype)


@operator("DEQUANTIZE", newest=8)
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
