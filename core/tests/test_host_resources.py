"""Test what a runtime lends to backends: the user's limit of threads, and a store of artefacts."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dovetail
from dovetail import Device, HostResources, IBackend, IBackendContext, IWorkloadFactory, Layer, Support
from dovetail.contract.backend_id import BackendId
from dovetail.native import load_backend

FEEDS = {"a": np.full((2, 3), -1, np.float32), "b": np.full((2, 3), 3, np.float32)}


@dataclass(frozen=True)
class Options:
    level: int = 1
    artefacts: str = ""


class Sum:
    """A session: made of bytes that somebody compiled."""

    def __init__(self, compiled: bytes) -> None:
        assert compiled == b"sum"

    def execute(self, inputs: list[Any], outputs: list[Any]) -> None:
        outputs[0][...] = inputs[0] + inputs[1]


class Session(IBackend):
    """Compiles each layer, keeps what it compiled, and remembers what was lent to it."""

    options_type = Options

    def __init__(self, driver: str = "1.0") -> None:
        self.driver = driver
        self.of_context: HostResources | None = None
        self.of_factory: list[HostResources] = []
        self.compiled = 0
        self.misses: list[str] = []

    @property
    def id(self) -> BackendId:
        return BackendId("Session")

    def devices(self) -> Sequence[Device]:
        return (Device(0, "chip", facts={"driver": self.driver}),)

    def supports(self, layer: Layer, options: Any, device: Device) -> Support:
        return Support.yes()

    def create_context(self, device: int, resources: HostResources, options: Any) -> IBackendContext:
        self.of_context = resources
        return IBackendContext()

    def create_workload_factory(self, context: Any, resources: HostResources, options: Any) -> IWorkloadFactory:
        self.of_factory.append(resources)
        return SessionFactory(self, resources)


class SessionFactory(IWorkloadFactory):
    def __init__(self, backend: Session, resources: HostResources) -> None:
        self.backend, self.store = backend, resources.artefacts

    def create_workload(self, layer: Layer) -> Sum:
        key = self.store.key(layer, compiler="3")
        content = self.store.read(key)
        if content is None:
            self.backend.misses.append(self.store.why_miss(key))
            self.backend.compiled += 1
            content = b"sum"
            self.store.write(key, content)
        return Sum(content)


def addition() -> dovetail.Network:
    made = dovetail.Network("sum")
    made.output(made.addition(made.input("a", (2, 3)), made.input("b", (2, 3))), "y")
    return made


def run(backend: IBackend, *, threads: int = 3, at_most: int | None = None, options: Any = None) -> None:
    with (
        dovetail.Runtime(threads=threads) as runtime,
        dovetail.load(addition(), backend, runtime=runtime, threads=at_most, options=options) as net,
    ):
        np.testing.assert_array_equal(net.run(FEEDS)["y"], np.full((2, 3), 2, np.float32))


@pytest.mark.parametrize(("at_most", "expected"), [(None, 3), (2, 2), (1, 1), (16, 3)])
def test_the_limit_of_threads_is_known_where_sessions_are_made(at_most: int | None, expected: int) -> None:
    backend = Session()
    run(backend, at_most=at_most)
    assert backend.of_context is not None
    assert backend.of_context.threads == 3
    assert [one.threads for one in backend.of_factory] == [expected]


def test_the_limit_of_threads_is_known_behind_the_table(build: Any) -> None:
    path = build("device.c", "threads", "-pthread")  # a library that no other test counts in
    library = ctypes.CDLL(str(path))
    run(load_backend(path), threads=3, at_most=2)
    assert (library.threads_of_context(), library.threads_of_workload()) == (3, 2)


def test_the_limit_of_threads_is_known_to_compilers(build: Any, tmp_path: Path) -> None:
    """Compiling and loading both know it; each number of threads has artefacts of its own."""
    path = build("compiler.c", "lent")  # a library that no other test counts in
    library = ctypes.CDLL(str(path))
    options = {"TableCompiler": {"artefacts": str(tmp_path)}}
    made = [(2, 0), (1, 0), (2, 1)]
    for at_most, loaded in made:
        before = library.artefacts_loaded()
        run(load_backend(path), at_most=at_most, options=options)
        assert library.threads_of_compiler() == at_most
        assert library.artefacts_loaded() - before == loaded
    assert len(list(tmp_path.iterdir())) == 2


def test_what_was_compiled_for_other_threads_is_compiled_again(build: Any) -> None:
    """One optimized network, loaded with two limits."""
    path = build("compiler.c", "lent")
    library = ctypes.CDLL(str(path))
    optimized = dovetail.optimize(addition(), [load_backend(path)])
    for at_most in (3, 2):
        with dovetail.Runtime(threads=3) as runtime, runtime.load(optimized, threads=at_most) as net:
            np.testing.assert_array_equal(net.run(FEEDS)["y"], np.full((2, 3), 2, np.float32))
        assert library.threads_of_compiler() == at_most


@pytest.mark.parametrize(("decide", "compiled"), [(None, 3), (True, 3), (False, 1)])
def test_threads_that_decide_nothing_are_no_part_of_keys(tmp_path: Path, decide: bool | None, compiled: int) -> None:
    backend = Session()
    manifest = {"id": "Session", "device": "npu", "rank": 1, "description": "adds"}
    backend.manifest = manifest if decide is None else {**manifest, "threads_decide": decide}
    for at_most in (3, 2, 1, 3):
        run(backend, at_most=at_most, options={"Session": {"artefacts": str(tmp_path)}})
    assert backend.compiled == compiled


def test_a_python_backend_finds_what_it_compiled(tmp_path: Path) -> None:
    options = {"Session": {"artefacts": str(tmp_path)}}
    first, second = Session(), Session()
    run(first, options=options)
    run(second, options=options)
    assert (first.compiled, second.compiled) == (1, 0)
    assert first.misses == ["nothing is kept for these layers yet"]
    without = Session()
    run(without)
    assert without.compiled == 1
    assert "option 'artefacts'" in without.misses[0]


@pytest.mark.parametrize(
    ("driver", "threads", "options", "said"),
    [
        ("1.0", 3, {}, None),
        ("2.0", 3, {}, 'device.driver: "1.0" then, "2.0" now'),
        ("1.0", 1, {}, "threads: 3 then, 1 now"),
        ("1.0", 3, {"level": 2}, "option level: 1 then, 2 now"),
    ],
)
def test_an_artefact_holds_for_what_decided_it(
    tmp_path: Path, driver: str, threads: int, options: Any, said: str | None
) -> None:
    run(Session(), options={"Session": {"artefacts": str(tmp_path)}})
    later = Session(driver)
    run(later, threads=threads, options={"Session": {"artefacts": str(tmp_path), **options}})
    assert later.misses == ([] if said is None else [said])


def test_an_artefact_of_other_files_of_the_backend_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"Session": {"artefacts": str(tmp_path)}}
    run(Session(), options=options)
    from dovetail.discovery import backend_files

    monkeypatch.setattr(backend_files, "content_of", lambda backend: "f" * 64)
    changed = Session()
    run(changed, options=options)
    assert changed.misses[0].startswith("files: ")
    assert changed.misses[0].endswith("then, ffffffffffff now")
    monkeypatch.setattr(backend_files, "content_of", lambda backend: None)
    nameless = Session()
    run(nameless, options=options)
    assert nameless.misses == ["this backend has no files to be known by"]


def test_a_backend_may_compile_what_is_kept_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run(Session(), options={"Session": {"artefacts": str(tmp_path)}})
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-1])
    later = Session()
    with caplog.at_level(logging.INFO, "dovetail"):
        run(later, options={"Session": {"artefacts": str(tmp_path)}})
    assert later.compiled == 1
    assert "is damaged" in later.misses[0]
    assert "is damaged" in caplog.text
    run(again := Session(), options={"Session": {"artefacts": str(tmp_path)}})
    assert again.compiled == 0


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_pool_of_somebody_else_is_bounded(build: Any, threads: int) -> None:
    """As the vendor guide says it of OpenMP."""
    path = build("openmp.c", "openmp", "-fopenmp")
    library = ctypes.CDLL(str(path))
    made = dovetail.Network("relu")
    made.output(made.relu(made.input("a", (64,))), "y")
    x = np.linspace(-1, 1, 64, dtype=np.float32)
    with (
        dovetail.Runtime(threads=3) as runtime,
        dovetail.load(made, load_backend(path), runtime=runtime, threads=threads) as net,
    ):
        np.testing.assert_array_equal(net.run({"a": x})["y"], np.maximum(x, 0))
    assert library.threads_seen() == threads
