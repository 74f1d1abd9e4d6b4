"""Test what `print` shows of networks and of loaded networks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import dovetail
from dovetail import Network, TensorInfo
from dovetail.graph.descriptor import Descriptor, Infos, descriptor_class
from dovetail.graph.summary import summarize_as_it_stands
from dovetail.ground.units import bytes_text, count_text


@descriptor_class
class Odd(Descriptor, kind="tables.Odd"):
    """A kind that cannot count."""

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        return [info for info in inputs if info is not None]

    def macs(self, inputs: Infos, outputs: Sequence[TensorInfo]) -> int:
        raise ZeroDivisionError("it cannot count")


def classifier(batch: int | str = "N", side: int | str = 8) -> Network:
    """Return a convolution (2 x 3 x 3 x 3 weights, 2 biases) and a product (4 x 2)."""
    network = Network("classifier")
    x = network.input("picture", (batch, 3, side, side))
    y = network.relu(
        network.convolution2d(x, np.ones((2, 3, 3, 3), np.float32), np.ones(2, np.float32), padding=1, name="stem")
    )
    flat = network.flatten(network.global_pooling(y, "average", name="pool"), name="flat")
    network.output(network.fully_connected(flat, np.ones((4, 2), np.float32), name="classes"), "scores")
    return network


def test_a_network_is_a_table() -> None:
    assert str(classifier(2)) == (
        "network 'classifier'\n"
        "input   picture  float32[2, 3, 8, 8]\n"
        "output  scores   float32[2, 4]\n"
        "\n"
        "layer    kind            output               params    MACs\n"
        "stem     Convolution2d   float32[2, 2, 8, 8]      56  6.91 k\n"
        "relu     Activation      float32[2, 2, 8, 8]\n"
        "pool     GlobalPooling   float32[2, 2, 1, 1]\n"
        "flat     Flatten         float32[2, 2]\n"
        "classes  FullyConnected  float32[2, 4]             8      16\n"
        "\n"
        "5 layers, 64 parameters (256 B), 6.93 k multiply-accumulates"
    )
    assert repr(classifier(2)) == "<Network 'classifier': 10 layers>"


def test_open_sizes_are_symbols_and_counted_for_one() -> None:
    text = str(classifier("N", "S"))
    assert "float32[N, 2, S, S]" in text
    assert text.endswith(f"{2 * 27 + 8} multiply-accumulates for N = 1, S = 1")
    network = classifier("N", "S")
    before = [slot.info for layer in network for slot in layer.outputs]
    str(network)
    assert [slot.info for layer in network for slot in layer.outputs] == before


@pytest.mark.parametrize("batch", [1, "N"])
def test_counts_are_those_of_the_same_network_of_known_sizes(batch: int | str) -> None:
    rng = np.random.default_rng(3)
    network = Network("random")
    x = network.input("x", (batch, 5, 7, 9))
    expected = 0
    for channels, group in ((10, 5), (6, 2), (8, 1)):
        before = 5 if group == 5 else {2: 10, 1: 6}[group]
        x = network.convolution2d(
            x, rng.standard_normal((channels, before // group, 3, 3)).astype(np.float32), groups=group, padding=1
        )
        expected += channels * 7 * 9 * 9 * (before // group)
    network.output(x)
    found = summarize_as_it_stands(network)
    assert found.macs == expected
    assert found.assumed == ({"N": 1} if batch == "N" else {})


def test_states_are_named() -> None:
    network = Network("remembers")
    x = network.addition(network.input("x", (2,)), network.state("before", (2,)))
    network.write_state("before", x)
    network.output(x, "y")
    assert "\ninput   x       float32[2]\noutput  y       float32[2]\nstate   before  float32[2]\n" in str(network)
    with dovetail.load(network, "CpuRef") as net:
        assert "input   x  float32[2]\noutput  y  float32[2]\nbackends: " in str(net)


def chain(count: int) -> Network:
    network = Network("chain")
    x = network.input("x", (3,))
    for _ in range(count):
        x = network.relu(x)
    network.output(x, "y")
    return network


def test_long_networks_show_the_first_and_the_last_layers() -> None:
    assert len(str(chain(46)).splitlines()) == 6 + 46 + 1
    lines = str(chain(47)).splitlines()
    assert len(lines) == 6 + 46 + 1
    assert "... 2 more layers" in lines
    assert lines[5].startswith("relu ")
    assert any(line.startswith("relu_47 ") for line in lines)
    began = time.monotonic()
    text = str(chain(30_000))
    assert time.monotonic() - began < 30
    assert "... 29955 more layers" in text
    assert len(text.splitlines()) == 53


def test_it_fits_and_is_printable_whatever_is_in_a_file() -> None:
    network = Network("bad\x1b[31m\n" * 100)
    hostile = ["a" * 10_000, "\n\n\n", "\x1b[2J", "\u202e" + "x" * 50, "ü" * 200, "\ud800"]
    slots = [network.input(name, ("S" * 300, *range(1, 7))) for name in hostile]
    for name, slot in zip(hostile, slots, strict=True):
        network.output(network.relu(slot, name=f"r{name}"), f"y{name}")
    text = str(network)
    assert text.replace("\n", "").isprintable()
    assert max(map(len, text.splitlines())) <= 100
    for number in range(30):
        network.input(f"more {number}", (f"M{number}",))
    text = str(network)
    assert "input   ... 26 more" in text
    assert max(map(len, text.splitlines())) <= 100
    with dovetail.load(chain(2), "CpuRef") as net:
        assert max(map(len, str(net).splitlines())) <= 100


def test_what_is_under_construction_can_be_printed() -> None:
    network = Network("parts")
    assert str(network) == "network 'parts'\n\n0 layers, 0 parameters (0 B), 0 multiply-accumulates"
    x = network.input("x", ("N",))
    odd = network.add(Odd(), x, name="odd")
    assert "odd    tables.Odd  float32[N]             ?\n" in str(network)
    network.output(odd.output, "y")
    network.disconnect(odd.inputs[0])
    network.connect(odd.output, odd.inputs[0])  # a cycle
    assert "odd" in str(network)
    network.disconnect(network.outputs[0].inputs[0])
    assert "output  y  ?[?]" in str(network)


@pytest.mark.parametrize("batch", [2, "N"])
def test_loaded_networks_say_who_computes_and_what_it_takes(batch: Any) -> None:
    with dovetail.load(classifier(batch), "CpuRef") as net:
        if batch == "N":
            assert str(net).splitlines()[0] == "network 'classifier': 0 plan(s)"
            assert str(net).endswith("not planned yet: run it once, or load it with shapes={...}")
            net.run({"picture": np.ones((2, 3, 8, 8), np.float32)})
        lines = str(net).splitlines()
        assert lines[:3] == [
            "network 'classifier': 1 plan(s)",
            f"input   picture  float32[{batch}, 3, 8, 8]",
            f"output  scores   float32[{batch}, 4]",
        ]
        assert lines[3].startswith("backends: CpuRef (")
        assert bytes_text(net.memory.peak_bytes) in lines[4]
        assert len(lines) == 5
        assert "\n" not in repr(net)
    assert str(net).splitlines()[0] == "network 'classifier': unloaded"
    assert "backends" not in str(net)


def test_outputs_that_values_decide_are_told_as_unknown() -> None:
    network = Network("by value")
    x, shape = network.input("x", (4,)), network.input("shape", (2,), np.int64)
    network.output(network.reshape(x, shape), "y")
    assert "float32[?, ?]" in str(network)
    with dovetail.load(network, "CpuRef") as net:
        assert "input   shape  int64[2]" in str(net)
        net.run({"x": np.ones(4, np.float32), "shape": np.array([2, 2])})
        assert "backends: " in str(net)


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0"), (999, "999"), (1000, "1 k"), (1234, "1.23 k"), (999_499, "999 k"), (999_500, "1 M"), (10**13, "10 T")],
)
def test_counts_have_three_digits(count: int, text: str) -> None:
    assert count_text(count) == text


@pytest.mark.parametrize(("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (3 << 40, "3.0 TiB")])
def test_bytes(count: int, text: str) -> None:
    assert bytes_text(count) == text
