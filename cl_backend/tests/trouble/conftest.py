"""The double of libOpenCL, and processes in front of it: a library is opened once in a process."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def double(compiled, tmp_path_factory):
    """The path of the double."""
    return compiled("double", tmp_path_factory.mktemp("double") / "libOpenCL.so.1", "-lpthread")


@pytest.fixture
def process(double, tmp_path):
    """A function that runs Python in front of the double, with faults; returns what came of it."""

    def run(*arguments, faults="", library=double, **variables):
        return subprocess.run(
            [sys.executable, *arguments],
            env={
                **os.environ,
                "DOVETAIL_OPENCL_LIB": str(library),
                "DOVETAIL_DOUBLE": faults,
                "DOVETAIL_CACHE_DIR": str(tmp_path / "cache"),
                **variables,
            },
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
        )

    return run


@pytest.fixture
def scene(process):
    """A function that runs a scene, with faults and what it is given; returns what it prints."""

    def play(code, faults="", given=None, **more):
        folders = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")]))
        variables = {"SCENE_GIVEN": json.dumps(given or {}), "DOVETAIL_PROBE": "off", "PYTHONPATH": folders}
        done = process("-W", "error", "-c", f"from scene import *\n{code}", faults=faults, **variables, **more)
        assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return play


@pytest.fixture
def doctor(process):
    """A function that runs `dovetail doctor` with faults; returns what came of it."""

    def ask(*arguments, faults):
        return process("-m", "dovetail_sdk", "doctor", *arguments, faults=faults, DOVETAIL_PROBE="on")

    return ask


@pytest.fixture
def kept_scene(scene, tmp_path):
    """`scene`, given the folder in which built programs are kept: of one test always the same."""
    folder = tmp_path / "kept"
    folder.mkdir(mode=0o700)
    return lambda code, faults="": scene(code, faults, {"folder": str(folder)})
