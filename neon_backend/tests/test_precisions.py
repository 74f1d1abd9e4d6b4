"""What holds for products of every reduced precision, and who refuses them."""

from __future__ import annotations

import numpy as np
import pytest

import dovetail
from dovetail_neon.kernels import instruction_sets, precisions

HERE = [name for name, here in instruction_sets().items() if here]
REDUCED = ("bfloat16", "float16")


def load(network, precision, isa="auto"):
    return dovetail.load(network, backends=["CpuAcc"], threads=1, options={"CpuAcc": {"precision": precision, "isa": isa}})


def relu():
    network = dovetail.Network("relu")
    network.output(network.relu(network.input("x", (4,))), "y")
    return network


@pytest.fixture(params=REDUCED)
def precision(request):
    """Each that some instruction set of this machine has."""
    if not any(request.param in precisions(isa) for isa in HERE):
        pytest.skip(f"no instruction set of this machine multiplies {request.param}")
    return request.param


@pytest.mark.parametrize("window", [(3, 3), (3, 2)], ids=str)
def test_lanes_that_nobody_reads_hold_what_they_like(precision, window):
    """After a logarithm a block's empty lanes hold an infinity: it must not meet a zero factor."""
    rng = np.random.default_rng(6)
    x = rng.uniform(1, 2, (1, 5, 6, 6)).astype(np.float32)
    first, second = (rng.uniform(0.1, 1, shape).astype(np.float32) for shape in ((21, 5, 1, 1), (18, 21, *window)))
    network = dovetail.Network("lanes")
    y = network.convolution2d(network.input("x", x.shape), first)
    network.output(network.convolution2d(network.unary(y, "log"), second), "y")
    with load(network, precision) as net:
        assert np.isfinite(net.run({"x": x})["y"]).all()


def test_nothing(precision):
    network = dovetail.Network("nothing")
    y = network.convolution2d(network.input("x", (0, 32, 5, 5)), np.ones((32, 32, 3, 3), np.float32))
    network.output(y, "y")
    with load(network, precision) as net:
        assert net.run({"x": np.zeros((0, 32, 5, 5), np.float32)})["y"].shape == (0, 32, 3, 3)


@pytest.mark.parametrize(
    ("isa", "missing"), [(isa, missing) for isa in HERE for missing in REDUCED if missing not in precisions(isa)]
)
def test_an_instruction_set_without_it_refuses(isa, missing):
    with pytest.raises(dovetail.OptionError, match=f"precision '{missing}'.*'{isa}'.*which has float32"):
        load(relu(), missing, isa)


def test_a_precision_that_is_not_there_is_named():
    with pytest.raises(dovetail.OptionError, match=r"precision 'float8' cannot be used .* which has float32"):
        load(relu(), "float8")
