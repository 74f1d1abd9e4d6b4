"""The tensors and operations of a program that is being made, and how tensors are stored."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dovetail import DType
from dovetail.graph.layer import Layer, OutputSlot

from ..program import Operation, Permute, Program, Reshape, Tensor

Order = tuple[int, ...]
"""Axes of the network's tensor in the order in which they are stored."""

PLANAR: Order = (0, 3, 1, 2)
"""Images [N, H, W, C] of the network, stored as [N, C, H, W]."""
SIGN = 128
"""What is added to int8."""


def unsigned(value: int, dtype: DType) -> int:
    """Return an integer of a quantized tensor as the program stores it."""
    return value + SIGN if dtype is DType.INT8 else value


class Storage:
    """A program in the making.

    A slot of the network may be stored in several orders of its axes. Whoever reads it says which
    it wants, and a permutation is added if the slot is not stored so yet.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.tensors: list[Tensor] = []
        self.operations: list[Operation] = []
        self._stored: dict[OutputSlot, dict[Order, int]] = {}
        self._flattened: dict[OutputSlot, tuple[int, tuple[int, int, int]]] = {}

    def add(self, operation: Operation) -> None:
        """Add an operation behind all others."""
        self.operations.append(operation)

    def new_tensor(self, slot: OutputSlot, order: Order | None = None) -> int:
        """Return the number of a new tensor that stores a slot in an order; default: its own."""
        order = natural(slot) if order is None else order
        number = self._tensor(slot, [_size(slot, axis) for axis in order])
        self._stored.setdefault(slot, {})[order] = number
        return number

    def unstored_tensor(self, slot: OutputSlot, shape: Sequence[int]) -> int:
        """Return the number of a new tensor with a slot's meaning, in a shape of its own."""
        return self._tensor(slot, shape)

    def store(self, slot: OutputSlot, number: int, order: Order | None = None) -> None:
        """Say that a tensor that is there stores a slot in an order; default: its own."""
        self._stored.setdefault(slot, {})[natural(slot) if order is None else order] = number

    def orders(self, slot: OutputSlot) -> tuple[Order, ...]:
        """Return the orders in which a slot is stored, the first that was made first."""
        return tuple(self._stored.get(slot, ()))

    def stored(self, slot: OutputSlot, order: Order | None = None) -> int:
        """Return the tensor that stores a slot in an order; default: its own."""
        order = natural(slot) if order is None else order
        if slot not in self._stored and slot in self._flattened:
            self._unflatten(slot)
        known = self._stored[slot]
        if order not in known:
            before, number = next(iter(known.items()))
            known[order] = self._reordered(slot, number, before, order)
        return known[order]

    def copied(self, slot: OutputSlot, number: int) -> int:
        """Return a tensor of its own with what another holds."""
        made = self._tensor(slot, self.tensors[number].shape)
        self.add(Reshape(name=f"{slot.name} copied", inputs=(number,), output=made))
        return made

    def flatten(self, slot: OutputSlot, image: OutputSlot, sources: tuple[str, ...]) -> None:
        """Store rows [N, H * W * C] of an image as [N, C * H * W]; see `flattened`."""
        n, height, width, channels = (_size(image, axis) for axis in range(4))
        source, number = self.stored(image, PLANAR), self._tensor(slot, (n, channels * height * width))
        self.add(Reshape(name=slot.layer.name, inputs=(source,), output=number, sources=sources))
        self._flattened[slot] = (number, (channels, height, width))

    def flattened(self, slot: OutputSlot) -> tuple[int, tuple[int, int, int]] | None:
        """Return the tensor of rows that were stored plane by plane, and (channels, height, width).

        None if the slot is not stored so.
        """
        return self._flattened.get(slot)

    def program(self, inputs: Sequence[int], outputs: Sequence[int]) -> Program:
        """Return what was made."""
        return Program(self.name, tuple(self.tensors), tuple(self.operations), tuple(inputs), tuple(outputs))

    def _tensor(self, slot: OutputSlot, shape: Sequence[int]) -> int:
        info = slot.known_info
        quantization = info.quantization
        scale, zero = (quantization.scale[0], quantization.zero_point[0]) if quantization is not None else (1.0, 0)
        self.tensors.append(Tensor(slot.name, tuple(shape), "uint8", scale, unsigned(zero, info.dtype)))
        return len(self.tensors) - 1

    def _reordered(self, slot: OutputSlot, number: int, before: Order, after: Order) -> int:
        """Add the permutation from one order to another; a reshape if no element moves."""
        permutation = tuple(before.index(axis) for axis in after)
        made = self._tensor(slot, [_size(slot, axis) for axis in after])
        order = {PLANAR: "in planes", natural(slot): "in its order"}.get(after, f"as {''.join(map(str, after))}")
        name = f"{slot.name} {order}"
        moved = [axis for axis in permutation if self.tensors[number].shape[axis] != 1]
        if moved == sorted(moved):
            self.add(Reshape(name=name, inputs=(number,), output=made))
        else:
            self.add(Permute(name=name, inputs=(number,), output=made, order=permutation))
        return made

    def _unflatten(self, slot: OutputSlot) -> None:
        number, (channels, height, width) = self._flattened[slot]
        rows = _size(slot, 0)
        planes = self._tensor(slot, (rows, channels, height, width))
        pixels = self._tensor(slot, (rows, height, width, channels))
        self.add(Reshape(name=f"{slot.name} as planes", inputs=(number,), output=planes))
        self.add(Permute(name=f"{slot.name} as pixels", inputs=(planes,), output=pixels, order=(0, 2, 3, 1)))
        made = self.new_tensor(slot)
        self.add(Reshape(name=f"{slot.name} as rows", inputs=(pixels,), output=made))


def natural(slot: OutputSlot) -> Order:
    """Return the order of axes in which the network has a slot."""
    return tuple(range(slot.known_info.rank))


def source(layer: Layer, index: int) -> OutputSlot:
    """Return what an input of a layer reads."""
    slot = layer.inputs[index].source
    assert slot is not None  # the claims ask for it
    return slot


def sizes(slot: OutputSlot) -> tuple[int, ...]:
    """Return the shape of a slot, all of whose sizes are known."""
    return tuple(_size(slot, axis) for axis in range(slot.known_info.rank))


def elements(slot: OutputSlot) -> int:
    """Return how many elements a slot has."""
    return math.prod(sizes(slot))


def _size(slot: OutputSlot, axis: int) -> int:
    return int(slot.known_info.shape[axis])
