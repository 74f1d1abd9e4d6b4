"""Run what vendors built: Cython, Python, a library in a folder, an editable installation."""

import json
import os
import shutil
import subprocess
import sys
import zipfile

import pytest

import dovetail
from dovetail.contract.abi_version import ABI_VERSION
from dovetail.discovery.registry import Registry
from vendors_builds.toy import as_modules, built, content, pip

SEMANTICS = """
def last(shape):
    return shape[-1], shape[-len(shape)]

def floored(int a, int b):
    return a // b, a % b

def beyond(values):
    return values[7]
"""


def test_cython_means_what_python_means(project, tmp_path):
    """C's semantics hold for Python objects too: `shape[-1]` would read before the tuple."""
    as_modules(project, found=SEMANTICS)
    with zipfile.ZipFile(built(project, tmp_path)) as archive:
        archive.extractall(tmp_path / "installed")
    program = "from dovetail_toy.found import *; print(last((3, 4, 5)), floored(-7, 2)); beyond([1])"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path / "installed", capture_output=True, text=True, check=False
    )
    assert done.stdout == "(5, 3) (-4, 1)\n", done.stderr
    assert "IndexError" in done.stderr


PURE = """
import numpy as np
from dovetail import BackendId, IBackend, IWorkloadFactory, Support

class Doubling(IWorkloadFactory):
    def create_workload(self, layer):
        return self

    def execute(self, inputs, outputs):
        np.maximum(inputs[0], 0, out=outputs[0])

class Toy(IBackend):
    @property
    def id(self):
        return BackendId("ToyNpu")

    def supports(self, layer, options, device):
        return Support.yes() if layer.kind == "dovetail.Activation" else Support.no("kind", "only ReLU is run")

    def create_workload_factory(self, *given):
        return Doubling()
"""


RUN = """
import sys
import numpy as np
import dovetail
from dovetail.discovery.registry import default_registry

if len(sys.argv) > 1:
    print([(str(row.id), str(row.state)) for row in default_registry().scan(sys.argv[1], trust=True)])
network = dovetail.Network("relu")
network.output(network.relu(network.input("x", (3,))), name="y")
with dovetail.load(network, ["ToyNpu"]) as net:
    print(net.run({"x": np.float32([-1, 0, 2])})["y"].tolist())
"""


def as_pure_python(project):
    manifest = as_modules(project)
    (project / "src" / "dovetail_toy" / "found.py").write_text(PURE)
    path = project / "src" / "dovetail_toy" / "dovetail-backend.json"
    path.write_text(json.dumps({name: value for name, value in manifest.items() if name != "abi"}), "utf-8")


def ran(*arguments, **variables):
    done = subprocess.run(
        [sys.executable, "-c", RUN, *map(str, arguments)],
        env={**os.environ, **{name: str(value) for name, value in variables.items()}},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_backend_in_python_alone_is_built_and_runs(project, tmp_path):
    as_pure_python(project)
    wheel = built(project, tmp_path)
    assert wheel.name == "dovetail_toy-1.2.3-py3-none-any.whl"
    assert json.loads(content(wheel, "dovetail-backend.json"))["abi"] == list(ABI_VERSION)
    assert pip("install", "--no-deps", "--no-index", "--target", tmp_path / "target", wheel, cwd=tmp_path).returncode == 0
    assert ran(PYTHONPATH=tmp_path / "target") == ["[0.0, 0.0, 2.0]"]


def dropped(library, tmp_path):
    """Put a library alone into a folder, under another name; return that folder."""
    folder = tmp_path / "dropped"
    folder.mkdir(mode=0o755)
    (folder / "any_name.so").write_bytes(library)
    return folder


def test_the_bare_library_is_found_in_a_folder_and_runs(table, tmp_path):
    folder = dropped(content(built(table, tmp_path), "libtoy.so"), tmp_path)
    assert ran(folder) == ["[('ToyNpu', 'available')]", "[0.0, 0.0, 2.0]"]


CMAKE = """
cmake_minimum_required(VERSION 3.19)
project(toy VERSION 1.2.3 LANGUAGES C)
include(${DOVETAIL_INCLUDE}/dovetail_backend.cmake)
add_library(toy SHARED csrc/table.c)
dovetail_backend(toy ${CMAKE_SOURCE_DIR}/src/dovetail_toy/dovetail-backend.json)
"""


@pytest.mark.skipif(shutil.which("cmake") is None, reason="there is no cmake, which a vendor may build with instead")
def test_the_library_that_cmake_builds_is_found_in_a_folder_and_runs(table, tmp_path):
    (table / "CMakeLists.txt").write_text(CMAKE, "utf-8")
    path = table / "src" / "dovetail_toy" / "dovetail-backend.json"
    manifest = json.loads(path.read_text("utf-8"))
    manifest["description"] = "a; b [c; d] ${HOME} @x@ \\ \" 'x' two  spaces é 漢 ??/ %n $<CONFIG> $ENV{HOME} # end"
    path.write_text(json.dumps(manifest, ensure_ascii=False, indent=1), "utf-8")
    where = ("-S", table, "-B", tmp_path / "cmake", f"-DDOVETAIL_INCLUDE={dovetail.get_include()}")
    for command in (("cmake", *where), ("cmake", "--build", tmp_path / "cmake")):
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    library = tmp_path / "cmake" / "libtoy.so"
    listed = subprocess.run(["nm", "--dynamic", library], check=True, capture_output=True, text=True).stdout
    assert [line.split()[-1] for line in listed.splitlines() if line.split()[-2] in "TDBRV"] == ["dovetail_open_backend_v0"]
    folder = dropped(library.read_bytes(), tmp_path)
    assert ran(folder) == ["[('ToyNpu', 'available')]", "[0.0, 0.0, 2.0]"]
    (row,) = Registry().scan(folder, trust=True)
    del manifest["library"]  # which is this file, whatever it is called
    assert row.manifest == manifest | {"abi": list(ABI_VERSION), "version": "1.2.3"}


def test_an_editable_installation_leaves_the_sources_as_they_are(table, tmp_path):
    """But for the library, which lies beside the manifest; that one is read as it was written."""
    manifest = table / "src" / "dovetail_toy" / "dovetail-backend.json"
    manifest.write_text(manifest.read_text("utf-8").replace('"abi": [9, 9], ', ""), "utf-8")
    before = {path: path.read_bytes() for path in table.rglob("*.*") if path.is_file()}
    done = pip("install", "--no-deps", "--no-build-isolation", "--target", tmp_path / "target", "-e", table, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (manifest.parent / "libtoy.so").is_file()
    assert {path: path.read_bytes() for path in before} == before
    (finder,) = (tmp_path / "target").glob("*.pth")
    assert ran(PYTHONPATH=os.pathsep.join(map(str, (tmp_path / "target", table / "src")))) == ["[0.0, 0.0, 2.0]"], finder
