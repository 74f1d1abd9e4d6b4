"""Resize against a dense, one-matrix-per-axis transcription of the formulas of ONNX Resize-19."""

from __future__ import annotations

import itertools
from fractions import Fraction
from math import ceil, floor

import numpy as np
import pytest

from dovetail import DType
from dovetail.layers import CoordinateMode, NearestRounding, Resize, ResizeMethod

LABELS = [d.label for d in DType]
COORDINATES, ROUNDINGS = list(CoordinateMode), list(NearestRounding)


def position(mode, i, size, wanted, scale):
    """Exact position of output i; the specification's x_original."""
    size, wanted, scale = Fraction(size), Fraction(wanted), Fraction(scale)
    if mode == "align_corners":
        return i * (size - 1) / (wanted - 1) if wanted > 1 else Fraction(0)
    if mode == "asymmetric":
        return i / scale
    if mode == "pytorch_half_pixel" and wanted == 1:
        return Fraction(0)
    x = (i + Fraction(1, 2)) / scale - Fraction(1, 2)
    if mode == "half_pixel_symmetric":
        x += size / 2 * (1 - wanted / (scale * size))
    return x


def keys(d, a):
    d = abs(d)
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


def matrix(d: Resize, size: int, wanted: int, scale) -> np.ndarray:
    """[wanted, size]: what each output position takes of each input position."""
    result = np.zeros((wanted, size))
    for i in range(wanted):
        x = position(d.coordinates, i, size, wanted, scale)
        if d.method == "nearest":
            chosen = {
                "floor": floor(x),
                "ceil": ceil(x),
                "round_prefer_floor": ceil(x - Fraction(1, 2)),
                "round_prefer_ceil": floor(x + Fraction(1, 2)),
            }[d.rounding]
            result[i, min(max(chosen, 0), size - 1)] = 1
            continue
        stretch = min(float(scale), 1.0) if d.antialias else 1.0
        reach = ceil(2 / stretch) + 1
        weights = {}
        for j in range(floor(x) - reach, floor(x) + reach + 1):
            distance = float(j - x) * stretch
            weights[j] = max(0.0, 1 - abs(distance)) if d.method == "linear" else keys(distance, d.cubic_coefficient)
            if d.exclude_outside and not 0 <= j < size:
                weights[j] = 0.0
        total = sum(weights.values())
        for j, weight in weights.items():
            result[i, min(max(j, 0), size - 1)] += weight / total
    return result


def resized(d: Resize, x: np.ndarray, sizes, scales) -> np.ndarray:
    y = x.astype(np.float64)
    for axis, (size, wanted, scale) in enumerate(zip(x.shape, sizes, scales, strict=True)):
        if size != wanted or scale != 1:
            y = np.moveaxis(np.tensordot(matrix(d, size, wanted, scale), y, (1, axis)), 0, axis)
    return y


def check(run_layer, samples, x, wanted, tolerance=1e-12, **attributes):
    d = Resize(sizes=tuple(wanted), **attributes)
    [y] = run_layer(lambda net, a: net.add(d, a).output, x)
    ratios = [Fraction(w, s) if s else 1 for w, s in zip(wanted, x.shape, strict=True)]
    # A scale that is the ratio of the sizes, as far as a double tells, is meant to be it.
    scales = [r if g == float(r) else Fraction(g) for g, r in zip(d.scales or ratios, ratios, strict=True)]
    exact = resized(d, x, wanted, scales)
    if d.method == "nearest":
        samples.same_bits(y, exact.astype(x.dtype))
    elif x.dtype == np.float64:
        np.testing.assert_allclose(y, exact, rtol=0, atol=tolerance * 10)
    else:
        samples.rounded_equal(y, exact)
    return y


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("coordinates", COORDINATES)
def test_nearest(run_layer, samples, coordinates, rounding):
    for wanted in itertools.product([1, 3, 4, 5, 8, 12], [1, 2, 6, 7, 9]):
        x = samples.small("int32", (4, 6), maximum=100)
        check(run_layer, samples, x, wanted, method=ResizeMethod.NEAREST, coordinates=coordinates, rounding=rounding)


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("exclude_outside", [False, True])
@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("method", [ResizeMethod.LINEAR, ResizeMethod.CUBIC])
def test_interpolation(run_layer, samples, method, coordinates, exclude_outside, antialias):
    for wanted in [(2, 3, 9, 10), (2, 3, 2, 3), (2, 3, 5, 1), (1, 5, 5, 14), (3, 1, 11, 7)]:
        x = samples.array("float64", (2, 3, 5, 7), scale=1.0)
        check(
            run_layer, samples, x, wanted,
            method=method, coordinates=coordinates, exclude_outside=exclude_outside, antialias=antialias,
        )  # fmt: skip


@pytest.mark.parametrize("method", [ResizeMethod.LINEAR, ResizeMethod.CUBIC, ResizeMethod.NEAREST])
@pytest.mark.parametrize("coordinates", [c for c in COORDINATES if c != "align_corners"])
@pytest.mark.parametrize("scales", [(0.6, 1.7), (2.5, 0.4), (1.3, 3.3), (1.0, 0.9)])
def test_given_scales_set_the_positions(run_layer, samples, method, coordinates, scales):
    x = samples.small("float64", (6, 10), maximum=50)
    wanted = [floor(n * s) for n, s in zip(x.shape, scales, strict=True)]
    check(run_layer, samples, x, wanted, scales=scales, method=method, coordinates=coordinates, tolerance=1e-10)


def test_positions_that_should_be_whole_are(run_layer, samples):
    """i / (wanted / size), in double, falls just below some whole positions."""
    for size in range(1, 30):
        x = np.arange(size, dtype=np.int32)
        for wanted in range(1, 60):
            for coordinates in ("asymmetric", "half_pixel"):
                check(run_layer, samples, x, (wanted,), coordinates=CoordinateMode(coordinates), rounding=NearestRounding.FLOOR)


@pytest.mark.parametrize("coefficient", [-0.5, -0.75, -1.0])
def test_cubic_coefficient(run_layer, samples, coefficient):
    x = samples.array("float64", (1, 1, 6, 5))
    check(run_layer, samples, x, (1, 1, 10, 4), method=ResizeMethod.CUBIC, cubic_coefficient=coefficient)


@pytest.mark.parametrize("label", LABELS)
def test_nearest_of_every_type(run_layer, samples, label):
    x = samples.array(label, (3, 4))
    [y] = run_layer(lambda net, a: net.resize(a, (6, 8), method="nearest", coordinates="asymmetric", rounding="floor"), x)
    samples.same_bits(y, x.repeat(2, 0).repeat(2, 1))


@pytest.mark.parametrize("label", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("method", [ResizeMethod.LINEAR, ResizeMethod.CUBIC])
def test_narrow_floats_are_rounded_once(run_layer, samples, label, method):
    check(run_layer, samples, samples.array(label, (2, 5, 300)), (3, 9, 170), method=method)


@pytest.mark.parametrize("label", ["int8", "uint8", "int16", "uint16", "int32", "uint32"])
@pytest.mark.parametrize("method", [ResizeMethod.LINEAR, ResizeMethod.CUBIC])
def test_integers_are_rounded_and_clamped(run_layer, samples, label, method):
    x, limits = samples.array(label, (7, 9)), np.iinfo(label)
    d = Resize(sizes=(16, 23), method=method)
    [y] = run_layer(lambda net, a: net.add(d, a).output, x)
    exact = np.clip(resized(d, x, d.sizes, (Fraction(16, 7), Fraction(23, 9))), limits.min, limits.max)
    assert np.abs(y - exact).max() <= 0.5 + 1e-5


@pytest.mark.parametrize(
    ("shape", "wanted"), [((), ()), ((0, 3), (0, 6)), ((2, 3), (0, 3)), ((1,), (5,)), ((2, 2, 2, 2, 2), (1, 3, 2, 4, 2))]
)
@pytest.mark.parametrize("method", list(ResizeMethod))
def test_odd_shapes(run_layer, samples, shape, wanted, method):
    x = samples.small("float64", shape)
    [y] = run_layer(lambda net, a: net.resize(a, wanted, method=method), x)
    assert y.shape == wanted
    if y.size:
        check(run_layer, samples, x, wanted, method=method)


def test_the_same_size_is_a_view(run_layer):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert np.array_equal(run_layer(lambda net, a: net.resize(a, (2, 3)), x, in_place=0)[0], x)


@pytest.mark.parametrize("method", list(ResizeMethod))
def test_cancelled(run_layer, direct, method):
    with pytest.raises(direct.Cancelled):
        run_layer(lambda net, a: net.resize(a, (400, 400), method=method), np.zeros((200, 200), np.float32), cancel=True)
