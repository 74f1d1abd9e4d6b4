"""Check softmax of bytes against its definition, and against CpuRef bit by bit."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail import DType, Network, Quantization, layers, load

BYTES = [DType.INT8, DType.UINT8]
SHAPES = [
    ((1,), 0),
    ((3, 10), -1),
    ((3, 4, 5, 6), 1),
    ((3, 4, 5, 6), 2),
    ((2, 300, 3), 1),
    ((5, 319), 1),
    ((5, 320), 1),
    ((2, 1025), -1),
    ((300_000,), 0),
    ((2, 0, 3), 0),
    ((0, 3), -1),
]
SCALES = {  # of x and of the result, whose zero point is so far from the least integer
    "as TensorFlow Lite has it": (0.1, 1 / 256, 0),
    "nearly flat": (1e-4, 1 / 256, 0),
    "too flat for fixed point": (1e-30, 1 / 256, 0),
    "steep": (3.0, 1 / 256, 0),
    "other zero point": (0.1, 1 / 256, 1),
    "other scale": (0.1, 0.0039, 7),
    "all clamped": (0.1, 1e-9, 3),  # beyond what exponentials in multiples of 2^-30 can tell
    "too coarse": (0.1, 10.0, 100),
}


def least_of(dtype):
    return int(np.iinfo(dtype.numpy).min)


def elements(dtype, shape, values):
    rng, least = np.random.default_rng(len(shape)), least_of(dtype)
    if values == "any":
        return rng.integers(least, least + 256, shape).astype(dtype.numpy)
    return np.full(shape, least if values == "least" else least + 255, dtype.numpy)


def computed(backend, x, axis, beta, schemes, **how):
    net = Network("net")
    slot = net.input("x", x.shape, DType.of(x.dtype), schemes[0])
    net.output(net.add(layers.Softmax(axis=axis, beta=beta), slot, quantization=schemes[1]).output, "y")
    with load(net, backends=[backend], **how) as loaded:
        return loaded.run({"x": x})["y"]


@pytest.mark.parametrize("dtype", BYTES)
@pytest.mark.parametrize("scales", SCALES)
@pytest.mark.parametrize(("shape", "axis"), SHAPES, ids=str)
def test_bits_are_those_of_the_reference(kernels, shape, axis, scales, dtype):
    least, (scale, step, above) = least_of(dtype), SCALES[scales]
    beta = 1.0 if dtype is DType.INT8 else -0.7
    schemes = Quantization.per_tensor(scale, least + 100), Quantization.per_tensor(step, least + above)
    for values in ("any", "greatest"):
        x = elements(dtype, shape, values)
        found = computed("CpuAcc", x, axis, beta, schemes, options={"CpuAcc": {"isa": kernels.name}}, threads=2)
        np.testing.assert_array_equal(found, computed("CpuRef", x, axis, beta, schemes, threads=1))


@pytest.mark.parametrize("dtype", BYTES)
@pytest.mark.parametrize("scales", [name for name in SCALES if name not in ("too flat for fixed point", "all clamped")])
def test_within_a_step_of_the_definition(run_layer, scales, dtype):
    least, (scale, step, above) = least_of(dtype), SCALES[scales]
    x = elements(dtype, (7, 90), "any")
    theirs = Quantization.per_tensor(step, least + above)

    def build(net, slot):
        return net.add(layers.Softmax(), slot, quantization=theirs).output

    [found] = run_layer(build, x, quantizations=[Quantization.per_tensor(scale, least + 100)])
    powers = np.exp(scale * (x.astype(np.float64) - x.max(-1, keepdims=True)))
    wanted = np.clip(powers / powers.sum(-1, keepdims=True) / step + least + above, least, least + 255)
    assert np.abs(found - wanted).max() <= (1.0 if (step, above) == (1 / 256, 0) else 0.501)
