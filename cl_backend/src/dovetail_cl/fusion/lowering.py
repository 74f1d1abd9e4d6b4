"""The replacement of a part of a graph while it grows: its tensors, and their layouts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from dovetail import Constant, Descriptor, Layer, Network, Quantization, SubgraphView
from dovetail.graph.layer import OutputSlot
from dovetail.graph.tensor import TensorInfo
from dovetail.layers import Permute, Reshape


def last_axes(rank: int) -> tuple[int, ...]:
    """Return the axes of images [N, ..., H, W] in their order with channels last."""
    return (0, rank - 2, rank - 1, *range(1, rank - 2))


def is_image(info: TensorInfo) -> bool:
    """Say whether a tensor can lie with channels last."""
    return info.rank >= 4 and (info.quantization is None or not info.quantization.is_per_axis)


def turned(info: TensorInfo) -> TensorInfo:
    """Return what is known of an image with channels last."""
    return info.with_shape(tuple(info.sizes[axis] for axis in last_axes(info.rank)))


class Lowering:
    """The replacement of a part while it grows.

    Each tensor of the part is there as the model has it ("plain"), with channels last, or both:
    what is wanted and not there is made of the other.

    Attributes:
        view: What is replaced.
        graph: The replacement.
    """

    def __init__(self, view: SubgraphView) -> None:
        self.view, self.graph = view, Network("GpuAcc")
        self._plain: dict[OutputSlot, OutputSlot] = {}
        self._last: dict[OutputSlot, OutputSlot] = {}
        self._moved: dict[OutputSlot, tuple[OutputSlot, tuple[int, ...]]] = {}
        for number, slot in enumerate(view.inputs):
            info = slot.known_info
            self._plain[slot] = self.graph.input(f"in {number}", info.shape, info.dtype, info.quantization)

    def is_last(self, slot: OutputSlot | None) -> bool:
        """Say whether an image lies with channels last, and not otherwise."""
        return slot in self._last and slot not in self._plain

    def is_made(self, slot: OutputSlot) -> bool:
        """Say whether a tensor is there already, or is a constant."""
        return slot in self._last or slot in self._plain or isinstance(slot.layer.descriptor, Constant)

    def plain(self, slot: OutputSlot) -> OutputSlot:
        """Return a tensor as the model has it."""
        if slot not in self._plain:
            if isinstance(slot.layer.descriptor, Constant):
                made = self.graph.add(slot.layer.descriptor, name=slot.layer.name, quantization=slot.quantization).output
            else:
                made = self._permuted(self._last[slot], np.argsort(last_axes(slot.known_info.rank)).tolist(), slot)
            self._plain[slot] = made
        return self._plain[slot]

    def last(self, slot: OutputSlot) -> OutputSlot:
        """Return an image with channels last."""
        if slot not in self._last:
            self._last[slot] = self._permuted(self.plain(slot), last_axes(slot.known_info.rank), slot)
        return self._last[slot]

    def last_operand(self, slot: OutputSlot, rank: int) -> OutputSlot:
        """Return what is broadcast to images of a rank, for those with channels last."""
        info = slot.known_info
        if info.rank == rank and is_image(info):
            if isinstance(slot.layer.descriptor, Constant) and slot not in self._last:
                self._last[slot] = self._constant(slot, info.sizes)
            return self.last(slot)
        padded = (1,) * (rank - info.rank) + tuple(info.sizes)
        if isinstance(slot.layer.descriptor, Constant):
            return self._constant(slot, padded)
        source = self.emit(Reshape(shape=padded), [self.plain(slot)], [self._origin(slot)]).output
        return self._permuted(source, last_axes(rank), slot)

    def emit(
        self,
        descriptor: Descriptor,
        inputs: Iterable[OutputSlot | None],
        layers: Sequence[Layer],
        quantization: Quantization | None = None,
    ) -> Layer:
        """Add a layer that stands for some of the model, and bears the name of the last one.

        Args:
            descriptor: Of the layer.
            inputs: What it reads.
            layers: Of the model.
            quantization: Of the first output, where the kind does not imply it.
        """
        return self.graph.add(descriptor, *inputs, name=layers[-1].name, quantization=quantization, sources_of=_sources(layers))

    def define(self, slot: OutputSlot, made: OutputSlot, *, last: bool = False) -> None:
        """Say what a tensor of the model is now."""
        (self._last if last else self._plain)[slot] = made

    def define_moved(self, slot: OutputSlot, source: OutputSlot, permutation: Sequence[int]) -> None:
        """Say that a tensor of the model is another of the replacement with its axes reordered."""
        self._plain[slot] = self._permuted(source, permutation, slot)

    def moved(self, slot: OutputSlot) -> tuple[OutputSlot, tuple[int, ...]] | None:
        """Return of what a tensor of the model was made by which permutation; None: by none."""
        return self._moved.get(self._plain[slot]) if slot in self._plain else None

    def finish(self) -> Network:
        """Return the replacement."""
        for number, slot in enumerate(self.view.outputs):
            self.graph.output(self.plain(slot), f"out {number}")
        for made in self._moved:
            if not made.consumers:
                self.graph.remove(made.layer)
        return self.graph

    def _constant(self, slot: OutputSlot, sizes: Sequence[int]) -> OutputSlot:
        """Return a constant, seen with some sizes, with channels last."""
        descriptor = slot.layer.descriptor
        assert isinstance(descriptor, Constant)
        value = np.ascontiguousarray(descriptor.value.reshape(sizes).transpose(last_axes(len(sizes))))
        made = Constant(value=value, dtype=descriptor.dtype)
        return self.graph.add(made, name=slot.layer.name, quantization=slot.quantization).output

    def _permuted(self, source: OutputSlot, permutation: Sequence[int], slot: OutputSlot) -> OutputSlot:
        origin = self._origin(slot)
        descriptor = Permute(permutation=tuple(permutation))
        made = self.graph.add(descriptor, source, name=f"{origin.name}.layout", sources_of=_sources([origin])).output
        self._moved[made] = source, tuple(permutation)
        return made

    def _origin(self, slot: OutputSlot) -> Layer:
        """Return the layer that makes a tensor, or that first reads one from outside."""
        if slot.layer in self.view:
            return slot.layer
        return next(consumer.layer for consumer in slot.consumers if consumer.layer in self.view)


def _sources(layers: Sequence[Layer]) -> list[str]:
    return list(dict.fromkeys(name for layer in layers for name in layer.sources))
