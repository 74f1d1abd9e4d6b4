"""Fixtures of all tests of this member."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from pathlib import Path

import numpy as np
import pytest

from dovetail import SubgraphView
from dovetail.graph.descriptor import Constant, Input, Output
from dovetail_neon.factory import CpuAccFactory
from dovetail_neon.families import found, rules_for
from dovetail_neon.fusion.chains import is_product_of_rows
from dovetail_neon.fusion.rewriting import lower
from dovetail_neon.kernels import Kernels, instruction_sets


def _module(path: Path):
    """Import a module of tests, under a name that no other package's tests use."""
    name = f"dovetail_tests_of_{path.parents[1].name}_{path.stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


def _of_cpuref(name: str):
    return _module(Path(__file__).parents[2] / "reference_backend" / "tests" / f"{name}.py")


@pytest.fixture(scope="session")
def direct():
    """CpuRef's test harness: guards around every buffer, garbage in every workspace."""
    return _of_cpuref("direct")


@pytest.fixture(scope="session")
def of_cpuref():
    """Import a module of CpuRef's tests by its name."""
    return _of_cpuref


def pytest_generate_tests(metafunc):
    """Give a test of convolutions in a reduced precision its cases, in every layout and way."""
    shared = _module(Path(__file__).with_name("products.py"))
    for precision, own in shared.MORE_CONVOLUTIONS.items():
        if f"{precision}_case" in metafunc.fixturenames:
            metafunc.parametrize(f"{precision}_case", [*shared.CONVOLUTIONS, *own], ids=str)
            metafunc.parametrize("layout", ["NCHW", "NHWC"])
            metafunc.parametrize("passes", [True, False])


@pytest.fixture(scope="session")
def products():
    """The module `products`: what builds and runs products of every precision."""
    return _module(Path(__file__).with_name("products.py"))


@pytest.fixture(params=[name for name, here in instruction_sets().items() if here])
def kernels(request):
    """The kernels of each instruction set that this machine has."""
    return Kernels(request.param)


@pytest.fixture(scope="session")
def binary():
    """What each operation on two numbers is, as CpuRef's tests have it."""
    return _of_cpuref("reference").BINARY


@pytest.fixture
def run_layer(direct, kernels):
    """Run the layer that `build(network, *slots)` makes, without a runtime; see `direct.py`.

    A layer without a workload of its own, and those that it reads, run as the private layers that
    they become, one after the other.
    """

    def execute(layer, feeds, cancel=False, **how):
        capsule = CpuAccFactory(kernels).create_workload(layer)
        return direct._execute(layer, feeds, direct.workload_of(capsule), None, cancel, **how)

    def run(build, *arrays, quantizations=None, **how):
        networks = []

        def building(net, *slots):
            networks.append(net)
            return build(net, *slots)

        layer, feeds = direct.build_layer(building, *arrays, quantizations=quantizations)
        if found("WORKLOADS", layer.kind) is not None and rules_for(layer) == "RULES" and not is_product_of_rows(layer):
            return execute(layer, feeds, **how)
        for number, slot in enumerate(layer.outputs):
            networks[0].output(slot, name=f"result {number}")
        computed = [one for one in networks[0] if not isinstance(one.descriptor, Input | Output | Constant)]
        view = SubgraphView(networks[0], computed)
        graph = lower(view, kernels.lanes, kernels.precision)
        made = {}
        values = {inside.name: feeds[outside.layer.name] for inside, outside in zip(graph.inputs, view.inputs, strict=True)}
        for private in graph.topological_order():
            if not isinstance(private.descriptor, Input | Output | Constant):
                results = execute(private, values, **how)
                values[private.name] = results[0]
                made.update(zip(private.outputs, results, strict=True))
        slots = [output.inputs[0].source for output in graph.outputs]
        return [made[slot] if slot in made else values[slot.layer.name] for slot in slots]

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
