"""Activations: what golden outputs do not have, against NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from one_operator import Held, Stated, constant, made, real, run, steps_apart

from dovetail import ModelError
from dovetail_tflite import parse

BOUNDS = {"RELU": (0, np.inf), "RELU6": (0, 6), "RELU_N1_TO_1": (-1, 1), "RELU_0_TO_1": (0, 1)}


@pytest.mark.parametrize("operator", BOUNDS)
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16])
def test_clamps_of_integers(operator: str, dtype: type) -> None:
    zero = 0 if dtype is np.int16 else int(np.iinfo(dtype).min) + 100
    mine, theirs = (0.1, zero), (0.06, zero)
    x = np.arange(zero - 90, zero + 90).astype(dtype)
    (found,) = run(operator, [Held(x, mine)], [Stated(dtype, (180,), theirs)], version=1)
    assert steps_apart(found, np.clip(real(x, mine), *BOUNDS[operator]), theirs) <= 0.51


def test_clamp_of_plain_integers() -> None:
    (found,) = run("RELU6", [np.asarray([-5, 3, 9], np.int8)], [Stated(np.int8, (3,))])
    np.testing.assert_array_equal(found, [0, 3, 6])


@pytest.mark.parametrize(("dtype", "zero"), [(np.int8, 127), (np.uint8, 255)])
def test_log_softmax_of_bytes(dtype: type, zero: int) -> None:
    mine, theirs = (0.1, zero - 127), (16 / 256, zero)
    x = np.random.default_rng(1).integers(zero - 255, zero, (4, 10)).astype(dtype)
    (found,) = run("LOG_SOFTMAX", [Held(x, mine)], [Stated(dtype, (4, 10), theirs)], version=2)
    numbers = real(x, mine)
    expected = numbers - np.log(np.exp(numbers).sum(-1, keepdims=True))
    assert steps_apart(found, expected, theirs) <= 0.51


@pytest.mark.parametrize("by_tanh", [False, True])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_gelu_of_integers(dtype: type, by_tanh: bool) -> None:
    zero = 128 if dtype is np.uint8 else 0
    mine, theirs = (0.03, zero), (0.02, zero)
    x = np.arange(zero - 120, zero + 120).astype(dtype)
    (found,) = run("GELU", [Held(x, mine)], [Stated(dtype, (240,), theirs)], {"approximate": by_tanh}, version=3)
    numbers = real(x, mine)
    if by_tanh:
        expected = numbers / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (numbers + 0.044715 * numbers**3)))
    else:
        expected = numbers / 2 * (1 + np.asarray([math.erf(one / math.sqrt(2)) for one in numbers]))
    assert steps_apart(found, expected, theirs) <= 0.51


GELU_PLACES = (
    *(-32768, -20000, -9001, -6000, -3333, -1500, -777, -300, -77, -1, 0, 1, 64, 200, 511, 1000, 2049, 4000, 7777),
    *(12345, 20000, 24575, 24600),
)
GELU_OF_WORDS = (
    *(0, 0, -2, -66, -405, -549, -392, -181, -50, -2, -1, 0, 43, 142, 395, 873, 2168, 5040, 10359, 16460, 26666),
    *(32766, 32767),
)
"""What the reference kernel of LiteRT 2.3.0 gives, which interpolates between 513 samples."""
GELU_BY_TANH = (
    *(0, 0, -2, -64, -406, -549, -392, -181, -50, -2, -1, 0, 43, 142, 395, 873, 2166, 5040, 10360, 16459, 26666),
    *(32766, 32767),
)


@pytest.mark.parametrize(("by_tanh", "expected"), [(False, GELU_OF_WORDS), (True, GELU_BY_TANH)])
def test_gelu_of_words(by_tanh: bool, expected: tuple[int, ...]) -> None:
    x = np.asarray(GELU_PLACES, np.int16)
    stated = [Stated(np.int16, x.shape, (0.0003, 0))]
    (found,) = run("GELU", [Held(x, (0.0004, 0))], stated, {"approximate": by_tanh}, version=2)
    assert found.tolist() == list(expected)


def test_prelu_of_words() -> None:
    mine, slopes, theirs = (0.001, 0), (0.01, 0), (0.0015, 0)
    x, slope = np.asarray([[-3000, 500], [2000, -1]], np.int16), np.asarray([[25, -50]], np.int16)
    (found,) = run("PRELU", [Held(x, mine), constant(slope, slopes)], [Stated(np.int16, (2, 2), theirs)])
    numbers = real(x, mine)
    assert steps_apart(found, np.where(numbers >= 0, numbers, numbers * real(slope, slopes)), theirs) <= 0.51


def test_softmax_of_words_of_any_number() -> None:
    """The total of the powers has from 15 bits, of one element, to many more."""
    mine, theirs = (0.0003, 0), (1 / 32768, 0)
    rng = np.random.default_rng(2)
    for count in (1, 2, 3, 64, 3000):
        x = rng.integers(-32768, 32768, (3, count)).astype(np.int16)
        (found,) = run("SOFTMAX", [Held(x, mine)], [Stated(np.int16, x.shape, theirs)], {"beta": 0.7}, version=3)
        numbers = 0.7 * real(x, mine)
        powers = np.exp(numbers - numbers.max(-1, keepdims=True))
        assert steps_apart(found, powers / powers.sum(-1, keepdims=True), theirs) <= 8


@pytest.mark.parametrize("beta", [math.nan, math.inf])
def test_softmax_of_no_number(beta: float) -> None:
    data, _ = made("SOFTMAX", [np.ones(3, np.float32)], [Stated(np.float32, (3,))], {"beta": beta})
    with pytest.raises(ModelError, match="beta"):
        parse(data)


@pytest.mark.parametrize("operator", ["SOFTMAX", "LEAKY_RELU"])
def test_options_left_out(operator: str) -> None:
    data, _ = made(operator, [np.ones(3, np.float32)], [Stated(np.float32, (3,))])
    with pytest.raises(ModelError, match="no options"):
        parse(data)


@pytest.mark.parametrize("operator", ["LOGISTIC", "TANH", "EXP", "LOG", "RSQRT", "GELU"])
@pytest.mark.parametrize("scale", [1e-38, 2.0**-12, 0.003, 1e30])
def test_tables_of_any_scale(operator: str, scale: float) -> None:
    """A table is made of any scale, without a warning; where words can hold the result, it is."""
    mine, theirs = (scale, 0), (1 / 32768, 0)
    x = np.arange(-32768, 32768, dtype=np.int64).astype(np.int16)
    options = {"approximate": True} if operator == "GELU" else None
    (found,) = run(operator, [Held(x, mine)], [Stated(np.int16, x.shape, theirs)], options, version=2)
    if operator in ("LOGISTIC", "TANH") and scale < 1:
        numbers = real(x, mine)
        expected = np.tanh(numbers) if operator == "TANH" else 1 / (1 + np.exp(-numbers))
        assert steps_apart(found, expected, theirs) <= 4


@pytest.mark.parametrize(("dtype", "least"), [(np.int8, -128), (np.uint8, 0)])
@pytest.mark.parametrize("beta", [1.0, 0.3])
def test_softmax_of_bytes_is_one_layer(dtype: type, least: int, beta: float) -> None:
    mine, theirs = (0.1, least + 90), (1 / 256, least)
    x = np.random.default_rng(1).integers(least, least + 256, (4, 10)).astype(dtype)
    arguments = "SOFTMAX", [Held(x, mine)], [Stated(dtype, (4, 10), theirs)], {"beta": beta}
    data, _ = made(*arguments)
    kinds = [layer.kind.rpartition(".")[2] for layer in parse(data).layers]
    assert kinds.count("Softmax") == 1
    assert not {"Dequantize", "Quantize"} & set(kinds)
    (found,) = run(*arguments)
    powers = np.exp(beta * real(x, mine))
    assert steps_apart(found, powers / powers.sum(-1, keepdims=True), theirs) <= 1
