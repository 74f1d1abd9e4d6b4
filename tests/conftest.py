"""What the workspace tests share: where the checkout lies and which members it has."""

import gc
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
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
    sys.path.insert(0, str(ROOT / "tests" / "hard_customers"))
    from build_customers import build

    sys.path.insert(0, str(build()))
    from dovetail_hard import backends

    return backends


@pytest.fixture
def device(hard):
    """The asynchronous device; whatever a test does with it, the core must not have broken its rules."""
    backend = hard.TestDevice()
    yield backend
    gc.collect()
    assert [context.device.violation for context in backend.contexts] == [""] * len(backend.contexts)
