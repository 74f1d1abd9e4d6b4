"""Networks with layers of constants, and oracles that are told what to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import dovetail
from dovetail import IBackend, IWorkloadFactory, Layer, Network, Support
from dovetail.contract.backend_id import BackendId
from dovetail.discovery.registry import BackendRow, Registry

Array = np.ndarray[Any, Any]
RANDOM = np.random.default_rng(5)
REF = ["CpuRef"]


def normal(*shape: int) -> Array:
    return RANDOM.standard_normal(shape).astype(np.float32)


def working(network: Network, **wanted: Any) -> list[str]:
    """Return the kinds of the layers that each run computes."""
    placement = dovetail.optimize(network, **{"backends": REF, **wanted}).placement
    return [row.kind.removeprefix("dovetail.") for row in placement.layers]


def result(network: Network, **wanted: Any) -> list[Array]:
    with dovetail.load(network, **{"backends": REF, **wanted}) as loaded:
        return list(loaded.run({spec.name: np.zeros(spec.sizes, spec.dtype.numpy) for spec in loaded.inputs}).values())


def network_of(make: Callable[[Network], Any]) -> Network:
    """Return a network whose outputs depend on constants alone."""
    net = Network("constants")
    made = make(net)
    for number, slot in enumerate(made if isinstance(made, tuple) else (made,)):
        net.output(slot, f"y{number}")
    return net


def bits(array: Array) -> tuple[Any, ...]:
    return array.dtype, array.shape, array.tobytes()


def softmax64(x: Array) -> Array:
    powers = np.exp(x.astype(np.float64) - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


A, B = normal(3, 7), normal(7, 5)
POSITIONS = RANDOM.integers(0, 3, (4, 1))
CASES: Mapping[str, tuple[Callable[[Network], Any], Callable[[], Array], float]] = {
    "product": (lambda n: n.matmul(n.constant(A), B), lambda: A.astype(np.float64) @ B, 1e-6),
    "softmax": (lambda n: n.softmax(n.constant(A)), lambda: softmax64(A), 1e-7),
    "sums": (lambda n: n.cumulative_sum(n.constant(A), 1), lambda: A.astype(np.float64).cumsum(1), 1e-6),
    "rows": (lambda n: n.gather_nd(n.constant(A), POSITIONS), lambda: A[POSITIONS[:, 0]], 0),
    "largest": (lambda n: n.top_k(n.constant(A), 2)[0], lambda: -np.sort(-A, axis=-1)[:, :2], 0),
    "chain": (
        lambda n: n.addition(n.softmax(n.matmul(n.relu(n.constant(A)), B)), np.float32(1)),
        lambda: softmax64(np.maximum(A, 0).astype(np.float64) @ B) + 1,
        1e-6,
    ),
    "double": (lambda n: n.softmax(n.constant(A.astype(np.float64))), lambda: softmax64(A.astype(np.float64)), 1e-15),
}


class Factory(IWorkloadFactory):
    def __init__(self, make: Callable[[Layer], Any]) -> None:
        self.make = make

    def create_workload(self, layer: Layer) -> Any:
        return self.make(layer)


class Fake(IBackend):
    """Takes the kinds that it is told, and does what it is told in their place."""

    def __init__(self, name: str, kinds: Sequence[str], make: Callable[[Layer], Any]) -> None:
        self.name, self.kinds, self.make = name, kinds, make
        self.made: list[str] = []

    @property
    def id(self) -> BackendId:
        return BackendId(self.name)

    def supports(self, layer: Layer, options: Any, device: Any) -> Support:
        if layer.kind in self.kinds:
            return Support.yes()
        return Support.no("kind", f"no {layer.kind} here", "kind")

    def create_workload_factory(self, *arguments: Any) -> IWorkloadFactory:
        def make(layer: Layer) -> Any:
            self.made.append(layer.kind)
            return self.make(layer)

        return Factory(make)


class Alone(Registry):
    """A registry in which nobody else is an oracle."""

    def oracles(self) -> tuple[BackendRow, ...]:
        return tuple(row for row in super().oracles() if row.id != "CpuRef")


def registered(*backends: Fake, alone: bool = True, **fields: Any) -> Registry:
    registry = Alone() if alone else Registry()
    for backend in backends:
        manifest = {"id": backend.name, "device": "cpu", "rank": 1, "description": "a fake", "oracle": True, **fields}
        registry.register(backend, manifest=manifest)
    return registry
