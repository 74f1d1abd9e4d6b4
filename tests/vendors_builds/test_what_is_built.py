"""Check what `dovetail_build` makes of vendors' projects: wheel, sdist, manifest, section."""

import json
import re
import subprocess
import sys
import tarfile
import zipfile

from packaging.requirements import Requirement

from dovetail.contract.abi_version import ABI_VERSION, core_requirement
from vendors_builds.toy import FILES, as_modules, built, content, section_of


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


def test_an_sdist_has_all_that_the_wheel_is_made_of(project, tmp_path):
    """Without a MANIFEST.in: the build knows its sources, headers and manifest."""
    command = "import sys; from setuptools import build_meta; print(build_meta.build_sdist(sys.argv[1]))"
    done = subprocess.run([sys.executable, "-c", command, tmp_path], cwd=project, capture_output=True, text=True, check=True)
    sdist = tmp_path / done.stdout.split()[-1]
    with tarfile.open(sdist) as archive:
        assert {f"dovetail_toy-1.2.3/{name}" for name in FILES} <= set(archive.getnames())
    assert built(sdist, tmp_path).name.startswith("dovetail_toy-1.2.3-py3-none-")
