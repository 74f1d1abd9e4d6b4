"""Test that quantization which is spelled out becomes integer layers that compute the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fakes.evaluator import NHWC, normal, run

from dovetail.graph.element_types import DType
from dovetail.graph.tensor import Quantization
from dovetail.layers import Activation, Dequantize, Quantize
from dovetail.layers.network import Network
from dovetail.optimizer.passes import InferAndFold, IntegerLayers

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
    "global pool that changes the scale": lambda n: n.global_pooling(quantized_input(n, "x", (2, 3, 5, 7)), name="core"),
    "global pool of pixels": lambda n: n.global_pooling(quantized_input(n, "x", (2, 5, 7, 3)), layout=NHWC, name="core"),
    "greatest of an image": lambda n: n.global_pooling(quantized_input(n, "x", (2, 3, 5, 7)), "max", name="core"),
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
