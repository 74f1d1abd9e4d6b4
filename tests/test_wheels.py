"""The release path: sdists, wheels from the sdists alone, and a model run where only the wheels are installed."""

import shutil
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

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

NOT_SOURCE = shutil.ignore_patterns("*.so", "build", "*.egg-info", "__pycache__")
LARGEST = 15e6  # bytes of core and reference together

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def environment(release, wheels, shelf, tmp_path_factory):
    """Install the meta-wheel, and by it all the others, into a clean environment without any index."""
    clean = tmp_path_factory.mktemp("clean")
    venv.create(clean, with_pip=False, symlinks=True)
    python = clean / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--no-index", "--only-binary", ":all:")
    release.check(*pip, "--find-links", wheels, "--find-links", shelf, "dovetail", cwd=wheels)
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
    assert len(contents(wheels, "*.tar.gz")) == len(contents(wheels, "*.whl")) == len(members) + 1


def test_each_sdist_carries_licence_and_readme(wheels):
    sdists = contents(wheels, "*.tar.gz")
    assert not [sdist for sdist, files in sdists.items() if not {"LICENSE", "README.md"} <= files]


def test_each_sdist_carries_all_of_its_tests(wheels, members):
    """Setuptools by itself takes the test files, and leaves out what they import."""
    sdists = contents(wheels, "*.tar.gz")
    for member in members:
        name = tomllib.loads((member / "pyproject.toml").read_text("utf-8"))["project"]["name"].replace("-", "_")
        files = {path.relative_to(member).as_posix() for path in (member / "tests").rglob("*.*") if path.is_file()}
        assert {file for file in files if not file.endswith((".pyc", ".so"))} <= sdists[name]


def test_each_wheel_carries_the_licence(wheels):
    names = contents(wheels, "*.whl")
    assert not [wheel for wheel, files in names.items() if not any(file.endswith("licenses/LICENSE") for file in files)]


def test_the_core_wheel_carries_what_backends_build_against(wheels):
    files = contents(wheels, "*.whl")["dovetail_core"]
    assert {"dovetail/abi.h", "dovetail/abi.pxd", "dovetail/building/__init__.py", "dovetail/py.typed"} <= files


def test_no_wheel_carries_generated_c_or_tests(wheels):
    strays = [
        f"{wheel}: {file}"
        for wheel, files in contents(wheels, "*.whl").items()
        for file in files
        if file.endswith((".c", ".o")) or "tests" in Path(file).parts
    ]
    assert not strays


def test_the_wheels_are_slim(wheels):
    sizes = {path.name.split("-")[0]: path.stat().st_size for path in wheels.glob("*.whl")}
    print(*(f"{name}: {size / 1e6:.2f} MB" for name, size in sizes.items()), sep="\n")  # shown by pytest -rP
    assert sizes["dovetail_core"] + sizes["dovetail_reference"] < LARGEST, sizes


RUN_ALONE = """
import sys
from importlib.util import find_spec
import numpy as np
import dovetail
assert find_spec("dovetail_sdk") is None and find_spec("dovetail_onnx") is None
network = dovetail.Network("pictures")
pooled = network.pooling2d(network.input("picture", (1, 3, 8, 8)), "max", 2, stride=2)
network.output(network.relu(pooled), name="y")
with dovetail.load(network, ["CpuAcme", "CpuRef"], threads=1) as net:
    picture = np.random.default_rng(0).standard_normal((1, 3, 8, 8), np.float32)
    y = net.run({"picture": picture})["y"]
    homes = {layer.kind: layer.backend for layer in net.placement.layers}
assert homes == {"dovetail.Pooling2d": "CpuAcme", "dovetail.Activation": "CpuRef"}, homes
np.testing.assert_array_equal(y, np.maximum(picture.reshape(1, 3, 4, 2, 4, 2).max(axis=(3, 5)), 0))
print("ran")
"""


@pytest.fixture(scope="module")
def alone(release, root, wheels, shelf, tmp_path_factory):
    """An environment with core, CpuRef and a template's backend, installed without an index and without the sdk."""
    work = tmp_path_factory.mktemp("alone")
    shutil.copytree(
        root / "templates" / "backend", work / "backend", ignore=shutil.ignore_patterns("*.so", "build", "*.egg-info")
    )
    pip = (sys.executable, "-m", "pip")
    release.check(*pip, "wheel", "--no-index", "--no-deps", "--no-build-isolation", "-w", work, work / "backend", cwd=work)
    venv.create(work / "environment", with_pip=False, symlinks=True)
    python = work / "environment" / "bin" / "python"
    links = ("--no-index", "--find-links", wheels, "--find-links", shelf, "--find-links", work)
    release.check(*pip, "--python", python, "install", *links, "dovetail-acme", "dovetail-reference", cwd=work)
    return python


def test_a_backend_runs_without_the_sdk(release, alone, tmp_path):
    assert release.check(alone, "-I", "-W", "error", "-c", RUN_ALONE, cwd=tmp_path) == "ran\n"


def test_what_is_installed_without_the_sdk_is_slim(alone):
    """All but NumPy, as it lies on the disk."""
    packages = next(alone.parents[1].glob("lib/python3*/site-packages"))
    sizes = {
        folder.name: sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")
        for folder in packages.iterdir()
        if folder.is_dir() and not folder.name.startswith("numpy")
    }
    print(sizes, f"{sum(sizes.values()) / 1e6:.1f} MB")  # shown by pytest -rP
    assert {"dovetail", "dovetail_reference", "dovetail_acme"} <= set(sizes)
    assert sum(sizes.values()) < LARGEST, sizes


def test_a_model_runs_where_only_the_wheels_are_installed(release, environment, root, tmp_path):
    model = shutil.copy(root / "examples" / "digits" / "digits.onnx", tmp_path)
    assert release.check(environment, "-I", "-W", "error", "-c", RUN_DIGITS, model, cwd=tmp_path).startswith("ran")
