"""What the host's own signal handlers raise is the host's, wherever it comes up."""

from __future__ import annotations

import functools
import signal
import unittest.mock
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dovetail
from dovetail import BackendId, IBackend, IWorkloadFactory, Network, Support
from dovetail.ground.errors import BackendError
from dovetail.ground.host_exceptions import is_of_host


class Stop(Exception):
    """What the host's handler raises; an ordinary exception, as that of a timer is."""


class Host:
    def method(self, number: int, frame: Any) -> None:
        raise Stop

    def __call__(self, number: int, frame: Any) -> None:
        raise Stop


def function(number: int, frame: Any) -> None:
    raise Stop


def nested(number: int, frame: Any) -> None:
    deeper = functools.partial(function, number)
    deeper(frame)


def variadic(*arguments: Any) -> None:
    raise Stop


def with_more(reason: str, number: int, frame: Any) -> None:
    raise Stop(reason)


def removes_itself(number: int, frame: Any) -> None:
    signal.signal(number, signal.SIG_DFL)
    raise Stop


HANDLERS: dict[str, Callable[..., Any]] = {
    "function": function,
    "nested": nested,
    "variadic": variadic,
    "method": Host().method,
    "object": Host(),
    "partial": functools.partial(with_more, "timer"),
    "removes itself": removes_itself,
}


@pytest.fixture(params=HANDLERS)
def handled(request: pytest.FixtureRequest) -> Iterator[None]:
    before = signal.signal(signal.SIGUSR1, HANDLERS[request.param])
    yield
    signal.signal(signal.SIGUSR1, before)


def interrupted() -> None:
    """Run where a signal comes in."""
    signal.raise_signal(signal.SIGUSR1)


class Faulty(IBackend):
    """Does something in one of its methods that raises."""

    id = BackendId("Faulty")

    def __init__(self, where: str, what: Callable[[], object]) -> None:
        self.where, self.what = where, what

    def _at(self, where: str) -> None:
        if where == self.where:
            self.what()

    def supports(self, layer: Any, options: Any, device: Any) -> Support:
        self._at("supports")
        return Support.yes()

    def optimize_subgraph(self, part: Any, options: Any, device: Any) -> Any:
        self._at("optimize_subgraph")
        return super().optimize_subgraph(part, options, device)

    def create_context(self, device: int, resources: Any, options: Any) -> Any:
        self._at("create_context")
        return super().create_context(device, resources, options)

    def create_workload_factory(self, context: Any, resources: Any, options: Any) -> IWorkloadFactory:
        self._at("create_workload_factory")
        return Factory(self)


class Factory(IWorkloadFactory):
    def __init__(self, backend: Faulty) -> None:
        self.backend = backend

    def create_workload(self, layer: Any) -> Any:
        self.backend._at("create_workload")
        return Workload(self.backend)


class Workload:
    def __init__(self, backend: Faulty) -> None:
        self.backend = backend

    def execute(self, inputs: Any, outputs: Any) -> None:
        self.backend._at("execute")
        np.maximum(inputs[0], 0, out=outputs[0])


METHODS = ["supports", "optimize_subgraph", "create_context", "create_workload_factory", "create_workload", "execute"]


def use(backend: IBackend) -> None:
    net = Network("net")
    net.output(net.relu(net.input("x", (3,))), "y")
    with dovetail.load(net, backends=[backend, "CpuRef"]) as loaded:
        loaded.run({"x": np.ones(3, np.float32)})


@pytest.mark.parametrize("method", METHODS)
def test_exception_of_a_handler_reaches_the_host(handled: None, method: str) -> None:
    with pytest.raises(Stop):
        use(Faulty(method, interrupted))


@pytest.mark.parametrize("method", ["create_context", "create_workload_factory", "create_workload"])
def test_the_same_exception_raised_by_the_backend_is_the_backends(method: str) -> None:
    with pytest.raises(BackendError, match="Stop"):
        use(Faulty(method, lambda: Host().method.__func__(Host(), "no number", None)))  # type: ignore[attr-defined]


def test_exception_while_a_parser_is_imported(handled: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "site"
    info = site / "stopped-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "stopped.py").write_text("import signal\nsignal.raise_signal(signal.SIGUSR1)\n")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stopped\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[dovetail.parsers]\nstopped = stopped:Parser\n")
    monkeypatch.syspath_prepend(str(site))
    model = tmp_path / "model.stopped"
    model.write_bytes(b"")
    with pytest.raises(Stop):
        dovetail.parse(model)


@pytest.mark.parametrize("handler", [unittest.mock.Mock(), unittest.mock.MagicMock(side_effect=Stop)], ids=["mock", "raising"])
def test_handler_that_has_any_attribute_is_looked_at_once(handler: Any) -> None:
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with pytest.raises(BackendError, match="Stop"):
            use(Faulty("create_workload", lambda: Host().method("no number", None)))  # type: ignore[arg-type]
    finally:
        signal.signal(signal.SIGUSR1, before)


class Unfinished(dovetail.DovetailError):
    """An error whose class forgot the constructor of its base."""

    def __init__(self) -> None:
        pass


def test_errors_of_ours_that_a_backend_made_wrong() -> None:
    def unfinished() -> None:
        raise Unfinished

    with pytest.raises(BackendError, match=r"backend 'Faulty'.*Unfinished"):
        use(Faulty("create_workload", unfinished))


def test_the_origin_is_named_once_of_an_error_that_is_raised_again() -> None:
    shared = BackendError("it is broken")

    def again() -> None:
        raise shared

    for _ in range(3):
        with pytest.raises(BackendError) as caught:
            use(Faulty("create_workload", again))
        assert caught.value.message.count("backend 'Faulty'") == 1


def test_exception_of_ones_own_is_not_of_the_host() -> None:
    with pytest.raises(ValueError, match="own") as caught:
        raise ValueError("own")
    assert not is_of_host(caught.value)
    assert not is_of_host(ValueError("never raised"))
    assert is_of_host(KeyboardInterrupt())
