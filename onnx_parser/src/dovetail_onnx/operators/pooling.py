"""Pooling over images and sequences."""

from __future__ import annotations

from dovetail.graph.layer import OutputSlot
from dovetail.layers import Pooling2d, PoolingFunction

from ..node import Node
from ..registry import builtin
from .windows import as_image, as_sequence, image_label, image_pair, read_window

_WINDOWED = {"MaxPool": PoolingFunction.MAX, "AveragePool": PoolingFunction.AVERAGE, "LpPool": PoolingFunction.LP}
_GLOBAL = {
    "GlobalMaxPool": PoolingFunction.MAX,
    "GlobalAveragePool": PoolingFunction.AVERAGE,
    "GlobalLpPool": PoolingFunction.LP,
}


# The storage order is that of the second output, the positions, which is not there.
@builtin(*_WINDOWED, ignored=["storage_order"])
def pooling(node: Node) -> OutputSlot:
    """Translate pooling by a window."""
    size = node.integers("kernel_shape")
    window = read_window(node, len(size))
    function = _WINDOWED[node.op]
    descriptor = Pooling2d(
        function=function,
        size=image_pair(size, 1),
        stride=window.stride,
        padding=window.padding,
        dilation=window.dilation,
        count_padding=node.flag("count_include_pad"),
        ceil_mode=node.flag("ceil_mode"),
        p=node.integer("p", 2) if function is PoolingFunction.LP else 2,
        auto_padding=window.auto_padding,
    )
    image = as_image(node, node.input(0), window.flat)
    return as_sequence(node, node.network.add(descriptor, image, name=image_label(node, window.flat)).output, window.flat)


@builtin(*_GLOBAL)
def global_pooling(node: Node) -> OutputSlot:
    """Translate pooling over all of an image."""
    function = _GLOBAL[node.op]
    p = node.integer("p", 2) if function is PoolingFunction.LP else 2
    return node.network.global_pooling(node.input(0), function, p=p, name=node.label())
