"""The fixed-point softmax of the kit against float64, function by function."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail_sdk.conformance.references.quantized_softmax import exponential, litert_softmax, reciprocal


def test_exponential():
    x = -np.unique(np.geomspace(1, 31 << 26, 4001).astype(np.int64))
    assert np.abs(exponential(x) / 2.0**31 - np.exp(x / 2.0**26)).max() < 2**-21
    assert exponential(np.asarray([0])) == 2**31 - 1


@pytest.mark.parametrize("total", [1 << 19, (1 << 19) + 1, 3 << 20, 12345678, (1 << 28) - 1, (1 << 31) - 1])
def test_reciprocal(total):
    fraction, bits = reciprocal(total)
    assert fraction * 2.0 ** (-31 - bits) == pytest.approx(2.0**19 / total, rel=1e-8)


@pytest.mark.parametrize("scale", [0.001, 0.05, 1.0, 30.0])
def test_softmax(scale):
    x = np.random.default_rng(1).integers(-128, 128, (5, 60))
    powers = np.exp(scale * (x - x.max(-1, keepdims=True)))
    wanted = 256 * powers / powers.sum(-1, keepdims=True)
    assert np.abs(litert_softmax(x, scale, -1) - wanted).max() < 0.6
    np.testing.assert_array_equal(litert_softmax(x.T, scale, 0), litert_softmax(x, scale, -1).T)


def test_a_sum_beyond_what_the_kernel_takes_gives_nothing():
    assert litert_softmax(np.zeros(511, np.int64), 0.1, 0).max() == 1
    assert not litert_softmax(np.zeros(512, np.int64), 0.1, 0).any()
