"""Share fixtures: under --import-mode=importlib test modules cannot import each other."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest


def _sibling(name: str):
    """Import a neighbouring module, under a name that no other package's tests use."""
    full = f"dovetail_reference_tests_{name}"
    if full not in sys.modules:
        spec = importlib.util.spec_from_file_location(full, Path(__file__).with_name(f"{name}.py"))
        module = importlib.util.module_from_spec(spec)
        sys.modules[full] = module
        spec.loader.exec_module(module)
    return sys.modules[full]


@pytest.fixture(scope="session")
def run_layer():
    """`direct.run_layer`: run one layer's workload without a runtime."""
    return _sibling("direct").run_layer


@pytest.fixture(scope="session")
def direct():
    """The module `direct`."""
    return _sibling("direct")


@pytest.fixture(scope="session")
def reference():
    """The module `reference`: independent definitions in NumPy, float64."""
    return _sibling("reference")


@pytest.fixture(scope="session")
def samples():
    """The module `samples`: random arrays of every element type."""
    return _sibling("samples")


@pytest.fixture(scope="session")
def random():
    """`samples.random`: random arrays of any NumPy dtype."""
    return _sibling("samples").random
