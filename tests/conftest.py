"""What the workspace tests share: where the checkout lies and which members it has."""

import fcntl
import functools
import gc
import importlib.util
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
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


def processor_seconds():
    """Return what the children that have ended used, which does not depend on who else is there."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.fixture(scope="session")
def release(tmp_path_factory):
    """The release tests' tools; `parallel` are the settings that compile extensions in parallel."""
    parallel = tmp_path_factory.mktemp("settings") / "build.cfg"
    parallel.write_text(f"[build_ext]\nparallel = {len(os.sched_getaffinity(0))}\n")
    return SimpleNamespace(check=check, from_index=from_index, parallel=parallel, processor_seconds=processor_seconds)


@pytest.fixture(scope="session")
def third_party(members):
    """The requirements of the members that are no members themselves."""
    ours = [tomllib.loads((member / "pyproject.toml").read_text("utf-8"))["project"] for member in members]
    names = {table["name"] for table in ours}
    return [need for table in ours for need in table.get("dependencies", []) if re.match(r"[\w.-]+", need)[0] not in names]


def made_once(tmp_path_factory, name, make):
    """Return a folder that the first of a test run's processes makes; the others wait for it."""
    own = tmp_path_factory.getbasetemp()
    common = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    folder, unfinished = common / name, common / f"{name}-unfinished"
    with (common / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir()
            make(unfinished)
            unfinished.rename(folder)
    return folder


@pytest.fixture(scope="session")
def wheels_tool():
    """The module behind `dev.py wheels`."""
    spec = importlib.util.spec_from_file_location("wheels", ROOT / "tools" / "wheels.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def sdists(wheels_tool, tmp_path_factory):
    """The sdist of every member and, last, of the meta-package, from a temporary clean copy."""
    build = wheels_tool.Build(tmp_path_factory.mktemp("sdists") / "work")
    return [build.sdist(member) for member in wheels_tool.workspace()]


@pytest.fixture(scope="session")
def wheels(wheels_tool, tmp_path_factory):
    """Build the wheels from the sdists alone; answers with the folder that holds both."""

    def make(folder):
        with tempfile.TemporaryDirectory() as work:
            try:
                build = wheels_tool.Build(Path(work, "work"))
                made = build.everything(wheels_tool.workspace(), repair=wheels_tool.can_repair())
            except wheels_tool.Failure as failure:
                raise AssertionError(f"{failure}\n{failure.log.read_text('utf-8')[-5000:]}") from None
            for path in made:
                shutil.copy(path, folder)

    return made_once(tmp_path_factory, "release", make)


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
