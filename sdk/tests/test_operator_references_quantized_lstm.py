"""The reference of QuantizedLstm against float64: its functions, and whole layers."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail import DType, Quantization
from dovetail.layers import QuantizedLstm
from dovetail_sdk.conformance.cases import Feed
from dovetail_sdk.conformance.operators.quantized_lstm import OPERATOR
from dovetail_sdk.conformance.references.quantized_recurrence import (
    exponential,
    inverse_root,
    logistic,
    normalized,
    quantized_lstm,
    tanh,
)
from dovetail_sdk.conformance.variants import variants

EVERY = np.arange(-(1 << 15), 1 << 15)
"""All numbers of 16 bits."""


def test_logistic():
    assert np.abs(logistic(EVERY) / 2**15 - 1 / (1 + np.exp(-EVERY / 2**12))).max() < 2**-11


@pytest.mark.parametrize("integer_bits", range(7))
def test_tanh(integer_bits):
    assert np.abs(tanh(EVERY, integer_bits) / 2**15 - np.tanh(EVERY / 2 ** (15 - integer_bits))).max() < 2**-10


@pytest.mark.parametrize("integer_bits", range(1, 8))
def test_exponential(integer_bits):
    x = EVERY[EVERY <= 0]
    assert np.abs(exponential(x, integer_bits) / 2**15 - np.exp(x / 2 ** (15 - integer_bits))).max() < 2**-11


def test_inverse_root():
    for x in (2, 3, 17, 1 << 16, 12345678, (1 << 29) - 1, 1 << 29, (1 << 30) + 5):
        multiplier, exponent = inverse_root(x)
        assert multiplier * 2.0 ** (exponent - 31) == pytest.approx(x**-0.5, rel=2e-6)
    assert inverse_root(1) == (2**31 - 1, 0)


def test_normalized():
    rng = np.random.default_rng(0)
    x, scale = rng.integers(-9000, 9000, (3, 16)), float(np.float32(1 / 20000))
    factors, bias = rng.integers(-20000, 20000, 16), rng.integers(-(1 << 22), 1 << 22, 16)
    exact = (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True)
    wanted = exact * factors * scale + bias * scale / 1024
    assert np.abs(normalized(x, factors, bias, scale) / 2**12 - wanted).max() < 0.01


def in_floats(descriptor, feeds):
    """Return the sequence of hidden states of a layer without the rounding between."""
    reals = {}
    for name, feed in feeds.items():
        if feed is not None and feed.quantization is not None:
            reals[name] = (feed.value.astype(np.float64) - feed.quantization.zero_point[0]) * feed.quantization.scale[0]
    for gate in ("input", "forget", "cell", "output"):
        feed = feeds.get(f"{gate}_bias")
        if feed is not None:
            scale = feeds["input"].quantization.scale[0] * feeds[f"{gate}_weights"].quantization.scale[0]
            reals[f"{gate}_bias"] = feed.value * scale
    hidden, cell, sequence = reals["initial_hidden"], reals["initial_cell"], []

    def gate(name, x, cell):
        total = x @ reals[f"{name}_weights"].T + hidden @ reals[f"{name}_recurrent_weights"].T + reals[f"{name}_bias"]
        total = total + reals[f"{name}_peepholes"] * cell if f"{name}_peepholes" in reals else total
        return np.tanh(np.clip(total, -8, 8)) if name == "cell" else 1 / (1 + np.exp(-np.clip(total, -8, 8)))

    for x in reals["input"]:
        forget = gate("forget", x, cell)
        given = gate("input", x, cell) if "input_weights" in reals else 1 - forget
        cell = np.clip(forget * cell + given * gate("cell", x, None), -16, 16)
        hidden = gate("output", x, cell) * np.tanh(cell)
        sequence.append(hidden)
    return np.asarray(sequence)


@pytest.mark.parametrize("form", [{}, {"input gate": False}, {"peepholes": True}], ids=str)
def test_layers_compute_an_lstm(form):
    parameters = {name: values[0] for name, values in OPERATOR.parameters.items()} | form
    parameters |= {"steps": 4, "units": 17, "inputs": 8}
    case = OPERATOR.make(parameters, DType.INT8, np.random.default_rng(1))
    descriptor = QuantizedLstm()
    feeds = dict(zip(descriptor.input_names, case.feeds, strict=True))
    quantization = feeds["initial_hidden"].quantization
    wide = Quantization.per_tensor(float(np.float32(1 / 120)), 0)  # whose integers saturate nowhere
    feeds["initial_hidden"] = Feed(feeds["initial_hidden"].value, quantization=wide)
    assert quantization is not None
    found = quantized_lstm(descriptor, feeds)[0] * wide.scale[0]
    assert np.abs(found - in_floats(descriptor, feeds)).max() < 0.04


def test_cases_differ_in_what_they_compute():
    """Steps leave more than a few values, and few of them at the ends of the range."""
    seen, ends = [], []
    for variant in variants(OPERATOR, DType.INT8, ()):
        case = OPERATOR.make(variant.parameters, DType.INT8, np.random.default_rng(0))
        if case is not None and case.expected[0].size > 20 and abs(variant.parameters["hidden zero"]) < 100:
            seen.append(len(np.unique(case.expected[0])))
            ends.append(np.isin(case.expected[0], (-128, 127)).mean())
    assert np.mean(seen) > 10
    assert np.mean(ends) < 0.3
