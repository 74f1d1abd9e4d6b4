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
    folder = tmp_path_factory.mktemp("sdk")
    (folder / "lib").mkdir()
    for name in ("libovxlib.so", "libOpenVX.so.1"):
        (folder / "lib" / name).symlink_to(library)
    return folder
