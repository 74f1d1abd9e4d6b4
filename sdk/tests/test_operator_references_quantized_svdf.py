"""The reference of QuantizedSvdf against float64."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail import DType, Quantization
from dovetail.layers import QuantizedSvdf
from dovetail_sdk.conformance.cases import Feed
from dovetail_sdk.conformance.operators.quantized_svdf import OPERATOR
from dovetail_sdk.conformance.references.quantized_svdf import quantized_svdf
from dovetail_sdk.conformance.variants import variants


def fed(**changed):
    """Operands of two filters of two steps that make one unit; all scales but that of x are 1/2."""
    half = Quantization.per_tensor(0.5)
    feeds = {
        "input": Feed(np.int8([[10, 3]]), quantization=Quantization.per_tensor(0.25, 2)),
        "initial_state": Feed(np.int16([[7, 5, 100, -6]]), quantization=half),
        "feature_weights": Feed(np.int8([[3, 1], [-4, 2]]), quantization=half),
        "time_weights": Feed(np.int16([[2, 4], [1, -3]]), quantization=half),
        "bias": Feed(np.int32([9])),
    }
    return feeds | changed


def test_by_hand():
    """Features are 8 * 3 + 1 = 25 and -30; a quarter is half of 13 and of -15, away from 0."""
    result, state = quantized_svdf(QuantizedSvdf(rank=2), fed(), Quantization.per_tensor(0.5, -20))
    np.testing.assert_array_equal(state, [[5, 7, -6, -8]])
    # 5 * 2 + 7 * 4 - 6 + 8 * 3 + 9 = 65, of which the half is 33, away from 0.
    np.testing.assert_array_equal(result, [[13]])


def test_sums_wrap_and_results_saturate():
    """A state of 2^15 times 2^15, four times over, is 0 in 32 bits; three times, it is -2^30."""
    many = Feed(np.full((1, 8), -(1 << 15), np.int16), quantization=Quantization.per_tensor(0.5))
    for count, wanted in ((4, -20), (3, -128), (2, -128), (1, 127)):
        times = np.zeros((1, 8), np.int16)
        times[0, :count] = -(1 << 15)
        feeds = fed(
            initial_state=many,
            time_weights=Feed(times, quantization=Quantization.per_tensor(0.5)),
            feature_weights=Feed(np.int8([[0, 0]]), quantization=Quantization.per_tensor(0.5)),
            bias=None,
        )
        result, state = quantized_svdf(QuantizedSvdf(), feeds, Quantization.per_tensor(0.5, -20))
        assert result.item() == wanted
        np.testing.assert_array_equal(state, [[-(1 << 15)] * 7 + [0]])


def in_floats(case_feeds, result, rank):
    """Return real results and states without the rounding between."""
    real = {
        name: (feed.value.astype(np.float64) - feed.quantization.zero_point[0]) * feed.quantization.scale[0]
        for name, feed in case_feeds.items()
        if feed is not None and feed.quantization is not None
    }
    batch, (filters, steps) = len(real["input"]), real["time_weights"].shape
    held = real["initial_state"].reshape(batch, filters, steps)
    held = np.concatenate([held[..., 1:], (real["input"] @ real["feature_weights"].T)[..., None]], 2)
    total = np.einsum("bft,ft->bf", held, real["time_weights"]).reshape(batch, filters // rank, rank).sum(2)
    if case_feeds["bias"] is not None:
        scale = case_feeds["initial_state"].quantization.scale[0] * case_feeds["time_weights"].quantization.scale[0]
        total = total + case_feeds["bias"].value * scale
    return total / result.scale[0] + result.zero_point[0], held.reshape(batch, -1)


@pytest.mark.parametrize("form", [{}, {"rank": 1, "bias": False}, {"steps": 17, "zero point": -128}], ids=str)
def test_layers_compute_filters_over_time(form):
    parameters = {name: values[0] for name, values in OPERATOR.parameters.items()} | form | {"units": 40}
    case = OPERATOR.make(parameters, DType.INT8, np.random.default_rng(1))
    feeds = dict(zip(QuantizedSvdf.input_names, case.feeds, strict=True))
    state = feeds["initial_state"].quantization.scale[0]
    result = Quantization.per_tensor(state * feeds["time_weights"].quantization.scale[0] * 1e6, 4)
    found, held = quantized_svdf(QuantizedSvdf(rank=parameters["rank"]), feeds, result)
    real, real_held = in_floats(feeds, result, parameters["rank"])
    assert np.abs(held * state - real_held).max() <= 0.51 * state
    assert np.abs(found - np.clip(real, -128, 127)).max() < 0.6


def test_cases_differ_in_what_they_compute():
    """Results have more than a few values, and few of them at the ends of the range."""
    seen, ends = [], []
    for variant in variants(OPERATOR, DType.INT8, ()):
        case = OPERATOR.make(variant.parameters, DType.INT8, np.random.default_rng(0))
        factors = variant.parameters["feature factor"], variant.parameters["result factor"]
        if case is not None and case.expected[0].size >= 10 and min(factors) > 1e-3 and max(factors) < 10:
            seen.append(len(np.unique(case.expected[0])) / min(case.expected[0].size, 50))
            ends.append(np.isin(case.expected[0], (-128, 127)).mean())
    assert np.mean(seen) > 0.5
    assert np.mean(ends) < 0.3
