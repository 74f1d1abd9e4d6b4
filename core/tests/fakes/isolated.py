"""Backends that run in processes of their own, and what goes wrong there.

They are at the top of a module, so that a process can import them.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dovetail.contract.backend_id import BackendId
from dovetail.contract.interfaces import Capabilities, Device, IBackend, IWorkloadFactory, Support
from dovetail.contract.subgraph import OptimizationViews, SubgraphView
from dovetail.graph.layer import Layer
from dovetail.ground.progress import report
from dovetail.ground.records import Record


def abort() -> None:
    os.abort()


def segfault() -> None:
    ctypes.string_at(0)


def end() -> None:
    os._exit(0)


def hang() -> None:
    while True:
        time.sleep(3600)


def hang_in_c() -> None:
    """Hang without looking at a signal, holding the GIL."""
    ctypes.PyDLL(None).pause.restype = ctypes.c_int
    while True:
        ctypes.PyDLL(None).pause()


def fail() -> None:
    raise ValueError("the driver says no")


def chatter() -> None:
    """Write more than any pipe holds, and die."""
    for number in range(200_000):
        sys.stderr.write(f"line {number} of the driver\n")
    sys.stderr.flush()
    os.abort()


def stuff() -> None:
    """Write more than any pipe holds, and live."""
    for number in range(200_000):
        print(f"line {number} of the driver")


def nothing() -> None:
    return


ACTS: Mapping[str, Callable[[], None]] = {
    act.__name__: act for act in (abort, segfault, end, hang, hang_in_c, fail, chatter, stuff, nothing)
}


class Options(Record, frozen=True):
    """Options of `Faulty`."""

    factor: float = 2.0


class _Scale:
    """Multiplies; a negative first element makes it do what its backend is to do in runs."""

    sees_run = True

    def __init__(self, backend: Faulty, factor: float) -> None:
        self._backend = backend
        self._factor = factor

    def execute(self, inputs: Sequence[Any], outputs: Sequence[Any], run: Any) -> None:
        if inputs[0].size and inputs[0].ravel()[0] < 0:
            self._backend.act("run")
        if run.is_profiled:
            now = time.monotonic()
            if self._backend.commands:
                for number in range(self._backend.commands):
                    run.worked(f"command {number}", now + 3e-6 * number, now + 3e-6 * number + 1e-6)
            else:
                for name in ("long" * 100, "scaling \u00e4"):
                    run.worked(name, now - 2e-6, now - 1e-6)
        outputs[0][...] = inputs[0] * np.asarray(self._factor, inputs[0].dtype)


class _Factory(IWorkloadFactory):
    def __init__(self, backend: Faulty, options: Any) -> None:
        self._backend = backend
        self._options = options

    def create_workload(self, layer: Layer) -> Any:
        self._backend.act("compile")
        return _Scale(self._backend, self._options.factor)


class Faulty(IBackend):
    """Runs relu as a multiplication, and does something bad in one place.

    Args:
        where: "supports", "place", "compile" or "run".
        what: Name of one of `ACTS`.
        decides: Whether it has a `supports` of its own beside this place.
    """

    options_type = Options

    def __init__(self, where: str = "", what: str = "nothing") -> None:
        self.where = where
        self.what = what
        self.commands = 0  # of its device in each run, one after the other

    @property
    def id(self) -> BackendId:
        return BackendId("Faulty")

    def act(self, place: str) -> None:
        if place == self.where:
            ACTS[self.what]()

    def supports(self, layer: Layer, options: Any, device: Device) -> Support:
        self.act("supports")
        if layer.kind == "dovetail.Activation":
            return Support.yes()
        return Support.no("kind", f"no {layer.kind} here", "kind")

    def optimize_subgraph(self, view: SubgraphView, options: Any, device: Device) -> OptimizationViews:
        self.act("place")
        return super().optimize_subgraph(view, options, device)

    def create_workload_factory(self, context: Any, resources: Any, options: Any) -> IWorkloadFactory:
        return _Factory(self, options)


class Compiling(Faulty):
    """Takes parts whole, reports how far it is, tells its process and threads, and has devices."""

    @property
    def id(self) -> BackendId:
        return BackendId("Compiling")

    def supports(self, layer: Layer, options: Any, device: Device) -> Support:
        return Support.yes() if device.index == 1 else Support.no("device", f"not on {device.name}")

    def devices(self) -> Sequence[Device]:
        return (Device(0, "first"), Device(1, "second", 1 << 30, True, "B1", {"cores": 4}))

    def capabilities(self) -> Capabilities:
        return Capabilities(deterministic=False, float16=True)

    def optimize_subgraph(self, view: SubgraphView, options: Any, device: Device) -> OptimizationViews:
        views = OptimizationViews(view)
        views.compile_whole(view, self._compiled, "fused", [(layer.name, "a step") for layer in view.layers])
        return views

    def _compiled(self, factory: _Telling) -> Any:
        for step in range(3):
            report("Compiling", step / 2, f"step {step}")
        return factory

    def create_workload_factory(self, context: Any, resources: Any, options: Any) -> IWorkloadFactory:
        return _Telling(resources.threads)


class _Telling(IWorkloadFactory):
    """Makes workloads that tell where they run."""

    def __init__(self, threads: int) -> None:
        self.threads = threads

    def create_workload(self, layer: Layer) -> Any:
        return self

    def execute(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        outputs[0][...] = 0
        outputs[0].ravel()[:2] = os.getpid(), self.threads


class Environed(Faulty):
    """Multiplies by `DOVETAIL_TEST_FACTOR`; claims layers only where that is set."""

    @property
    def id(self) -> BackendId:
        return BackendId("Environed")

    def devices(self) -> Sequence[Device]:
        return (Device(0, f"of factor {os.environ.get('DOVETAIL_TEST_FACTOR')}"),)

    def supports(self, layer: Layer, options: Any, device: Device) -> Support:
        is_set = "DOVETAIL_TEST_FACTOR" in os.environ
        return super().supports(layer, options, device) if is_set else Support.no("driver", f"none, for it is {device.name}")

    def create_workload_factory(self, context: Any, resources: Any, options: Any) -> IWorkloadFactory:
        return _Factory(self, Options(factor=float(os.environ["DOVETAIL_TEST_FACTOR"])))
