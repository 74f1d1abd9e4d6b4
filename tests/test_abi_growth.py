"""Run binaries of today on a core whose structs grew: they outlive the core they were built for.

That what is there keeps its place `abi_layout.h` asserts, wherever `abi.h` is compiled.
"""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from dovetail.contract.abi_version import ABI_VERSION

PRODUCTS = shutil.ignore_patterns("*.so", "build", "*.egg-info", "__pycache__")
EMBEDDED = {"dovetail_attributes"}  # part of dovetail_layer, by value: it can never grow
GROWTH = 16  # bytes that every struct grows by

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def run(*command, path=(), cwd=None):
    """Run a command that finds these folders before installed packages; return its output."""
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path)), "DOVETAIL_CACHE_DIR": str(cwd / "cache")},
        cwd=cwd,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def build(source, work, path=()):
    """Build and install a project from a clean copy into a folder of its own."""
    shutil.copytree(source, work / "source", ignore=PRODUCTS)
    pip = ("-m", "pip", "install", "-q", "--no-index", "--no-deps", "--no-build-isolation", "--target", work / "installed")
    run(*pip, work / "source", path=path, cwd=work)
    return work / "installed"


def prove(backend_id, installed, cwd, core=()):
    """Check that a prebuilt backend takes part in the demo and conforms."""
    path = (*core, installed)
    layers = json.loads(
        run("-m", "dovetail_sdk", "explain", "digits", "-b", f"{backend_id},CpuRef", "--json", path=path, cwd=cwd)
    )
    run("-m", "dovetail_sdk", "run", "digits", "-b", f"{backend_id},CpuRef", "-i", "random", path=path, cwd=cwd)
    run("-m", "dovetail_sdk", "conform", backend_id, "--level", "1", path=path, cwd=cwd)
    return {layer["backend"] for layer in layers["layers"]}


def abi_of(installed):
    (manifest,) = installed.glob("*/dovetail-backend.json")
    return json.loads(manifest.read_text("utf-8"))["abi"]


def grow(package):
    """Append a field to every struct that begins with its size; raise the minor.

    Offsets stay asserted as they are.
    """
    header, layout = package / "include" / "abi.h", package / "include" / "abi_layout.h"
    struct = re.compile(r"(struct (?:dovetail_\w+ )?\{\n    size_t size;[^{}]*?)(\} (dovetail_\w+);)")
    names = {match[3] for match in struct.finditer(header.read_text("utf-8"))} - EMBEDDED
    assert {"dovetail_call", "dovetail_host", "dovetail_workload", "dovetail_queues", "dovetail_backend"} <= names
    major, minor = ABI_VERSION
    more = f"    uint64_t grown_by[{GROWTH // 8}];\n"
    edit(header, lambda text: struct.sub(lambda m: f"{m[1]}{more if m[3] in names else ''}{m[2]}", text))
    edit(header, lambda text: text.replace(f"DOVETAIL_ABI_MINOR {minor}\n", f"DOVETAIL_ABI_MINOR {minor + 1}\n"))
    for name in names:
        size_line = re.compile(rf"DOVETAIL_SIZE\({name}, (\d+)\)")
        (size,) = size_line.findall(layout.read_text("utf-8"))
        edit(layout, lambda text, name=name, size=size: text.replace(f"({name}, {size})", f"({name}, {int(size) + GROWTH})"))
    version = f"ABI_VERSION = ({major}, {minor})"
    edit(package / "contract" / "abi_version.py", lambda text: text.replace(version, f"ABI_VERSION = ({major}, {minor + 1})"))


def edit(path, change):
    text = path.read_text("utf-8")
    changed = change(text)
    assert changed != text, path
    path.write_text(changed, "utf-8")


@pytest.fixture(scope="module")
def future(root, tmp_path_factory):
    """A core of the next minor, every struct of which is larger."""
    work = tmp_path_factory.mktemp("future")
    source = work / "core"  # build() takes a copy of it
    shutil.copytree(root / "core", source, ignore=PRODUCTS)
    grow(source / "src" / "dovetail")
    installed = build(source, work)
    told = run(
        "-c",
        "import dovetail.contract.abi_version as v, dovetail; print(*v.ABI_VERSION, dovetail.__file__)",
        path=(installed,),
        cwd=work,
    )
    major, minor = ABI_VERSION
    assert told.split() == [str(major), str(minor + 1), str(installed / "dovetail" / "__init__.py")]
    return installed


def test_a_binary_of_today_runs_in_the_future(future, built_template, tmp_path):
    installed = built_template("backend")
    assert abi_of(installed) == list(ABI_VERSION)
    assert prove("CpuAcme", installed, tmp_path, core=(future,)) == {"CpuAcme", "CpuRef"}


def test_a_library_of_today_runs_in_the_future(future, built_template, tmp_path):
    """Through the C table: floats are refused, so that the demo falls back as a whole."""
    assert prove("AcmeNpu", built_template("backend_npu"), tmp_path, core=(future,)) == {"CpuRef"}
