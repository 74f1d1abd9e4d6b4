"""Quantization of wide integers, and what is not quantized."""

from __future__ import annotations

import numpy as np
import pytest
from one_operator import Held, Stated, constant, made, real, run, steps_apart

from dovetail import ModelError
from dovetail_tflite import parse


@pytest.mark.parametrize(
    ("source", "mine", "result", "theirs"),
    [
        (np.int16, (0.0005, 0), np.int32, (1.5e-7, 0)),
        (np.int8, (0.5, -3), np.int32, (1e-9, 7)),
        (np.int32, (1e-6, 0), np.int16, (0.01, 0)),
        (np.int32, (1e-6, 0), np.int32, (0.9e-6, 5)),
    ],
)
def test_wide_integers(source: type, mine: tuple[float, int], result: type, theirs: tuple[float, int]) -> None:
    limits = np.iinfo(source)
    x = np.random.default_rng(7).integers(limits.min // 2, limits.max // 2, 300).astype(source)
    x[:3] = 0, 1, -1
    (found,) = run("QUANTIZE", [Held(x, mine)], [Stated(result, x.shape, theirs)], version=2)
    assert steps_apart(found, real(x, mine).astype(np.float64), (np.float32(theirs[0]).item(), theirs[1])) <= _slack(
        result, found
    )


def _slack(result: type, found: np.ndarray) -> float:
    """Half a step, and what scales in float32 and factors of 31 bits are off."""
    return 0.51 + (2.0**-22 * float(np.abs(found.astype(np.float64)).max()) if result is np.int32 else 0)


def test_results_saturate() -> None:
    x = np.asarray([-32768, 32767], np.int16)
    (found,) = run("QUANTIZE", [Held(x, (1.0, 0))], [Stated(np.int32, (2,), (1e-6, 0))], version=2)
    np.testing.assert_array_equal(found, [-(2**31), 2**31 - 1])


def test_results_without_quantization() -> None:
    data, _ = made("QUANTIZE", [np.ones(2, np.float32)], [Stated(np.int8, (2,))])
    with pytest.raises(ModelError, match="result without quantization"):
        parse(data)


@pytest.mark.parametrize("operator", ["QUANTIZE", "DEQUANTIZE"])
def test_integers_without_quantization(operator: str) -> None:
    stated = Stated(np.int8, (2,), (0.5, 0)) if operator == "QUANTIZE" else Stated(np.float32, (2,))
    data, _ = made(operator, [np.ones(2, np.int8)], [stated])
    with pytest.raises(ModelError, match="integers without quantization"):
        parse(data)


def test_densify_passes_a_constant_on() -> None:
    (found,) = run("DENSIFY", [constant(np.asarray([1, 2], np.float32))], [Stated(np.float32, (2,))])
    np.testing.assert_array_equal(found, [1, 2])


@pytest.mark.parametrize(("dtype", "zero"), [(np.int8, -3), (np.uint8, 120), (np.int16, 0)])
def test_ties_go_away_from_zero(dtype: type, zero: int) -> None:
    halves = np.arange(-200, 200) / 2
    (found,) = run("QUANTIZE", [(halves * 0.25).astype(np.float32)], [Stated(dtype, halves.shape, (0.25, zero))])
    away = np.sign(halves) * np.floor(np.abs(halves) + 0.5) + zero
    np.testing.assert_array_equal(found, np.clip(away, np.iinfo(dtype).min, np.iinfo(dtype).max))
