"""Normalizations against NumPy; LiteRT's reference kernel of the local one is wrong."""

from __future__ import annotations

import numpy as np
import pytest
from one_operator import Held, Stated, made, real, run, steps_apart

from dovetail import DovetailError
from dovetail_tflite import parse


@pytest.mark.parametrize(("dtype", "zero"), [(np.int8, 0), (np.uint8, 128)])
def test_norm_of_bytes(dtype: type, zero: int) -> None:
    mine, theirs = (0.05, zero + 3), (1 / 128, zero)
    x = np.random.default_rng(1).integers(zero - 128, zero + 128, (4, 3, 5)).astype(dtype)
    (found,) = run("L2_NORMALIZATION", [Held(x, mine)], [Stated(dtype, x.shape, theirs)], {}, version=2)
    numbers = real(x, mine)
    assert steps_apart(found, numbers / np.linalg.norm(numbers, axis=-1, keepdims=True), theirs) <= 0.51


def test_norm_of_zeros_fused() -> None:
    x = np.asarray([[0, 0, 0], [3, -4, 0]], np.float32)
    (found,) = run("L2_NORMALIZATION", [x], [Stated(np.float32, x.shape)], {"fused_activation_function": 1})
    np.testing.assert_allclose(found, [[0, 0, 0], [0.6, 0, 0]], rtol=1e-6)


def test_neighbouring_channels() -> None:
    x = np.random.default_rng(2).uniform(-2, 2, (1, 2, 3, 7)).astype(np.float32)
    options = {"radius": 2, "bias": 0.5, "alpha": 0.3, "beta": 0.75}
    (found,) = run("LOCAL_RESPONSE_NORMALIZATION", [x], [Stated(np.float32, x.shape)], options)
    squares = np.pad(x.astype(np.float64) ** 2, [(0, 0)] * 3 + [(2, 2)])
    sums = sum(squares[..., shift : shift + 7] for shift in range(5))
    np.testing.assert_allclose(found, x / (0.5 + 0.3 * sums) ** 0.75, rtol=1e-5)


@pytest.mark.parametrize("radius", [-1, 2**31 - 1])
def test_hostile_radius(radius: int) -> None:
    data, _ = made(
        "LOCAL_RESPONSE_NORMALIZATION",
        [np.ones((1, 1, 1, 3), np.float32)],
        [Stated(np.float32, (1, 1, 1, 3))],
        {"radius": radius},
    )
    with pytest.raises(DovetailError):
        parse(data)
