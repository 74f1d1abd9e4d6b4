"""Kinds that join, part and pad tensors."""

from __future__ import annotations

from dovetail.layers import Concat, Pad, PadMode, Split, Stack

from ..rules import Saying, says
from ..unexportable import Unexportable


@says(Concat)
def concat(say: Saying) -> str:
    """Say a join along an axis."""
    return say.op("Concat", *say.inputs, axis=say.descriptor.axis)


@says(Stack)
def stack(say: Saying) -> str:
    """Say a join along a new axis."""
    axis = say.descriptor.axis % (say.info().rank + 1)
    axes = say.integers([axis])
    return say.op("Concat", *(say.op("Unsqueeze", value, axes) for value in say.inputs), axis=axis)


@says(Split)
def split(say: Saying) -> list[str]:
    """Say a partition."""
    axis, parts = say.descriptor.axis, say.descriptor.parts
    sizes = say.integers(say.descriptor.part_sizes(say.info().sizes[axis]))
    return say.ops("Split", say.input(), sizes, outputs=parts, axis=axis)


@says(Pad)
def pad(say: Saying) -> str:
    """Say padding."""
    padding = say.descriptor
    if padding.mode is PadMode.SYMMETRIC:
        raise Unexportable("ONNX has no padding that repeats the edge and goes back")
    value = say.scalar(padding.value) if padding.mode is PadMode.CONSTANT else ""
    return say.op("Pad", say.input(), say.integers((*padding.before, *padding.after)), value, mode=padding.mode.value)
