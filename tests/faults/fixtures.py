"""The fixtures of the fault tests."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail import Runtime

from .building import extension, table
from .misbehaving import RIGHT, FaultyBackend, held, load, run
from .scene import Scene


@pytest.fixture
def scene(tmp_path, monkeypatch):
    """A place for faults: backends are probed, and verdicts kept, apart from other tests."""
    monkeypatch.setenv("DOVETAIL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("DOVETAIL_PROBE", "on")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "no-config"))
    monkeypatch.delenv("DOVETAIL_BACKEND_PATH", raising=False)
    tmp_path.chmod(0o755)
    place = Scene(tmp_path, monkeypatch)
    yield place
    place.forget_modules()


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """Build a library once per session: `built("faulty", "Faulty", "SIGSEGV")` returns its path."""
    folder = tmp_path_factory.mktemp("faults")
    made = {}

    def build(name, id="Faulty", fault=None, *arguments, content="default", suffix=".so"):
        key = (name, id, fault, arguments, repr(content), suffix)
        if key not in made:
            into = folder / str(len(made))
            into.mkdir()
            made[key] = extension(into / f"{name}{suffix}", id, fault, *arguments, name=name, content=content)
        return made[key]

    return build


@pytest.fixture(scope="session")
def built_table(tmp_path_factory):
    """Build a backend without Python once per session.

    `built_table("Faulty", "CRASH")` returns the library's path.
    """
    folder = tmp_path_factory.mktemp("tables")
    made = {}

    def build(id="Faulty", fault=None, *, content="default"):
        key = (id, fault, repr(content))
        if key not in made:
            made[key] = table(folder / f"lib{len(made)}.so", id, fault, content=content)
        return made[key]

    return build


@pytest.fixture
def runtime():
    with Runtime(threads=2) as made:
        yield made


@pytest.fixture
def neighbour(runtime):
    """Another network of the same runtime: it must give the same bits before and after."""
    net = load(runtime, FaultyBackend())
    before = run(net)
    np.testing.assert_array_equal(before, RIGHT)
    resources = held()
    yield net
    assert run(net).tobytes() == before.tobytes()
    np.testing.assert_array_equal(run(load(runtime, FaultyBackend())), RIGHT)
    assert all(now <= then for now, then in zip(held(), resources, strict=True))
