"""Pooling: fused activations of every type, and scales that differ."""

from __future__ import annotations

import numpy as np
import pytest
from one_operator import Held, Stated, made, real, run, steps_apart

from dovetail import DovetailError, ModelError
from dovetail_tflite import parse

WINDOW = {"padding": 1, "stride_h": 2, "stride_w": 2, "filter_height": 2, "filter_width": 2}


def windows(x: np.ndarray) -> np.ndarray:
    """Return the elements of each window of 2 x 2 along the last axis."""
    n, h, w, c = x.shape
    return x.reshape(n, h // 2, 2, w // 2, 2, c).transpose(0, 1, 3, 5, 2, 4).reshape(n, h // 2, w // 2, c, 4)


@pytest.mark.parametrize("code", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.uint8, np.int16])
@pytest.mark.parametrize("operator", ["MAX_POOL_2D", "AVERAGE_POOL_2D"])
def test_fused(operator: str, dtype: type, code: int) -> None:
    how = (0.1, 128 if dtype is np.uint8 else 0)
    x = np.random.default_rng(4).integers(how[1] - 120, how[1] + 120, (1, 6, 6, 2)).astype(dtype)
    quantization = None if dtype is np.float32 else how
    stated = Stated(dtype, (1, 3, 3, 2), quantization)
    (found,) = run(operator, [Held(x, quantization)], [stated], WINDOW | {"fused_activation_function": code}, version=3)
    numbers = windows(x.astype(np.float64) if quantization is None else real(x, how))
    expected = numbers.max(-1) if operator == "MAX_POOL_2D" else numbers.mean(-1)
    expected = [lambda v: v, lambda v: np.maximum(v, 0), lambda v: np.clip(v, -1, 1), lambda v: np.clip(v, 0, 6), np.tanh][
        code
    ](expected)
    if quantization is None:
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    else:  # the average is rounded before the activation
        assert steps_apart(found, expected, how) <= 1.01


@pytest.mark.parametrize("operator", ["MAX_POOL_2D", "AVERAGE_POOL_2D"])
def test_integers_of_several_scales(operator: str) -> None:
    mine, theirs = (0.1, 10), (0.07, -20)
    x = np.random.default_rng(5).integers(-60, 60, (1, 4, 4, 3)).astype(np.int8)
    (found,) = run(operator, [Held(x, mine)], [Stated(np.int8, (1, 2, 2, 3), theirs)], WINDOW, version=2)
    numbers = windows(real(x, mine))
    expected = numbers.max(-1) if operator == "MAX_POOL_2D" else numbers.mean(-1)
    assert steps_apart(found, expected, theirs) <= 0.51


def test_root_of_the_mean_of_squares_fused() -> None:
    x = np.random.default_rng(6).uniform(-9, 9, (1, 4, 4, 3)).astype(np.float32)
    (found,) = run("L2_POOL_2D", [x], [Stated(np.float32, (1, 2, 2, 3))], WINDOW | {"fused_activation_function": 3})
    np.testing.assert_allclose(found, np.minimum(np.sqrt((windows(x.astype(np.float64)) ** 2).mean(-1)), 6), rtol=1e-6)


@pytest.mark.parametrize(
    "changed", [{"stride_h": 0}, {"filter_width": 0}, {"filter_height": -2}, {"filter_height": 9}, {"padding": 2}]
)
def test_hostile_windows(changed: dict[str, int]) -> None:
    data, _ = made("MAX_POOL_2D", [np.ones((1, 4, 4, 1), np.float32)], [Stated(np.float32, (1, 2, 2, 1))], WINDOW | changed)
    with pytest.raises(DovetailError):
        parse(data)


def test_roots_of_squares_are_of_floats() -> None:
    data, _ = made("L2_POOL_2D", [np.ones((1, 2, 2, 1), np.int8)], [Stated(np.int8, (1, 1, 1, 1))], WINDOW)
    with pytest.raises(ModelError, match="reads int8, expected floats"):
        parse(data)
