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


@pytest.mark.parametrize("theirs", [(0.01, 0), (0.02, 5)])
def test_words_and_scales(theirs: tuple[float, int]) -> None:
    mine = (0.01, 0)
    x = np.random.default_rng(2).integers(-9000, 9000, (1, 3, 3, 2)).astype(np.int16)
    sizes = constant(np.asarray([5, 6], np.int32))
    (found,) = run("RESIZE_BILINEAR", [Held(x, mine), sizes], [Stated(np.int16, (1, 5, 6, 2), theirs)], {}, version=4)
    assert steps_apart(found, bilinear(bilinear(real(x, mine), 5, 1), 6, 2), theirs) <= 0.51


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
