"""Casts, by the rules of `dovetail.layers.Cast`, in every instruction set that is here."""

from __future__ import annotations

import numpy as np
import pytest

import dovetail
from dovetail import DType, Network
from dovetail_neon.kernels import instruction_sets

ISAS = [name for name, here in instruction_sets().items() if here]
TYPES = ["bool", "int8", "uint8", "int16", "uint16", "int32", "int64", "float32", "float64"]


def cast(isa, x, dtype):
    net = Network()
    net.output(net.cast(net.input("x", x.shape, DType.of(x.dtype)), DType.of(np.dtype(dtype))), "y")
    with dovetail.load(net, ["CpuAcc"], threads=2, fallback=False, options={"CpuAcc": {"isa": isa}}) as loaded:
        return np.array(loaded.run({"x": x})["y"])


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("target", TYPES)
@pytest.mark.parametrize("source", TYPES)
def test_values_that_fit(isa, source, target):
    x = np.random.default_rng(5).integers(0, 128, 999).astype(source)
    if source in ("float32", "float64"):
        x[::3] += 0.75
    found = cast(isa, x, target)
    assert found.dtype == target
    np.testing.assert_array_equal(found, x.astype(target))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("target", ["int8", "uint8", "int16", "uint16", "int32"])
def test_integers_wrap(isa, target):
    x = np.array([-(2**63), 2**63 - 1, -1, 2**31, 2**32 + 5, -(2**31) - 1, 300], np.int64)
    np.testing.assert_array_equal(cast(isa, x, target), x.astype(target))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("source", ["float32", "float64"])
@pytest.mark.parametrize("target", ["int8", "uint8", "int32", "int64"])
def test_reals_are_cut_off_and_wrap(isa, source, target):
    values = [-1.9, 1e10, -3e9, 2.0**63, -(2.0**63), -(2.0**64) - 2.0**50, 3 * 2.0**62, 1e30, 2.0**127]
    x = np.array([*values, np.nan, np.inf, -np.inf], source)
    bits = np.dtype(target).itemsize * 8
    wrapped = np.array([int(v) % 2**bits for v in x[: len(values)].tolist()] + [0, 0, 0], f"u{bits // 8}")
    for times in (1, 20):  # elements that fit are converted many at a time
        np.testing.assert_array_equal(cast(isa, np.tile(x, times), target).view(wrapped.dtype), np.tile(wrapped, times))


@pytest.mark.parametrize("isa", ISAS)
def test_truth(isa):
    x = np.array([0.0, -0.0, np.nan, 1e-45, np.inf], np.float32)
    assert cast(isa, x, "bool").tolist() == [False, False, True, True, True]


@pytest.mark.parametrize("isa", ISAS)
def test_to_reals_rounds_once(isa):
    x = np.array([2**24 + 1, 2**53 + 1, 2**63 - 1, -(2**62) - 1, (1 << 40) + (1 << 15) + 1], np.int64)
    np.testing.assert_array_equal(cast(isa, x, "float32"), x.astype(np.float32))
    np.testing.assert_array_equal(cast(isa, x, "float64"), x.astype(np.float64))
