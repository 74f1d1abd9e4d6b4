"""Tensors seen through layers that only rearrange them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dovetail import Layer
from dovetail.graph.layer import OutputSlot
from dovetail.ground.records import NamedTuple
from dovetail.layers import Permute

from ..elementwise import input_info
from ..walking import contiguous

_SAME_ELEMENTS = ("dovetail.Reshape", "dovetail.ExpandDims", "dovetail.Squeeze", "dovetail.Flatten")


class Strided(NamedTuple):
    """A tensor that is made of the elements of another one.

    Attributes:
        slot: The other one.
        sizes: Of its axes.
        strides: Elements of the other one between neighbours along each.
        through: The layers between, the last one first.
    """

    slot: OutputSlot
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    through: tuple[Layer, ...] = ()


def rearranges(layer: Layer) -> bool:
    """Return whether a layer only rearranges its first input."""
    return layer.kind in _SAME_ELEMENTS or isinstance(layer.descriptor, Permute)


def seen_through(slot: OutputSlot, may_pass: Callable[[Layer], bool]) -> Strided:
    """Return a tensor as one of as many layers before it as can be seen through.

    Args:
        slot: The tensor.
        may_pass: Whether a layer may be seen through.
    """
    passed: list[Layer] = []
    found = Strided(slot, slot.known_info.sizes, contiguous(slot.known_info.sizes))
    while rearranges(slot.layer) and may_pass(slot.layer) and (source := slot.layer.inputs[0].source) is not None:
        passed.append(slot.layer)
        slot = source
        through = _followed(slot, passed, forward=True)
        if through is None:
            break
        found = through
    return found


def written_through(slot: OutputSlot, may_pass: Callable[[Layer], bool]) -> Strided:
    """Return where the elements of a tensor go in what the layers behind it make of it.

    Args:
        slot: The tensor; the result names the other one, which has the same elements.
        may_pass: Whether a layer may be passed.
    """
    passed: list[Layer] = []
    found = Strided(slot, slot.known_info.sizes, contiguous(slot.known_info.sizes))
    while len(slot.consumers) == 1:
        layer = slot.consumers[0].layer
        if not rearranges(layer) or not may_pass(layer):
            break
        passed.append(layer)
        slot = layer.output
        through = _followed(slot, passed, forward=False)
        if through is None:
            break
        found = through
    return found


def _followed(slot: OutputSlot, passed: Sequence[Layer], *, forward: bool) -> Strided | None:
    """Return the tensor at the other end of some layers as a view of this one; None: it is no view.

    Args:
        slot: Whose elements they are.
        passed: The layers, from the other end to this one.
        forward: They make the other one of this one; else this one of the other one.
    """
    sizes = slot.known_info.sizes
    strides = contiguous(sizes)
    for layer in reversed(passed):
        shape = layer.output.known_info.sizes if forward else input_info(layer, 0).sizes
        if isinstance(layer.descriptor, Permute):
            order = layer.descriptor.order(len(sizes))
            axes = order if forward else [order.index(axis) for axis in range(len(sizes))]
            strides = tuple(strides[axis] for axis in axes)
        else:
            viewed = reshaped(sizes, strides, shape)
            if viewed is None:
                return None
            strides = viewed
        sizes = shape
    return Strided(slot, sizes, strides, tuple(passed))


def within(seen: Strided, columns: int, total: int) -> Strided | None:
    """Return a view whose tensor's rows become longer; None: it is no view of rows and columns.

    Args:
        seen: The view of a tensor of so many columns.
        columns: Its last axis.
        total: What becomes of that; the tensor's columns stay neighbours.
    """
    strides, reached = [], 0
    for size, stride in zip(seen.sizes, seen.strides, strict=True):
        if size == 1:
            strides.append(0)
        elif stride % columns == 0:
            strides.append(stride // columns * total)
        else:
            strides.append(stride)
            reached += (size - 1) * stride
    return seen._replace(strides=tuple(strides)) if reached < columns else None


def reshaped(sizes: Sequence[int], strides: Sequence[int], result: Sequence[int]) -> tuple[int, ...] | None:
    """Return the strides of a strided tensor in another shape; None: it would have to be copied.

    Both shapes have the same elements, and there are some.
    """
    axes = [(size, stride) for size, stride in zip(sizes, strides, strict=True) if size != 1]
    made = [0] * len(result)
    left, step = 1, 0  # of the axis of the tensor that is parted, innermost first
    for axis in range(len(result) - 1, -1, -1):
        wanted = result[axis]
        if wanted == 1:
            continue
        if left == 1:
            left, step = axes.pop()
        made[axis] = step
        # Axes are joined where one goes on where the other ends.
        while left % wanted:
            if not axes or axes[-1][1] != step * left:
                return None
            left *= axes.pop()[0]
        left //= wanted
        step *= wanted
    return tuple(made)
