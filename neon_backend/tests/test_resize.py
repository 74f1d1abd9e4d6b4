"""Check resized images against a spelled-out interpolation, on each instruction set."""

from __future__ import annotations

import math

import numpy as np
import pytest

import dovetail
from dovetail import Network
from dovetail.layers import Resize, ResizeMethod
from dovetail_neon.kernels import instruction_sets
from dovetail_neon.resizing.taps import taps

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


def taps_by_hand(descriptor, size, wanted, scale):
    """One result after the other, as ONNX's reference code has it."""
    found = []
    for i in range(wanted):
        x = (i + 0.5) / scale - 0.5
        stretch = min(scale, 1.0) if descriptor.antialias else 1.0
        reach = (1 if descriptor.method is ResizeMethod.LINEAR else 2) / stretch
        weights = {}
        for position in range(math.floor(x - reach) + 1, math.ceil(x + reach)):
            if descriptor.exclude_outside and not 0 <= position < size:
                continue
            d, a = abs(position - x) * stretch, descriptor.cubic_coefficient
            cubic = (
                ((a + 2) * d - (a + 3)) * d * d + 1 if d <= 1 else ((a * d - 5 * a) * d + 8 * a) * d - 4 * a if d < 2 else 0.0
            )
            inside = min(max(position, 0), size - 1)
            weights[inside] = weights.get(inside, 0.0) + (
                max(1.0 - d, 0.0) if descriptor.method is ResizeMethod.LINEAR else cubic
            )
        total = sum(weights.values()) if descriptor.antialias or descriptor.exclude_outside else 1.0
        found.append({position: weight / total for position, weight in weights.items()})
    return found


@pytest.mark.parametrize("method", [ResizeMethod.LINEAR, ResizeMethod.CUBIC])
@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("excludes", [False, True])
@pytest.mark.parametrize(("size", "wanted", "scale"), [(7, 3, 0.5), (3, 10, 3.4), (1, 4, 4.5), (50, 1, 0.03), (9, 8, 0.95)])
def test_tables_of_taps(method, antialias, excludes, size, wanted, scale):
    descriptor = Resize(method=method, antialias=antialias, exclude_outside=excludes, scales=(1.0, 1.0, scale, scale))
    table = taps(descriptor, size, wanted, scale)
    expected = taps_by_hand(descriptor, size, wanted, scale)
    assert table.first[0] == 0
    assert len(table.first) == wanted + 1
    for i, row in enumerate(expected):
        own = slice(table.first[i], table.first[i + 1])
        assert table.position[own].tolist() == sorted(row)
        np.testing.assert_allclose(table.weight[own], [row[position] for position in sorted(row)], rtol=1e-12, atol=1e-15)
