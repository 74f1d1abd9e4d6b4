"""Resizing: sizes known or not, types and scales; against formulas."""

from __future__ import annotations

import numpy as np
import pytest
from one_operator import Held, Stated, constant, made, real, run, steps_apart

from dovetail import DovetailError, ModelError
from dovetail_tflite import parse


def bilinear(x: np.ndarray, size: int, axis: int) -> np.ndarray:
    """Interpolate along an axis, in float64: positions are multiples of the ratio of the sizes."""
    old = x.shape[axis]
    at = np.arange(size) * old / size
    first = np.floor(at).astype(int)
    shape = [1] * x.ndim
    shape[axis] = -1
    rest = (at - first).reshape(shape)
    return x.take(first, axis) * (1 - rest) + x.take(np.minimum(first + 1, old - 1), axis) * rest


@pytest.mark.parametrize("is_constant", [True, False])
def test_sizes(is_constant: bool) -> None:
    x = np.random.default_rng(1).uniform(-1, 1, (2, 3, 5, 2)).astype(np.float32)
    sizes = Held(np.asarray([7, 4], np.int32), constant=is_constant)
    (found,) = run("RESIZE_BILINEAR", [x, sizes], [Stated(np.float32, (2, 7, 4, 2))], {})
    np.testing.assert_allclose(found, bilinear(bilinear(x.astype(np.float64), 7, 1), 4, 2), rtol=1e-5, atol=1e-6)


_MODES = {"corner": {}, "corners": {"align_corners": True}, "centers": {"half_pixel_centers": True}}
"""Options by what of two images lies on each other."""


def nearest_in_float32(mode: str, size: int, wanted: int) -> np.ndarray:
    """Return the positions that TensorFlow Lite takes: each operation is rounded to float32."""
    aligned = mode == "corners" and wanted > 1
    step = np.float32(size - aligned) / np.float32(wanted - aligned)
    at = (np.arange(wanted, dtype=np.float32) + np.float32(0.5 if mode == "centers" else 0)) * step
    assert at.dtype == np.float32
    return np.minimum(np.floor(at + np.float32(0.5)) if mode == "corners" else np.floor(at), size - 1).astype(int)


@pytest.mark.parametrize("mode", _MODES)
def test_nearest_pixels_are_those_of_float32(mode: str) -> None:
    """Some positions that should be whole lie below it in float32: the pixel before is taken."""
    others = 0
    for size, wanted in [(3, 5), (2, 41), (6, 37), (8, 47), (14, 46), (26, 22), (32, 15), (39, 33), (36, 61), (5, 1)]:
        x = np.arange(size, dtype=np.float32).reshape(1, 1, size, 1)
        sizes = constant(np.asarray([1, wanted], np.int32))
        (found,) = run("RESIZE_NEAREST_NEIGHBOR", [x, sizes], [Stated(np.float32, (1, 1, wanted, 1))], _MODES[mode], version=3)
        expected = nearest_in_float32(mode, size, wanted)
        np.testing.assert_array_equal(found.reshape(-1), expected)
        exact = [((2 * i + (mode == "centers")) * size) // (2 * wanted) for i in range(wanted)]
        if mode == "corners" and wanted > 1:
            exact = [(2 * i * (size - 1) + wanted - 1) // (2 * (wanted - 1)) for i in range(wanted)]
        others += (expected != exact).sum()
    assert others > 0


def interpolated_in_1024ths(mode: str, x: np.ndarray, height: int, width: int) -> np.ndarray:
    """Interpolate integers as TensorFlow Lite does, in integers alone: ties go away from zero."""

    def places(size: int, wanted: int) -> list[tuple[int, int, int]]:
        aligned = mode == "corners" and wanted > 1
        step = (1024 * (size - aligned) + (wanted - aligned) // 2) // (wanted - aligned)
        found = []
        for i in range(wanted):
            at = i * step + (step // 2 - 512 if mode == "centers" else 0)
            low = max(at // 1024, 0)
            found.append((low, min(-(-at // 1024), size - 1), at - 1024 * low))
        return found

    result = np.zeros((1, height, width, x.shape[3]), x.dtype)
    for i, (top, bottom, down) in enumerate(places(x.shape[1], height)):
        for j, (left, right, across) in enumerate(places(x.shape[2], width)):
            for channel in range(x.shape[3]):
                corners = [[int(x[0, a, b, channel]) for b in (left, right)] for a in (top, bottom)]
                rows = [one[0] * (1024 - across) + one[1] * across for one in corners]
                total = rows[0] * (1024 - down) + rows[1] * down
                away = (abs(total) + (1 << 19)) >> 20
                result[0, i, j, channel] = away if total >= 0 else -away
    return result


@pytest.mark.parametrize("mode", _MODES)
@pytest.mark.parametrize("dtype", [np.int8, np.int16])
def test_integers_are_interpolated_in_1024ths(mode: str, dtype: type[np.integer]) -> None:
    random, (low, high) = np.random.default_rng(4), (np.iinfo(dtype).min, np.iinfo(dtype).max)
    for height, width, new_height, new_width in [(3, 5, 7, 9), (4, 4, 8, 8), (6, 2, 3, 11), (1, 7, 4, 13)]:
        x = random.integers(low, high, (1, height, width, 3), dtype, endpoint=True)
        x[0, 0, :2] = [[low, 1, -1], [high, 2, -2]]  # whose middles are ties
        sizes, quantization = constant(np.asarray([new_height, new_width], np.int32)), (0.5, 0)
        stated = Stated(dtype, (1, new_height, new_width, 3), quantization)
        (found,) = run("RESIZE_BILINEAR", [Held(x, quantization), sizes], [stated], _MODES[mode], version=4)
        np.testing.assert_array_equal(found, interpolated_in_1024ths(mode, x, new_height, new_width))


@pytest.mark.parametrize("theirs", [(0.01, 0), (0.02, 5)])
def test_words_and_scales(theirs: tuple[float, int]) -> None:
    mine = (0.01, 0)
    x = np.random.default_rng(2).integers(-9000, 9000, (1, 3, 3, 2)).astype(np.int16)
    sizes = constant(np.asarray([5, 6], np.int32))
    (found,) = run("RESIZE_BILINEAR", [Held(x, mine), sizes], [Stated(np.int16, (1, 5, 6, 2), theirs)], {}, version=4)
    # Of one scale, integers are interpolated: a position is off by 1/2048 for each pixel before it.
    most = 0.51 if theirs != mine else 18_000 * 2 * 5 / 2048
    assert steps_apart(found, bilinear(bilinear(real(x, mine), 5, 1), 6, 2), theirs) <= most


@pytest.mark.parametrize("operator", ["RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"])
def test_corners_and_centers(operator: str) -> None:
    options = {"align_corners": True, "half_pixel_centers": True}
    sources = [np.ones((1, 2, 2, 1), np.float32), constant(np.asarray([4, 4], np.int32))]
    data, _ = made(operator, sources, [Stated(np.float32, (1, 4, 4, 1))], options, version=3)
    with pytest.raises(ModelError, match="corners"):
        parse(data)


@pytest.mark.parametrize("sizes", [[-1, 4], [4], [4, 4, 4], [2**31 - 1, 2**31 - 1]])
def test_hostile_sizes(sizes: list[int]) -> None:
    sources = [np.ones((1, 2, 2, 1), np.float32), constant(np.asarray(sizes, np.int32))]
    data, _ = made("RESIZE_NEAREST_NEIGHBOR", sources, [Stated(np.float32, (1, 4, 4, 1))], {})
    with pytest.raises(DovetailError):
        parse(data)
