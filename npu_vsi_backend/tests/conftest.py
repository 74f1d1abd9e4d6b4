"""The vendor's libraries as a double, and what the tests share."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
DOUBLE = TESTS / "ovx_double"
HEADERS = TESTS.parent / "src" / "dovetail_npu_vsi" / "ovx"
sys.path.insert(0, str(TESTS))


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    """The path of the double."""
    path = tmp_path_factory.mktemp("double") / "libovxlib.so"
    compiler = shlex.split(os.environ.get("CC") or "cc")
    flags = ["-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-I{HEADERS}"]
    sources = sorted(map(str, DOUBLE.glob("*.c")))
    subprocess.run([*compiler, *flags, *sources, "-o", str(path)], check=True)
    return path


@pytest.fixture(scope="session")
def sdk(library, tmp_path_factory):
    """A folder laid out as the vendor's SDK is, with the double in it."""
    return _laid_out(tmp_path_factory.mktemp("sdk"), library)


@pytest.fixture(scope="session")
def simulator(library, tmp_path_factory):
    """The same with a simulator of the device, as the folder says."""
    folder = _laid_out(tmp_path_factory.mktemp("simulator"), library)
    (folder / "lib" / "libEmulator.so").touch()
    return folder


def _laid_out(folder, library):
    (folder / "lib").mkdir()
    for name in ("libovxlib.so", "libOpenVX.so.1"):
        (folder / "lib" / name).symlink_to(library)
    return folder


@pytest.fixture
def double(simulator, tmp_path, monkeypatch):
    """The double as an SDK with a simulator; a function that reads which functions were called."""
    monkeypatch.setenv("DOVETAIL_VSI_SDK", str(simulator))
    monkeypatch.setenv("DOVETAIL_DOUBLE_LOG", str(tmp_path / "log"))
    monkeypatch.delenv("DOVETAIL_DOUBLE", raising=False)
    return lambda: (tmp_path / "log").read_text().split() if (tmp_path / "log").exists() else []


@pytest.fixture
def scene(library, sdk, tmp_path):
    """A function that runs a scene with faults; `place` is "here", or "child" with an SDK."""

    def scene(code, faults="", place="here", **variables):
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", f"from scene import *\n{code}"],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(filter(None, [str(DOUBLE), os.environ.get("PYTHONPATH")])),
                "DOVETAIL_DOUBLE": faults,
                "DOVETAIL_DOUBLE_LOG": str(tmp_path / "log"),
                "SCENE_LIBRARY": str(library),
                "SCENE_SDK": str(sdk) if place == "child" else "",
                **variables,
            },
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return scene
