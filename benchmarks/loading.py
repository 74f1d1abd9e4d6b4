"""Measure how the time and memory of loading grow with a network.

The networks are generated, of 1,000, 10,000 and 50,000 layers.

    python3 dev.py bench loading [--networks chain branches ...] [--layers 1000 10000] [--rounds 3]

Each measurement is a process of its own: it builds a network, or writes it as an ONNX file, then
loads it and runs it once. Time is that of the process (all its threads), not of the clock, so that
other work on the machine disturbs it little; memory is what its peak rose by while it loaded,
beyond the weights. Growth is the time per layer by that of the size before.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

import dovetail
from dovetail import Constant, Network
from dovetail.graph.layer import OutputSlot

WIDTH = 16
SIZES = (1_000, 10_000, 50_000)
NETWORKS: dict[str, Callable[[int], Any]] = {}


def generated(make: Callable[[int], Any]) -> Callable[[int], Any]:
    """Enter a network into the table, by its name."""
    NETWORKS[make.__name__] = make
    return make


# -- by the builder --------------------------------------------------------------------------------


def started(name: str, *shape: int) -> tuple[Network, OutputSlot]:
    """Begin a network with one input."""
    network = Network(name)
    return network, network.input("x", shape or (1, WIDTH))


def step(network: Network, x: OutputSlot, number: int, **named: Any) -> OutputSlot:
    """Add one of a few elementwise layers; no two in a row can become one."""
    if number % 4 == 2:
        return network.unary(x, "abs", **named)
    return (network.tanh, network.sigmoid, network.relu, network.relu)[number % 4](x, **named)


@generated
def chain(count: int) -> Network:
    """Elementwise layers one after the other."""
    network, x = started("chain")
    for number in range(count):
        x = step(network, x, number)
    network.output(x, "y")
    return network


@generated
def same_names(count: int) -> Network:
    """A chain whose layers all ask for one name."""
    network, x = started("same_names")
    for number in range(count):
        x = step(network, x, number, name="layer")
    network.output(x, "y")
    return network


@generated
def branches(count: int) -> Network:
    """Branches of one layer each from one tensor, joined by one concatenation."""
    network, x = started("branches")
    x = network.tanh(x)
    network.output(network.concat([step(network, x, number) for number in range(count)], axis=1), "y")
    return network


@generated
def sums(count: int) -> Network:
    """Branches of one layer each from one tensor, added up two by two."""
    network, x = started("sums")
    x = network.tanh(x)
    row = [step(network, x, number) for number in range(count // 2)]
    while len(row) > 1:
        row = [network.addition(a, b) for a, b in zip(row[::2], row[1::2], strict=False)] + row[len(row) & ~1 :]
    network.output(row[0], "y")
    return network


@generated
def residuals(count: int) -> Network:
    """A chain in which every third layer adds what went into the two before it."""
    network, x = started("residuals")
    for number in range(count // 3):
        x = network.addition(step(network, step(network, x, number), number + 1), x)
    network.output(x, "y")
    return network


@generated
def convolutions(count: int) -> Network:
    """Convolutions of 3 x 3 and 1 x 1, an activation after each."""
    network, x = started("convolutions", 1, WIDTH, 8, 8)
    luck = np.random.default_rng(0)
    for number in range(count // 2):
        size = 3 if number % 2 else 1
        weights = luck.standard_normal((WIDTH, WIDTH, size, size), np.float32) * 0.1
        x = network.relu(network.convolution2d(x, weights, padding=size // 2))
    network.output(x, "y")
    return network


@generated
def random_graph(count: int) -> Network:
    """Layers of one or two inputs, drawn from the latest forty."""
    network, x = started("random_graph")
    luck = random.Random(0)
    made = [x]
    for number in range(count):
        a, b = (luck.choice(made[-40:]) for _ in range(2))
        made.append(network.addition(a, b) if luck.random() < 0.4 else step(network, a, number))
    network.output(network.concat([slot for slot in made if not slot.consumers], axis=1), "y")
    return network


@generated
def alternating(count: int) -> Network:
    """A chain whose layers go to two backends alternately: see `ARGUMENTS`."""
    network, x = started("alternating")
    for number in range(count):
        x = step(network, x, number, name=("even" if number % 2 else "odd") + f"_{number}")
    network.output(x, "y")
    return network


@generated
def alternating_branches(count: int) -> Network:
    """Build branches of two layers, each for one of two backends, joined by one concatenation.

    See `ARGUMENTS`.
    """
    network, x = started("alternating_branches")
    x = network.tanh(x)
    ends = []
    for number in range(count // 2):
        first = step(network, x, number, name=f"odd_{number}")
        ends.append(step(network, first, number + 1, name=f"even_{number}"))
    network.output(network.concat(ends, axis=1), "y")
    return network


@generated
def slices(count: int) -> Network:
    """A tensor split into many, each changed in place, joined again."""
    network, x = started("slices", count // 2, WIDTH)
    parts = network.split(network.tanh(x), count // 2, axis=0)
    network.output(network.concat([step(network, part, number) for number, part in enumerate(parts)], axis=0), "y")
    return network


# -- as ONNX files ---------------------------------------------------------------------------------


class Nodes:
    """An ONNX model, node by node."""

    def __init__(self, *shape: int) -> None:
        from onnx import TensorProto, helper

        self.helper, self.float = helper, TensorProto.FLOAT
        self.shape = shape or (1, WIDTH)
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []

    def add(self, kind: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        output = f"t{len(self.nodes)}"
        self.nodes.append(self.helper.make_node(kind, inputs, [output], name or f"{kind}_{len(self.nodes)}", **attributes))
        return output

    def constant(self, value: Any) -> str:
        from onnx import numpy_helper

        name = f"c{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def model(self, result: str) -> bytes:
        helper = self.helper
        self.nodes.append(helper.make_node("Identity", [result], ["y"], "result"))
        graph = helper.make_graph(
            self.nodes,
            "generated",
            [helper.make_tensor_value_info("x", self.float, self.shape)],
            [helper.make_tensor_value_info("y", self.float, None)],
            self.initializers,
        )
        data: bytes = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()
        return data


_KINDS = ("Tanh", "Sigmoid", "Abs", "Relu")


@generated
def onnx_chain(count: int) -> bytes:
    """An ONNX file of elementwise nodes one after the other."""
    nodes, x = Nodes(), "x"
    for number in range(count):
        x = nodes.add(_KINDS[number % 4], x)
    return nodes.model(x)


@generated
def onnx_same_names(count: int) -> bytes:
    """An ONNX file whose nodes have one name."""
    nodes, x = Nodes(), "x"
    for number in range(count):
        x = nodes.add(_KINDS[number % 4], x, name="node")
    return nodes.model(x)


@generated
def onnx_branches(count: int) -> bytes:
    """An ONNX file of branches from one tensor, joined by one concatenation."""
    nodes = Nodes()
    x = nodes.add("Tanh", "x")
    return nodes.model(nodes.add("Concat", *[nodes.add(_KINDS[number % 4], x) for number in range(count)], axis=1))


@generated
def onnx_qdq(count: int) -> bytes:
    """Make an ONNX file of products and activations, each as dequantize, compute, quantize."""
    nodes, x = Nodes(), "x"
    luck = np.random.default_rng(0)
    scale, zero, fine = nodes.constant(np.float32(0.05)), nodes.constant(np.int8(0)), nodes.constant(np.float32(0.01))
    x = nodes.add("QuantizeLinear", x, scale, zero)
    for number in range(count // 4):
        real = nodes.add("DequantizeLinear", x, scale, zero)
        if number % 2:
            made = nodes.add("Relu", real)
        else:
            weights = nodes.constant(luck.integers(-100, 100, (WIDTH, WIDTH), np.int8))
            made = nodes.add("MatMul", real, nodes.add("DequantizeLinear", weights, fine, zero))
        x = nodes.add("QuantizeLinear", made, scale, zero)
    return nodes.model(nodes.add("DequantizeLinear", x, scale, zero))


@generated
def onnx_constants(count: int) -> bytes:
    """Make an ONNX file of sums with constants, with shapes that are worked out while loading.

    A node of its own gives each constant.
    """
    nodes, x = Nodes(), "x"
    for number in range(count // 4):
        constant = nodes.add("Mul", nodes.constant(np.full((1, WIDTH), number, np.float32)), nodes.constant(np.float32(2)))
        x = nodes.add("Add", nodes.add("Reshape", x, nodes.add("Shape", x)), constant)
    return nodes.model(x)


# -- measuring -------------------------------------------------------------------------------------

ARGUMENTS: dict[str, dict[str, Any]] = {
    name: {"backends": ["CpuAcc", "CpuRef"], "require": {"odd_*": "CpuRef"}} for name in ("alternating", "alternating_branches")
}
"""What a network is loaded with, besides itself."""


class Counts(NamedTuple):
    """What one load took.

    Attributes:
        layers: Layers or nodes of the network that was loaded.
        seconds: Of the process.
        peak: Bytes that the peak of the process rose by, weights left out.
    """

    layers: int
    seconds: float
    peak: int


def made(name: str, layers: int, folder: Path) -> tuple[Network | Path, int]:
    """Make a network, or a file of one; returns it and the bytes of its constants."""
    network = NETWORKS[name](layers)
    if isinstance(network, bytes):
        path = folder / f"{name}.onnx"
        path.write_bytes(network)
        return path, 0
    return network, sum(layer.descriptor.value.nbytes for layer in network if isinstance(layer.descriptor, Constant))


def measure(name: str, layers: int) -> Counts:
    """Load one network in this process."""
    with tempfile.TemporaryDirectory() as folder:
        warm, _ = made(name, 40, Path(folder))
        dovetail.load(warm, **ARGUMENTS.get(name, {})).unload()
        network, weights = made(name, layers, Path(folder))
        before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
        loaded = dovetail.load(network, **ARGUMENTS.get(name, {}))
        seconds = time.process_time() - start
        peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 - weights
        shape = loaded.inputs[0].shape
        loaded.run({"x": np.zeros(shape, np.float32)})
        loaded.unload()
    return Counts(layers, seconds, max(peak, 0))


def in_child(name: str, layers: int, timeout: float) -> Counts | None:
    """Load one network in a process of its own; None if it took too long."""
    command = [sys.executable, __file__, "--measure", name, str(layers)]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, timeout=timeout, check=True)
    except subprocess.TimeoutExpired:
        return None
    return Counts(*json.loads(done.stdout))


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", nargs="+", choices=list(NETWORKS), default=list(NETWORKS), metavar="NAME")
    parser.add_argument("--layers", nargs="+", type=int, default=list(SIZES))
    parser.add_argument("--rounds", type=int, default=1, help="medians of so many processes each")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for one load")
    parser.add_argument("--measure", nargs=2, metavar=("NAME", "LAYERS"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(arguments.measure[0], int(arguments.measure[1]))))
        return
    print("| network |" + "".join(f" {layers:,} layers | ms a layer | growth | MiB |" for layers in arguments.layers))
    print("|---|" + "---|---|---|---|" * len(arguments.layers))
    for name in arguments.networks:
        cells, last = [], None
        for layers in arguments.layers:
            found = [in_child(name, layers, arguments.timeout) for _ in range(arguments.rounds)]
            counts = [one for one in found if one is not None]
            if not counts:
                cells.append(f" above {arguments.timeout:g} s | | | |")
                break
            seconds, peak = median(one.seconds for one in counts), median(one.peak for one in counts)
            growth = "" if last is None else f"{seconds / layers / last:.2f}"
            last = seconds / layers
            cells.append(f" {seconds:.2f} s | {1e3 * last:.3f} | {growth} | {peak / 2**20:.0f} |")
        print(f"| {name} |" + "".join(cells), flush=True)


if __name__ == "__main__":
    main()
