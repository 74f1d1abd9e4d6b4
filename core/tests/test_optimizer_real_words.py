"""Test that products of words become float layers where that brings them to a better backend."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from fakes.evaluator import NHWC, run

from dovetail.graph.element_types import DType
from dovetail.graph.layer import Layer, OutputSlot
from dovetail.graph.tensor import Quantization
from dovetail.layers import (
    ActivationFunction,
    Convolution2d,
    DepthwiseConvolution2d,
    Dequantize,
    FullyConnected,
    MatMul,
    Quantize,
    TransposeConvolution2d,
)
from dovetail.layers.network import Network
from dovetail.optimizer.passes import RealWords

MINE, THEIRS, RESULT = 0.25, 0.013, 0.4
X = Quantization.per_tensor(MINE)
Y = Quantization.per_tensor(RESULT)


def floats_first(layer: Layer) -> int:
    """Return 1 for what multiplies integers, 0 for all else: as CpuAcc before CpuRef."""
    source = layer.inputs[0].info
    multiplies = not isinstance(layer.descriptor, Quantize | Dequantize)
    return int(multiplies and source is not None and not source.dtype.is_float)


def words(net: Network, *shape: int) -> OutputSlot:
    slot = net.input("x", shape, DType.INT16)
    slot.quantization, slot.info = X, slot.known_info.with_quantization(X)
    return slot


def stored(net: Network, *shape: int, axis: int | None = None, dtype: DType = DType.INT8) -> OutputSlot:
    value = np.random.default_rng(list(shape)).integers(-127, 128, shape).astype(dtype.numpy)
    scales = [THEIRS * (1 + i / 7) for i in range(1 if axis is None else shape[axis])]
    return net.constant(value, name="w", quantization=Quantization(tuple(scales), axis=axis))


def bias(net: Network, dtype: DType = DType.INT64) -> OutputSlot:
    return net.constant(np.asarray([700, -900, 50], dtype.numpy), name="b", quantization=Quantization.per_tensor(MINE * THEIRS))


RELU6 = {"activation": ActivationFunction.BOUNDED_RELU, "activation_alpha": 6.1, "activation_beta": -1.0}

NETWORKS: dict[str, Callable[[Network], OutputSlot]] = {
    "convolution": lambda n: (
        n.add(
            Convolution2d(layout=NHWC), words(n, 1, 4, 5, 2), stored(n, 3, 2, 2, 2, axis=0), bias(n), name="p", quantization=Y
        ).output
    ),
    "clamped": lambda n: (
        n.add(Convolution2d(layout=NHWC, **RELU6), words(n, 1, 4, 5, 2), stored(n, 3, 2, 2, 2), name="p", quantization=Y).output
    ),
    "sums of 32 bits": lambda n: (
        n.add(
            Convolution2d(layout=NHWC),
            words(n, 1, 4, 5, 2),
            stored(n, 3, 2, 2, 2),
            bias(n, DType.INT32),
            name="p",
            quantization=Y,
        ).output
    ),
    "depthwise": lambda n: (
        n.add(
            DepthwiseConvolution2d(layout=NHWC),
            words(n, 1, 4, 5, 3),
            stored(n, 1, 2, 2, 3, axis=3),
            bias(n),
            name="p",
            quantization=Y,
        ).output
    ),
    "connected": lambda n: (
        n.add(FullyConnected(), words(n, 4, 5), stored(n, 3, 5, axis=0), bias(n), name="p", quantization=Y).output
    ),
    "product": lambda n: (
        n.add(MatMul(), words(n, 2, 4, 5), stored(n, 2, 5, 3, dtype=DType.INT16), name="p", quantization=Y).output
    ),
}


def multiplied(total: int, factor: float, narrow: bool) -> float:
    """Return a sum times a factor as TensorFlow Lite forms it, not yet rounded."""
    fraction, shift = np.frexp(factor)
    multiplier = int(np.floor(fraction * 2**31 + 0.5))
    return float(np.ldexp(multiplier if narrow else (multiplier + (1 << 15)) >> 16 << 16, int(shift) - 31)) * total


def exact(name: str, x: np.ndarray, net: Network) -> np.ndarray:
    """Multiply in integers, scale by the factors, and round."""
    layer = net.layer("p")
    weights, info = layer.constant(1), layer.inputs[1].info
    assert weights is not None
    assert info is not None
    assert info.quantization is not None
    scheme = info.quantization
    wide, other = x.astype(np.int64), weights.astype(np.int64)
    if name in ("product", "connected"):
        total = wide @ (other if name == "product" else other.T)
    else:
        patches = np.lib.stride_tricks.sliding_window_view(wide, (2, 2), (1, 2))
        laid = other[0] if name == "depthwise" else other
        total = np.einsum("nhwcyx,yxc->nhwc" if name == "depthwise" else "nhwcyx,oyxc->nhwo", patches, laid)
    added = layer.constant(2) if len(layer.inputs) > 2 else None
    total = total if added is None else total + added
    single = name == "product"
    scales = [float(np.float32(MINE) * np.float32(one)) if single else MINE * one for one in scheme.scale]
    found = np.empty(total.shape)
    for place in np.ndindex(total.shape):
        scale = scales[place[-1] if len(scales) > 1 else 0]
        factor, sum_ = scale / RESULT, int(total[place])
        found[place] = sum_ * factor if name == "connected" else multiplied(sum_, factor, name == "sums of 32 bits")
    low, high = (round(-1 / RESULT - 0.01), round(6.1 / RESULT)) if name == "clamped" else (-32768, 32767)
    return np.clip(np.rint(found), low, high)


@pytest.mark.parametrize("name", NETWORKS)
def test_results_are_those_of_integers(name: str) -> None:
    net = Network()
    net.output(NETWORKS[name](net), "y")
    x = np.random.default_rng(3).integers(-3000, 3000, net.layer("x").output.known_info.sizes).astype(np.int16)
    expected = exact(name, x, net)
    assert RealWords(floats_first).run(net) == 1
    kinds = [layer.kind.rpartition(".")[2] for layer in net.topological_order()]
    assert kinds.count("Dequantize") == 1
    assert isinstance(net.layer("p").descriptor, Quantize)
    assert net.layer("p").output.known_info.quantization == Y
    found = run(net, {"x": x})[0]
    assert found.dtype == np.int16
    assert np.ptp(found) > 10
    assert np.abs(found - expected).max() <= (0 if name != "product" else 1)  # whose weights have too many digits


def test_words_that_are_computed_are_made_floats_too() -> None:
    net = Network()
    other = net.input("z", (5, 3), DType.INT8)
    meaning = Quantization.per_tensor(THEIRS, 0)
    other.quantization, other.info = meaning, other.known_info.with_quantization(meaning)
    net.output(net.add(MatMul(), words(net, 4, 5), other, name="p", quantization=Y).output, "y")
    assert RealWords(floats_first).run(net) == 1
    x, z = np.arange(20, dtype=np.int16).reshape(4, 5) * 100, np.arange(-7, 8, dtype=np.int8).reshape(5, 3)
    found = run(net, {"x": x, "z": z})[0]
    np.testing.assert_allclose(found, (x.astype(np.int64) @ z) * (MINE * THEIRS / RESULT), atol=0.51, rtol=2**-15)


@pytest.mark.parametrize("home", [lambda layer: 0, lambda layer: 1, lambda layer: None])
def test_what_gets_no_better_home_stays(home: Callable[[Layer], int | None]) -> None:
    net = Network()
    net.output(NETWORKS["convolution"](net), "y")
    before = [layer.name for layer in net.layers]
    assert RealWords(home).run(net) == 0
    assert [layer.name for layer in net.layers] == before


def test_weights_that_are_computed_stay() -> None:
    net = Network()
    weights = net.input("w", (3, 2, 2, 2), DType.INT8)
    meaning = Quantization.per_tensor(THEIRS)
    weights.quantization, weights.info = meaning, weights.known_info.with_quantization(meaning)
    x = words(net, 1, 4, 5, 2)
    for kind, name in ((Convolution2d(layout=NHWC), "a"), (TransposeConvolution2d(layout=NHWC), "b")):
        net.output(net.add(kind, x, weights, name=name, quantization=Y).output, f"y{name}")
    assert RealWords(floats_first).run(net) == 0
