"""Random graphs of layers that a backend takes.

They have residuals, shared outputs, diamonds, deep chains, several outputs.

A graph is grown layer by layer; each layer is shown to `accepts` as it stands in the graph and
taken out again if refused, so that a float backend on the CPU and an NPU that knows int8 in one
layout both get graphs that are theirs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
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

_TRIES = 10
"""Parameters tried for a layer before it counts as refused."""


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


DTYPES = (DType.FLOAT32, DType.INT8, DType.FLOAT16, DType.UINT8, DType.FLOAT64)
_CHANNELS = (8, 16, 32, 12, 3)


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


def single_layer(style: Style, block: str, accepts: Accepts, random: np.random.Generator) -> RandomGraph | None:
    """Return a network of one layer, or None if it is refused."""
    drawing = Drawing(style, accepts, random)
    drawing.add_input()
    return drawing.finished() if BLOCKS[block](drawing, drawing.slots[0]) else None


def large_chain(style: Style, accepts: Accepts, random: np.random.Generator, batch: int) -> RandomGraph:
    """Return a chain of large tensors, of which nobody asks what they are."""
    drawing = Drawing(replace(style, batch=batch), accepts, random, largest=4_000_000, valued=False)
    drawing.deep()
    return drawing.finished()


def known_styles(accepts: Accepts) -> list[tuple[Style, tuple[str, ...]]]:
    """Return, for each element type and layout, the style in which most kinds are taken.

    The style in which a backend takes the most kinds of layer comes first.
    """
    found = []
    for dtype in DTYPES:
        for layout in (None, DataLayout.NHWC, DataLayout.NCHW):
            styles = [Style(dtype, layout, channels, batch) for batch in (2, 1) for channels in _CHANNELS]
            taken = [(style, Drawing(style, accepts, np.random.default_rng(1)).survey()) for style in styles]
            best = max(taken, key=lambda pair: len(pair[1]))
            if best[1]:
                found.append(best)
    return sorted(found, key=lambda pair: -len(pair[1]))


def draw(style: Style, accepts: Accepts, random: np.random.Generator, *, form: str = "mixed") -> RandomGraph:
    """Draw a graph.

    Args:
        style: What its tensors are like.
        accepts: Says of a layer in a graph whether it may stay.
        random: Where chance comes from.
        form: "mixed"; "deep", a chain of 40 layers; "diamond", branches that part and join;
            "batchwise", layers that leave the
        first axis alone.
    """
    drawing = Drawing(style, accepts, random)
    getattr(drawing, form)()
    return drawing.finished()


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

    # -- forms -------------------------------------------------------------------------------------

    def mixed(self) -> None:
        """Grow whatever fits."""
        for _ in range(int(self.random.integers(1, 3))):
            self.add_input()
        for _ in range(int(self.random.integers(4, 20))):
            self.grow(BLOCKS)

    def batchwise(self) -> None:
        """Grow layers that treat each row of the batch alike."""
        self.add_input()
        for _ in range(int(self.random.integers(3, 9))):
            self.grow({name: BLOCKS[name] for name in _BATCHWISE})

    def deep(self) -> None:
        """Grow a chain."""
        self.add_input()
        for _ in range(40):
            self.grow({name: BLOCKS[name] for name in _UNARY}, latest=True)

    def diamond(self) -> None:
        """Part, compute on both sides, join; three times."""
        self.add_input()
        for _ in range(3):
            start = self.slots[-1]
            ends = []
            for _ in range(2):
                self.slots.append(start)
                for _ in range(int(self.random.integers(1, 4))):
                    self.grow({name: BLOCKS[name] for name in _UNARY}, latest=True)
                ends.append(self.slots[-1])
            if ends[0].shape != ends[1].shape:
                ends = [ends[1], ends[1]]
            self.slots += ends[:1]
            if not (add(self, ends[0], ends[1]) or concat(self, ends[0], ends[1])):
                self.slots.append(ends[1])

    def survey(self) -> tuple[str, ...]:
        """Return the names of the blocks that can be added to an input."""
        taken = []
        for name, block in BLOCKS.items():
            drawing = Drawing(self.style, self.accepts, np.random.default_rng(1))
            drawing.add_input()
            if block(drawing, drawing.slots[0]):
                taken.append(name)
        return tuple(taken)

    # -- growing -----------------------------------------------------------------------------------

    def add_input(self) -> None:
        """Add an input."""
        style, name = self.style, f"x{len(self.feeds)}"
        size = int(self.random.integers(5, 8))
        shape: tuple[int, ...] = (style.batch, style.channels)
        if style.layout is DataLayout.NHWC:
            shape = (style.batch, size, size + 1, style.channels)
        elif style.layout is DataLayout.NCHW:
            shape = (style.batch, style.channels, size, size + 1)
        quantization = Quantization.per_tensor(0.03, _zero(style.dtype)) if style.dtype.is_integer else None
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
        zero = int(self.random.choice([0, _zero(x.dtype)])) if x.dtype is DType.INT8 else 128
        return Quantization.per_tensor(float(np.float32(info.quantization.scale[0] * gain)), zero)


Block = Callable[[Drawing, OutputSlot], bool]


def _zero(dtype: DType) -> int:
    return 128 if dtype is DType.UINT8 else -3


def _weights(
    drawing: Drawing, x: OutputSlot, shape: Sequence[int], filters: int, axis: int, *, per_axis: bool
) -> tuple[OutputSlot, OutputSlot, float]:
    """Return weights, bias and gain: how much wider the layer's results are than its inputs."""
    random, network, dtype = drawing.random, drawing.network, x.dtype
    terms = math.prod(shape) // filters
    if not dtype.is_integer:
        weights = (random.standard_normal(shape) / math.sqrt(terms)).astype(dtype.numpy)
        bias = random.standard_normal(filters).astype(dtype.numpy)
        return network.constant(weights, "weights"), network.constant(bias, "bias"), 1.0
    scales = [float(np.float32(0.01 * (1 + i % 3))) for i in range(filters)] if per_axis else [0.02]
    given = x.known_info.quantization
    assert given is not None
    products = [given.scale[0] * scale for scale in scales]
    integers = random.integers(-100, 100, shape, np.int8, endpoint=True)
    weights_q = Quantization.per_axis(scales, axis=axis) if per_axis else Quantization.per_tensor(scales[0])
    bias_q = Quantization.per_axis(products, axis=0) if per_axis else Quantization.per_tensor(products[0])
    reach = int(60 * math.sqrt(terms) * 40)
    bias = random.integers(-reach, reach, filters, np.int32)
    # Weights are uniform in +-100, inputs about uniform: the sum of `terms` products spreads as its
    # square root.
    gain = math.sqrt(terms) * 58 * max(scales) * 1.7
    return (
        network.constant(integers, "weights", quantization=weights_q),
        network.constant(bias, "bias", quantization=bias_q),
        gain,
    )


# -- blocks ----------------------------------------------------------------------------------------


def activation(drawing: Drawing, x: OutputSlot) -> bool:
    """One of a few functions."""

    def build(function: str, alpha: float) -> Layer:
        return drawing.network.activation(x, function, alpha).layer

    functions = drawing.shuffled([("relu", 0.0), ("bounded_relu", 1.5), ("tanh", 0.0), ("sigmoid", 0.0)])
    return any(drawing.attempt(partial(build, *function)) for function in functions)


def binary(drawing: Drawing, x: OutputSlot) -> bool:
    """Join two tensors of one shape, or one with itself."""
    operations = drawing.shuffled(["add", "sub", "mul", "maximum"])
    return any(_joined(drawing, operation, x, drawing.any_peer(x)) for operation in operations)


def add(drawing: Drawing, x: OutputSlot, other: OutputSlot | None = None) -> bool:
    """Add a tensor of the same shape: a residual."""
    return _joined(drawing, "add", x, drawing.any_peer(x) if other is None else other)


def _joined(drawing: Drawing, operation: str, a: OutputSlot, b: OutputSlot) -> bool:
    first, second = a.known_info.quantization, b.known_info.quantization
    quantization = None
    if first is not None and second is not None:
        widest = max(first.scale[0], second.scale[0])
        gain = 64 * first.scale[0] * second.scale[0] if operation == "mul" else 1.5 * widest
        quantization = Quantization.per_tensor(float(np.float32(gain)), _zero(a.dtype))
        if operation == "maximum":  # compares integers: they must mean the same
            quantization = first if first == second else None
            if quantization is None:
                return False
    elif operation == "mul" and drawing.valued and np.abs(drawing.known[a].value).max(initial=0) > 50:
        return False  # products of products leave every range
    return drawing.attempt(partial(_binary_layer, drawing.network, operation, a, b, quantization))


def _binary_layer(network: Network, operation: str, a: OutputSlot, b: OutputSlot, quantization: Quantization | None) -> Layer:
    layer = network.binary(a, b, operation).layer
    if quantization is not None:
        layer.output.quantization = quantization
        network.infer(layer)
    return layer


def concat(drawing: Drawing, x: OutputSlot, other: OutputSlot | None = None, axes: Sequence[int] | None = None) -> bool:
    """Join along an axis."""
    rank = x.known_info.rank
    parts = [x, drawing.any_peer(x) if other is None else other]
    if parts[0].known_info.quantization != parts[1].known_info.quantization:
        parts = [x, x]

    def build(axis: int) -> Layer:
        return drawing.network.concat(parts, axis=axis).layer

    return any(drawing.attempt(partial(build, axis)) for axis in drawing.shuffled(axes or range(rank)))


def concat_features(drawing: Drawing, x: OutputSlot) -> bool:
    """Join along any axis but the batch."""
    return concat(drawing, x, axes=range(1, x.known_info.rank))


def split(drawing: Drawing, x: OutputSlot) -> bool:
    """Cut in halves along an axis."""
    sizes = x.known_info.sizes
    even = [axis for axis, size in enumerate(sizes) if size % 2 == 0]

    def build(axis: int) -> Layer:
        return drawing.network.split(x, 2, axis=axis)[0].layer

    return any(drawing.attempt(partial(build, axis)) for axis in drawing.shuffled(even))


def reshape(drawing: Drawing, x: OutputSlot) -> bool:
    """Give the same elements another shape."""
    n = x.known_info.elements
    shapes = [(n,), (2, n // 2), (n // 2, 2), (1, n), (n // 4, 2, 2)]
    fitting = [shape for shape in shapes if math.prod(shape) == n]

    def build(*shape: int) -> Layer:
        return drawing.network.reshape(x, shape).layer

    return any(drawing.attempt(partial(build, *shape)) for shape in drawing.shuffled(fitting))


def permute(drawing: Drawing, x: OutputSlot) -> bool:
    """Reorder the axes."""
    order = [int(axis) for axis in drawing.random.permutation(x.known_info.rank)]
    return drawing.attempt(lambda: drawing.network.permute(x, order).layer)


def softmax(drawing: Drawing, x: OutputSlot) -> bool:
    """Softmax along an axis that is not the batch."""
    if x.known_info.rank < 2 or not x.dtype.is_float:
        return False

    def build(axis: int) -> Layer:
        return drawing.network.softmax(x, axis).layer

    return any(drawing.attempt(partial(build, axis)) for axis in (-1, 1))


def dense(drawing: Drawing, x: OutputSlot) -> bool:
    """A fully connected layer."""
    depth = x.known_info.sizes[-1] if x.known_info.rank else 0
    if not 0 < depth <= 512:
        return False

    def build(units: int, per_axis: bool) -> Layer:
        weights, bias, gain = _weights(drawing, x, (units, depth), units, 0, per_axis=per_axis)
        quantization = drawing.result_quantization(x, gain)
        return drawing.network.fully_connected(x, weights, bias, quantization=quantization).layer

    variants = [(units, per_axis) for units in (depth, 8, 16, 6) for per_axis in (False, True)]
    return any(drawing.attempt(partial(build, *variant)) for variant in drawing.shuffled(variants)[:_TRIES])


def _image(drawing: Drawing, x: OutputSlot) -> tuple[DataLayout | None, int]:
    """Return the layout of an image and its count of channels; None for what is no image."""
    layout = _layout(drawing, x)
    return layout, 0 if layout is None else x.known_info.sizes[layout.channel_axis]


def convolution(drawing: Drawing, x: OutputSlot) -> bool:
    """A convolution."""
    layout, channels = _image(drawing, x)
    if layout is None:
        return False

    def build(filters: int, kernel: int, stride: int, per_axis: bool) -> Layer:
        window = (kernel, kernel)
        shape = (filters, channels, *window) if layout is DataLayout.NCHW else (filters, *window, channels)
        weights, bias, gain = _weights(drawing, x, shape, filters, 0, per_axis=per_axis)
        quantization = drawing.result_quantization(x, gain)
        return drawing.network.convolution2d(
            x, weights, bias, stride=stride, padding=kernel // 2, layout=layout or "NCHW", quantization=quantization
        ).layer

    variants = [
        (filters, kernel, stride, per_axis)
        for filters in dict.fromkeys((channels, 8, 16))
        for kernel in (1, 3)
        for stride in (1, 2)
        for per_axis in (False, True)
    ]
    return any(drawing.attempt(partial(build, *variant)) for variant in drawing.shuffled(variants)[:_TRIES])


def depthwise(drawing: Drawing, x: OutputSlot) -> bool:
    """A convolution of each channel."""
    layout, channels = _image(drawing, x)
    if layout is None:
        return False

    def build(stride: int, per_axis: bool) -> Layer:
        nchw = layout is DataLayout.NCHW
        shape = (channels, 1, 3, 3) if nchw else (1, 3, 3, channels)
        weights, bias, gain = _weights(drawing, x, shape, channels, 0 if nchw else 3, per_axis=per_axis)
        quantization = drawing.result_quantization(x, gain)
        return drawing.network.depthwise_convolution2d(
            x, weights, bias, stride=stride, padding=1, layout=layout or "NCHW", quantization=quantization
        ).layer

    variants = [(1, False), (2, False), (1, True), (2, True)]
    return any(drawing.attempt(partial(build, *variant)) for variant in drawing.shuffled(variants))


def pooling(drawing: Drawing, x: OutputSlot) -> bool:
    """Pooling over windows, or over the whole image."""
    layout = _layout(drawing, x)
    if layout is None:
        return False
    network = drawing.network

    def build(function: str, size: int, stride: int) -> Layer:
        if size == 0:
            return network.global_pooling(x, function, layout=layout or "NCHW").layer
        return network.pooling2d(x, function, size, stride=stride, layout=layout or "NCHW").layer

    variants = [
        (function, size, stride) for function in ("max", "average") for size, stride in ((2, 1), (2, 2), (3, 1), (0, 0))
    ]
    return any(drawing.attempt(partial(build, *variant)) for variant in drawing.shuffled(variants))


def _layout(drawing: Drawing, x: OutputSlot) -> DataLayout | None:
    """Layout of an image; None for what is none, or is too small for a window."""
    layout = drawing.style.layout
    if layout is None or x.known_info.rank != 4 or x.known_info.elements == 0:
        return None
    return layout if min(x.known_info.sizes[axis] for axis in layout.spatial_axes()) >= 1 else None


BLOCKS: dict[str, Block] = {
    "activation": activation,
    "add": add,
    "binary": binary,
    "concat": concat,
    "split": split,
    "reshape": reshape,
    "permute": permute,
    "dense": dense,
    "softmax": softmax,
    "convolution": convolution,
    "depthwise": depthwise,
    "pooling": pooling,
}
_UNARY = ("activation", "dense", "convolution", "depthwise", "add", "reshape", "permute", "pooling", "softmax")
_BATCHWISE = ("activation", "add", "binary", "dense", "convolution", "depthwise", "pooling", "softmax")
