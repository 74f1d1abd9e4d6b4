"""Products of 16-bit words: the same bits on CpuRef and CpuAcc, or floats there, a step apart."""

from __future__ import annotations

import numpy as np
import pytest

import dovetail
from dovetail import DataLayout, DType, Network, Quantization
from dovetail.layers import Convolution2d, DepthwiseConvolution2d, FullyConnected, MatMul, TransposeConvolution2d

X, Y, W = Quantization.per_tensor(0.0003), Quantization.per_tensor(0.01), Quantization.per_tensor(0.006)
SHAPES = {
    Convolution2d: (8, 3, 3, 6),
    DepthwiseConvolution2d: (1, 3, 3, 6),
    FullyConnected: (8, 6),
    TransposeConvolution2d: (8, 3, 3, 6),
}


def network(kind: type) -> tuple[Network, np.ndarray]:
    """Make a network of one product, and what to feed it."""
    random, net = np.random.default_rng(8), Network()
    shape = (3, 20, 30) if kind is MatMul else (1, 14, 15, 6)
    x = net.input("x", shape, DType.INT16)
    x.quantization, x.info = X, x.known_info.with_quantization(X)
    values = random.integers(-32768, 32768, shape).astype(np.int16)
    if kind is MatMul:
        other = net.constant(random.integers(-127, 128, (3, 30, 9)).astype(np.int8), quantization=W)
        result = net.add(MatMul(), x, other, name="product", quantization=Y)
    else:
        weights = net.constant(random.integers(-127, 128, SHAPES[kind]).astype(np.int8), quantization=W)
        count = SHAPES[kind][3 if kind is DepthwiseConvolution2d else 0]
        bias = net.constant(random.integers(-5000, 5000, count), quantization=Quantization.per_tensor(0.0003 * 0.006))
        layout = {} if kind is FullyConnected else {"layout": DataLayout.NHWC}
        result = net.add(kind(**layout), x, weights, bias, name="product", quantization=Y)
    net.output(result.output, "y")
    return net, values


@pytest.mark.parametrize("kind", [*SHAPES, MatMul])
def test_the_backend_of_preference_multiplies(kind: type) -> None:
    made, values = network(kind)
    found = {}
    for backends in (["CpuRef"], ["CpuAcc", "CpuRef"]):
        with dovetail.load(made, backends) as net:
            found[backends[0]] = net.run({"x": values})["y"].astype(np.int64)
            homes = {row.backend for row in net.placement.layers}
            assert homes == {backends[0]}
            in_floats = kind is MatMul and backends[0] == "CpuAcc"
            assert dict(net.placement.passes).get("real_words", 0) == in_floats
    steps = np.abs(found["CpuRef"] - found["CpuAcc"])
    assert np.ptp(found["CpuRef"]) > 1000
    if kind is MatMul:
        assert steps.max() <= 1
        assert np.mean(steps > 0) < 0.01  # sums of float32 have 24 bits, results 16
    else:
        assert steps.max() == 0
