"""Check which cores a backend's wheel may be installed with."""

import re
import zipfile

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import dovetail
from dovetail.contract.abi_version import core_requirement
from vendors_builds.toy import built, pip


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
