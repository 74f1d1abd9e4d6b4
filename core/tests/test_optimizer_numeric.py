"""Test that passes that touch numbers keep the results, in a tiny float64 evaluator."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from dovetail.graph.descriptor import Array, Constant, Input, Output
from dovetail.graph.graph import Graph
from dovetail.graph.layer import Layer
from dovetail.graph.tensor import DataLayout, DType, Quantization
from dovetail.layers import (
    Activation,
    BatchNormalization,
    Convolution2d,
    DepthwiseConvolution2d,
    Dequantize,
    ElementwiseBinary,
    FullyConnected,
    GlobalPooling,
    Pad,
    Permute,
    Pooling2d,
    Quantize,
    TransposeConvolution2d,
)
from dovetail.layers.network import Network
from dovetail.optimizer.passes import (
    FoldBatchNormalization,
    FoldPad,
    InferAndFold,
    IntegerLayers,
    InversePermutes,
    MergeReshapes,
    PermuteAsReshape,
    RemoveIdentities,
)

NHWC = DataLayout.NHWC


# -- the evaluator ---------------------------------------------------------------------------------


def run(graph: Graph, feeds: Mapping[str, Array]) -> list[Array]:
    """Compute the outputs: real numbers in float64, quantized tensors as integers.

    A quantized tensor has its slot's quantization.
    """
    values: dict[Any, Array] = {}
    for layer in graph.topological_order():
        inputs = [None if slot.source is None else values[slot.source] for slot in layer.inputs]
        if isinstance(layer.descriptor, Input):
            values[layer.output] = feeds[layer.name]
        elif isinstance(layer.descriptor, Constant):
            values[layer.output] = layer.descriptor.value
        elif not isinstance(layer.descriptor, Output):
            values[layer.output] = compute(layer, inputs)
    return [values[layer.inputs[0].source] for layer in graph.outputs]


def compute(layer: Layer, inputs: list[Any]) -> Array:
    d, info = layer.descriptor, layer.output.known_info
    if isinstance(d, Quantize):
        return quantized(inputs[0], d.quantization, d.dtype)
    if isinstance(d, Dequantize):
        return real(inputs[0], d.quantization)
    if info.quantization is not None and not isinstance(d, Permute):
        infos = [slot.info for slot in layer.inputs]
        inputs = [None if v is None else real(v, i.quantization) for v, i in zip(inputs, infos, strict=True)]  # type: ignore[union-attr]
        return quantized(compute_real(layer, inputs), info.quantization, info.dtype)
    return compute_real(layer, inputs)


def compute_real(layer: Layer, inputs: list[Any]) -> Array:
    d = layer.descriptor
    x = np.asarray(inputs[0], np.float64)
    if isinstance(d, Convolution2d | DepthwiseConvolution2d | TransposeConvolution2d | FullyConnected):
        return activated(d, weighted(d, x, np.asarray(inputs[1], np.float64), inputs[2] if len(inputs) > 2 else None))
    if isinstance(d, ElementwiseBinary):
        return activated(d, x + inputs[1])
    if isinstance(d, Activation):
        return {"relu": np.maximum(x, 0), "bounded_relu": np.clip(x, d.beta, d.alpha)}[d.function.value]
    if isinstance(d, BatchNormalization):
        axis = d.layout.channel_axis if x.ndim > 1 else 0
        scale, offset, mean, variance = (along(np.asarray(v, np.float64), x.ndim, axis) for v in inputs[1:])
        return (x - mean) / np.sqrt(variance + d.epsilon) * scale + offset
    if isinstance(d, Pad):
        return np.pad(x, list(zip(d.before, d.after, strict=True)), constant_values=d.value)
    if isinstance(d, Pooling2d):
        return pooled(d, x)
    if isinstance(d, GlobalPooling):
        return x.mean(d.layout.spatial_axes(x.ndim), keepdims=True)
    found = d.evaluate(layer.input_infos, [x])
    assert found is not None, d
    return np.asarray(found[0])


def along(v: Array, rank: int, axis: int) -> Array:
    shape = [1] * rank
    shape[axis] = -1
    return v.reshape(shape)


def activated(d: Any, y: Array) -> Array:
    if d.activation is None:
        return y
    return np.maximum(y, 0) if d.activation.value == "relu" else np.clip(y, d.activation_beta, d.activation_alpha)


def real(q: Array, quantization: Quantization) -> Array:
    axis = quantization.axis
    scale, zero = np.asarray(quantization.scale), np.asarray(quantization.zero_point)
    if axis is not None:
        scale, zero = along(scale, q.ndim, axis), along(zero, q.ndim, axis)
    return (q.astype(np.float64) - zero) * scale


def quantized(x: Array, quantization: Quantization, dtype: DType) -> Array:
    limits = np.iinfo(dtype.numpy)
    return np.clip(np.rint(x / quantization.scale[0]) + quantization.zero_point[0], limits.min, limits.max).astype(dtype.numpy)


def weighted(d: Any, x: Array, w: Array, bias: Array | None) -> Array:
    b = 0.0 if bias is None else np.asarray(bias, np.float64)
    if isinstance(d, FullyConnected):
        return x @ w.T + b
    last = d.layout is NHWC
    if last:
        x = x.transpose(0, 3, 1, 2)
        w = w.transpose(3, 0, 1, 2) if isinstance(d, DepthwiseConvolution2d) else w.transpose(0, 3, 1, 2)
    if isinstance(d, TransposeConvolution2d):
        y = transposed(d, x, w.transpose(1, 0, 2, 3) if last else w)
    else:
        groups = x.shape[1] if isinstance(d, DepthwiseConvolution2d) else d.groups
        top, left, bottom, right = d.padding
        x = np.pad(x, [(0, 0), (0, 0), (top, bottom), (left, right)])
        rows, columns = ((x.shape[2 + i] - d.dilation[i] * (w.shape[2 + i] - 1) - 1) // d.stride[i] + 1 for i in range(2))
        y = np.zeros((x.shape[0], w.shape[0], rows, columns))
        per_in, per_out = w.shape[1], w.shape[0] // groups
        for o, i, j in itertools.product(range(w.shape[0]), range(rows), range(columns)):
            first = o // per_out * per_in
            top, left = i * d.stride[0], j * d.stride[1]
            patch = x[
                :,
                first : first + per_in,
                top : top + d.dilation[0] * (w.shape[2] - 1) + 1 : d.dilation[0],
                left : left + d.dilation[1] * (w.shape[3] - 1) + 1 : d.dilation[1],
            ]
            y[:, o, i, j] = (patch * w[o]).sum((1, 2, 3))
    y = y + (along(b, 4, 1) if bias is not None else 0.0)
    return y.transpose(0, 2, 3, 1) if last else y


def transposed(d: TransposeConvolution2d, x: Array, w: Array) -> Array:
    n, channels, height, width = x.shape
    per_out = w.shape[1]
    size = [d.stride[i] * (x.shape[2 + i] - 1) + w.shape[2 + i] + d.output_padding[i] for i in range(2)]
    y = np.zeros((n, per_out * d.groups, *size))
    for c, i, j in itertools.product(range(channels), range(height), range(width)):
        first = c // (channels // d.groups) * per_out
        top, left = i * d.stride[0], j * d.stride[1]
        target = y[:, first : first + per_out, top : top + w.shape[2], left : left + w.shape[3]]
        target += x[:, c, i, j][:, None, None, None] * w[c]
    top, left, bottom, right = d.padding
    return y[:, :, top : size[0] - bottom, left : size[1] - right]


def pooled(d: Pooling2d, x: Array) -> Array:
    last = d.layout is NHWC
    x = x.transpose(0, 3, 1, 2) if last else x
    top, left, bottom, right = d.padding
    spans = [(0, 0), (0, 0), (top, bottom), (left, right)]
    inside = np.pad(np.ones(x.shape), spans)
    x = np.pad(x, spans, constant_values=-np.inf if d.function.value == "max" else 0)
    rows, columns = ((x.shape[2 + i] - d.dilation[i] * (d.size[i] - 1) - 1) // d.stride[i] + 1 for i in range(2))
    y = np.zeros((*x.shape[:2], rows, columns))
    for i, j in itertools.product(range(rows), range(columns)):
        window = (
            slice(None),
            slice(None),
            slice(i * d.stride[0], i * d.stride[0] + d.dilation[0] * (d.size[0] - 1) + 1, d.dilation[0]),
            slice(j * d.stride[1], j * d.stride[1] + d.dilation[1] * (d.size[1] - 1) + 1, d.dilation[1]),
        )
        patch = x[window]
        if d.function.value == "max":
            y[:, :, i, j] = patch.max((2, 3))
        elif d.function.value == "lp":
            y[:, :, i, j] = (np.abs(patch) ** d.p).sum((2, 3)) ** (1 / d.p)
        else:
            count = patch[0, 0].size if d.count_padding else inside[window].sum((2, 3))
            y[:, :, i, j] = patch.sum((2, 3)) / count
    return y.transpose(0, 2, 3, 1) if last else y


# -- batch normalization ---------------------------------------------------------------------------


def normal(*shape: int, seed: int = 0, dtype: Any = np.float64) -> Array:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype)


def normalized(net: Network, y: Any, channels: int, layout: DataLayout = DataLayout.NCHW) -> Any:
    r = np.random.default_rng(1)
    scale, offset, mean = (r.standard_normal(channels) for _ in range(3))
    variance = r.uniform(0.5, 2, channels)
    return net.batch_normalization(y, scale, offset, mean, variance, epsilon=1e-3, layout=layout, name="bn")


WEIGHTED: dict[str, Any] = {
    "conv": lambda n: normalized(n, n.convolution2d(n.input("x", (2, 3, 5, 5), DType.FLOAT64), normal(4, 3, 3, 3)), 4),
    "conv bias groups": lambda n: normalized(
        n, n.convolution2d(n.input("x", (2, 4, 5, 5), DType.FLOAT64), normal(6, 2, 3, 3), normal(6), groups=2, padding=1), 6
    ),
    "conv nhwc": lambda n: normalized(
        n, n.convolution2d(n.input("x", (2, 5, 5, 3), DType.FLOAT64), normal(4, 3, 3, 3), layout=NHWC), 4, NHWC
    ),
    "depthwise": lambda n: normalized(
        n, n.depthwise_convolution2d(n.input("x", (1, 3, 5, 5), DType.FLOAT64), normal(6, 1, 3, 3), normal(6)), 6
    ),
    "depthwise nhwc": lambda n: normalized(
        n, n.depthwise_convolution2d(n.input("x", (1, 5, 5, 3), DType.FLOAT64), normal(1, 3, 3, 6), layout=NHWC), 6, NHWC
    ),
    "transpose conv": lambda n: normalized(
        n, n.transpose_convolution2d(n.input("x", (1, 4, 3, 3), DType.FLOAT64), normal(4, 3, 2, 2), stride=2), 3
    ),
    "transpose conv grouped": lambda n: normalized(
        n, n.transpose_convolution2d(n.input("x", (1, 4, 3, 3), DType.FLOAT64), normal(4, 3, 2, 2), normal(6), groups=2), 6
    ),
    "transpose conv nhwc": lambda n: normalized(
        n, n.transpose_convolution2d(n.input("x", (1, 3, 3, 4), DType.FLOAT64), normal(5, 2, 2, 4), layout=NHWC), 5, NHWC
    ),
    "fully connected": lambda n: normalized(
        n, n.fully_connected(n.input("x", (3, 5), DType.FLOAT64), normal(4, 5), normal(4)), 4
    ),
    "fully connected rank 3": lambda n: normalized(
        n, n.fully_connected(n.input("x", (2, 3, 5), DType.FLOAT64), normal(4, 5)), 4, NHWC
    ),
}


@pytest.mark.parametrize("name", WEIGHTED)
def test_batch_normalization_folds(name: str) -> None:
    net = Network()
    net.output(WEIGHTED[name](net), "y")
    x = net.layer("x").output.known_info
    feeds = {"x": normal(*x.sizes, seed=5)}
    before = run(net, feeds)[0]
    weighted_name = next(layer.name for layer in net if layer.outputs and layer.outputs[0].consumers[0].layer.name == "bn")
    assert FoldBatchNormalization().run(net) == 1
    assert "bn" not in net
    np.testing.assert_allclose(run(net, feeds)[0], before, rtol=1e-12, atol=1e-12)
    assert net.layer(weighted_name).sources == (weighted_name, "bn")
    assert all(layer.outputs[0].consumers for layer in net if isinstance(layer.descriptor, Constant))


def test_batch_normalization_is_folded_in_float64_and_rounded_once() -> None:
    net = Network()
    w, b = normal(4, 3, 3, 3, dtype=np.float32), normal(4, dtype=np.float32)
    scale, offset, mean, variance = (np.abs(normal(4, seed=s, dtype=np.float32)) for s in range(4))
    y = net.convolution2d(net.input("x", (1, 3, 5, 5)), w, b, name="conv")
    net.output(net.batch_normalization(y, scale, offset, mean, variance), "y")
    FoldBatchNormalization().run(net)
    factor = scale.astype(np.float64) / np.sqrt(variance.astype(np.float64) + 1e-5)
    conv = net.layer("conv")
    np.testing.assert_array_equal(conv.constant(1), (w * factor[:, None, None, None]).astype(np.float32))
    np.testing.assert_array_equal(conv.constant(2), ((b.astype(np.float64) - mean) * factor + offset).astype(np.float32))


def test_batch_normalization_stays_where_folding_would_be_wrong() -> None:
    def network(**change: Any) -> Network:
        net = Network()
        x = net.input("x", (1, 4, 4, 4), DType.FLOAT64)
        weights: Any = net.input("w", (4, 4, 1, 1), DType.FLOAT64) if "weights" in change else normal(4, 4, 1, 1)
        y = net.convolution2d(x, weights)
        if "relu" in change:
            y = net.relu(y)
        if "shared" in change:
            net.output(y, "also")
        layout = NHWC if "layout" in change else DataLayout.NCHW
        variance = np.full(4, -1.0) if "variance" in change else np.ones(4)
        net.output(net.batch_normalization(y, np.ones(4), np.ones(4), np.ones(4), variance, layout=layout), "y")
        return net

    assert FoldBatchNormalization().run(network()) == 1
    for reason in ("weights", "relu", "shared", "layout", "variance"):
        assert FoldBatchNormalization().run(network(**{reason: True})) == 0, reason


@pytest.mark.parametrize(
    ("dtype", "weight", "scale", "mean"),
    [("f2", 100.0, 1000.0, 0.0), ("f2", 1.0, 1000.0, 100.0), ("f4", 1e30, 1e10, 0.0), ("f4", 1.0, 1e30, 1e20)],
)
def test_batch_normalization_stays_where_its_weights_would_overflow(
    dtype: str, weight: float, scale: float, mean: float
) -> None:
    """Its input, small here, would not: 100 * 0.001 * 1000 is 100."""

    def network(scale: float) -> Network:
        net = Network()
        y = net.convolution2d(net.input("x", (1, 2, 1, 1), dtype), np.full((2, 2, 1, 1), weight, dtype))
        of_channels = [np.full(2, value, dtype) for value in (scale, 0, mean, 1)]
        net.output(net.batch_normalization(y, *of_channels, epsilon=0.0), "y")
        return net

    with np.errstate(over="raise"):
        assert FoldBatchNormalization().run(network(scale)) == 0
        assert FoldBatchNormalization().run(network(2.0)) == 1


# -- pad -------------------------------------------------------------------------------------------


def padded(net: Network, value: float = 0, nhwc: bool = False) -> Any:
    x = net.input("x", (2, 5, 6, 3) if nhwc else (2, 3, 5, 6), DType.FLOAT64)
    before, after = ((0, 1, 0, 0), (0, 2, 1, 0)) if nhwc else ((0, 0, 1, 0), (0, 0, 2, 1))
    return net.pad(x, before, after, value=value, name="pad")


FOLDED: dict[str, Any] = {
    "conv": lambda n: n.convolution2d(padded(n), normal(4, 3, 3, 3), padding=(1, 0, 0, 2), stride=2),
    "conv nhwc": lambda n: n.convolution2d(padded(n, nhwc=True), normal(4, 3, 3, 3), layout=NHWC),
    "depthwise": lambda n: n.depthwise_convolution2d(padded(n), normal(3, 1, 3, 3), dilation=(1, 2)),
    "max pool of least": lambda n: n.pooling2d(padded(n, -np.inf), "max", 4, stride=2),
    "average pool": lambda n: n.pooling2d(padded(n), "average", 3, stride=2),
    "average pool counting": lambda n: n.pooling2d(padded(n), "average", 4, padding=1, count_padding=True),
    "lp pool": lambda n: n.pooling2d(padded(n), "lp", 3),
}
KEPT: dict[str, Any] = {
    "conv of ones": lambda n: n.convolution2d(padded(n, 1), normal(4, 3, 3, 3)),
    "max pool of zeros": lambda n: n.pooling2d(padded(n), "max", 4),
    "average pool not counting its own": lambda n: n.pooling2d(padded(n), "average", 4, padding=1),
    "average pool with partial windows": lambda n: n.pooling2d(padded(n), "average", 3, stride=2, ceil_mode=True),
    "average pool with partial windows of the same number": lambda n: n.pooling2d(
        n.pad(n.input("x", (1, 1, 5, 5), DType.FLOAT64), (0, 0, 1, 1), (0, 0, 0, 0)), "average", 3, stride=2, ceil_mode=True
    ),
    "window no larger than the padding": lambda n: n.pooling2d(padded(n), "average", 2),
    "padded channels": lambda n: n.convolution2d(
        n.pad(n.input("x", (2, 3, 5, 6), DType.FLOAT64), (0, 1, 0, 0), (0, 0, 0, 0)), normal(4, 4, 3, 3)
    ),
    "cropping": lambda n: n.convolution2d(
        n.pad(n.input("x", (2, 3, 5, 6), DType.FLOAT64), (0, 0, -1, 0), (0, 0, 0, 0)), normal(4, 3, 3, 3)
    ),
    "reflecting": lambda n: n.convolution2d(
        n.pad(n.input("x", (2, 3, 5, 6), DType.FLOAT64), (0, 0, 1, 0), (0, 0, 0, 0), mode="reflect"), normal(4, 3, 3, 3)
    ),
    "transpose conv": lambda n: n.transpose_convolution2d(padded(n), normal(3, 2, 2, 2)),
}


@pytest.mark.parametrize("name", FOLDED)
def test_pad_folds(name: str) -> None:
    net = Network()
    y = FOLDED[name](net)
    net.output(y, "y")
    feeds = {"x": normal(*net.layer("x").output.known_info.sizes)}
    before = run(net, feeds)[0]
    assert FoldPad().run(net) == 1
    assert "pad" not in net
    np.testing.assert_allclose(run(net, feeds)[0], before, rtol=1e-12, atol=1e-12)
    assert y.layer.sources == ("pad", y.layer.name)


@pytest.mark.parametrize("name", KEPT)
def test_pad_stays_where_folding_would_be_wrong(name: str) -> None:
    net = Network()
    net.output(KEPT[name](net), "y")
    assert FoldPad().run(net) == 0


def test_pad_stays_for_its_other_readers() -> None:
    net = Network()
    y = padded(net)
    net.output(net.convolution2d(y, normal(4, 3, 3, 3), name="conv"), "y")
    net.output(y, "z")
    assert FoldPad().run(net) == 1
    assert net.layer("conv").inputs[0].source is net.layer("x").output
    assert net.layer("z").inputs[0].source is net.layer("pad").output


def test_quantized_padding_is_folded_only_where_zero_is_zero() -> None:
    for zero_point, folds in ((0, 1), (3, 0)):
        net = Network()
        x = net.input("x", (1, 1, 4, 4), DType.INT8, Quantization.per_tensor(0.5, zero_point))
        p = net.pad(x, (0, 0, 1, 1), (0, 0, 1, 1))
        net.output(net.convolution2d(p, np.ones((1, 1, 3, 3), np.int8), quantization=Quantization.per_tensor(1.0)), "y")
        assert FoldPad().run(net) == folds


# -- moves -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(25))
def test_random_chains_of_moves_compute_the_same(seed: int) -> None:
    random = np.random.default_rng(seed)
    net = Network()
    y = net.input("x", tuple(int(d) for d in random.choice([1, 2, 3], 4)), DType.FLOAT64)
    for _ in range(8):
        sizes = y.known_info.sizes
        move = random.integers(5)
        if move <= 1:
            y = net.permute(y, random.permutation(len(sizes)).tolist())
        elif move == 2:
            y = net.reshape(y, random.permutation(sizes).tolist())
        elif move == 3 and len(sizes) < 6:
            y = net.expand_dims(y, int(random.integers(len(sizes) + 1)))
        else:
            y = net.squeeze(y) if random.integers(2) else net.flatten(y, int(random.integers(len(sizes) + 1)))
        if random.integers(5) == 0:
            net.output(y)
    net.output(y, "y")
    feeds = {"x": normal(*net.layer("x").output.known_info.sizes)}
    before = run(net, feeds)
    size = len(net)
    for _ in range(3):
        for one in (InversePermutes(), MergeReshapes(), PermuteAsReshape(), RemoveIdentities()):
            one.run(net)
    assert len(net) <= size
    InferAndFold().run(net)
    for old, new in zip(before, run(net, feeds), strict=True):
        np.testing.assert_array_equal(old, new)


# -- integer layers --------------------------------------------------------------------------------

QX, QY = Quantization.per_tensor(0.02, 3), Quantization.per_tensor(0.05, -7)


def quantized_input(net: Network, name: str, shape: tuple[int, ...], quantization: Quantization = QX) -> Any:
    return net.dequantize(net.input(name, shape, DType.INT8), quantization, name=f"{name}.dq")


def stored(net: Network, *shape: int, axis: int | None = None) -> Any:
    value = np.random.default_rng(list(shape)).integers(-127, 128, shape).astype(np.int8)
    scales = tuple(0.003 + 0.001 * i for i in range(1 if axis is None else shape[axis]))
    return net.dequantize(net.constant(value), Quantization(scales, axis=axis), name="w.dq")


def stored_bias(net: Network, size: int) -> Any:
    value = np.random.default_rng(size).integers(-500, 500, size).astype(np.int32)
    return net.dequantize(net.constant(value), Quantization.per_tensor(0.02 * 0.003), name="b.dq")


QDQ: dict[str, Any] = {
    "conv": lambda n: n.convolution2d(quantized_input(n, "x", (2, 3, 5, 5)), stored(n, 4, 3, 3, 3), padding=1, name="core"),
    "conv per axis, float bias": lambda n: n.convolution2d(
        quantized_input(n, "x", (2, 3, 5, 5)), stored(n, 4, 3, 3, 3, axis=0), normal(4, dtype=np.float32), name="core"
    ),
    "conv relu": lambda n: n.relu(
        n.convolution2d(quantized_input(n, "x", (2, 3, 5, 5)), stored(n, 4, 3, 3, 3), stored_bias(n, 4), name="core")
    ),
    "depthwise nhwc": lambda n: n.depthwise_convolution2d(
        quantized_input(n, "x", (2, 5, 5, 3)), stored(n, 1, 3, 3, 6, axis=3), layout=NHWC, name="core"
    ),
    "fully connected relu6": lambda n: n.relu6(
        n.fully_connected(quantized_input(n, "x", (4, 9)), stored(n, 5, 9, axis=0), stored_bias(n, 5), name="core")
    ),
    "add": lambda n: n.addition(quantized_input(n, "x", (2, 9)), quantized_input(n, "z", (2, 9), QY), name="core"),
    "average pool": lambda n: n.pooling2d(quantized_input(n, "x", (1, 2, 6, 6), QY), "average", 3, name="core"),
    "max pool": lambda n: n.pooling2d(quantized_input(n, "x", (1, 2, 6, 6), QY), "max", 3, padding=1, name="core"),
    "global pool": lambda n: n.global_pooling(quantized_input(n, "x", (1, 2, 6, 6), QY), name="core"),
}


@pytest.mark.parametrize("name", QDQ)
def test_integer_layers_are_within_one_of_the_literal_execution(name: str) -> None:
    net = Network()
    net.output(net.quantize(QDQ[name](net), QY, name="q"), "y")
    random = np.random.default_rng(9)
    feeds = {layer.name: random.integers(-128, 128, layer.output.known_info.sizes).astype(np.int8) for layer in net.inputs}
    literal = run(net, feeds)[0]
    assert IntegerLayers().run(net) == 1
    InferAndFold().run(net)
    core = net.layer("core")
    assert core.output.known_info.dtype is DType.INT8
    assert core.output.known_info.quantization == QY
    assert {"core", "q"} <= set(core.sources)
    assert not [layer for layer in net if isinstance(layer.descriptor, Quantize | Dequantize | Activation)]
    if len(core.inputs) > 2:
        assert core.inputs[2].info is not None
        assert core.inputs[2].info.dtype is DType.INT32
    difference = np.abs(run(net, feeds)[0].astype(int) - literal.astype(int))
    assert difference.max() <= 1


def test_integer_layers_need_a_backend_that_takes_them() -> None:
    net = Network()
    net.output(net.quantize(QDQ["conv per axis, float bias"](net), QY), "y")
    before = {layer.name for layer in net}
    assert IntegerLayers(lambda layer: False).run(net) == 0
    assert {layer.name for layer in net} == before


def test_integers_keep_their_meaning_for_others() -> None:
    net = Network()
    x = net.input("x", (1, 8), DType.INT8)
    net.output(net.quantize(net.addition(net.dequantize(x, QX), net.dequantize(x, QX), name="core"), QY), "y")
    net.output(net.relu(x), "z")
    assert IntegerLayers().run(net) == 0
    assert x.known_info.quantization is None


def test_sums_that_might_not_fit_32_bits_stay_literal() -> None:
    scale = Quantization.per_tensor(0.125)

    def product(terms: int, bias: float) -> Network:
        net = Network()
        weights = net.dequantize(net.constant(np.full((1, terms), 127, np.int8)), scale)
        x = net.dequantize(net.input("x", (1, terms), DType.INT8), scale)
        layer = net.fully_connected(x, weights, np.array([bias], np.float32), name="core")
        net.output(net.quantize(layer, Quantization.per_tensor(1.0)), "y")
        return net

    assert IntegerLayers().run(product(8, 0.0)) == 1
    assert IntegerLayers().run(product(8, 33554430.0)) == 0
    assert IntegerLayers().run(product(130_000, 0.0)) == 1
    assert IntegerLayers().run(product(140_000, 0.0)) == 0


NOT_INTEGER: dict[str, Any] = {
    "two readers": lambda n: (y := QDQ["conv"](n), n.output(y, "also"))[0],
    "float weights": lambda n: n.convolution2d(quantized_input(n, "x", (1, 1, 4, 4)), normal(1, 1, 3, 3, dtype=np.float32)),
    "wrong axis": lambda n: n.fully_connected(quantized_input(n, "x", (4, 9)), stored(n, 5, 9, axis=1)),
    "pool that changes the scale": lambda n: n.pooling2d(quantized_input(n, "x", (1, 2, 6, 6)), "max", 3),
    "sigmoid": lambda n: n.sigmoid(QDQ["conv"](n)),
    "uint8": lambda n: n.global_pooling(
        n.dequantize(n.input("x", (1, 2, 6, 6), DType.UINT8), Quantization.per_tensor(0.05, 7))
    ),
}


@pytest.mark.parametrize("name", NOT_INTEGER)
def test_what_is_no_integer_layer_stays_literal(name: str) -> None:
    net = Network()
    net.output(net.quantize(NOT_INTEGER[name](net), QY), "y")
    size = len(net)
    assert IntegerLayers().run(net) == 0
    assert len(net) == size
