"""Operators that join, part and pad tensors."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.graph.layer import OutputSlot
from dovetail.layers import Pad, PadMode

from ..node import Node
from ..registry import builtin

_MODES = {"constant": PadMode.CONSTANT, "edge": PadMode.EDGE, "reflect": PadMode.REFLECT, "wrap": PadMode.WRAP}


@builtin("Concat", since=4)
def concat(node: Node) -> OutputSlot:
    """Translate a join along an axis."""
    return node.network.concat(node.inputs, node.integer("axis"), name=node.label())


@builtin("Concat")
def concat_1(node: Node) -> OutputSlot:
    """Translate a join along an axis, by default the second."""
    return node.network.concat(node.inputs, node.integer("axis", 1), name=node.label())


@builtin("Split", since=2)
def split(node: Node) -> Sequence[OutputSlot]:
    """Translate a partition: sizes are an attribute, an input, or as equal as can be."""
    parts = len(node.outputs)
    if node.has("num_outputs") and node.integer("num_outputs") != parts:
        raise node.malformed(f"has {parts} outputs, but num_outputs says {node.integer('num_outputs')}")
    sizes = node.axes_or_slot("split", 1)
    if isinstance(sizes, tuple) and len(sizes) != parts:
        raise node.malformed(f"has {parts} outputs, but the sizes {list(sizes)}")
    return node.network.split(node.input(0), parts, node.integer("axis", 0), sizes=sizes, name=node.label())


@builtin("Pad", since=11)
def pad(node: Node) -> OutputSlot:
    """Translate padding; pads, value and axes are inputs."""
    mode = _MODES[node.choice("mode", "constant", list(_MODES))]
    pads, value = node.integers_of(1), 0 if node.optional(2) is None else node.number(2)
    if pads is not None and value is not None and node.optional(3) is None:
        return _padded(node, pads, mode, value)
    axes = node.optional(3)
    return node.network.add(Pad(mode=mode), node.input(0), node.input(1), node.optional(2), axes, name=node.label()).output


@builtin("Pad", since=2)
def pad_2(node: Node) -> OutputSlot:
    """Translate padding whose counts are an attribute."""
    mode = _MODES[node.choice("mode", "constant", list(_MODES))]
    return _padded(node, node.integers("pads"), mode, node.floating("value", 0.0))


@builtin("Pad")
def pad_1(node: Node) -> OutputSlot:
    """Translate padding of the first operator set."""
    mode = _MODES[node.choice("mode", "constant", list(_MODES))]
    return _padded(node, node.integers("paddings"), mode, node.floating("value", 0.0))


def _padded(node: Node, pads: Sequence[int], mode: PadMode, value: float | int | bool) -> OutputSlot:
    if len(pads) % 2:
        raise node.malformed(f"has {len(pads)} pads: not one before and one after for each axis")
    rank = len(pads) // 2
    return node.network.pad(node.input(0), pads[:rank], pads[rank:], mode=mode, value=value, name=node.label())
