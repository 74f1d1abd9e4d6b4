"""Fixtures of all tests of this member."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from pathlib import Path

import numpy as np
import pytest

from dovetail_neon.factory import CpuAccFactory
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
    """`run_layer(build, *arrays)`: run the layer that `build(network, *slots)` makes, without a runtime; see `direct.py`."""
    direct = _direct()

    def run(build, *arrays, quantizations=None, **how):
        layer, feeds = direct.build_layer(build, *arrays, quantizations=quantizations)
        capsule = CpuAccFactory(kernels).create_workload(layer)
        return direct._execute(layer, feeds, direct.workload_of(capsule), None, how.pop("cancel", False), **how)

    run.Cancelled = direct.Cancelled
    return run


@pytest.fixture(scope="session")
def convolved():
    """The definition of a convolution, in float64."""

    def convolved(x, weights, bias, stride, padding, dilation, groups):
        """Cross-correlation [N, C, H, W] in float64; padding is (top, left, bottom, right)."""
        x, weights = x.astype(np.float64), weights.astype(np.float64)
        top, left, bottom, right = padding
        x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
        filters, per_group, height, width = weights.shape
        rows = (x.shape[2] - dilation[0] * (height - 1) - 1) // stride[0] + 1
        columns = (x.shape[3] - dilation[1] * (width - 1) - 1) // stride[1] + 1
        result = np.zeros((x.shape[0], filters, rows, columns))
        for group in range(groups):
            own = slice(group * filters // groups, (group + 1) * filters // groups)
            part = x[:, group * per_group : (group + 1) * per_group]
            for ky, kx in itertools.product(range(height), range(width)):
                y0, x0 = ky * dilation[0], kx * dilation[1]
                window = part[
                    :, :, y0 : y0 + stride[0] * (rows - 1) + 1 : stride[0], x0 : x0 + stride[1] * (columns - 1) + 1 : stride[1]
                ]
                result[:, own] += np.einsum("nchw,fc->nfhw", window, weights[own, :, ky, kx])
        return result + bias.astype(np.float64)[None, :, None, None]

    return convolved
