"""The double of libOpenCL, and processes in front of it: a library is opened once in a process."""

import json
import os
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def double(compiled, tmp_path_factory):
    """The path of the double."""
    return compiled("double", tmp_path_factory.mktemp("double") / "libOpenCL.so.1", "-lpthread")


@pytest.fixture
def scene(child, double):
    """A function that runs a scene, with faults and what it is given; returns what it prints."""

    def scene(code, faults="", given=None, library=double):
        return child(
            f"from scene import *\n{code}",
            DOVETAIL_OPENCL_LIB=str(library),
            DOVETAIL_DOUBLE=faults,
            SCENE_GIVEN=json.dumps(given or {}),
            PYTHONPATH=os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")])),
        )

    return scene


@pytest.fixture
def doctor(process, double):
    """A function that runs `dovetail doctor` with faults; returns what came of it."""

    def doctor(*arguments, faults):
        variables = {"DOVETAIL_OPENCL_LIB": str(double), "DOVETAIL_DOUBLE": faults, "DOVETAIL_PROBE": "on"}
        return process("-m", "dovetail_sdk", "doctor", *arguments, **variables)

    return doctor


@pytest.fixture
def kept_scene(scene, kept):
    """`scene`, given the folder in which built programs are kept: of one test always the same."""
    return lambda code, faults="": scene(code, faults, {"folder": kept})
