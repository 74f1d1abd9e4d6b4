"""Quantized layers whose scales are as far apart as float32 lets them be: they saturate, or vanish.

What is expected is worked out of real numbers in float64. Roundings of fixed point and of float32
may go the other way next to a tie, hence one step of tolerance; what wraps or depends on how a
processor converts is off by far more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest

import dovetail
from dovetail import Descriptor, DType, Network, Quantization
from dovetail.graph.layer import OutputSlot
from dovetail.layers import (
    Activation,
    Concat,
    Convolution2d,
    DepthwiseConvolution2d,
    ElementwiseBinary,
    FullyConnected,
    MatMul,
    Prelu,
    Quantize,
    Reduce,
    Softmax,
    TransposeConvolution2d,
)

Reals = np.ndarray[Any, np.dtype[np.float64]]
BACKENDS = ("CpuRef", "CpuAcc")
TINY, LEAST, SMALL, LARGE = 1e-45, 1.2e-38, 1e-38, 1e38
"""The smallest subnormal float32, about the smallest normal one, and what is near to both ends."""
SCALES = (TINY, LEAST, 1e-20, 2.0**-31, 1.0, 2.0**14, 2.0**31, 1e20, LARGE, float(np.finfo(np.float32).max))
FEW = (TINY, SMALL, 1.0, LARGE)
ZEROS = {"int8": (0, -128, 127), "uint8": (0, 128, 255), "int16": (0,)}


class Made(NamedTuple):
    """A layer under test: how it is built, what it gives of real numbers, how coarse it may be."""

    build: Callable[[Network, OutputSlot, Quantization], OutputSlot]
    real: Callable[[Reals], Reals]
    coarse: float = 0.0


def float32(scale: float) -> float:
    return float(np.float32(scale))


def quantized(real: Reals, scale: float, zero: int, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    with np.errstate(all="ignore"):
        steps = real / scale
    whole = np.copysign(np.floor(np.abs(steps) + 0.5), steps)
    limits = np.iinfo(dtype)
    return np.clip(np.where(np.isnan(whole), 0, whole) + zero, limits.min, limits.max).astype(dtype)


def results(made: Made, x: np.ndarray[Any, Any], mine: Quantization, theirs: Quantization, name: str) -> np.ndarray[Any, Any]:
    network = Network("extreme")
    network.output(made.build(network, network.input("x", x.shape, DType.of(x.dtype), mine), theirs), "y")
    with dovetail.load(network, name, fallback=False) as net:
        return net.run({"x": x})["y"]


def backends_for(*names: str) -> Iterable[str]:
    installed = {row.id for row in dovetail.backends() if row.state.is_ready}
    return [name for name in names if name in installed]


def reals(x: np.ndarray[Any, Any], by: Quantization) -> Reals:
    return (x.astype(np.float64) - by.zero_point[0]) * by.scale[0]


def weighted(
    kind: Callable[[], Descriptor], values: np.ndarray[Any, Any], scale: float, run: Callable[[Reals, Reals], Reals]
) -> Made:
    by = Quantization.per_tensor(float32(scale), 0 if values.dtype != np.uint8 else 128)

    def build(network: Network, x: OutputSlot, theirs: Quantization) -> OutputSlot:
        weights = network.constant(values, quantization=by)
        return network.add(kind(), x, weights, quantization=theirs).output

    return Made(build, lambda real: run(real, reals(values, by)))


def image(dtype: str) -> np.ndarray[Any, Any]:
    limits = np.iinfo(dtype)
    edges = [limits.min, limits.min + 1, -1 % 256 if dtype == "uint8" else -1, 0, 1, limits.max - 1, limits.max]
    few = [*edges, *np.random.default_rng(3).integers(limits.min, limits.max, 25)]
    return np.array(few, dtype).reshape(1, 2, 2, 8)


def filters(dtype: str) -> np.ndarray[Any, Any]:
    """Filters [5, 1, 1, 8]."""
    luck = np.random.default_rng(4)
    return (
        luck.integers(0, 255, (5, 1, 1, 8), np.uint8) if dtype == "uint8" else luck.integers(-127, 127, (5, 1, 1, 8), np.int8)
    )


def one_layer(kind: Callable[[], Descriptor], function: Callable[[Reals], Reals], reads: int = 1) -> Made:
    def build(network: Network, x: OutputSlot, theirs: Quantization) -> OutputSlot:
        return network.add(kind(), *[x] * reads, quantization=theirs).output

    return Made(build, function)


def activation(name: str, function: Callable[[Reals], Reals], **attributes: Any) -> Made:
    return one_layer(lambda: Activation(function=name, **attributes), function)


def both(operation: str, other: np.ndarray[Any, Any], scale: float, function: Callable[[Reals, Reals], Reals]) -> Made:
    """TensorFlow Lite adds in fixed point, in 2^20ths of twice the greater scale."""
    made = weighted(lambda: ElementwiseBinary(operation=operation), other, scale, function)
    return made if operation == "mul" else Made(made.build, made.real, float32(scale))


def layers(dtype: str) -> dict[str, Callable[[float], Made]]:
    """Layers by name, of the scale of their weights, or of their other operand."""
    values, other = filters(dtype), image(dtype)[:, ::-1]
    last = {"layout": "NHWC"}
    found: dict[str, Callable[[float], Made]] = {
        "convolution": lambda scale: weighted(lambda: Convolution2d(**last), values, scale, lambda x, w: x @ w[:, 0, 0].T),
        "depthwise": lambda scale: weighted(lambda: DepthwiseConvolution2d(**last), values[:1], scale, lambda x, w: x * w[0]),
        "transposed": lambda scale: weighted(
            lambda: TransposeConvolution2d(**last), values, scale, lambda x, w: x @ w[:, 0, 0].T
        ),
        "fully connected": lambda scale: weighted(FullyConnected, values[:, 0, 0], scale, lambda x, w: x @ w.T),
    }
    if dtype != "int16":
        found |= {
            "joined": lambda scale: one_layer(lambda: Concat(axis=0), lambda x: np.concatenate([x, x]), reads=2),
            "mean": lambda scale: one_layer(
                lambda: Reduce(function="mean", axes=(1, 2)), lambda x: x.mean((1, 2), keepdims=True)
            ),
            "sum": lambda scale: one_layer(lambda: Reduce(function="sum", axes=(1, 2)), lambda x: x.sum((1, 2), keepdims=True)),
            "maximum": lambda scale: one_layer(
                lambda: Reduce(function="max", axes=(1, 2)), lambda x: x.max((1, 2), keepdims=True)
            ),
            "product": lambda scale: one_layer(lambda: MatMul(transpose_b=True), lambda x: x @ x.swapaxes(-1, -2), reads=2),
            "multiplication": lambda scale: both("mul", other, scale, np.multiply),
            "addition": lambda scale: both("add", other, scale, np.add),
            "subtraction": lambda scale: both("sub", other, scale, np.subtract),
            "prelu": lambda scale: weighted(Prelu, other, scale, lambda x, w: np.where(x >= 0, x, x * w)),
            "relu": lambda scale: activation("relu", lambda x: np.maximum(x, 0)),
            "clamp": lambda scale: activation("bounded_relu", lambda x: np.clip(x, -scale, scale), alpha=scale, beta=-scale),
            "leaky": lambda scale: activation("leaky_relu", lambda x: np.where(x < 0, x * scale, x), alpha=scale),
            "tanh": lambda scale: activation("tanh", np.tanh),
            "sigmoid": lambda scale: activation("sigmoid", lambda x: 1 / (1 + np.exp(-np.clip(x, -700, 700)))),
        }
    return found


def check(name: str, made: Made, x: np.ndarray[Any, Any], mine: Quantization, theirs: Quantization, steps: int = 1) -> None:
    real = made.real(reals(x, mine))
    coarse = made.coarse + mine.scale[0] * (made.coarse > 0)
    least, most = (
        quantized(real + side * 2.0**-17 * coarse, theirs.scale[0], theirs.zero_point[0], x.dtype).astype(np.int64).ravel()
        for side in (-1, 1)
    )
    found = {one: results(made, x, mine, theirs, one).astype(np.int64).ravel() for one in backends_for(*BACKENDS)}
    assert found
    for backend, got in found.items():
        wrong = (got < least - steps) | (got > most + steps)
        assert not wrong.any(), f"{backend}, {name}: {mine} to {theirs}: {got[wrong]}, expected {least[wrong]} to {most[wrong]}"


CASES = [(dtype, name) for dtype in ZEROS for name in layers(dtype)]


@pytest.mark.parametrize(("dtype", "name"), CASES)
def test_layers_saturate(dtype: str, name: str) -> None:
    x, make = image(dtype), layers(dtype)[name]
    luck = np.random.default_rng(5)
    for mine, weights, theirs in [*product(FEW, FEW, FEW), *luck.choice(SCALES, (40, 3)).tolist()]:
        zeros = luck.choice(ZEROS[dtype], 2).tolist()
        made = make(weights)
        check(name, made, x, *(Quantization.per_tensor(float32(s), z) for s, z in zip((mine, theirs), zeros, strict=True)))


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("beta", [1.0, -1.0])
def test_softmax_is_one_of_many_or_the_same_for_all(dtype: str, beta: float) -> None:
    """Its result has the scale that TensorFlow Lite asks for, or any."""

    def shares(x: Reals) -> Reals:
        with np.errstate(all="ignore"):
            powers = np.exp(beta * x - (beta * x).max(-1, keepdims=True))
        return powers / powers.sum(-1, keepdims=True)

    limits = np.iinfo(dtype)
    x, made = image(dtype), one_layer(lambda: Softmax(axis=-1, beta=beta), shares)
    for mine, theirs in product(SCALES, (1 / 256, 2.0**-20, 1.0, LARGE)):
        for zero in (limits.min, limits.max) if theirs != 1 / 256 else (limits.min,):
            check(
                "softmax",
                made,
                x,
                Quantization.per_tensor(float32(mine), 0),
                Quantization.per_tensor(float32(theirs), int(zero)),
            )


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32"])
def test_reals_are_quantized_as_onnx_says(dtype: str) -> None:
    """round(x / scale) + zero point in float32, saturated, NaN at the zero point: to the bit."""
    ends = [TINY, SMALL, 1e-20, 0.5, 1.0, 1.5, 2.5, 127.5, 128.0, 65535.0, 1e20, LARGE, 3.4e38, np.inf]
    x = np.array([*ends, 0.0, *(-end for end in ends), np.nan], np.float32)
    limits = np.iinfo(dtype)
    for scale, zero in product(SCALES, (0, limits.min, limits.max)):
        by = Quantization.per_tensor(float32(scale), int(zero))
        with np.errstate(all="ignore"):
            steps = np.rint(x / np.float32(scale)).astype(np.float64)
        wanted = np.clip(np.where(np.isnan(steps), 0, steps) + zero, limits.min, limits.max).astype(dtype)
        for name in backends_for(*BACKENDS):
            network = Network("quantized")
            network.output(
                network.add(Quantize(dtype=DType.of(np.dtype(dtype)), quantization=by), network.input("x", x.shape)).output, "y"
            )
            with dovetail.load(network, list(dict.fromkeys([name, "CpuRef"]))) as net:
                np.testing.assert_array_equal(net.run({"x": x})["y"], wanted, f"{name}, {by}")
