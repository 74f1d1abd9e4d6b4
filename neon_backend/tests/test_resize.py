"""Resized images, against an interpolation that is spelled out, in every instruction set that is here."""

from __future__ import annotations

import numpy as np
import pytest

import dovetail
from dovetail.network import Network
from dovetail_neon.kernels import instruction_sets

ISAS = [name for name, here in instruction_sets().items() if here]


def resized(isa, x, sizes, *, threads=2, **how):
    net = Network()
    net.output(net.resize(net.input("x", x.shape), sizes, **how), "y")
    with dovetail.load(net, ["CpuAcc"], threads=threads, fallback=False, options={"CpuAcc": {"isa": isa}}) as loaded:
        return np.array(loaded.run({"x": x})["y"])


def numbers(*shape):
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


def linear(x, axis, wanted):
    """Half-pixel positions in float64."""
    size = x.shape[axis]
    at = np.clip((np.arange(wanted) + 0.5) * size / wanted - 0.5, 0, size - 1)
    low = np.floor(at).astype(int)
    rest = (at - low).reshape([-1 if i == axis else 1 for i in range(x.ndim)])
    return x.take(low, axis) * (1 - rest) + x.take(np.minimum(low + 1, size - 1), axis) * rest


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("channels", [1, 3, 16, 37])
def test_twice_as_large(isa, channels):
    x = numbers(2, channels, 7, 9)
    found = resized(isa, x, (2, channels, 14, 18), method="nearest", coordinates="asymmetric", rounding="floor")
    np.testing.assert_array_equal(found, x.repeat(2, 2).repeat(2, 3))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(("height", "width"), [(13, 5), (3, 21), (8, 11), (1, 1), (40, 40)])
def test_linear(isa, last, height, width):
    x = numbers(2, 8, 11, 20)
    expected = linear(linear(x.astype(np.float64), 2, height), 3, width)
    if last:
        found = resized(isa, np.ascontiguousarray(x.transpose(0, 2, 3, 1)), (2, height, width, 8)).transpose(0, 3, 1, 2)
        expected = linear(linear(x.transpose(0, 2, 3, 1).astype(np.float64), 1, height), 2, width).transpose(0, 3, 1, 2)
    else:
        found = resized(isa, x, (2, 8, height, width))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("isa", ISAS)
def test_infinity_stays_where_it_is(isa):
    x = np.zeros((1, 4, 4, 4), np.float32)
    x[0, 0, 0, 0], x[0, 1, 3, 3] = np.inf, np.nan
    found = resized(isa, x, (1, 4, 7, 7), coordinates="align_corners")
    assert np.isinf(found[0, 0, :2, :2]).all()
    assert np.isfinite(found[0, 0, 2:]).all()
    assert np.isnan(found[0, 1, 5:, 5:]).all()
    assert np.isfinite(found[0, 1, :5]).all()


@pytest.mark.parametrize("isa", ISAS)
def test_threads_change_nothing(isa):
    x = numbers(1, 64, 40, 40)
    one, two = (resized(isa, x, (1, 64, 63, 81), threads=threads) for threads in (1, 2))
    assert one.tobytes() == two.tobytes()
