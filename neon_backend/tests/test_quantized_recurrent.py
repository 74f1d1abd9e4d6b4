"""LSTMs of integers against LiteRT's results and against what the kind says, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail import Quantization
from dovetail.layers import QuantizedLstm
from dovetail_neon.kernels import Kernels, instruction_sets
from dovetail_sdk.conformance.cases import Feed
from dovetail_sdk.conformance.references.quantized_recurrence import quantized_lstm

STATES = ("input", "initial_hidden", "initial_cell")
GATES = ("input", "forget", "cell", "output")


@pytest.fixture(params=[(name, dots) for name, here in instruction_sets().items() if here for dots in (True, False)], ids=str)
def kernels(request):
    """The kernels of each instruction set, with dot products of bytes and without."""
    name, dots = request.param
    return Kernels(name, dot_products=dots)


@pytest.fixture(scope="session")
def of_litert(of_cpuref):
    """The module with the results of LiteRT, which CpuRef's tests read too."""
    return of_cpuref("test_quantized_recurrent")


def run(run_layer, descriptor, operands, quantizations, **how):
    """Return the outputs of a layer whose operands, but for input and states, are constant."""

    def build(net, *slots):
        by_name = dict(zip(STATES, slots, strict=True))
        for name, value in operands.items():
            if name not in STATES:
                by_name[name] = net.constant(value, quantization=quantizations.get(name))
        return net.add(descriptor, *(by_name.get(name) for name in descriptor.input_names))

    return run_layer(build, *(operands[name] for name in STATES), quantizations=[quantizations[name] for name in STATES], **how)


def test_same_bits_as_litert(run_layer, of_litert):
    for parameters in of_litert.litert_cases():
        case, runs, operands, wanted = parameters.values
        descriptor, quantizations = of_litert.described(case)
        _, batch, _, units, hidden = case["sizes"]
        states = [np.full((batch, hidden), case["hidden"][1], np.int8), np.zeros((batch, units), np.int16)]
        for x, result in zip(runs, wanted, strict=True):
            together = {"input": x, "initial_hidden": states[0], "initial_cell": states[1], **operands}
            got, *states = run(run_layer, descriptor, together, quantizations)
            np.testing.assert_array_equal(got, result, err_msg=f"case {parameters.id}")


def drawn(steps, batch, inputs, units, hidden, *, cell=2.0**-11, zero=3, projects=False, coupled=False, more=(), seed=0):
    """Return operands of sequences [steps, batch, inputs], and their quantizations."""
    random = np.random.default_rng(seed)
    operands = {
        "input": random.integers(-128, 127, (steps, batch, inputs), np.int8, endpoint=True),
        "initial_hidden": random.integers(-128, 127, (batch, hidden), np.int8, endpoint=True),
        "initial_cell": random.integers(-32768, 32767, (batch, units), np.int16, endpoint=True),
    }
    quantizations = {
        "input": Quantization.per_tensor(0.02, zero),
        "initial_hidden": Quantization.per_tensor(0.01, -zero),
        "initial_cell": Quantization.per_tensor(cell),
    }
    shapes = {}
    for gate in GATES[coupled:]:
        shapes |= {f"{gate}_weights": (units, inputs), f"{gate}_recurrent_weights": (units, hidden)}
        operands[f"{gate}_bias"] = random.integers(-4096, 4096, units, np.int32)
        for what in more:
            if (what, gate) != ("peepholes", "cell"):
                operands[f"{gate}_{what}"] = random.integers(-32768, 32767, units, np.int16, endpoint=True)
                quantizations[f"{gate}_{what}"] = Quantization.per_tensor(5e-5)
    if projects:
        shapes["projection_weights"] = (hidden, units)
        operands["projection_bias"] = random.integers(-4096, 4096, hidden, np.int32)
    for name, shape in shapes.items():
        operands[name] = random.integers(-127, 127, shape, np.int8, endpoint=True)
        quantizations[name] = Quantization.per_tensor(float(np.float32(random.uniform(1.5, 2.5) / 128 / shape[1] ** 0.5)))
    return operands, quantizations


def wanted_of(descriptor, operands, quantizations):
    """Return what the conformance kit's definition gives."""
    feeds = {
        name: Feed(operands[name], quantization=quantizations.get(name)) if name in operands else None
        for name in descriptor.input_names
    }
    return quantized_lstm(descriptor, feeds)


def check(run_layer, descriptor, operands, quantizations):
    if descriptor.batch_first:
        operands = {**operands, "input": np.ascontiguousarray(operands["input"].swapaxes(0, 1))}
    for got, wanted in zip(
        run(run_layer, descriptor, operands, quantizations), wanted_of(descriptor, operands, quantizations), strict=True
    ):
        np.testing.assert_array_equal(got, wanted)


SIZES = [
    (4, 2, 3, 5, 5),
    (1, 1, 257, 128, 128),
    (70, 1, 17, 33, 33),
    (3, 5, 130, 17, 17),
    (2, 70, 9, 4, 4),
    (2, 3, 40, 150, 150),
]
"""Steps, batch, elements of a step, units, hidden values: odd ones, several panels, wide runs."""


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("batch_first", [False, True])
def test_sizes(run_layer, sizes, batch_first):
    check(run_layer, QuantizedLstm(batch_first=batch_first), *drawn(*sizes))


@pytest.mark.parametrize("coupled", [False, True])
@pytest.mark.parametrize("more", [("peepholes",), ("normalization",), ("peepholes", "normalization")], ids="+".join)
@pytest.mark.parametrize("projects", [False, True])
def test_parts(run_layer, coupled, more, projects):
    descriptor = QuantizedLstm(
        gate_scales=(3e-4, 4e-4, 5e-4, 6e-4) if "normalization" in more else None,
        hidden_scale=0.008 if projects else None,
        hidden_zero_point=-7 if projects else 0,
        cell_clip=0.8,
        projection_clip=0.9 if projects else None,
    )
    hidden = 21 if projects else 35
    check(run_layer, descriptor, *drawn(5, 3, 20, 35, hidden, projects=projects, coupled=coupled, more=more))


@pytest.mark.parametrize("units", [1, 35])
def test_a_projection_to_nothing(run_layer, units):
    """Cells go on alone: each step has a hidden state of no values."""
    operands, quantizations = drawn(5, 3, 20, units, 1, projects=True)
    for name, value in operands.items():
        if name.endswith("recurrent_weights"):
            operands[name] = value[:, :0]
    operands["projection_weights"] = operands["projection_weights"][:0]
    operands["projection_bias"] = operands["projection_bias"][:0]
    operands["initial_hidden"] = operands["initial_hidden"][:, :0]
    check(run_layer, QuantizedLstm(hidden_scale=0.008, hidden_zero_point=-7), operands, quantizations)


@pytest.mark.parametrize("exponent", range(-15, -8))
@pytest.mark.parametrize("zero", [-128, 0, 127])
def test_cells_and_zero_points(run_layer, exponent, zero):
    check(run_layer, QuantizedLstm(), *drawn(6, 2, 16, 19, 19, cell=2.0**exponent, zero=min(zero, 127) if zero > -128 else 127))


def test_every_value_of_a_gate(run_layer):
    """Each number of 16 bits goes into each function: biases are sums as they are."""
    units = 1 << 16
    operands, quantizations = drawn(1, 1, 1, units, 1, projects=True)
    values = np.arange(-(1 << 15), 1 << 15, dtype=np.int32)
    for number, gate in enumerate(GATES):
        operands[f"{gate}_bias"] = np.roll(values, number * 16411)
        operands[f"{gate}_weights"] = np.zeros((units, 1), np.int8)
        operands[f"{gate}_recurrent_weights"] = np.zeros((units, 1), np.int8)
        quantizations[f"{gate}_weights"] = Quantization.per_tensor(2.0**-6)
    quantizations["input"] = Quantization.per_tensor(2.0**-6)
    for exponent in (-9, -11, -15):
        quantizations["initial_cell"] = Quantization.per_tensor(2.0**exponent)
        operands["initial_cell"] = values[::-1].astype(np.int16)[None]
        check(run_layer, QuantizedLstm(), operands, quantizations)


@pytest.mark.parametrize("scale", [1e-7, 1e3], ids=str)
def test_factors_that_saturate(run_layer, scale):
    operands, quantizations = drawn(4, 2, 6, 18, 18, more=("peepholes",))
    for name, one in quantizations.items():
        if name.endswith(("weights", "peepholes")):
            quantizations[name] = Quantization.per_tensor(one.scale[0] * scale)
    check(run_layer, QuantizedLstm(), operands, quantizations)


def test_a_run_stops_between_steps(run_layer):
    operands, quantizations = drawn(3, 1, 4, 4, 4)
    with pytest.raises(run_layer.Cancelled):
        run(run_layer, QuantizedLstm(), operands, quantizations, cancel=2)


def test_threads_share_out_a_wide_layer(run_layer):
    operands, quantizations = drawn(9, 8, 300, 700, 700)
    descriptor = QuantizedLstm()
    alone = run(run_layer, descriptor, operands, quantizations)
    for one, other in zip(run(run_layer, descriptor, operands, quantizations, workers=4), alone, strict=True):
        np.testing.assert_array_equal(one, other)
