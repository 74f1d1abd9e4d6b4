"""SVDF of integers against LiteRT's results and against what the kind says, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail import Quantization
from dovetail.layers import QuantizedSvdf
from dovetail_neon.kernels import Kernels, instruction_sets
from dovetail_sdk.conformance.cases import Feed
from dovetail_sdk.conformance.references.quantized_svdf import quantized_svdf

FED = ("input", "initial_state")


@pytest.fixture(params=[(name, dots) for name, here in instruction_sets().items() if here for dots in (True, False)], ids=str)
def kernels(request):
    """The kernels of each instruction set, with dot products of bytes and without."""
    name, dots = request.param
    return Kernels(name, dot_products=dots)


@pytest.fixture(scope="session")
def of_litert(of_cpuref):
    """The module with the results of LiteRT, which CpuRef's tests read too."""
    return of_cpuref("test_quantized_svdf")


def run(run_layer, descriptor, operands, meanings, result, **how):
    """Return the outputs of a layer whose weights are constant."""

    def build(net, *slots):
        constants = [
            net.constant(operands[name], quantization=meanings.get(name)) if name in operands else None
            for name in descriptor.input_names[len(FED) :]
        ]
        return net.add(descriptor, *slots, *constants, quantization=result)

    return run_layer(build, *(operands[name] for name in FED), quantizations=[meanings[name] for name in FED], **how)


def test_same_bits_as_litert(run_layer, of_litert):
    for parameters in of_litert.litert_cases():
        case, runs, operands, wanted = parameters.values
        meanings, result = of_litert.quantizations_of(case)
        filters, _, steps = case["sizes"]
        state = np.zeros((case["batch"], filters * steps), np.int16)
        for x, expected in zip(runs, wanted, strict=True):
            together = {"input": x, "initial_state": state, **operands}
            got, state = run(run_layer, QuantizedSvdf(rank=case["rank"]), together, meanings, result)
            np.testing.assert_array_equal(got, expected, err_msg=f"case {parameters.id}")


def drawn(batch, inputs, units, rank, steps, *, features=1.0, result=1.0, zeros=(3, -5), with_bias=True, seed=0):
    """Return operands, what they mean, and what the result does: factors 1/2 of what is usual."""
    random, filters = np.random.default_rng(seed), units * rank
    operands = {
        "input": random.integers(-128, 127, (batch, inputs), np.int8, endpoint=True),
        "initial_state": random.integers(-32768, 32767, (batch, filters * steps), np.int16, endpoint=True),
        "feature_weights": random.integers(-127, 127, (filters, inputs), np.int8, endpoint=True),
        "time_weights": random.integers(-32767, 32767, (filters, steps), np.int16, endpoint=True),
    }
    if with_bias:
        operands["bias"] = random.integers(-(1 << 24), 1 << 24, units, np.int32)
    scales = (0.03, 0.012 * 0.03 / 0.6 / features, 0.012, 1e-4)
    meanings = {name: Quantization.per_tensor(scale) for name, scale in zip(operands, scales, strict=False)}
    meanings["input"] = Quantization.per_tensor(0.03, zeros[0])
    y = meanings["initial_state"].scale[0] * 1e-4 * 5e6 * (rank * steps) ** 0.5 / result
    return operands, meanings, Quantization.per_tensor(y, zeros[1])


def check(run_layer, rank, operands, meanings, result, **how):
    descriptor = QuantizedSvdf(rank=rank)
    feeds = {
        name: Feed(operands[name], quantization=meanings.get(name)) if name in operands else None
        for name in descriptor.input_names
    }
    wanted = quantized_svdf(descriptor, feeds, result)
    for got, expected in zip(run(run_layer, descriptor, operands, meanings, result, **how), wanted, strict=True):
        np.testing.assert_array_equal(got, expected)


SIZES = [
    (2, 3, 5, 2, 4),
    (1, 96, 64, 1, 8),
    (1, 32, 32, 1, 32),
    (1, 1, 1, 1, 1),
    (3, 17, 33, 3, 11),
    (131, 5, 7, 1, 3),
    (1, 300, 9, 2, 5000),
    (2, 8, 9001, 1, 2),
    (5, 0, 4, 1, 3),
    (0, 4, 4, 1, 3),
    (2, 4, 0, 2, 3),
]
"""Batch, inputs, units, rank, steps: odd, several panels, blocks of sequences, long filters."""


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("with_bias", [False, True])
def test_sizes(run_layer, sizes, with_bias):
    check(run_layer, sizes[3], *drawn(*sizes, with_bias=with_bias))


@pytest.mark.parametrize("zeros", [(-128, 127), (127, -128), (0, 0)], ids=str)
def test_zero_points(run_layer, zeros):
    check(run_layer, 2, *drawn(2, 16, 19, 2, 7, zeros=zeros))


@pytest.mark.parametrize("features", [1e-13, 0.01, 5.0, 1e4, 1e13], ids=str)
@pytest.mark.parametrize("result", [1e-13, 1e8, 1e25], ids=str)
def test_factors_that_vanish_or_saturate(run_layer, features, result):
    """Of those that shift to the left, what leaves 32 bits saturates."""
    check(run_layer, 1, *drawn(2, 16, 35, 1, 7, features=features, result=result))


def test_a_scale_beyond_float32(run_layer):
    """Its factor is no number in float32: sums saturate, those that are 0 stay so."""
    operands, meanings, result = drawn(2, 4, 5, 1, 3)
    meanings["input"] = meanings["initial_state"] = Quantization.per_tensor(1e300)
    operands["feature_weights"] = np.sign(operands["feature_weights"])
    _, state = run(run_layer, QuantizedSvdf(), operands, meanings, result)
    sums = operands["input"].astype(np.int64) @ operands["feature_weights"].T.astype(np.int64)
    np.testing.assert_array_equal(state.reshape(2, 5, 3)[..., 2], np.clip(np.sign(sums) * 40000, -32768, 32767))


@pytest.mark.parametrize("sizes", [(9, 300, 700, 1, 8), (64, 40, 100, 2, 30)], ids=str)
def test_threads_share_out_a_wide_layer(run_layer, sizes):
    check(run_layer, sizes[3], *drawn(*sizes), workers=4)
