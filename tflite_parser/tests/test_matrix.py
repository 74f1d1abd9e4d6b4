"""Matrix products against NumPy: scales per column, weights of floats in bytes, any rows."""

from __future__ import annotations

import numpy as np
import pytest
from one_operator import Array, Held, Stated, constant, made, real, run, steps_apart

from dovetail import DovetailError, ModelError
from dovetail_tflite import parse

RNG = np.random.default_rng(6)


def rounded(x: Array, axis: int, asymmetric: bool) -> Array:
    """Quantize the rows of a matrix and back, in float64."""
    x = x.astype(np.float64)
    if not asymmetric:
        scale = np.abs(x).max(axis, keepdims=True) / 127
        return np.round(x / scale) * scale
    least, most = np.minimum(x.min(axis, keepdims=True), 0), np.maximum(x.max(axis, keepdims=True), 0)
    scale = (most - least) / 255
    zero = np.round(-128 - least / scale)
    return (np.clip(np.round(x / scale + zero), -128, 127) - zero) * scale


@pytest.mark.parametrize("asymmetric", [False, True])
@pytest.mark.parametrize("how", [(0.01, 0), ([0.01, 0.02, 0.005], [0, 0, 0], 0)])
def test_quantized_weights_of_float_rows(how: tuple[object, ...], asymmetric: bool) -> None:
    x = (RNG.uniform(-1, 2, (5, 16)) * np.asarray([[1], [10], [100], [0.01], [3]])).astype(np.float32)
    weights = RNG.integers(-127, 128, (3, 16)).astype(np.int8)
    options = {"asymmetric_quantize_inputs": asymmetric}
    (found,) = run("FULLY_CONNECTED", [x, constant(weights, how)], [Stated(np.float32, (5, 3))], options, version=12)
    np.testing.assert_allclose(found, rounded(x, -1, asymmetric) @ real(weights, how).T, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("adjoint", [False, True])
def test_quantized_matrices_of_float_matrices(adjoint: bool) -> None:
    x = RNG.uniform(-1, 1, (2, 8, 4) if adjoint else (2, 4, 8)).astype(np.float32)
    other, how = RNG.integers(-127, 128, (2, 8, 5)).astype(np.int8), (0.02, 0)
    options = {"adj_x": adjoint}
    (found,) = run("BATCH_MATMUL", [x, constant(other, how)], [Stated(np.float32, (2, 4, 5))], options, version=4)
    rows = rounded(np.swapaxes(x, 1, 2) if adjoint else x, -1, False)
    np.testing.assert_allclose(found, rows @ real(other, how), rtol=1e-4, atol=1e-4)


def test_words_by_bytes_with_a_scale_for_each_column() -> None:
    x, other = RNG.integers(-32768, 32768, (6, 32)).astype(np.int16), RNG.integers(-127, 128, (32, 4)).astype(np.int8)
    mine, scales, theirs = (3e-5, 0), ([0.01, 0.02, 0.03, 0.04], [0] * 4, 1), (0.001, 0)
    (found,) = run("BATCH_MATMUL", [Held(x, mine), constant(other, scales)], [Stated(np.int16, (6, 4), theirs)], {})
    assert steps_apart(found, real(x, mine) @ real(other, scales), theirs) <= 0.51


@pytest.mark.parametrize(("bias_type", "wraps"), [(np.int64, False), (np.int32, True)])
@pytest.mark.parametrize("factor", [0.5, 0.125, 2.0**-4, 2.0**-16])
def test_ties_of_connected_words_go_away_from_zero(factor: float, bias_type: type, wraps: bool) -> None:
    """Sums are scaled in double; those of 32 bits wrap."""
    x = np.arange(-48, 48).reshape(96, 1).astype(np.int16) if factor > 0.01 else np.full((3, 900), 32767, np.int16)
    weights, bias = np.full((2, x.shape[1]), [[1], [127]]).astype(np.int8), np.asarray([0, 5], bias_type)
    sources = [Held(x, (1.0, 0)), constant(weights, (1.0, 0)), constant(bias, (1.0, 0))]
    (found,) = run("FULLY_CONNECTED", sources, [Stated(np.int16, (len(x), 2), (1 / factor, 0))], {}, version=11)
    total = x.astype(np.int64) @ weights.T.astype(np.int64) + bias
    total = total.astype(np.int32).astype(np.int64) if wraps else total
    away = np.sign(total) * np.floor(np.abs(total * factor) + 0.5)
    np.testing.assert_array_equal(found, np.clip(away, -32768, 32767))


def test_rows_of_an_image() -> None:
    x, weights = RNG.uniform(-1, 1, (3, 2, 4)).astype(np.float32), RNG.uniform(-1, 1, (5, 8)).astype(np.float32)
    (found,) = run("FULLY_CONNECTED", [x, constant(weights), None], [Stated(np.float32, (3, 5))])
    np.testing.assert_allclose(found, x.reshape(3, 8) @ weights.T, rtol=1e-5)


def test_fused_tanh_of_bytes() -> None:
    x, weights = RNG.integers(-128, 128, (3, 8)).astype(np.int8), RNG.integers(-127, 128, (4, 8)).astype(np.int8)
    mine, how, theirs = (0.01, 5), (0.02, 0), (1 / 128, 0)
    options = {"fused_activation_function": 4}
    sources = [Held(x, mine), constant(weights, how)]
    (found,) = run("FULLY_CONNECTED", sources, [Stated(np.int8, (3, 4), theirs)], options, version=4)
    assert steps_apart(found, np.tanh(real(x, mine) @ real(weights, how).T), theirs) <= 0.51


def test_shuffled_weights() -> None:
    sources = [np.ones((1, 4), np.float32), constant(np.ones((4, 4), np.float32))]
    data, _ = made("FULLY_CONNECTED", sources, [Stated(np.float32, (1, 4))], {"weights_format": 1}, version=2)
    with pytest.raises(ModelError, match="shuffled"):
        parse(data)


def test_weights_that_do_not_fit() -> None:
    for weights in (np.ones((4, 3), np.float32), np.ones((4, 0), np.float32), np.ones(4, np.float32)):
        data, _ = made("FULLY_CONNECTED", [np.ones((1, 4), np.float32), weights], [Stated(np.float32, (1, 4))])
        with pytest.raises(DovetailError):
            parse(data)


def test_bytes_give_integers_of_32_bits() -> None:
    """They are multiplied as they are, whatever they and the result stand for."""
    a, b = RNG.integers(-128, 128, (2, 3, 40)).astype(np.int8), RNG.integers(-128, 128, (2, 5, 40)).astype(np.int8)
    options = {"adj_x": False, "adj_y": True}
    stated = Stated(np.int32, (2, 3, 5), (0.125, 0))
    (found,) = run("BATCH_MATMUL", [Held(a, (0.5, 3)), Held(b, (0.25, -4))], [stated], options, version=3)
    np.testing.assert_array_equal(found, a.astype(np.int64) @ b.astype(np.int64).swapaxes(1, 2))


@pytest.mark.parametrize("dtype", [np.int16, np.int8])
def test_products_of_words(dtype: type) -> None:
    """The factor is formed in float32, and of its multiplier 15 bits are kept; ties go up."""
    limits = np.iinfo(dtype)
    a = RNG.integers(-32768, 32768, (2, 3, 20)).astype(np.int16)
    b = RNG.integers(limits.min, limits.max, (2, 20, 5)).astype(dtype)
    mine, other = np.float32(0.0003), np.float32(0.0007)
    theirs = np.float32(0.0003 * 0.0007 * 10 * limits.max)
    fraction, shift = np.frexp(np.float64(mine * other) / np.float64(theirs))
    short = (int(np.floor(fraction * 2**31 + 0.5)) + (1 << 15)) >> 16
    total = a.astype(np.int64) @ b.astype(np.int64)
    expected = (total * short + (1 << (14 - int(shift)))) >> (15 - int(shift))
    sources = [Held(a, (float(mine), 0)), Held(b, (float(other), 0))]
    stated = Stated(np.int16, (2, 3, 5), (float(theirs), 0))
    (found,) = run("BATCH_MATMUL", sources, [stated], {"adj_x": False, "adj_y": False}, version=4)
    np.testing.assert_array_equal(found, np.clip(expected, -32768, 32767))
