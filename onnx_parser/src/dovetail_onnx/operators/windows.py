"""Share what convolution and pooling need: windows over spatial axes.

An image has two such axes, a sequence one.
"""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.graph.layer import OutputSlot
from dovetail.ground.records import NamedTuple
from dovetail.layers import AutoPadding

from ..node import Node
from ..unsupported import Unsupported

_AUTO = {
    "NOTSET": AutoPadding.EXPLICIT,
    "VALID": AutoPadding.EXPLICIT,
    "SAME_UPPER": AutoPadding.SAME_UPPER,
    "SAME_LOWER": AutoPadding.SAME_LOWER,
}


class Window(NamedTuple):
    """The attributes of a sliding window, for two spatial axes.

    `flat` says that there was one axis only: the other, of size one, is to be added to the input
    and taken from the output.
    """

    flat: bool
    stride: tuple[int, int]
    padding: tuple[int, int, int, int]
    dilation: tuple[int, int]
    auto_padding: AutoPadding


def read_window(node: Node, axes: int) -> Window:
    """Read strides, pads, dilations and auto_pad of a node whose input has this many spatial axes.

    Raises:
        Unsupported: Another number of axes than one or two, or negative pads.
    """
    if axes not in (1, 2):
        raise Unsupported(f"{axes} spatial axes; one and two are there", attribute="kernel_shape")
    auto = node.choice("auto_pad", "NOTSET", list(_AUTO))
    pads = _values(node, "pads", 2 * axes, 0)
    if auto != "NOTSET":
        pads = (0,) * (2 * axes)
    if min(pads, default=0) < 0:
        raise Unsupported(f"pads {list(pads)} are negative", attribute="pads")
    stride, dilation = _values(node, "strides", axes, 1), _values(node, "dilations", axes, 1)
    if axes == 1:
        return Window(True, (1, stride[0]), (0, pads[0], 0, pads[1]), (1, dilation[0]), _AUTO[auto])
    return Window(False, (stride[0], stride[1]), (pads[0], pads[1], pads[2], pads[3]), (dilation[0], dilation[1]), _AUTO[auto])


def image_pair(values: Sequence[int], neutral: int) -> tuple[int, int]:
    """Return (height, width) of one or two sizes."""
    return (neutral, values[0]) if len(values) == 1 else (values[0], values[1])


def as_image(node: Node, x: OutputSlot, flat: bool, part: str = "image") -> OutputSlot:
    """Add the height of one to a sequence."""
    return node.network.expand_dims(x, 2, name=node.label(part)) if flat else x


def as_sequence(node: Node, y: OutputSlot, flat: bool, part: str = "") -> OutputSlot:
    """Take the height of one away again."""
    return node.network.squeeze(y, 2, name=node.label(part)) if flat else y


def image_label(node: Node, flat: bool, part: str = "") -> str:
    """Name the layer that does the work."""
    return node.label(f"{part}2d" if flat else part)


def _values(node: Node, name: str, count: int, default: int) -> tuple[int, ...]:
    values = node.integers(name, (default,) * count)
    if len(values) != count:
        raise node.malformed(f"has {name} {list(values)}, expected {count} values")
    return values
