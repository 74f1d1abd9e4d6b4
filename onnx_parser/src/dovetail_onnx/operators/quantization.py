"""Translate quantize and dequantize: layers for constant scale and zero point, else arithmetic."""

from __future__ import annotations

import numpy as np

from dovetail import DType, Quantization
from dovetail.graph.layer import OutputSlot
from dovetail.layers import BinaryOperation, Quantize, ReduceFunction, UnaryOperation

from ..node import Node
from ..registry import builtin
from ..unsupported import Unsupported

_NARROW = (DType.INT8, DType.UINT8, DType.INT16, DType.UINT16)


# `saturate` and `precision` speak of float8, and of how a division is rounded on its way to it.
@builtin("QuantizeLinear", ignored=["saturate"])
def quantize_linear(node: Node) -> OutputSlot:
    """Translate quantization."""
    _refuse_blocks(node)
    zero_point = node.optional(2)
    dtype = DType.UINT8 if zero_point is None else node.dtype_of(zero_point)
    if node.has("output_dtype") and node.integer("output_dtype") and zero_point is None:
        dtype = node.dtype_attribute("output_dtype")
    node.ignore("output_dtype")
    if node.has("precision") and node.integer("precision"):
        raise Unsupported("the precision of the division is chosen", attribute="precision")
    return quantized(node, node.input(0), node.input(1), zero_point, dtype, node.integer("axis", 1), "")


@builtin("DequantizeLinear")
def dequantize_linear(node: Node) -> OutputSlot:
    """Translate dequantization."""
    _refuse_blocks(node)
    x, scale, zero_point = node.input(0), node.input(1), node.optional(2)
    y = dequantized(node, x, scale, zero_point, node.integer("axis", 1), "")
    if node.has("output_dtype") and node.integer("output_dtype"):
        wanted = node.dtype_attribute("output_dtype")
        return y if node.dtype_of(y) is wanted else node.network.cast(y, wanted, name=node.label("cast"))
    node.ignore("output_dtype")
    return y


@builtin("DynamicQuantizeLinear", since=11)
def dynamic_quantize_linear(node: Node) -> tuple[OutputSlot, OutputSlot, OutputSlot]:
    """Translate quantization to bytes by the range of the input itself, which always includes 0.

    Zeros alone have no range. ONNX's definition makes their scale 0, by which nobody can divide;
    it is 1 here, as in ONNX Runtime, and so is that of ranges which 255 steps make vanish.
    """
    x, net = node.input(0), node.network
    zero, levels = node.scalar(0.0, x, "zero"), node.scalar(255.0, x, "levels")
    low = net.reduce(x, ReduceFunction.MIN, None, keep_dims=False, name=node.label("lowest"))
    low = net.binary(low, zero, BinaryOperation.MINIMUM, name=node.label("low"))
    high = net.reduce(x, ReduceFunction.MAX, None, keep_dims=False, name=node.label("highest"))
    high = net.binary(high, zero, BinaryOperation.MAXIMUM, name=node.label("high"))
    span = net.subtraction(high, low, name=node.label("span"))
    step = net.division(span, levels, name=node.label("step"))
    # Adds nothing to a positive number, and 1 to 0; more backends have a sign than have a choice.
    sign = net.unary(step, UnaryOperation.SIGN, name=node.label("sign"))
    filled = net.subtraction(node.scalar(1.0, x, "one"), sign, name=node.label("filled"))
    scale = net.addition(step, filled, name=node.label("scale"))
    ratio = net.division(low, scale, name=node.label("low_ratio"))
    level = net.subtraction(zero, ratio, name=node.label("zero_level"))
    level = net.activation(level, "bounded_relu", 255.0, 0.0, name=node.label("zero_inside"))
    level = net.unary(level, UnaryOperation.ROUND, name=node.label("zero_round"))
    zero_point = net.cast(level, DType.UINT8, name=node.label("zero_point"))
    return quantized(node, x, scale, zero_point, DType.UINT8, 1, ""), scale, zero_point


def _refuse_blocks(node: Node) -> None:
    if node.integer("block_size", 0):
        raise Unsupported("one scale per block of an axis", attribute="block_size")


def quantized(
    node: Node, x: OutputSlot, scale: OutputSlot, zero_point: OutputSlot | None, dtype: DType, axis: int, part: str
) -> OutputSlot:
    """Add saturate(round(x / scale) + zero point)."""
    if dtype not in _NARROW:
        raise Unsupported(f"quantization to {dtype}", attribute="output_dtype")
    known = known_quantization(node, x, scale, zero_point, axis)
    net = node.network
    if known is not None and node.dtype_of(x) is DType.FLOAT32:
        # ONNX's integers are plain: what computes with them does not ask what they stand for.
        return net.add(Quantize(dtype=dtype, quantization=known), x, name=node.label(part)).output
    prefix = f"{part}_" if part else ""
    divisor = column(node, x, scale, axis, f"{prefix}scale")
    # A half's largest number is below that of 16 bits, and its steps above 2048 are more than one.
    real, divisor = (as_float32(node, slot, f"{prefix}{what}") for slot, what in ((x, "real"), (divisor, "divisor")))
    ratio = net.division(real, divisor, name=node.label(f"{prefix}ratio"))
    level = net.unary(ratio, UnaryOperation.ROUND, name=node.label(f"{prefix}round"))
    if zero_point is not None:
        laid = column(node, x, zero_point, axis, f"{prefix}zero")
        zero = net.cast(laid, DType.FLOAT32, name=node.label(f"{prefix}zero_real"))
        level = net.addition(level, zero, name=node.label(f"{prefix}shifted"))
    limits = np.iinfo(dtype.numpy)
    inside = net.activation(level, "bounded_relu", float(limits.max), float(limits.min), name=node.label(f"{prefix}inside"))
    return net.cast(inside, dtype, name=node.label(part))


def dequantized(
    node: Node, x: OutputSlot, scale: OutputSlot, zero_point: OutputSlot | None, axis: int, part: str
) -> OutputSlot:
    """Add (x - zero point) * scale."""
    dtype, net = node.dtype_of(scale), node.network
    known = known_quantization(node, x, scale, zero_point, axis)
    if known is not None and dtype is DType.FLOAT32:
        return net.dequantize(x, known, dtype, name=node.label(part))
    prefix = f"{part}_" if part else ""
    level = net.cast(x, DType.FLOAT32, name=node.label(f"{prefix}level"))
    if zero_point is not None:
        laid = column(node, x, zero_point, axis, f"{prefix}zero")
        zero = net.cast(laid, DType.FLOAT32, name=node.label(f"{prefix}zero_real"))
        level = net.binary(level, zero, BinaryOperation.SUB, name=node.label(f"{prefix}shifted"))
    if dtype is not DType.FLOAT32:
        level = net.cast(level, dtype, name=node.label(f"{prefix}narrow"))
    return net.multiplication(level, column(node, x, scale, axis, f"{prefix}scale"), name=node.label(part))


def known_quantization(
    node: Node, x: OutputSlot, scale: OutputSlot, zero_point: OutputSlot | None, axis: int
) -> Quantization | None:
    """Return the quantization if scale and zero point are constants that it can hold, else None."""
    if zero_point is not None:
        _require_one_scale_each(node, scale, zero_point)
    scales = node.value_of(scale)
    zeros = np.zeros(1, np.int64) if zero_point is None else node.value_of(zero_point)
    if scales is None or zeros is None or node.dtype_of(scale) is not DType.FLOAT32:
        return None
    if scales.ndim > 1 or not scales.size or not (np.isfinite(scales).all() and (scales > 0).all()):
        return None
    if scales.size == 1:
        return Quantization.per_tensor(float(scales.reshape(-1)[0]), int(zeros.reshape(-1)[0]))
    rank = node.rank_of(x)
    return Quantization.per_axis(scales.tolist(), zeros.reshape(-1).tolist(), axis=axis % rank if rank else axis)


def _require_one_scale_each(node: Node, scale: OutputSlot, zero_point: OutputSlot) -> None:
    """Refuse zero points that are not as many as the scales, unless there is a single one.

    Nobody could say which of them counts. One may stand for all.
    """
    infos = scale.info, zero_point.info
    if any(info is None or not info.is_concrete for info in infos):
        return
    scales, zeros = (info.elements for info in infos if info is not None)
    if zeros not in (1, scales):
        raise node.malformed(f"has {scales} scale{'s' * (scales != 1)} and {zeros} zero points")


def as_float32(node: Node, slot: OutputSlot, part: str) -> OutputSlot:
    """Cast to float32 unless it is."""
    return slot if node.dtype_of(slot) is DType.FLOAT32 else node.network.cast(slot, DType.FLOAT32, name=node.label(part))


def column(node: Node, x: OutputSlot, parameter: OutputSlot, axis: int, part: str) -> OutputSlot:
    """Lay one number per index of an axis out along that axis."""
    rank = node.rank_of(parameter)
    if rank == 0 or node.size_of(parameter, 0) == 1:
        return parameter
    if rank != 1:
        raise Unsupported("scales that are neither one nor one per index of an axis", attribute="axis")
    own = node.known_rank(x, "the scales lie along an axis")
    trailing = own - (axis % own if own else 0) - 1
    return node.network.expand_dims(parameter, range(1, trailing + 1), name=node.label(part)) if trailing > 0 else parameter
