"""Copies between memory domains: where they must be, where not, and what is said about them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fakes.backends import Willing

from dovetail.contract import interfaces
from dovetail.contract.backend_id import BackendId
from dovetail.contract.interfaces import HOST, IBackend, MemoryDomain
from dovetail.ground.errors import BackendError, ErrorCode
from dovetail.layers.network import Network
from dovetail.optimizer import MemoryCopy, OptimizedNetwork, optimize
from dovetail.optimizer.copies import cancel_round_trips

GPU, NPU = MemoryDomain("Gpu", 0, "vram"), MemoryDomain("Npu", 0, "sram")


class Device(Willing):
    """Takes everything, in a memory of its own."""

    def __init__(self, id: str, domain: MemoryDomain = HOST, imports: frozenset[MemoryDomain] = frozenset()) -> None:
        super().__init__(id)
        self.domain = domain
        self.imports = imports

    def memory_domains(self, device: int) -> tuple[MemoryDomain, ...]:
        return (self.domain,)

    def importable_domains(self, device: int) -> frozenset[MemoryDomain]:
        return self.imports


Cpu, Gpu, Npu = Device("Cpu"), Device("Gpu", GPU), Device("Npu", NPU)


def path(*homes: str) -> tuple[Network, dict[str, str]]:
    """A chain of layers l0, l1, ... and the backends they are pinned to."""
    net = Network("path")
    y = net.input("x", (2, 3))
    for i in range(len(homes)):
        y = net.addition(y, np.full((2, 3), i, np.float32), name=f"l{i}")
    net.output(y, "y")
    return net, {f"l{i}": home for i, home in enumerate(homes)}


def placed(made: tuple[Network, dict[str, str]], *backends: IBackend) -> OptimizedNetwork:
    net, pins = made
    return optimize(net, list(backends), require=pins)


def copies(network: OptimizedNetwork) -> list[tuple[str, str, str, str | None]]:
    return [(c.tensor, str(c.source), str(c.target), c.backend) for c in network.placement.copies]


def flow(network: OptimizedNetwork) -> list[str]:
    order = network.graph.topological_order()
    return [layer.name for layer in order if layer.name in network.assignment]


def test_host_memory_is_shared_without_copies() -> None:
    network = placed(path("Cpu", "Cpu2", "Cpu"), Cpu, Device("Cpu2"))
    assert copies(network) == []
    assert set(network.domains.values()) == {HOST}


def test_a_device_takes_its_input_and_hands_back_its_output() -> None:
    network = placed(path("Gpu", "Gpu"), Gpu)
    assert copies(network) == [("x", "host", "Gpu:0/vram", "Gpu"), ("l1", "Gpu:0/vram", "host", "Gpu")]
    assert flow(network) == ["x.to_Gpu", "l0", "l1", "l1.to_host"]
    assert network.assignment["x.to_Gpu"].backend is Gpu  # type: ignore[union-attr]
    assert "x.to_Gpu" not in network.partition_of
    for name, domain in (("x", HOST), ("x.to_Gpu", GPU), ("l0", GPU), ("l1", GPU), ("l1.to_host", HOST), ("l0.1", HOST)):
        assert network.domains[network.graph.layer(name).output] == domain, name
    assert set(network.domains) == {slot for layer in network.graph for slot in layer.outputs}
    report = network.placement.copies[0]
    assert report.nbytes == 24
    assert report.reason == "l0 (Gpu) reads what x (input) makes"
    assert network.graph.layer("l1.to_host").sources == ("l1",)
    assert network.graph.layer("l1.to_host").descriptor == MemoryCopy(source=GPU, target=HOST)


def test_between_devices_that_cannot_see_each_other_the_way_is_through_the_host() -> None:
    network = placed(path("Gpu", "Npu"), Gpu, Npu)
    assert copies(network)[1:3] == [("l0", "Gpu:0/vram", "host", "Gpu"), ("l0", "host", "Npu:0/sram", "Npu")]
    assert "through the host" in network.placement.copies[1].reason
    assert flow(network) == ["x.to_Gpu", "l0", "l0.to_host", "l0.to_Npu", "l1", "l1.to_host"]


def test_whoever_can_reach_the_other_copies_directly_or_not_at_all() -> None:
    reading = placed(path("Gpu", "Npu"), Gpu, Device("Npu", NPU, frozenset({GPU})))
    assert [c[0] for c in copies(reading)] == ["x", "l1"], "the NPU reads the GPU's memory in place"
    writing = placed(path("Gpu", "Npu"), Device("Gpu", GPU, frozenset({NPU})), Npu)
    assert [c[0] for c in copies(writing)] == ["x", "l1"], "the GPU writes the NPU's memory in place"
    assert writing.domains[writing.graph.layer("l0").output] == NPU


def test_a_direct_copy_where_a_result_is_needed_in_both_memories() -> None:
    net = Network()
    made = net.unary(net.input("x", (2,)), "exp", name="made")
    net.output(net.unary(made, "sin", name="here"), "y")
    net.output(net.unary(made, "cos", name="there"), "z")
    reaching, plain = Device("Gpu", GPU, frozenset({NPU})), Device("Gpu2", GPU)
    network = optimize(net, [reaching, plain, Npu], require={"made": "Gpu", "here": "Gpu2", "there": "Npu"})
    assert [c for c in copies(network) if c[0] == "made"] == [("made", "Gpu:0/vram", "Npu:0/sram", "Gpu")]


def test_memory_that_imports_the_host_needs_no_copy() -> None:
    unified = Device("Gpu", GPU, frozenset({HOST}))
    assert copies(placed(path("Gpu"), unified)) == []
    network = placed(path("Gpu", "Gpu", "Cpu"), unified, Cpu)
    assert copies(network) == []
    assert network.domains[network.graph.layer("l0").output] == GPU, "its own memory, where that costs nothing"
    assert network.domains[network.graph.layer("l1").output] == HOST


def test_readers_in_one_memory_share_a_copy() -> None:
    net, _ = path("Gpu")
    l0 = net.layer("l0").output
    for name in ("p", "q", "r"):
        net.output(net.unary(l0, "exp", name=name), f"{name}_out")
    network = optimize(net, [Gpu, Cpu], require={"l0": "Gpu", "p": "Cpu", "q": "Cpu", "r": "Gpu"})
    to_host = [c for c in network.placement.copies if c.tensor == "l0"]
    assert len(to_host) == 1
    # the network's own output reads it too
    assert to_host[0].reason.startswith("y (output), p (Cpu), q (Cpu) reads")
    copy = network.graph.layer("l0.to_host").output
    assert [slot.layer.name for slot in copy.consumers] == ["y", "p", "q"]


def test_constants_are_handed_over_as_they_are() -> None:
    network = placed(path("Gpu"), Gpu)
    source = network.graph.layer("l0").inputs[1].source
    assert source is not None
    assert source.layer.kind == "dovetail.Constant"
    assert network.domains[source] == HOST


def test_an_input_that_is_an_output_needs_nothing() -> None:
    net = Network()
    net.output(net.input("x", (2,)), "y")
    network = optimize(net, [Gpu])
    assert (flow(network), copies(network)) == ([], [])


def test_two_devices_of_one_backend_have_two_memories() -> None:
    class Two(Device):
        def memory_domains(self, device: int) -> tuple[MemoryDomain, ...]:
            return (MemoryDomain("Two", device, "vram"),)

        def devices(self) -> tuple[interfaces.Device, ...]:
            return (interfaces.Device(0, "a"), interfaces.Device(1, "b"))

    class Registry:
        two = Two("Two")

        def get(self, id: BackendId) -> IBackend:
            return self.two

        def default_preferences(self) -> list[BackendId]:
            return []

    net, pins = path("Two:0", "Two:1")
    network = optimize(net, ["Two", "Two:1"], require=pins, registry=Registry())
    assert [c[1:3] for c in copies(network)] == [
        ("host", "Two:0/vram"),
        ("Two:0/vram", "host"),
        ("host", "Two:1/vram"),
        ("Two:1/vram", "host"),
    ]
    assert copies(network)[2][3] == "Two:1"


def test_debug_layers_run_on_the_host() -> None:
    net, pins = path("Gpu", "Gpu")
    network = optimize(net, [Gpu], require=pins, debug=True)
    assert network.assignment["l0.debug"] is None
    assert network.debug is not None
    assert flow(network) == ["x.to_Gpu", "l0", "l0.to_host", "l0.debug", "l0.debug.to_Gpu", "l1", "l1.to_host", "l1.debug"]


def test_round_trips_are_cancelled() -> None:
    net = Network()
    a = net.relu(net.input("x", (2,)), name="a")
    there = net.add(MemoryCopy(source=GPU, target=HOST), a, name="there").output
    back = net.add(MemoryCopy(source=HOST, target=GPU), there, name="back").output
    net.output(net.relu(back, name="b"), "y")
    assert cancel_round_trips(net) == 1
    assert [layer.name for layer in net] == ["x", "a", "b", "y"]


def test_a_copy_within_one_memory_is_cancelled() -> None:
    net = Network()
    same = net.add(MemoryCopy(source=GPU, target=GPU), net.input("x", (2,))).output
    net.output(same, "y")
    assert cancel_round_trips(net) == 1


@pytest.mark.parametrize("method", ["memory_domains", "importable_domains"])
def test_a_backend_that_cannot_say_where_it_lives_is_named(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(device: int) -> Any:
        raise OSError("no such device")

    backend = Device("Gpu", GPU)
    breaking: Callable[[int], Any] = broken
    monkeypatch.setattr(backend, method, breaking)
    with pytest.raises(BackendError, match=r"backend Gpu: .*no such device") as caught:
        placed(path("Gpu"), backend)
    assert caught.value.code is ErrorCode.BACKEND_CONTRACT
