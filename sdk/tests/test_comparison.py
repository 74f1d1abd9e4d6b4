"""Networks compared layer by layer: quantized ones, streams, weights of fewer digits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dovetail import DType, Network, Quantization
from dovetail import load as load_network
from dovetail_sdk.comparison import Comparison, Side
from dovetail_sdk.differences import ONE_QUANTIZED, QUANTIZED
from dovetail_sdk.pairs import Feeding

STEP = Quantization((0.05,), (3,))


def product(quantized: bool, *, is_wrong: bool = False) -> Network:
    """x @ W in real numbers, or in integers of 0.05 each, with integers in and real numbers out."""
    network = Network("product")
    weights = np.linspace(-1, 1, 24, dtype=np.float32).reshape(6, 4) * (2 if is_wrong else 1)
    if not quantized:
        x = network.input("x", (2, 6))
        network.output(network.relu(network.matmul(network.relu(x, name="positive"), weights, name="product"), name="act"), "y")
        return network
    x = network.input("x", (2, 6), DType.INT8, STEP)
    positive = network.relu(x, name="positive")
    real = network.dequantize(positive, STEP, name="real")
    result = network.quantize(network.matmul(real, weights, name="inside"), STEP, name="product")
    network.output(network.dequantize(network.relu(result, name="act"), STEP, name="out"), "y")
    return network


def compare(a: Network, b: Network, runs: int = 1) -> Comparison:
    sides = [Side(Path(name), network, ["CpuRef"], {}) for name, network in (("a", a), ("b", b))]
    with load_network(a, "CpuRef") as loaded_a, load_network(b, "CpuRef") as loaded_b:
        feeding = Feeding.of((loaded_a.inputs, loaded_b.inputs), ({}, {}), all_random=True)
        (spec,) = feeding.given
        integers = np.arange(-60, 60, 10, dtype=np.int8).reshape(2, 6)
        array = integers if spec.dtype is DType.INT8 else (integers * 0.05).astype(np.float32)
        comparison = Comparison(*sides, loaded_a, loaded_b, [feeding.both({"x": array})] * runs, None, None)
        comparison.compare_outputs(lambda: None)
        for group in comparison.layer_groups():
            comparison.compare_layers(group, lambda: None)
    return comparison


@pytest.mark.parametrize("is_swapped", [False, True])
def test_a_float_network_against_its_quantized_one(is_swapped: bool) -> None:
    """Integers are compared as what they stand for: they are half a step apart at most."""
    sides = [product(False), product(True)]
    comparison = compare(*(reversed(sides) if is_swapped else sides))
    assert comparison.is_within
    assert comparison.parting is None
    rows = {row.names[0]: row for row in comparison.layers}
    assert list(rows) == ["positive", "product", "act"]
    assert {spec.dtype for spec in rows["product"].specs} == {DType.FLOAT32, DType.INT8}
    for name in ("product", "act"):
        found = rows[name].difference
        assert found is not None
        assert 0 < found.max_abs <= 0.05 / 2 + 1e-6
        assert rows[name].tolerance == ONE_QUANTIZED
    positive = rows["positive"].difference
    assert positive is not None
    assert positive.max_abs < 1e-6


def test_a_quantized_network_with_a_wrong_layer_parts_there() -> None:
    comparison = compare(product(False), product(True, is_wrong=True))
    assert not comparison.is_within
    assert comparison.parting == "product"
    assert compare(product(True), product(True)).outputs[0].tolerance == QUANTIZED


def test_random_inputs_are_made_for_the_quantized_network() -> None:
    with load_network(product(False), "CpuRef") as a, load_network(product(True), "CpuRef") as b:
        feeding = Feeding.of((a.inputs, b.inputs), ({}, {}), all_random=True)
        assert feeding.is_swapped
        integers = np.arange(12, dtype=np.int8).reshape(2, 6)
        ours, theirs = feeding.both({"x": integers})
        np.testing.assert_allclose(ours["x"], (integers - 3.0) * 0.05, rtol=1e-6)
        assert theirs["x"] is integers
        given = Feeding.of((a.inputs, b.inputs), ({}, {}), all_random=False)
        assert not given.is_swapped
        ours, theirs = given.both({"x": np.array([[0.05, -0.1, 0.074, 100, -100, 0]] * 2, np.float32)})
        np.testing.assert_array_equal(theirs["x"][0], [4, 1, 4, 127, -128, 3])


@pytest.mark.parametrize("stored", [np.float16, np.float32])
def test_weights_of_fewer_digits_differ_by_what_they_lost(stored: type) -> None:
    def network(dtype: type) -> Network:
        made = Network("net")
        x, weights = made.input("x", (2, 6)), made.constant(np.full((6, 6), 1 / 3, dtype), "weights")
        made.output(made.matmul(x, made.cast(weights, "float32")), "y")
        return made

    (row,) = compare(network(np.float32), network(stored)).outputs
    assert row.tolerance == (5e-3 if stored is np.float16 else 1e-4)
    assert not row.is_beyond
    (same,) = compare(network(stored), network(stored)).outputs
    assert same.tolerance == 1e-4  # of both: their weights are the same


def test_a_network_that_remembers_is_one_stream() -> None:
    def running_sum(factor: float) -> Network:
        network = Network("running sum")
        x, total = network.input("x", (2, 6)), network.state("total", (2, 6))
        after = network.addition(network.multiplication(total, np.float32(factor), name="faded"), x, name="after")
        network.write_state("total", after)
        network.output(network.relu(after, name="act"), "y")
        return network

    assert compare(running_sum(1), running_sum(1), runs=3).is_within
    comparison = compare(running_sum(1), running_sum(0.5), runs=1)
    assert comparison.is_within  # the first run of a stream has nothing to fade
    comparison = compare(running_sum(1), running_sum(0.5), runs=2)
    assert not comparison.is_within
    assert [row.names for row in comparison.outputs] == [("y", "y")]
    assert comparison.parting == "faded"
