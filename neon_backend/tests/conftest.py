"""Fixtures of all tests of this member."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from dovetail_neon.backend import NeonFactory
from dovetail_neon.kernels import Kernels, instruction_sets


def _direct():
    """The harness that stands beside the tests of CpuRef: guards around every buffer, garbage in every workspace."""
    name = "dovetail_reference_tests_direct"
    if name not in sys.modules:
        path = Path(__file__).parents[2] / "reference_backend" / "tests" / "direct.py"
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


@pytest.fixture(params=[name for name, here in instruction_sets().items() if here])
def kernels(request):
    """The kernels of each instruction set that this machine has."""
    return Kernels(request.param)


@pytest.fixture
def run_layer(kernels):
    """`run_layer(build, *arrays)`: run the layer that `build(network, *slots)` makes, without a runtime."""
    direct = _direct()

    def run(build, *arrays):
        layer, feeds = direct.build_layer(build, *arrays)
        capsule = NeonFactory(kernels).create_workload(layer)
        return direct._execute(layer, feeds, direct.workload_of(capsule), None, False)

    return run
