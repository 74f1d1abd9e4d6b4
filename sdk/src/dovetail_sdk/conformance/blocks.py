"""What random graphs are grown of: each block adds one layer, if the backend takes it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from dovetail import DataLayout, Layer, Network, Quantization
from dovetail.graph.layer import OutputSlot

from .drawing import Block, Drawing, zero_point_of

_TRIES = 10
"""Parameters tried for a layer before it counts as refused."""


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
        quantization = Quantization.per_tensor(float(np.float32(gain)), zero_point_of(a.dtype))
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


def concat(drawing: Drawing, x: OutputSlot, other: OutputSlot | None = None) -> bool:
    """Join along an axis."""
    rank = x.known_info.rank
    parts = [x, drawing.any_peer(x) if other is None else other]
    if parts[0].known_info.quantization != parts[1].known_info.quantization:
        parts = [x, x]

    def build(axis: int) -> Layer:
        return drawing.network.concat(parts, axis=axis).layer

    return any(drawing.attempt(partial(build, axis)) for axis in drawing.shuffled(range(rank)))


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
