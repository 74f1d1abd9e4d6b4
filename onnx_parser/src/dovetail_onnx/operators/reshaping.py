"""Shapes, and operators that keep, repeat or reorder the elements."""

from __future__ import annotations

import numpy as np

from dovetail.graph.layer import OutputSlot
from dovetail.layers import ReduceFunction

from ..node import Node
from ..registry import builtin
from ..unsupported import Unsupported


@builtin("Reshape", since=5)
def reshape(node: Node) -> OutputSlot:
    """Translate a reshape to a shape given as an input."""
    shape = node.integers_of(1)
    copies = not node.flag("allowzero")
    return node.network.reshape(node.input(0), node.input(1) if shape is None else shape, zero_copies=copies, name=node.label())


@builtin("Reshape", ignored=["consumed_inputs"])
def reshape_1(node: Node) -> OutputSlot:
    """Translate a reshape to a shape given as an attribute."""
    return node.network.reshape(node.input(0), node.integers("shape"), zero_copies=True, name=node.label())


@builtin("Shape")
def shape(node: Node) -> OutputSlot:
    """Translate the sizes of a tensor."""
    end = node.integer("end") if node.has("end") else None
    return node.network.shape_of(node.input(0), node.integer("start", 0), end, name=node.label())


@builtin("Size")
def size(node: Node) -> OutputSlot:
    """Translate the number of elements: the product of the sizes."""
    sizes = node.network.shape_of(node.input(0), name=node.label("shape"))
    return node.network.reduce(sizes, ReduceFunction.PROD, name=node.label())


@builtin("Flatten")
def flatten(node: Node) -> OutputSlot:
    """Translate the merge of axes into two."""
    return node.network.flatten(node.input(0), node.integer("axis", 1), name=node.label())


@builtin("Squeeze")
def squeeze(node: Node) -> OutputSlot:
    """Translate the removal of axes, which are an attribute or an input."""
    return node.network.squeeze(node.input(0), node.axes_or_slot("axes", 1), name=node.label())


@builtin("Unsqueeze")
def unsqueeze(node: Node) -> OutputSlot:
    """Translate the insertion of axes, which are an attribute or an input."""
    axes = node.axes_or_slot("axes", 1)
    if axes is None:
        raise node.malformed("has no axes")
    return node.network.expand_dims(node.input(0), axes, name=node.label())


@builtin("Transpose")
def transpose(node: Node) -> OutputSlot:
    """Translate a permutation of the axes."""
    order = node.integers("perm") if node.has("perm") else None
    return node.network.permute(node.input(0), order, name=node.label())


@builtin("Expand")
def expand(node: Node) -> OutputSlot:
    """Translate a broadcast."""
    shape = node.integers_of(1)
    return node.network.broadcast_to(node.input(0), node.input(1) if shape is None else shape, name=node.label())


@builtin("Tile", since=6)
def tile(node: Node) -> OutputSlot:
    """Translate repetition."""
    repeats = node.integers_of(1)
    return node.network.tile(node.input(0), node.input(1) if repeats is None else repeats, name=node.label())


@builtin("SpaceToDepth")
def space_to_depth(node: Node) -> OutputSlot:
    """Translate blocks of pixels to channels.

    In mode CRD the channels are then sorted by the channel they came from.
    """
    x, block = node.input(0), node.integer("blocksize")
    if node.choice("mode", "DCR", ["DCR", "CRD"]) == "DCR":
        return node.network.space_to_depth(x, block, name=node.label())
    channels = node.size_of(x, 1)
    if channels is None:
        raise Unsupported("mode CRD needs the number of channels while parsing", attribute="mode")
    node.check_affordable(block * block * channels, "the order of channels")
    order = np.arange(block * block * channels).reshape(block * block, channels).T.reshape(-1)
    moved = node.network.space_to_depth(x, block, name=node.label("blocks"))
    return node.network.gather(moved, order, axis=1, name=node.label())


@builtin("DepthToSpace")
def depth_to_space(node: Node) -> OutputSlot:
    """Translate channels to blocks of pixels."""
    column_first = node.choice("mode", "DCR", ["DCR", "CRD"]) == "CRD"
    return node.network.depth_to_space(node.input(0), node.integer("blocksize"), column_first=column_first, name=node.label())
