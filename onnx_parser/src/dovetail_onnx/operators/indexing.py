"""Operators that pick or replace elements by position."""

from __future__ import annotations

import numpy as np

from dovetail import DType
from dovetail.graph.layer import OutputSlot
from dovetail.layers import ScatterReduction

from ..node import Node
from ..registry import builtin
from ..unsupported import Unsupported

_INDEX_DTYPES = (DType.INT32, DType.INT64)


@builtin("Slice", since=10)
def strided_slice(node: Node) -> OutputSlot:
    """Translate a slice; its positions are inputs."""
    known = [node.integers_of(i) for i in range(1, 5)]
    begin, end = (node.input(i + 1) if known[i] is None else known[i] for i in range(2))
    axes, stride = (node.optional(i + 1) if known[i] is None else known[i] for i in range(2, 4))
    if begin is None or end is None:
        raise node.malformed("lacks starts or ends")
    return node.network.strided_slice(node.input(0), begin, end, axes=axes, stride=stride, name=node.label())


@builtin("Slice")
def slice_1(node: Node) -> OutputSlot:
    """Translate a slice whose positions are attributes."""
    axes = node.integers("axes") if node.has("axes") else None
    begin, end = node.integers("starts"), node.integers("ends")
    return node.network.strided_slice(node.input(0), begin, end, axes=axes, name=node.label())


@builtin("Gather")
def gather(node: Node) -> OutputSlot:
    """Translate picking slices."""
    return node.network.gather(node.input(0), _indices(node, 1), node.integer("axis", 0), name=node.label())


@builtin("GatherElements")
def gather_elements(node: Node) -> OutputSlot:
    """Translate picking elements along an axis."""
    return node.network.gather_elements(node.input(0), _indices(node, 1), node.integer("axis", 0), name=node.label())


@builtin("GatherND")
def gather_nd(node: Node) -> OutputSlot:
    """Translate picking slices by positions over several axes."""
    return node.network.gather_nd(node.input(0), _indices(node, 1), batch_dims=node.integer("batch_dims", 0), name=node.label())


@builtin("ScatterElements", "Scatter")
def scatter_elements(node: Node) -> OutputSlot:
    """Translate replacing elements along an axis."""
    return node.network.scatter_elements(
        node.input(0), _indices(node, 1), node.input(2), node.integer("axis", 0), reduction=_reduction(node), name=node.label()
    )


@builtin("ScatterND")
def scatter_nd(node: Node) -> OutputSlot:
    """Translate replacing slices by positions over several axes."""
    indices, updates = _indices(node, 1), node.input(2)
    return node.network.scatter_nd(node.input(0), indices, updates, reduction=_reduction(node), name=node.label())


@builtin("OneHot")
def one_hot(node: Node) -> OutputSlot:
    """Translate one-hot rows; indices and depth may be of any numeric type."""
    indices = node.input(0)
    if node.dtype() not in _INDEX_DTYPES:
        indices = node.network.cast(indices, DType.INT64, name=node.label("indices"))
    depth = node.integers_of(1)
    return node.network.one_hot(
        indices, depth[0] if depth else node.input(1), node.input(2), node.integer("axis", -1), name=node.label()
    )


@builtin("Trilu")
def trilu(node: Node) -> OutputSlot:
    """Translate a triangle of a matrix."""
    k = node.integers_of(1)
    given = node.optional(1) if k is None else k[0]
    diagonal, upper = 0 if given is None else given, node.flag("upper", True)
    return node.network.trilu(node.input(0), diagonal, upper=upper, name=node.label())


@builtin("Compress")
def compress(node: Node) -> OutputSlot:
    """Translate picking slices by a mask, which must be constant.

    The size of the result is its number of ones.
    """
    mask = node.constant(1)
    if mask is None:
        raise Unsupported("the size of the result depends on the condition, which is not constant", attribute="condition")
    positions = np.flatnonzero(mask)
    if node.has("axis"):
        return node.network.gather(node.input(0), positions, node.integer("axis"), name=node.label())
    flat = node.network.reshape(node.input(0), [-1], name=node.label("flat"))
    return node.network.gather(flat, positions, name=node.label())


@builtin("ReverseSequence")
def reverse_sequence(node: Node) -> OutputSlot:
    """Translate reversing the first elements of each sequence.

    Constant lengths make it a pick of positions.
    """
    x = node.input(0)
    batch, time = node.integer("batch_axis", 1), node.integer("time_axis", 0)
    lengths, steps = node.integers_of(1), node.size_of(x, time)
    if lengths is None or steps is None or node.rank_of(x) is None:
        raise Unsupported("the lengths are not constant, or the sizes are not known while parsing", attribute="sequence_lens")
    rank = node.known_rank(x, "the axes are placed")
    node.check_affordable(steps * len(lengths), "the positions")
    positions = np.arange(steps) * np.ones((len(lengths), 1), np.int64)
    for row, length in zip(positions, lengths, strict=True):
        row[:length] = row[:length][::-1].copy()
    others = [axis for axis in range(rank) if axis not in (batch, time)]
    order = [batch, time, *others]
    first = node.network.permute(x, order, name=node.label("batch_first"))
    index = np.stack(np.broadcast_arrays(np.arange(len(lengths))[:, None], positions), axis=-1)
    picked = node.network.gather_nd(first, index, name=node.label("reversed"))
    return node.network.permute(picked, np.argsort(order).tolist(), name=node.label())


def _indices(node: Node, index: int) -> OutputSlot:
    if node.dtype(index) not in _INDEX_DTYPES:
        raise node.malformed(f"has indices of type {node.dtype(index)}")
    return node.input(index)


def _reduction(node: Node) -> ScatterReduction:
    return ScatterReduction(node.choice("reduction", "none", [entry.value for entry in ScatterReduction]))
