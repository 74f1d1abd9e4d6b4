"""An OpenCL device for the tests of this backend, without which they are skipped; libraries."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import dovetail
from dovetail import BackendUnavailableError, DType, Network
from dovetail_cl import GpuAccBackend
from dovetail_cl.devices import opened

TESTS = Path(__file__).parent
HEADERS = TESTS.parent / "src" / "dovetail_cl" / "driver"


@pytest.fixture(scope="session")
def backend():
    """The backend, where it has a device."""
    try:
        return GpuAccBackend()
    except BackendUnavailableError as error:
        pytest.skip(f"{error.message}; Debian's pocl-opencl-icd makes a device of the CPU")


@pytest.fixture(params=["cpu", "gpu"])
def way(request, backend, monkeypatch):
    """The backend with the kernels for each kind of device; those for GPUs run on any."""
    monkeypatch.setitem(opened(0).facts, "kind", request.param)
    return backend


@pytest.fixture(scope="session")
def run():
    """A function that runs a small network whose layers are all on the backend."""

    def run(backend, build, *inputs):
        network = Network("test")
        slots = [network.input(f"x{i}", array.shape, DType.of(array.dtype)) for i, array in enumerate(inputs)]
        results = build(network, *slots)
        results = results if isinstance(results, tuple) else (results,)
        for i, slot in enumerate(results):
            network.output(slot, name=f"y{i}")
        with dovetail.load(network, [backend]) as net:
            made = net.run({f"x{i}": array for i, array in enumerate(inputs)})
            return [made[f"y{i}"].copy() for i in range(len(results))]

    return run


@pytest.fixture(scope="session")
def compiled():
    """A function that compiles a file or a folder of `libraries` to a library; returns its path."""

    def compiled(name, library, *flags):
        compiler = shlex.split(os.environ.get("CC") or "cc")
        places = [f"-I{folder}" for folder in (HEADERS, TESTS / "libraries")]
        warnings = ("-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter")
        command = [*compiler, "-std=gnu11", "-g", "-O1", *warnings, "-shared", "-fPIC", *places]
        named = TESTS / "libraries" / name
        sources = sorted(named.glob("*.c")) if named.is_dir() else [named]
        subprocess.run([*command, *map(str, sources), "-o", str(library), *flags], check=True)
        return library

    return compiled


@pytest.fixture
def process(tmp_path):
    """A function that runs Python, with more variables in its environment, to its end."""

    def process(*arguments, **variables):
        return subprocess.run(
            [sys.executable, *arguments],
            env={**os.environ, "DOVETAIL_CACHE_DIR": str(tmp_path / "cache"), **variables},
            check=False,
            capture_output=True,
            text=True,
            timeout=100,
            stdin=subprocess.DEVNULL,
        )

    return process


@pytest.fixture
def child(process):
    """A function that runs a program in a process of its own; returns what it prints."""

    def child(code, *arguments, **variables):
        done = process("-W", "error", "-c", code, *arguments, DOVETAIL_PROBE="off", **variables)
        assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return child


@pytest.fixture
def kept(tmp_path):
    """A folder in which built programs are kept, as the option `artefacts` names it."""
    folder = tmp_path / "kept"
    folder.mkdir(mode=0o700)
    return str(folder)
