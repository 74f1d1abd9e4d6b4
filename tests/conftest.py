"""What the workspace tests share: where the checkout lies and which members it has."""

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
