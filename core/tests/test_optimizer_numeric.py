"""Test that passes that touch numbers keep the results, in a tiny float64 evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fakes.evaluator import NHWC, normal, run

from dovetail.graph.descriptor import Constant
from dovetail.graph.element_types import DType
from dovetail.graph.tensor import DataLayout, Quantization
from dovetail.layers import Pad
from dovetail.layers.network import Network
from dovetail.optimizer.passes import (
    FoldBatchNormalization,
    FoldPad,
    InferAndFold,
    InversePermutes,
    MergeReshapes,
    PermuteAsReshape,
    RemoveIdentities,
)

# -- batch normalization ---------------------------------------------------------------------------


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


def test_quantized_padding_is_folded_only_where_it_stands_for_zero() -> None:
    for zero_point, value, folds in ((0, 0, 1), (3, 0, 0), (3, 3, 1), (-128, -128, 1), (-128, 0, 0)):
        net = Network()
        x = net.input("x", (1, 1, 4, 4), DType.INT8, Quantization.per_tensor(0.5, zero_point))
        p = net.pad(x, (0, 0, 1, 1), (0, 0, 1, 1), value=value)
        net.output(net.convolution2d(p, np.ones((1, 1, 3, 3), np.int8), quantization=Quantization.per_tensor(1.0)), "y")
        assert FoldPad().run(net) == folds


def test_a_pad_that_gives_integers_another_meaning_stays() -> None:
    net = Network()
    x = net.input("x", (1, 1, 4, 4), DType.INT8, Quantization.per_tensor(0.05, 3))
    pad = Pad(before=(0, 0, 1, 1), after=(0, 0, 1, 1), value=3)
    p = net.add(pad, x, quantization=Quantization.per_tensor(0.1, -5)).output
    net.output(net.convolution2d(p, np.ones((1, 1, 3, 3), np.int8), quantization=Quantization.per_tensor(1.0)), "y")
    assert FoldPad().run(net) == 0


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
