"""Check what `dovetail_build` makes of vendors' projects: wheel, sdist, editable, refusals."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import dovetail
from dovetail.contract.abi_version import ABI_VERSION, core_requirement
from dovetail.discovery.registry import Registry

FILES = {
    "pyproject.toml": """
        [build-system]
        requires = ["dovetail-build"]
        build-backend = "dovetail_build"
        [project]
        name = "dovetail-toy"
        version = "1.2.3"
        dynamic = ["dependencies", "entry-points"]
        [tool.dovetail.backend]
        package = "dovetail_toy"
        library-sources = ["csrc/*.cpp", "csrc/*.c"]
        requirements = ["toy-driver>=3"]
    """,
    "src/dovetail_toy/dovetail-backend.json": """
        {"id": "ToyNpu", "abi": [9, 9], "device": "npu", "rank": 10,
         "description": "a \\"toy\\" of 5 µW", "library": "libtoy.so"}
    """,
    "csrc/table.cpp": """
        #include "abi.h"
        #include "names.h"
        #include <map>
        #include <string>
        static std::map<std::string, int> calls;  // templates of the standard library, which must not be exported
        int visible_by_default() { return 1; }
        extern "C" __attribute__((visibility("default"))) int dovetail_open_backend_v0(void *, void *, void *) {
            return ++calls[DOVETAIL_BACKEND_ID "/" DOVETAIL_BACKEND_VERSION] + from_c();
        }
    """,
    "csrc/names.h": 'extern "C" int from_c(void);',
    "csrc/in_c.c": "int from_c(void) { int class = 0; return class; }",  # which no C++ compiler takes
}


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "project"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("\n".join(line.removeprefix(" " * 8) for line in text.strip().splitlines()) + "\n", "utf-8")
    return folder


def pip(*words, cwd):
    command = [sys.executable, "-m", "pip", *map(str, words)]
    return subprocess.run(command, cwd=cwd, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)


def built(source, cwd):
    """Build the wheel of a project or of an sdist."""
    done = pip("wheel", "--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir", cwd / "wheels", source, cwd=cwd)
    assert done.returncode == 0, done.stderr
    (wheel,) = (cwd / "wheels").glob("*.whl")
    return wheel


def content(wheel, suffix):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(suffix)]
        return archive.read(name)


def section_of(wheel, suffix, cwd):
    """Return the manifest that a binary in a wheel carries; None if it has none."""
    (cwd / "binary").write_bytes(content(wheel, suffix))
    subprocess.run(["objcopy", "-O", "binary", "--only-section=.dovetail", "binary", "section"], cwd=cwd, check=True)
    text, _, end = (cwd / "section").read_bytes().partition(b"\0")
    assert not end.strip(b"\0")
    return json.loads(text) if text else None


def test_a_library_becomes_a_wheel_for_every_python(project, tmp_path):
    wheel = built(project, tmp_path)
    assert re.fullmatch(r"dovetail_toy-1\.2\.3-py3-none-linux_\w+\.whl", wheel.name)
    metadata = content(wheel, ".dist-info/METADATA").decode()
    required = {str(Requirement(line.partition(": ")[2])) for line in metadata.splitlines() if line.startswith("Requires-Dist")}
    assert required == {str(Requirement(core_requirement())), "toy-driver>=3"}


def test_manifest_and_section_say_what_was_built(project, tmp_path):
    """The ABI that the vendor wrote is replaced by that of the headers."""
    wheel = built(project, tmp_path)
    manifest = json.loads(content(wheel, "dovetail-backend.json"))
    assert manifest == {
        "id": "ToyNpu",
        "abi": list(ABI_VERSION),
        "device": "npu",
        "rank": 10,
        "description": 'a "toy" of 5 µW',
        "library": "libtoy.so",
        "version": "1.2.3",
    }
    assert section_of(wheel, "libtoy.so", tmp_path) == manifest


def test_a_library_exports_its_one_function_and_uses_nothing_of_python(project, tmp_path):
    library = tmp_path / "libtoy.so"
    library.write_bytes(content(built(project, tmp_path), "libtoy.so"))
    listed = subprocess.run(["nm", "--dynamic", library], check=True, capture_output=True, text=True).stdout
    symbols = [line.split()[-2:] for line in listed.splitlines()]
    assert [name for kind, name in symbols if kind in "TDBRV"] == ["dovetail_open_backend_v0"]
    assert not [name for _, name in symbols if name.startswith(("Py", "_Py"))]
    needed = subprocess.run(["objdump", "-p", library], check=True, capture_output=True, text=True).stdout
    assert "libpython" not in needed


def test_the_id_stands_in_the_manifest_alone(project, tmp_path):
    """The entry point, by which the backend is found, is written from it."""
    assert "ToyNpu" not in (project / "pyproject.toml").read_text("utf-8")
    points = content(built(project, tmp_path), ".dist-info/entry_points.txt").decode().split()
    assert points == ["[dovetail.backends]", "ToyNpu", "=", "dovetail_toy"]


def as_modules(project, **modules):
    """Make a package of Cython modules of the project; return its manifest."""
    package = project / "src" / "dovetail_toy"
    text = (project / "pyproject.toml").read_text("utf-8").partition("[tool.dovetail")[0]
    (project / "pyproject.toml").write_text(text + '[tool.dovetail.backend]\nclass = "dovetail_toy.found:Toy"\n', "utf-8")
    for name, source in modules.items():
        (package / f"{name}.pyx").write_text(source)
    (package / "__init__.py").write_text("")
    manifest = json.loads((package / "dovetail-backend.json").read_text("utf-8"))
    del manifest["library"]
    (package / "dovetail-backend.json").write_text(json.dumps(manifest | {"module": "dovetail_toy.found"}), "utf-8")
    return manifest


def test_an_extension_module_carries_the_manifest_that_names_it(project, tmp_path):
    """It can be found in a searched folder too; other modules of the package have no section."""
    manifest = as_modules(project, found="ANSWER = 42\n", other="ANSWER = 42\n")
    wheel = built(project, tmp_path)
    assert f"-cp3{sys.version_info.minor}-" in wheel.name
    with zipfile.ZipFile(wheel) as archive:
        binaries = {name.split("/")[-1].split(".")[0]: name for name in archive.namelist() if name.endswith(".so")}
    expected = manifest | {"abi": list(ABI_VERSION), "version": "1.2.3", "module": "dovetail_toy.found"}
    assert section_of(wheel, binaries["found"], tmp_path) == expected
    assert section_of(wheel, binaries["other"], tmp_path) is None


def test_what_modules_share_is_compiled_once(project, tmp_path, monkeypatch):
    """Twice means at the same time, into one file, below the linker of the other."""
    as_modules(project, found="ANSWER = 42\n", other="ANSWER = 42\n")
    text = (project / "pyproject.toml").read_text("utf-8").partition("[tool.dovetail")[0]
    text = text.replace('"dovetail_build"', '"setuptools.build_meta"').replace(', "entry-points"', "")
    (project / "pyproject.toml").write_text(text + "[tool.setuptools.packages.find]\nwhere = ['src']\n", "utf-8")
    sources = {f"dovetail_toy.{module}": ["csrc/in_c.c"] for module in ("found", "other")}
    (project / "setup.py").write_text(
        f"from dovetail_build import setup_backend\nsetup_backend('dovetail_toy', module_sources={sources})\n", "utf-8"
    )
    compiler, log = tmp_path / "compiler", tmp_path / "log"
    compiler.write_text(f'#!/bin/sh\necho "$@" >> {log}\nexec cc "$@"\n', "utf-8")
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    built(project, tmp_path)
    compiled = [line for line in log.read_text("utf-8").splitlines() if " -c " in line]
    assert len([line for line in compiled if "in_c.c" in line]) == 1


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


@pytest.fixture
def table(project, root):
    """A project whose library is a whole backend: additions and ReLU."""
    for source in (project / "csrc").iterdir():
        source.unlink()
    text = (root / "core" / "tests" / "native" / "per_layer.c").read_text("utf-8")
    (project / "csrc" / "table.c").write_text(
        f"#define ID DOVETAIL_BACKEND_ID\n#pragma GCC visibility push(default)\n{text}", "utf-8"
    )
    text = (project / "pyproject.toml").read_text("utf-8")
    (project / "pyproject.toml").write_text(text.replace('"csrc/*.cpp", ', ""), "utf-8")
    return project


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


def test_a_symbol_that_is_nowhere_defined_fails_the_build(project, tmp_path):
    (project / "csrc" / "in_c.c").write_text("extern int forgotten(void); int from_c(void) { return forgotten(); }\n")
    done = pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path, project, cwd=tmp_path)
    assert done.returncode
    assert "forgotten" in done.stdout + done.stderr


def test_an_sdist_has_all_that_the_wheel_is_made_of(project, tmp_path):
    """Without a MANIFEST.in: the build knows its sources, headers and manifest."""
    command = "import sys; from setuptools import build_meta; print(build_meta.build_sdist(sys.argv[1]))"
    done = subprocess.run([sys.executable, "-c", command, tmp_path], cwd=project, capture_output=True, text=True, check=True)
    sdist = tmp_path / done.stdout.split()[-1]
    with tarfile.open(sdist) as archive:
        assert {f"dovetail_toy-1.2.3/{name}" for name in FILES} <= set(archive.getnames())
    assert built(sdist, tmp_path).name.startswith("dovetail_toy-1.2.3-py3-none-")


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


MANIFEST = "src/dovetail_toy/dovetail-backend.json"


@pytest.mark.parametrize(
    ("file", "old", "new", "complaint"),
    [
        ("pyproject.toml", "dynamic = [", "dependencies = [", 'must say dynamic = ["dependencies"]'),
        ("pyproject.toml", '*.c"', '*.cc"', "no file matches 'csrc/*.cc'"),
        ("pyproject.toml", '"dovetail_toy"', '"dovetail_joy"', "there is no src/dovetail_joy/dovetail-backend.json"),
        ("pyproject.toml", "library-sources", "library_sources", "[tool.dovetail.backend] has no 'library_sources'"),
        ("pyproject.toml", "package =", "class =", 'must have class = "package:Class", or package = "package"'),
        (MANIFEST, '"rank": 10', '"rank": "high"', "'rank'"),
        (MANIFEST, '"rank": 10', '"rank": 10, "claims": {"Softmax": []}', "'Softmax' in 'claims' is no kind"),
        (MANIFEST, ', "library": "libtoy.so"', "", "name its library"),
        (MANIFEST, "}", "", "is no JSON"),
    ],
)
def test_a_mistake_is_named(project, file, old, new, complaint):
    text = (project / file).read_text("utf-8")
    assert old in text
    (project / file).write_text(text.replace(old, new), "utf-8")
    command = [sys.executable, "-c", "import setuptools; setuptools.setup()", "--version"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode
    assert complaint in done.stderr.splitlines()[-1]


# --- which cores a wheel may be installed with ----------------------------------------------------


def core_wheel(folder, version):
    """Make a wheel that is called as the core is and holds nothing: only what pip resolves by."""
    folder.mkdir(exist_ok=True)
    info = f"dovetail_core-{version}.dist-info"
    with zipfile.ZipFile(folder / f"dovetail_core-{version}-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: dovetail-core\nVersion: {version}\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", f"{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")


@pytest.fixture
def shelf(project, tmp_path):
    """A folder with the backend's wheel, the core it was built for, and one that is too new."""
    text = (project / "pyproject.toml").read_text("utf-8")
    (project / "pyproject.toml").write_text(text.replace('requirements = ["toy-driver>=3"]', ""), "utf-8")
    shelf = built(project, tmp_path).parent
    for version in ("0.9.0", dovetail.__version__):
        core_wheel(shelf, version)
    return shelf


def resolved(shelf, *wanted):
    options = ("--dry-run", "--no-index", "--ignore-installed", "--find-links", shelf, "--target", shelf / "target")
    return pip("install", *options, *wanted, cwd=shelf)


def test_pip_takes_the_core_that_speaks_the_abi(shelf):
    done = resolved(shelf, "dovetail-toy")
    assert f"Would install dovetail-core-{dovetail.__version__} dovetail-toy-1.2.3" in done.stdout, done.stderr


def test_pip_refuses_an_incompatible_core(shelf):
    done = resolved(shelf, "dovetail-toy", "dovetail-core==0.9.0")
    assert done.returncode
    assert "ResolutionImpossible" in done.stderr
    (found,) = re.findall(r"dovetail-toy 1\.2\.3 depends on (dovetail-core\S*(?: and \S+)*)", done.stdout + done.stderr)
    assert set(Requirement(found.replace(" and ", ",")).specifier) == set(Requirement(core_requirement()).specifier)


def test_pip_refuses_to_install_without_a_compatible_core(shelf):
    (shelf / f"dovetail_core-{dovetail.__version__}-py3-none-any.whl").unlink()
    done = resolved(shelf, "dovetail-toy")
    assert done.returncode
    assert "No matching distribution found for dovetail-core" in done.stderr


def test_the_core_keeps_what_wheels_require():
    """Raising the core's version out of the range needs a new FIRST_CORE, or the same ABI."""
    assert Requirement(core_requirement()).specifier.contains(Version(dovetail.__version__))


def lacking(folder, monkeypatch, cwd, **compilers):
    """Build a wheel with these compilers, which fails; return the sentence that says why."""
    for name, command in compilers.items():
        monkeypatch.setenv(name, str(command))
    done = pip("wheel", "--no-index", "--no-deps", "--no-build-isolation", folder, cwd=cwd)
    assert done.returncode == 1
    said = done.stdout + done.stderr
    assert "Traceback" not in said
    (lines,) = re.findall(r"\[(\d+) lines? of output\]", said)
    assert int(lines) <= 3
    (sentence,) = {line.strip() for line in said.splitlines() if "cannot be built from source here: " in line}
    assert sentence.endswith(", or install a wheel of it")
    return sentence


@pytest.fixture
def core_sources(root, tmp_path):
    """The core as its sdist has it."""
    hidden = shutil.ignore_patterns("*.so", "*.egg-info", "build", "__pycache__")
    return shutil.copytree(root / "core", tmp_path / "core", ignore=hidden)


def script(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_a_missing_compiler_is_told_in_a_sentence(core_sources, project, tmp_path, monkeypatch):
    """The core's build says the same as that of backends, with nothing to import yet."""
    for name, folder in (("dovetail-core", core_sources), ("dovetail-toy", project)):
        said = lacking(folder, monkeypatch, tmp_path, CC="no-such-compiler", CXX="no-such-one-either")
        assert said.startswith(
            f"{name} cannot be built from source here: there is no C compiler ('no-such-compiler' is not on PATH); install one "
        )
        assert "apt install g++" in said
        assert "name yours in CC" in said


def test_a_missing_cpp_compiler_is_told_where_one_is_needed(project, tmp_path, monkeypatch):
    said = lacking(project, monkeypatch, tmp_path, CXX="no-such-compiler")
    assert "there is no C++ compiler ('no-such-compiler' is not on PATH)" in said
    assert "name yours in CXX" in said
    broken = script(tmp_path / "broken", "exit 1")
    assert f"the C++ compiler '{broken}' does not work (it refuses '#include <cstddef>')" in lacking(
        project, monkeypatch, tmp_path, CXX=broken
    )
    (project / "csrc" / "table.cpp").unlink()
    (project / "csrc" / "in_c.c").write_text(
        '__attribute__((visibility("default"))) int dovetail_open_backend_v0(void *a, void *b, void *c) { return 0; }\n'
    )
    path = project / "pyproject.toml"
    path.write_text(path.read_text("utf-8").replace('"csrc/*.cpp", ', ""))
    assert built(project, tmp_path)


def test_missing_headers_of_python_are_told(core_sources, project, tmp_path, monkeypatch):
    """A library without Python needs none."""
    compiler = shutil.which("gcc") or "cc"
    without = script(
        tmp_path / "without", f'case "$*" in *-fsyntax-only*) grep -q Python.h && exit 1; exit 0;; esac\nexec {compiler} "$@"'
    )
    said = lacking(core_sources, monkeypatch, tmp_path, CC=without)
    assert "Python's C headers are missing (Python.h); install them (Debian, Ubuntu: apt install python3-dev)" in said
    assert built(project, tmp_path)
