"""Pooling over images [N, H, W, C]."""

from __future__ import annotations

from dovetail.graph.layer import OutputSlot
from dovetail.graph.tensor import DataLayout
from dovetail.layers import BinaryOperation, ElementwiseBinary, ElementwiseUnary, Pooling2d, PoolingFunction, UnaryOperation

from ..call import Call
from ..registry import operator


@operator("AVERAGE_POOL_2D", newest=3)
def average_pool(call: Call) -> OutputSlot:
    """Translate an average; padding does not count."""
    return _pool(call, PoolingFunction.AVERAGE)


@operator("MAX_POOL_2D", newest=3)
def max_pool(call: Call) -> OutputSlot:
    """Translate a maximum."""
    return _pool(call, PoolingFunction.MAX)


@operator("L2_POOL_2D")
def l2_pool(call: Call) -> OutputSlot:
    """Translate the root of the mean of squares."""
    x = call.input(0)
    call.require_floats(x)
    squares = call.add(ElementwiseBinary(operation=BinaryOperation.MUL), x, x, part="squares")
    means = call.add(_window(call, PoolingFunction.AVERAGE), squares, part="means")
    return call.activated(call.add(ElementwiseUnary(operation=UnaryOperation.SQRT), means))


def _pool(call: Call, function: PoolingFunction) -> OutputSlot:
    x, descriptor = call.input(0), _window(call, function)
    # What leaves the integers as they are may not change what they stand for.
    same = call.quantization_of(x) == call.outputs[0].quantization
    return call.activated(call.add(descriptor, x) if same else call.add_real(descriptor, x))


def _window(call: Call, function: PoolingFunction) -> Pooling2d:
    return Pooling2d(
        function=function,
        size=call.pair("filter_height", "filter_width"),
        stride=call.pair("stride_h", "stride_w"),
        auto_padding=call.auto_padding(),
        layout=DataLayout.NHWC,
    )
