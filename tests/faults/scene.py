"""Set up failing backends: fake distributions, searched folders, the contract of every failure."""

from __future__ import annotations

import json
import os
import re
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from dovetail import BackendError, BackendUnavailableError, DovetailError, Network, Runtime
from dovetail.discovery.content import files_of
from dovetail.discovery.reasons import QUARANTINING, ReasonCode
from dovetail.discovery.registry import Registry

from .building import manifest as manifest_for

GOOD = """
import numpy
from dovetail import BackendId, IBackend, IWorkloadFactory, Support

class Add:
    def execute(self, inputs, outputs):
        numpy.add(inputs[0], inputs[1], out=outputs[0])

class Factory(IWorkloadFactory):
    def create_workload(self, layer):
        return Add()

class Backend(IBackend):
    id = BackendId({id!r})

    def supports(self, layer, options, device):
        fits = layer.kind == "dovetail.ElementwiseBinary" and layer.descriptor.operation == "add"
        return Support.yes() if fits and layer.output_infos[0].dtype.is_float else Support.no("kind", "only float add")

    def create_workload_factory(self, context, resources, options):
        return Factory()
"""


def relu_of_sum():
    net = Network("bystander")
    net.output(net.relu(net.addition(net.input("a", (3, 5)), net.input("b", (3, 5)))), "y")
    return net


def open_things():
    """Tell what this process holds: descriptors, threads, children, shared memory."""
    pid = os.getpid()
    children = []
    for task in os.listdir("/proc/self/task"):
        children += Path(f"/proc/{pid}/task/{task}/children").read_text().split()
    return {
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
        "children": sorted(children),
        "shared memory": sorted(os.listdir("/dev/shm")),
        "temporary files": sorted(name for name in os.listdir(os.environ.get("TMPDIR", "/tmp")) if "dovetail-probe" in name),
    }


def left_open(before, *, within=10.0):
    """Return what is open that was not before.

    What other processes share with us may take a while.
    """
    end = time.monotonic() + within
    while True:
        now = open_things()
        more = {kind: (before[kind], now[kind]) for kind in now if _grew(before[kind], now[kind])}
        if not more or time.monotonic() > end:
            return more
        time.sleep(0.05)


def _grew(before, now):
    return now > before if isinstance(now, int) else bool(set(now) - set(before))


class Scene:
    """Fake distributions on `sys.path`, a folder to search, and a network that must not notice.

    The network is another backend's.
    """

    def __init__(self, folder, monkeypatch):
        self.site = folder / "site"
        self.folder = folder / "plugins"
        for one in (self.site, self.folder):
            one.mkdir(mode=0o755)
        monkeypatch.syspath_prepend(str(self.site))
        self.monkeypatch = monkeypatch
        self.root = folder
        self.packages = set()
        self.registry = Registry()

    # -- making ------------------------------------------------------------------------------------

    def add(self, id="Faulty", source=GOOD, *, package=None, version="1.0", value=None, content="default", metadata=True):
        """Install a distribution with one backend; returns its package's folder."""
        package = package or f"faulty_{re.sub('[^a-z0-9]', '_', id.lower())[:40]}"
        self.packages.add(package)
        folder = self.site / package
        folder.mkdir(exist_ok=True)
        (folder / "__init__.py").write_text(textwrap.dedent(source).replace("{id!r}", repr(id)))
        if content == "default":
            content = manifest_for(id)
        if content is not None:
            (folder / "dovetail-backend.json").write_text(content if isinstance(content, str) else json.dumps(content))
        info = self.site / f"{package}-{version}.dist-info"
        info.mkdir()
        if metadata:
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
        (info / "entry_points.txt").write_text(f"[dovetail.backends]\n{id} = {value or f'{package}:Backend'}\n")
        return folder

    def put(self, library, name="faulty.so"):
        """Put a library, or its bytes, into the searched folder, and search it."""
        path = self.folder / name
        path.write_bytes(library if isinstance(library, bytes) else library.read_bytes())
        self.packages.add("faulty")
        self.scan()
        return path

    def put_in_package(self, library):
        """Put a library, or its bytes, into a package that imports it."""
        path = self.add(source="from . import core\nBackend = core.Backend") / "core.so"
        path.write_bytes(library if isinstance(library, bytes) else library.read_bytes())
        return path

    def lock(self):
        """Lock the backend as it is now; returns the lock file."""
        (candidate,) = [one for one in self.registry.candidates() if one.id == "Faulty"]
        lock = self.root / "dovetail.lock"
        lock.write_text(json.dumps({"Faulty": files_of(candidate).digests()}))
        self.monkeypatch.setenv("DOVETAIL_LOCK", str(lock))
        return lock

    def scan(self, folder=None):
        """Search a folder of this scene, trusting the scene's root but not the folder itself."""
        self.monkeypatch.setenv("DOVETAIL_BACKEND_PATH", str(folder or self.folder))
        self.trust(self.root)
        self.registry.refresh()

    def trust(self, *folders):
        config = self.root / "config" / "dovetail"
        config.mkdir(parents=True, exist_ok=True, mode=0o755)
        (config / "config.toml").write_text(f"trusted_path = {json.dumps([str(one) for one in folders])}\n")
        self.monkeypatch.setenv("XDG_CONFIG_HOME", str(config.parent))

    def restart(self):
        """Forget what the registry knows, as a new process would."""
        self.registry = Registry()
        self.forget_modules()

    def forget_modules(self):
        for name in [name for name in sys.modules if name.partition(".")[0] in self.packages]:
            del sys.modules[name]

    # -- asking ------------------------------------------------------------------------------------

    def row(self, id="Faulty"):
        (row,) = [row for row in self.registry.rows() if row.id == id]
        return row

    def row_of(self, path):
        (row,) = [row for row in self.registry.rows() if row.origin == str(path)]
        return row

    def refused(self, code, id="Faulty", *, within=60.0, where=None):
        """Ask for a backend that must be refused; check the contract of faults; return the error.

        (a) this process lives; (b) one typed error with all its facts; (c) other networks compute
        the same bits; (d) nothing is left open; (e) inputs are as they were; (f) no fallback but
        the one that was asked for; (g) in time.
        """
        code = ReasonCode[code]
        with Runtime(threads=1) as runtime:
            net = runtime.load(relu_of_sum(), optimize={"backends": ["CpuRef"]})
            random = np.random.default_rng(7)
            feeds = {name: random.standard_normal((3, 5), np.float32) for name in "ab"}
            copies = {name: value.copy() for name, value in feeds.items()}
            expected = net.run(feeds)["y"].copy()
            before, begun = open_things(), time.monotonic()
            with pytest.raises(BackendError) as caught:
                self.registry.get(id)
            assert time.monotonic() - begun < within
            assert not left_open(before)
            assert net.run(feeds)["y"].tobytes() == expected.tobytes()
            assert all(feeds[name].tobytes() == copies[name].tobytes() for name in feeds)
            self._check_fallback(runtime, id, caught.value, feeds, expected)
        error = caught.value
        self._check_error(error, code, id)
        row = self.row(id)
        assert (row.code, row.step) == (str(code), str(code.step))
        assert not row.state.is_ready
        assert row.reason
        assert row.hint
        assert [one.state.is_ready for one in self.registry.rows() if one.id == "CpuRef"] == [True]
        if where is not None:
            assert str(where) == row.path
        return error

    def _check_error(self, error, code, id):
        assert isinstance(error, DovetailError)
        assert error.details["reason_code"] == str(code), error
        assert {"backend", "distribution", "version", "path", "phase", "step", "state", "ready"} <= error.details.keys()
        assert error.details["backend"] == id
        assert error.hint
        assert id in error.message
        if code in QUARANTINING:
            assert isinstance(error, BackendUnavailableError)
            assert error.details["state"] == "quarantined"
            assert f"dovetail quarantine release {id}" in error.hint

    def _check_fallback(self, runtime, id, error, feeds, expected):
        """Check that a missing backend is an error; with `?` the next one visibly takes over."""
        from dovetail import optimize

        with pytest.raises(type(error)) as caught:
            optimize(relu_of_sum(), [id, "CpuRef"], registry=self.registry)
        assert caught.value.details["reason_code"] == error.details["reason_code"]
        if isinstance(error, BackendUnavailableError):
            optimized = optimize(relu_of_sum(), [f"{id}?", "CpuRef"], registry=self.registry)
            assert id in str(optimized.placement)
            assert runtime.load(optimized).run(feeds)["y"].tobytes() == expected.tobytes()

    def works(self, id="Faulty"):
        """Ask for a backend and let it add."""
        backend = self.registry.get(id)
        net = Network("sum")
        net.output(net.addition(net.input("a", (2, 2)), net.input("b", (2, 2))), "y")
        with Runtime(threads=1) as runtime:
            ones = np.ones((2, 2), np.float32)
            result = runtime.load(net, optimize={"backends": [backend]}).run({"a": ones, "b": ones})["y"]
        assert (result == 2).all()
        return self.row(id)
