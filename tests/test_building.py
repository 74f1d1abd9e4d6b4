"""What `dovetail.building.setup_backend` makes of a vendor's project: wheel, sdist, editable installation, refusals."""

import json
import re
import subprocess
import sys
import tarfile
import zipfile

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import dovetail
from dovetail.contract.abi_version import ABI_VERSION, core_requirement

FILES = {
    "pyproject.toml": """
        [build-system]
        requires = ["setuptools>=77", "dovetail-core"]
        build-backend = "setuptools.build_meta"
        [project]
        name = "dovetail-toy"
        version = "1.2.3"
        dynamic = ["dependencies"]
        [project.entry-points."dovetail.backends"]
        ToyNpu = "dovetail_toy"
        [tool.setuptools.packages.find]
        where = ["src"]
    """,
    "setup.py": """
        from dovetail.building import setup_backend
        setup_backend("dovetail_toy", library_sources=["csrc/*.cpp", "csrc/*.c"], requirements=["toy-driver>=3"])
    """,
    "src/dovetail_toy/__init__.py": "",
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


def test_an_extension_module_carries_the_manifest_that_names_it(project, tmp_path):
    """So that it can be found in a searched folder too; other modules of the package have no section."""
    package = project / "src" / "dovetail_toy"
    (project / "setup.py").write_text('from dovetail.building import setup_backend\nsetup_backend("dovetail_toy")\n')
    for name in ("found", "other"):
        (package / f"{name}.pyx").write_text("ANSWER = 42\n")
    manifest = json.loads((package / "dovetail-backend.json").read_text("utf-8"))
    del manifest["library"]
    (package / "dovetail-backend.json").write_text(json.dumps(manifest | {"module": "dovetail_toy.found"}), "utf-8")
    wheel = built(project, tmp_path)
    assert f"-cp3{sys.version_info.minor}-" in wheel.name
    with zipfile.ZipFile(wheel) as archive:
        binaries = {name.split("/")[-1].split(".")[0]: name for name in archive.namelist() if name.endswith(".so")}
    expected = manifest | {"abi": list(ABI_VERSION), "version": "1.2.3", "module": "dovetail_toy.found"}
    assert section_of(wheel, binaries["found"], tmp_path) == expected
    assert section_of(wheel, binaries["other"], tmp_path) is None


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


def test_an_editable_installation_lies_in_the_source(project, tmp_path):
    manifest = project / "src" / "dovetail_toy" / "dovetail-backend.json"
    before = manifest.read_text("utf-8")
    done = pip("install", "--no-deps", "--no-build-isolation", "--target", tmp_path / "target", "-e", project, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (manifest.parent / "libtoy.so").is_file()
    assert manifest.read_text("utf-8") == before.replace("[9, 9]", str(list(ABI_VERSION)))


MANIFEST = "src/dovetail_toy/dovetail-backend.json"


@pytest.mark.parametrize(
    ("file", "old", "new", "complaint"),
    [
        ("pyproject.toml", "dynamic = [", "dependencies = [", 'must say dynamic = ["dependencies"]'),
        ("setup.py", '*.c"', '*.cc"', "no file matches 'csrc/*.cc'"),
        ("setup.py", '"dovetail_toy"', '"dovetail_joy"', "there is no src/dovetail_joy/dovetail-backend.json"),
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
    done = subprocess.run([sys.executable, "setup.py", "--version"], cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode
    assert complaint in done.stderr.splitlines()[-1]


# --- which cores a wheel may be installed with ----------------------------------------------------------------------------


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
    """A folder with the backend's wheel, the core that it was built for, and one that is too new."""
    (project / "setup.py").write_text((project / "setup.py").read_text().replace(', requirements=["toy-driver>=3"]', ""))
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
    """Whoever raises the core's version out of the range must raise FIRST_CORE, or leave the ABI as it was."""
    assert Requirement(core_requirement()).specifier.contains(Version(dovetail.__version__))
