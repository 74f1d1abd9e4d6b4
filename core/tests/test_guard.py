"""Test that a guarded runtime ends the process, naming the kernel, where one leaves its tensors."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dovetail import Guard, Network, Runtime
from dovetail.contract.backend_id import BackendId
from dovetail.contract.interfaces import IBackend, IWorkloadFactory, Support
from dovetail.graph.layer import Layer
from dovetail.ground.errors import OptionError, RunError

Execute = Callable[[list[Any], list[Any]], None]


def address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def double(inputs: list[Any], outputs: list[Any]) -> None:
    outputs[0][...] = 2 * inputs[0]


def read_behind(inputs: list[Any], outputs: list[Any]) -> None:
    double(inputs, outputs)
    ctypes.string_at(address(inputs[0]) + inputs[0].nbytes, 1)


def read_before(inputs: list[Any], outputs: list[Any]) -> None:
    double(inputs, outputs)
    ctypes.string_at(address(inputs[0]) - 4, 4)


def write_behind(inputs: list[Any], outputs: list[Any]) -> None:
    double(inputs, outputs)
    ctypes.memset(address(outputs[0]) + outputs[0].nbytes, 0, 4)


def write_before(inputs: list[Any], outputs: list[Any]) -> None:
    double(inputs, outputs)
    ctypes.memset(address(outputs[0]) - 1, 0, 1)


def write_input(inputs: list[Any], outputs: list[Any]) -> None:
    double(inputs, outputs)
    ctypes.memset(address(inputs[0]) + 8, 0, 4)


def leave_unwritten(inputs: list[Any], outputs: list[Any]) -> None:
    outputs[0].reshape(-1)[:-1] = 2 * inputs[0].reshape(-1)[:-1]


EXECUTES = {one.__name__: one for one in (double, read_behind, read_before, write_behind, write_before, write_input)}


class Workload:
    def __init__(self, execute: Execute) -> None:
        self.execute = execute


class Factory(IWorkloadFactory):
    def __init__(self, execute: Execute) -> None:
        self.run = execute

    def create_workload(self, layer: Layer) -> Any:
        return Workload(self.run)


class Doubling(IBackend):
    """Doubles, whatever it is asked for, and does something else besides."""

    def __init__(self, execute: Execute) -> None:
        self.run = execute

    id = BackendId("CpuDoubling")

    def supports(self, layer: Layer, options: Any, device: Any) -> Support:
        return Support.yes()

    def create_workload_factory(self, context: Any, resources: Any, options: Any) -> IWorkloadFactory:
        return Factory(self.run)


def chain(shape: tuple[int, ...] = (3, 5)) -> Network:
    network = Network("chain")
    x = network.activation(network.input("x", shape), "relu", name="first")
    network.output(x, "half way")
    network.output(network.activation(x, "tanh", name="second"), "y")
    return network


def run(execute: Execute, guard: Guard | None, shape: tuple[int, ...] = (3, 5)) -> dict[str, Any]:
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    with Runtime(threads=1, guard=guard) as runtime:
        net = runtime.load(chain(shape), optimize={"backends": [Doubling(execute)], "passes": False})
        net.run({"x": x})
        return net.run({"x": x})


@pytest.mark.parametrize("side", ["end", "start"])
@pytest.mark.parametrize("shape", [(3, 5), (1,), (0,), (), (64, 64), (1025,)])
def test_a_kernel_that_stays_inside_computes_as_ever(shape: tuple[int, ...], side: str) -> None:
    plain, guarded = run(double, None, shape), run(double, Guard(side, 0xFF), shape)
    assert {name: value.tobytes() for name, value in plain.items()} == {
        name: value.tobytes() for name, value in guarded.items()
    }
    assert guarded["y"].size == 0 or guarded["y"].reshape(-1)[-1] == 4 * (guarded["y"].size - 1)


def test_each_tensor_touches_a_page_and_shares_nothing() -> None:
    with Runtime(threads=1, guard=Guard()) as runtime:
        seen: list[tuple[int, int]] = []

        def watched(inputs: list[Any], outputs: list[Any]) -> None:
            double(inputs, outputs)
            seen.extend((address(one), one.nbytes) for one in (*inputs, *outputs))

        net = runtime.load(chain(), optimize={"backends": [Doubling(watched)], "passes": False})
        net.run({"x": np.ones((3, 5), np.float32)})
    assert {(begin + size) % 4096 for begin, size in seen} == {0}
    assert len(set(seen)) == 3


@pytest.mark.parametrize(
    ("name", "side", "place"),
    [
        ("read_behind", "end", "touched memory at byte 0 behind the end of the tensor 'x' (60 bytes)"),
        ("write_behind", "end", "touched memory at byte 0 behind the end of the tensor 'first' (60 bytes)"),
        ("read_before", "start", "touched memory 4 bytes before the start of the tensor 'x'"),
        ("write_before", "start", "touched memory 1 bytes before the start of the tensor 'first'"),
        ("write_input", "end", "wrote at byte 8 of, which it may only read, the tensor 'x'"),
    ],
)
def test_a_fault_names_layer_and_tensor(name: str, side: str, place: str) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(__file__).rpartition('/')[0]!r}); import faulthandler; faulthandler.enable()\n"
        f"import test_guard as t; t.run(t.EXECUTES[{name!r}], t.Guard({side!r}))"
    )
    # AddressSanitizer, if this runs with it, is not to take the signal that is meant to end the
    # process.
    environment = dict(os.environ, ASAN_OPTIONS=f"{os.environ.get('ASAN_OPTIONS', '')}:handle_segv=0:handle_abort=0")
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)
    assert done.returncode == -signal.SIGSEGV, done.stderr
    assert f"layer 'first' (dovetail.Activation) on CpuDoubling {place}" in done.stderr
    assert "Fatal Python error: Segmentation fault" in done.stderr


@pytest.mark.parametrize(
    ("execute", "side", "place"),
    [
        (write_behind, "start", "byte 0 behind the end of the tensor 'first'"),
        (write_before, "end", "1 bytes before the start of the tensor 'first'"),
    ],
)
def test_a_write_on_the_side_without_a_page_is_seen_after_the_step(execute: Execute, side: str, place: str) -> None:
    with pytest.raises(RunError, match="'first'") as caught:
        run(execute, Guard(side, 0x5A))
    assert place in str(caught.value)
    assert caught.value.details["layer"] == "first"


def test_what_nobody_wrote_changes_with_the_fill() -> None:
    assert run(leave_unwritten, Guard(fill=0x00))["y"].tobytes() != run(leave_unwritten, Guard(fill=0x5A))["y"].tobytes()


def test_constants_are_guarded_and_stay_after_the_network_they_came_from() -> None:
    network = Network("constants")
    value = np.arange(6, dtype=np.float32)
    network.output(network.binary(network.input("x", (6,)), network.constant(value, "c"), "add"), "y")
    places: list[int] = []

    def add(inputs: list[Any], outputs: list[Any]) -> None:
        places.append(address(inputs[1]) + inputs[1].nbytes)
        np.add(inputs[0], inputs[1], out=outputs[0])

    with Runtime(threads=1, guard=Guard()) as runtime:
        net = runtime.load(network, optimize={"backends": [Doubling(add)], "passes": False})
        del network
        assert net.run({"x": np.ones(6, np.float32)})["y"].tolist() == [1, 2, 3, 4, 5, 6]
    assert [place % 4096 for place in places] == [0]
    assert value.tolist() == [0, 1, 2, 3, 4, 5]


def test_a_guard_that_is_none_is_refused() -> None:
    with pytest.raises(OptionError, match="sideways"):
        Guard("sideways")
    with pytest.raises(OptionError, match="256"):
        Guard(fill=256)
    with pytest.raises(OptionError, match="no Guard"):
        Runtime(guard=True)  # type: ignore[arg-type]  # what a caller may try
