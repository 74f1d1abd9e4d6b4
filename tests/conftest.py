"""What the workspace tests share: where the checkout lies and which members it has."""

import functools
import gc
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))  # pytest's importlib mode leaves it out
sys.path.append(str(ROOT / "tests" / "hard_customers"))
sys.path.append(str(ROOT / "benchmarks"))  # where `python benchmarks/deadlines.py` finds what it imports

import build_customers  # noqa: E402
from build_once import build_once  # noqa: E402
from faults.fixtures import built, built_table, neighbour, runtime, scene  # noqa: E402, F401  # fixtures

NOT_SOURCE = shutil.ignore_patterns("*.so", "*.pyd", "build", "dist", "*.egg-info", "__pycache__", ".*")
BUILD_SDIST = "import sys; from setuptools import build_meta; print(build_meta.build_sdist(sys.argv[1]))"
MEMBERS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["dovetail"]["workspace"]["members"]


def pytest_generate_tests(metafunc):
    if "member" in metafunc.fixturenames:
        metafunc.parametrize("member", [ROOT / name for name in MEMBERS], ids=MEMBERS)


@pytest.fixture(scope="session")
def root():
    return ROOT


@pytest.fixture(scope="session")
def members():
    return [ROOT / name for name in MEMBERS]


@pytest.fixture(scope="session")
def hard():
    """The backends of `hard_customers`, built as a vendor builds them."""
    sys.path.insert(0, str(build_customers.build()))
    from dovetail_hard import backends

    return backends


@pytest.fixture
def device(hard):
    """The asynchronous device; whatever a test does, the core must not have broken its rules."""
    backend = hard.TestDevice()
    yield backend
    gc.collect()
    assert [context.device.violation for context in backend.contexts] == [""] * len(backend.contexts)


def check(*command, cwd=None, **variables):
    """Run a command, with further environment variables, and return what it prints.

    A failure shows the ends of the output.
    """
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={**os.environ, **{name: str(value) for name, value in variables.items()}},
    )
    assert done.returncode == 0, f"{command} ended with {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-5000:]}"
    return done.stdout


def from_index(reason, *command):
    """Run a pip command; skip the test where the index is out of reach, but not in CI."""
    done = subprocess.run(
        [str(word) for word in command], check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    if done.returncode and not os.environ.get("CI"):
        pytest.skip(f"{reason} cannot be had; is the index out of reach? {done.stderr[-300:]}")
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def release(tmp_path_factory):
    """The release tests' tools; `parallel` are the settings that compile extensions in parallel."""
    parallel = tmp_path_factory.mktemp("settings") / "build.cfg"
    parallel.write_text(f"[build_ext]\nparallel = {len(os.sched_getaffinity(0))}\n")
    return SimpleNamespace(check=check, from_index=from_index, parallel=parallel)


@pytest.fixture(scope="session")
def third_party(members):
    """The requirements of the members that are no members themselves."""
    ours = [tomllib.loads((member / "pyproject.toml").read_text("utf-8"))["project"] for member in members]
    names = {table["name"] for table in ours}
    return [need for table in ours for need in table.get("dependencies", []) if re.match(r"[\w.-]+", need)[0] not in names]


@pytest.fixture(scope="session")
def sdists(members, tmp_path_factory):
    """The sdist of every member and, last, of the meta-package, from a temporary clean copy."""
    work = tmp_path_factory.mktemp("sdists")
    for above in ("templates", "examples"):  # which the sdk takes along
        shutil.copytree(ROOT / above, work / above, ignore=NOT_SOURCE)
    made = []
    for member in (*members, ROOT):
        source = work / "source"
        if member == ROOT:
            source.mkdir()
            for name in ("pyproject.toml", "README.md", "LICENSE"):
                shutil.copy(ROOT / name, source)
        else:
            shutil.copytree(member, source, ignore=NOT_SOURCE)
        made.append(work / check(sys.executable, "-c", BUILD_SDIST, work, cwd=source).split()[-1])
        shutil.rmtree(source)
    return made


@pytest.fixture(scope="session")
def wheels(release, sdists, tmp_path_factory):
    """Build the wheels from the sdists alone; answers with the folder that holds both."""
    work = tmp_path_factory.mktemp("release")
    command = (sys.executable, "-m", "pip", "wheel", "--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir")
    for sdist in sdists:
        release.check(*command, work / "wheels", sdist, cwd=work, DIST_EXTRA_CONFIG=release.parallel)
        shutil.copy(sdist, work / "wheels")
    return work / "wheels"


@pytest.fixture(scope="session")
def shelf(release, third_party, tmp_path_factory):
    """A folder with others' wheels: what the members require, and what backends are built with."""
    folder = tmp_path_factory.mktemp("third-party")
    build_tools = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["dependency-groups"]["build"]
    wanted = ("--only-binary", ":all:", "--dest", folder, *third_party, *build_tools)
    release.from_index(f"the wheels of {', '.join(third_party)}", sys.executable, "-m", "pip", "download", "-q", *wanted)
    return folder


@pytest.fixture(scope="session")
def built_template(tmp_path_factory):
    """A function that builds a template by name, from a clean copy, to a folder for sys.path."""

    @functools.cache
    def build(name):
        work = tmp_path_factory.mktemp(name)
        shutil.copytree(ROOT / "templates" / name, work / "source", ignore=NOT_SOURCE)
        pip = (sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--no-build-isolation")
        check(*pip, "--target", work / "installed", work / "source", cwd=work)
        return work / "installed"

    return build


@pytest.fixture(scope="session")
def npu_template(root):
    return root / "templates" / "backend_npu"


@pytest.fixture(scope="session")
def npu_library(npu_template):
    """The library of the NPU's template, built as vendors do, once per state of its sources."""
    from dovetail import get_include

    sources = [npu_template / "pyproject.toml", *(npu_template / "csrc").iterdir(), *(npu_template / "src").rglob("*.json")]
    sources = [*sorted(sources), *sorted(Path(get_include()).glob("*.h"))]

    def build(words):
        check(sys.executable, "-c", "import setuptools; setuptools.setup()", *words, cwd=npu_template)

    folder = build_once(npu_template / "build", sources, build)
    (library,) = folder.rglob("*.so")
    return library


@pytest.fixture
def npu(npu_library):
    """The backend of the NPU's template."""
    from dovetail.contract.claims import read_claims
    from dovetail.native import load_backend

    manifest = json.loads(npu_library.with_name("dovetail-backend.json").read_text("utf-8"))
    return load_backend(npu_library, expected_id=manifest["id"], claims=read_claims(manifest["claims"]))
