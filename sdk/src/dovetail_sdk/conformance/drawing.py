"""A graph that is grown layer by layer, of what a backend takes.

Each layer is shown to `accepts` as it stands in the graph and taken out again if refused, so that a
float backend on the CPU and an NPU that knows int8 in one layout both get graphs that are theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from dovetail import Constant, DataLayout, DType, GraphError, Layer, Network, Quantization
from dovetail.contract.promises import Deviation
from dovetail.graph.descriptor import Input
from dovetail.graph.layer import OutputSlot

from .cases import Array
from .evaluation import Estimate, compute

Accepts = Callable[[Layer], bool]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Style:
    """What the tensors of a graph are like.

    Attributes:
        dtype: Element type; int8 and uint8 are quantized.
        layout: Of images, or None for matrices.
        channels: Of images, or the last axis of matrices.
        batch: First axis of either.
    """

    dtype: DType
    layout: DataLayout | None
    channels: int
    batch: int = 2

    def __str__(self) -> str:
        what = "matrices" if self.layout is None else f"{self.layout} images"
        return f"{self.dtype} {what} of {self.channels} channels, batch {self.batch}"


@dataclass
class RandomGraph:
    """A graph and feeds for it.

    Attributes:
        network: The graph.
        feeds: By name of the input.
        layers: Names of the layers that compute.
        style: What its tensors are like.
        deviations: Returns the deviations that the backend under test declares for a layer.
    """

    network: Network
    feeds: dict[str, Array]
    layers: list[str]
    style: Style
    deviations: Callable[[Layer], Sequence[Deviation]] = lambda layer: ()

    def more_feeds(self, random: np.random.Generator) -> dict[str, Array]:
        """Return other feeds of the same kind."""
        return {
            layer.name: _values(random, layer.output.known_info.sizes, layer.output.known_info.dtype)
            for layer in self.network.inputs
        }

    def symbolic(self) -> Network:
        """Return the same network with the first axis of every input left open."""
        twin = self.network.copy()
        for layer in twin:
            if not isinstance(layer.descriptor, Constant):
                for slot in layer.outputs:
                    slot.info = None
        for layer in twin.inputs:
            info = self.network.layer(layer.name).output.known_info
            twin.replace_descriptor(layer, Input(info=info.with_shape(("N", *info.shape[1:]))))
            twin.infer(layer)
        return twin


def _values(random: np.random.Generator, shape: Sequence[int], dtype: DType) -> Array:
    if dtype.is_integer:
        limits = np.iinfo(dtype.numpy)
        return random.integers(limits.min, limits.max, shape, dtype.numpy, endpoint=True)
    return random.standard_normal(shape).astype(dtype.numpy)


@dataclass
class Drawing:
    """A graph that grows.

    Attributes:
        style, accepts, random: As in `draw`.
        largest: Elements of the largest tensor.
        valued: Follow the values, which keeps products of products within range.
    """

    style: Style
    accepts: Accepts
    random: np.random.Generator
    largest: int = 20_000
    valued: bool = True
    network: Network = field(init=False)

    def __post_init__(self) -> None:
        self.network = Network(f"random_{self.style.dtype}")
        self.feeds: dict[str, Array] = {}
        self.slots: list[OutputSlot] = []
        self.known: dict[OutputSlot, Estimate] = {}
        self.layers: list[str] = []

    def add_input(self) -> None:
        """Add an input."""
        style, name = self.style, f"x{len(self.feeds)}"
        size = int(self.random.integers(5, 8))
        shape: tuple[int, ...] = (style.batch, style.channels)
        if style.layout is DataLayout.NHWC:
            shape = (style.batch, size, size + 1, style.channels)
        elif style.layout is DataLayout.NCHW:
            shape = (style.batch, style.channels, size, size + 1)
        quantization = Quantization.per_tensor(0.03, zero_point_of(style.dtype)) if style.dtype.is_integer else None
        slot = self.network.input(name, shape, style.dtype, quantization)
        self.feeds[name] = _values(self.random, shape, style.dtype)
        self.slots.append(slot)
        if self.valued:
            self.known[slot] = Estimate.exact(self.feeds[name])

    def grow(self, blocks: dict[str, Block], *, latest: bool = False) -> bool:
        """Add one of these blocks, whichever is accepted first."""
        names = self.shuffled(blocks)
        x = self.slots[-1] if latest else self.slots[int(self.random.integers(max(0, len(self.slots) - 5), len(self.slots)))]
        return any(blocks[name](self, x) for name in names)

    def attempt(self, build: Callable[[], Layer]) -> bool:
        """Build a layer; take it out again if it is refused or does not fit."""
        before = set(self.network.layers)
        try:
            layer: Layer | None = build()
        except GraphError:
            layer = None
        if (
            layer is not None
            and all(slot.known_info.elements <= self.largest for slot in layer.outputs)
            and self.accepts(layer)
        ):
            if self.valued:
                operands = [None if slot.source is None else self._estimate(slot.source) for slot in layer.inputs]
                self.known.update(zip(layer.outputs, compute(layer, operands), strict=True))
            self.slots += layer.outputs
            self.layers.append(layer.name)
            return True
        for fresh in reversed([layer for layer in self.network.layers if layer not in before]):
            self.network.remove(fresh)
        return False

    def _estimate(self, slot: OutputSlot) -> Estimate:
        if slot not in self.known:
            descriptor = slot.layer.descriptor
            assert isinstance(descriptor, Constant)
            self.known[slot] = Estimate.exact(descriptor.value)
        return self.known[slot]

    def finished(self) -> RandomGraph:
        """Choose outputs: what nobody reads, and some that others read too."""
        made = list(dict.fromkeys(self.slots))
        ends = [slot for slot in made if not slot.consumers]
        shared = self.shuffled(slot for slot in made if slot.consumers and not isinstance(slot.layer.descriptor, Input))
        for i, slot in enumerate([*ends, *shared[:2]]):
            self.network.output(slot, f"y{i}")
        return RandomGraph(self.network, self.feeds, self.layers, self.style)

    def peers(self, x: OutputSlot) -> list[OutputSlot]:
        """Slots like this one, itself included."""
        return [slot for slot in dict.fromkeys(self.slots) if slot.shape == x.shape and slot.dtype is x.dtype]

    def any_peer(self, x: OutputSlot) -> OutputSlot:
        """Return one of them."""
        peers = self.peers(x)
        return peers[int(self.random.integers(len(peers)))]

    def shuffled(self, values: Iterable[T]) -> list[T]:
        """Return these in random order."""
        given = list(values)
        return [given[i] for i in self.random.permutation(len(given))]

    def result_quantization(self, x: OutputSlot, gain: float) -> Quantization | None:
        """Quantization of a result that is `gain` times as wide as the real numbers of `x`."""
        info = x.known_info
        if info.quantization is None:
            return None
        zero = int(self.random.choice([0, zero_point_of(x.dtype)])) if x.dtype is DType.INT8 else 128
        return Quantization.per_tensor(float(np.float32(info.quantization.scale[0] * gain)), zero)


Block = Callable[[Drawing, OutputSlot], bool]


def zero_point_of(dtype: DType) -> int:
    """Return the zero point that most quantized tensors of a type are given."""
    return 128 if dtype is DType.UINT8 else -3
