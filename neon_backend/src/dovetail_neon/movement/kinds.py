"""Private kinds that only move elements."""

from __future__ import annotations

from dovetail import PrivateLayer
from dovetail.graph.descriptor import descriptor_class

from ..geometry.layouts import Image
from .strides import Move


@descriptor_class
class Reorder(PrivateLayer, kind="CpuAcc.Reorder"):
    """Change the layout of images: blocked on one side, channels first or last on the other."""

    image: Image
    channels_last: bool


@descriptor_class
class Join(PrivateLayer, kind="CpuAcc.Join"):
    """Blocked images side by side along their channels, `channels` of each."""

    image: Image
    channels: tuple[int, ...]


@descriptor_class
class Frame(PrivateLayer, kind="CpuAcc.Frame"):
    """A plain image in a frame of zeros, axes in order; padding is (top, left, bottom, right)."""

    image: Image
    padding: tuple[int, int, int, int]
    channels_last: bool


@descriptor_class
class Interleave(PrivateLayer, kind="CpuAcc.Interleave"):
    """The pixels of several blocked images side by side, as the phases [rows, columns] of a step.

    Row y of the result is row (y + first) // stride of phase (y + first) % stride, and so are
    columns. Phases are inputs of their own, or lie one behind the other in one input, each in whole
    blocks of channels. Pairs are (height, width).
    """

    size: tuple[int, int]
    """Of each phase."""
    target: Image
    stride: tuple[int, int]
    first: tuple[int, int]


@descriptor_class
class Rearrange(PrivateLayer, kind="CpuAcc.Rearrange"):
    """Copies between strided views of plain tensors; they write every output element once."""

    moves: tuple[Move, ...]


@descriptor_class
class View(PrivateLayer, kind="CpuAcc.View"):
    """The same bytes under another shape."""
