"""Check products of two computed matrices of bytes: against NumPy, and CpuRef's bits."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail import DType, Network, Quantization, layers, load

BYTES = [DType.INT8, DType.UINT8]
SHAPES = [
    ((5,), (5,)),
    ((1, 1), (1, 1)),
    ((3, 4), (4,)),
    ((4,), (2, 4, 3)),
    ((7, 33), (33, 17)),
    ((64, 64), (64, 64)),
    ((2, 3, 9, 16), (2, 3, 16, 16)),
    ((3, 9, 16), (16, 40)),
    ((2, 1, 5, 7), (3, 7, 19)),
    ((40, 12), (4, 12, 1)),
    ((2, 5, 0), (2, 0, 3)),
    ((2, 0, 5), (2, 5, 3)),
    ((2, 140_001), (140_001, 2)),
]


def least_of(dtype):
    return int(np.iinfo(dtype.numpy).min)


def elements(dtype, shape, values):
    least = least_of(dtype)
    if values == "any":
        return np.random.default_rng(list(shape)).integers(least, least + 256, shape).astype(dtype.numpy)
    return np.full(shape, least if values == "least" else least + 255, dtype.numpy)


def computed(backend, build, feeds, schemes, **how):
    net = Network("net")
    slots = [net.input(f"x{i}", x.shape, DType.of(x.dtype), s) for i, (x, s) in enumerate(zip(feeds, schemes, strict=True))]
    net.output(build(net, *slots), "y")
    with load(net, backends=[backend], **how) as loaded:
        return loaded.run({f"x{i}": x for i, x in enumerate(feeds)})["y"]


def swapped(shape, transposes):
    return (*shape[:-2], shape[-1], shape[-2]) if transposes and len(shape) > 1 else shape


@pytest.mark.parametrize("dtype", BYTES)
@pytest.mark.parametrize("transposes", [(False, False), (True, False), (False, True), (True, True)], ids=str)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_products(kernels, shapes, transposes, dtype):
    least, depth = least_of(dtype), shapes[0][-1]
    of_a, of_b = Quantization.per_tensor(0.05, least + 3), Quantization.per_tensor(0.03, least + 250)
    of_y = Quantization.per_tensor(float(np.float32(0.0015 * max(depth, 1) ** 0.5)), least + 100)

    def build(net, a, b):
        descriptor = layers.MatMul(transpose_a=transposes[0], transpose_b=transposes[1])
        return net.add(descriptor, a, b, quantization=of_y).output

    for values in ("any", "least", "greatest"):
        feeds = [elements(dtype, swapped(shape, turn), values) for shape, turn in zip(shapes, transposes, strict=True)]
        options = {"CpuAcc": {"isa": kernels.name}}
        found = computed("CpuAcc", build, feeds, (of_a, of_b), options=options, threads=2)
        np.testing.assert_array_equal(found, computed("CpuRef", build, feeds, (of_a, of_b), threads=1))
        whole = [np.swapaxes(x, -1, -2) if t and x.ndim > 1 else x for x, t in zip(feeds, transposes, strict=True)]
        sums = np.matmul(*(x.astype(np.int64) - s.zero_point[0] for x, s in zip(whole, (of_a, of_b), strict=True)))
        if np.abs(sums).max(initial=0) < 2**31:
            wanted = np.clip(sums * (0.05 * 0.03) / of_y.scale[0] + of_y.zero_point[0], least, least + 255)
            assert np.abs(found - wanted).max(initial=0) <= 0.501


@pytest.mark.parametrize("scale", [1e-9, 1e-3, 0.9, 1.0, 300.0, 3e4])
def test_factors_of_any_size(kernels, scale):
    feeds = [elements(DType.INT8, (6, 21), "any"), elements(DType.INT8, (21, 18), "any")]
    schemes = [Quantization.per_tensor(scale, 1), Quantization.per_tensor(0.7, -1)]

    def build(net, a, b):
        return net.add(layers.MatMul(), a, b, quantization=Quantization.per_tensor(0.5, 3)).output

    found = computed("CpuAcc", build, feeds, schemes, options={"CpuAcc": {"isa": kernels.name}}, threads=1)
    np.testing.assert_array_equal(found, computed("CpuRef", build, feeds, schemes, threads=1))
