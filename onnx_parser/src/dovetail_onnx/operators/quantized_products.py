"""Products of quantized tensors, composed of dequantize, product, quantize."""

from __future__ import annotations

from dovetail import DType
from dovetail.graph.layer import OutputSlot

from ..node import Node
from ..registry import builtin
from .convolution import convolve
from .quantization import as_float32, column, dequantized, quantized


@builtin("QLinearMatMul")
def qlinear_matmul(node: Node) -> OutputSlot:
    """Translate a product of quantized matrices.

    Scales lie along the rows of the first, the columns of the second.
    """
    a = dequantized(node, node.input(0), node.input(1), node.input(2), -2, "a")
    b = dequantized(node, node.input(3), node.input(4), node.input(5), -1, "b")
    product = node.network.matmul(as_float32(node, a, "a_real"), as_float32(node, b, "b_real"), name=node.label("product"))
    return quantized(node, product, node.input(6), node.input(7), node.dtype(7), -1, "")


@builtin("QLinearConv")
def qlinear_conv(node: Node) -> OutputSlot:
    """Translate a convolution of quantized tensors; the bias is in units of both scales."""
    x_scale, w_scale = node.input(1), node.input(4)
    x = dequantized(node, node.input(0), x_scale, node.input(2), 1, "x")
    weights = dequantized(node, node.input(3), w_scale, node.input(5), 0, "w")
    bias = node.optional(8)
    if bias is not None:
        unit = node.network.multiplication(x_scale, w_scale, name=node.label("bias_unit"))
        level = node.network.cast(bias, DType.FLOAT32, name=node.label("bias_level"))
        bias = node.network.multiplication(level, unit, name=node.label("bias"))
    y = convolve(node, x, weights, bias, "product")
    return quantized(node, y, node.input(6), node.input(7), node.dtype(7), 1, "")


@builtin("MatMulInteger")
def matmul_integer(node: Node) -> OutputSlot:
    """Translate an integer product, in int32."""
    a = _centered(node, 0, 2, DType.INT32, -2, "a")
    b = _centered(node, 1, 3, DType.INT32, -1, "b")
    return node.network.matmul(a, b, name=node.label())


@builtin("ConvInteger")
def conv_integer(node: Node) -> OutputSlot:
    """Translate an integer convolution: float64 holds every sum of products of bytes exactly."""
    x = _centered(node, 0, 2, DType.FLOAT64, 1, "x")
    weights = _centered(node, 1, 3, DType.FLOAT64, 0, "w")
    return node.network.cast(convolve(node, x, weights, None, "product"), DType.INT32, name=node.label())


def _centered(node: Node, index: int, zero_index: int, dtype: DType, axis: int, part: str) -> OutputSlot:
    net = node.network
    wide = net.cast(node.input(index), dtype, name=node.label(part))
    zero = node.optional(zero_index)
    if zero is None:
        return wide
    laid = column(node, node.input(index), zero, axis, f"{part}_zero")
    laid = net.cast(laid, dtype, name=node.label(f"{part}_zero_wide"))
    return net.subtraction(wide, laid, name=node.label(f"{part}_centered"))
