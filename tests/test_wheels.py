"""The release path: sdists, wheels from the sdists alone, and a model run where only the wheels are installed."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

NOT_SOURCE = shutil.ignore_patterns("*.so", "*.pyd", "build", "dist", "*.egg-info", "__pycache__", ".*")
BUILD_SDIST = "import sys; from setuptools import build_meta; print(build_meta.build_sdist(sys.argv[1]))"

# -I: neither the checkout nor PYTHONPATH can answer in place of the wheels.
RUN_DIGITS = """
import sys
import numpy as np
import dovetail
assert sys.prefix in dovetail.__file__, dovetail.__file__
with dovetail.load(sys.argv[1], backends=["CpuRef"], threads=1) as net:
    probabilities = net.run({"image": np.zeros((3, 1, 8, 8), np.float32)})["probabilities"]
assert probabilities.shape == (3, 10), probabilities.shape
np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)
print("ran", *net.placement.explain().splitlines()[:1])
"""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def check(*command, cwd=None):
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{command} ended with {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-5000:]}"
    return done.stdout


def pip(*arguments, cwd):
    return check(sys.executable, "-m", "pip", *arguments, cwd=cwd)


@pytest.fixture(scope="module")
def wheels(root, members, tmp_path_factory):
    """Make an sdist of every member and of the meta-package from a clean copy, drop the copy, build wheels from the sdists."""
    work = tmp_path_factory.mktemp("release")
    built = work / "wheels"
    for member in (*members, root):
        source = work / "source"
        if member == root:
            source.mkdir()
            for name in ("pyproject.toml", "README.md", "LICENSE"):
                shutil.copy(root / name, source)
        else:
            shutil.copytree(member, source, ignore=NOT_SOURCE)
        sdist = check(sys.executable, "-c", BUILD_SDIST, work / "sdists", cwd=source).split()[-1]
        shutil.rmtree(source)
        offline = ("--no-index", "--no-deps", "--no-build-isolation")
        pip("wheel", *offline, "--wheel-dir", built, work / "sdists" / sdist, cwd=work)
    return work


@pytest.fixture(scope="module")
def environment(wheels, members):
    """Install the meta-wheel, and by it all the others, into a clean environment without any index."""
    house = wheels / "third-party"
    ours = [tomllib.loads((member / "pyproject.toml").read_text("utf-8"))["project"] for member in members]
    names = {table["name"] for table in ours}
    needs = [need for table in ours for need in table.get("dependencies", []) if re.match(r"[\w.-]+", need)[0] not in names]
    command = [sys.executable, "-m", "pip", "download", "--only-binary", ":all:", "--dest", str(house), *needs]
    fetched = subprocess.run(command, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if fetched.returncode and not os.environ.get("CI"):
        pytest.skip(f"the wheels of {', '.join(needs)} cannot be had; is the index out of reach? {fetched.stderr[-300:]}")
    assert fetched.returncode == 0, fetched.stderr
    clean = wheels / "clean"
    venv.create(clean, with_pip=False, symlinks=True)
    python = clean / "bin" / "python"
    links = ("--find-links", wheels / "wheels", "--find-links", house)
    pip("--python", python, "install", "--no-index", *links, "dovetail", cwd=wheels)
    return python


def contents(wheels, pattern):
    """Name the files in each archive below a folder, the leading folder of an sdist left out."""
    found = {}
    for path in sorted(wheels.glob(pattern)):
        if path.suffix == ".whl":
            with zipfile.ZipFile(path) as archive:
                found[path.name.split("-")[0]] = set(archive.namelist())
        else:
            with tarfile.open(path) as archive:
                found[path.name.rpartition("-")[0]] = {name.partition("/")[2] for name in archive.getnames()}
    return found


def test_each_distribution_has_an_sdist_and_a_wheel(wheels, members):
    assert len(contents(wheels, "sdists/*.tar.gz")) == len(contents(wheels, "wheels/*.whl")) == len(members) + 1


def test_each_sdist_carries_licence_and_readme(wheels):
    sdists = contents(wheels, "sdists/*.tar.gz")
    assert not [sdist for sdist, files in sdists.items() if not {"LICENSE", "README.md"} <= files]


def test_each_wheel_carries_the_licence(wheels):
    names = contents(wheels, "wheels/*.whl")
    assert not [wheel for wheel, files in names.items() if not any(file.endswith("licenses/LICENSE") for file in files)]


def test_the_core_wheel_carries_what_backends_build_against(wheels):
    files = contents(wheels, "wheels/*.whl")["dovetail_core"]
    assert {"dovetail/abi.h", "dovetail/abi.pxd", "dovetail/building.py", "dovetail/py.typed"} <= files


def test_no_wheel_carries_generated_c_or_tests(wheels):
    strays = [
        f"{wheel}: {file}"
        for wheel, files in contents(wheels, "wheels/*.whl").items()
        for file in files
        if file.endswith((".c", ".o")) or "tests" in Path(file).parts
    ]
    assert not strays


def test_a_model_runs_where_only_the_wheels_are_installed(environment, root, tmp_path):
    model = shutil.copy(root / "examples" / "digits" / "digits.onnx", tmp_path)
    assert check(environment, "-I", "-W", "error", "-c", RUN_DIGITS, model, cwd=tmp_path).startswith("ran")
