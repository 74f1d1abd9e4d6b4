"""The accuracy that csrc/kernels/mathematics.h states, over a sample of all floats."""

from __future__ import annotations

import math

import numpy as np
import pytest

import dovetail
from dovetail_neon.kernels import instruction_sets

HERE = [name for name, here in instruction_sets().items() if here]
# Every 9973rd bit pattern: all exponents and signs, infinities and NaN among them.
SAMPLE = np.arange(0, 2**32, 9973, dtype=np.uint64).astype(np.uint32).view(np.float32)


def exact(function):
    return np.vectorize(function, otypes=[np.float64])(SAMPLE.astype(np.float64))


def softplus(x):
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


# function of a network, exact values, units in the last place (with fused multiply-add, without)
FUNCTIONS = {
    "exp": (lambda n, x: n.unary(x, "exp"), lambda x: math.exp(min(x, 700.0)), (1.5, 2.0)),
    "log": (lambda n, x: n.unary(x, "log"), lambda x: math.log(x) if x > 0 else -math.inf if x == 0 else math.nan, (2.0, 2.5)),
    "erf": (lambda n, x: n.unary(x, "erf"), math.erf, (4.0, 5.0)),
    "tanh": (lambda n, x: n.tanh(x), math.tanh, (3.0, 4.0)),
    "sigmoid": (lambda n, x: n.sigmoid(x), lambda x: 1 / (1 + math.exp(min(-x, 700.0))), (4.0, 4.0)),
    "softplus": (lambda n, x: n.activation(x, "softplus"), softplus, (4.0, 5.0)),
}


@pytest.mark.parametrize("isa", HERE)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_errors_stay_within_what_is_stated(name, isa):
    build, reference, bounds = FUNCTIONS[name]
    network = dovetail.Network(name)
    network.output(build(network, network.input("x", SAMPLE.shape)), "y")
    with dovetail.load(network, backends=["CpuAcc"], options={"CpuAcc": {"isa": isa}}) as net:
        found = net.run({"x": SAMPLE})["y"]
    with np.errstate(all="ignore"):
        expected = exact(reference)
        rounded = expected.astype(np.float32)
        ulp = np.spacing(np.maximum(np.abs(rounded), np.float32(np.finfo(np.float32).tiny))).astype(np.float64)
        same = (found == rounded) | (np.isnan(found) & np.isnan(rounded))
        errors = np.where(same, 0.0, np.abs(found.astype(np.float64) - expected) / ulp)
    worst = int(np.nanargmax(np.where(np.isnan(errors), np.inf, errors)))
    bound = bounds[isa == "scalar"]
    assert errors[worst] <= bound, (SAMPLE[worst], found[worst], expected[worst], errors[worst])
