"""Test that names which other libraries have lead to those of dovetail."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from test_import import output_of

import dovetail
from dovetail import LoadedNetwork, Network, OptionError
from dovetail.ground.close_names import NamedElsewhere
from dovetail.ground.names_elsewhere import OF_BUILDERS, OF_LOAD, OF_NETWORKS, OF_PACKAGE
from dovetail.optimizer import CompileRequest
from dovetail.runtime.executor import NetworkRunner
from dovetail.runtime.loaded_network import _NAMED_ELSEWHERE
from dovetail.runtime.stateful_network import StatefulNetwork

pytest.importorskip("dovetail_reference", reason="what is run here needs a backend")


def small(inputs: int = 1, *, remembers: bool = False) -> Network:
    network = Network("small")
    slots = [network.input(f"x{number}", (2,)) for number in range(inputs)]
    if remembers:
        slots.append(network.state("before", (2,)))
    total = slots[0]
    for slot in slots[1:]:
        total = network.addition(total, slot)
    if remembers:
        network.write_state("before", total)
    network.output(total if len(slots) > 1 else network.relu(total), "y")
    return network


def test_what_is_named_elsewhere_is_nowhere_here() -> None:
    assert not OF_PACKAGE.keys() & set(dir(dovetail))
    assert not OF_NETWORKS.keys() & {*dir(NetworkRunner)}
    assert not any(f"def {name}(" in inspect.getsource(LoadedNetwork) for name in OF_NETWORKS)  # it was not replaced
    for kind in (LoadedNetwork, StatefulNetwork):
        assert not OF_NETWORKS.keys() & {name for name, one in vars(kind).items() if not isinstance(one, NamedElsewhere)}
    assert not OF_BUILDERS.keys() & set(dir(Network))
    known = {*inspect.signature(dovetail.load).parameters, *CompileRequest._fields}
    assert not OF_LOAD.keys() & known


def test_names_of_networks_are_those_of_the_table() -> None:
    assert OF_NETWORKS.keys() == _NAMED_ELSEWHERE


@pytest.mark.parametrize(
    "table", [OF_PACKAGE, OF_NETWORKS, OF_BUILDERS, OF_LOAD], ids=["package", "networks", "builders", "load"]
)
def test_sentences_lead_to_what_there_is(table: dict[str, str]) -> None:
    """Each `dovetail.name`, `net.name` and builder method in a sentence exists."""
    with dovetail.load(small(), backends="CpuRef") as net:
        for sentence in table.values():
            for name in re.findall(r"\bdovetail\.(\w+)", sentence):
                assert hasattr(dovetail, name), sentence
            for name in re.findall(r"\bnet\.(\w+)", sentence):
                assert hasattr(net, name), sentence
            for name in re.findall(r"^it is (\w+)", sentence):
                assert hasattr(Network, name), sentence
            for name in re.findall(r"\b(\w+)=", sentence):
                known = {*inspect.signature(dovetail.load).parameters, *CompileRequest._fields, "outputs"}
                assert name in known, sentence


@pytest.mark.parametrize("name", ["InferenceSession", "Interpreter", "compile_model"])
def test_names_of_the_package(name: str) -> None:
    assert not hasattr(dovetail, name)
    with pytest.raises(AttributeError, match=rf"has no attribute '{name}': dovetail\.load\(path\)") as caught:
        getattr(dovetail, name)
    assert (caught.value.name, caught.value.obj) == (name, dovetail)


@pytest.mark.parametrize("remembers", [False, True])
def test_attributes_of_loaded_networks(*, remembers: bool) -> None:
    with dovetail.load(small(remembers=remembers), backends="CpuRef") as net:
        for name, sentence in OF_NETWORKS.items():
            assert not hasattr(net, name)
            assert not hasattr(type(net), name)
            assert name not in dir(net)
            with pytest.raises(AttributeError) as caught:
                getattr(net, name)
            assert str(caught.value) == f"{type(net).__name__!r} object has no attribute {name!r}: {sentence}"
        with pytest.raises(AttributeError, match=r"has no attribute 'rnu'$"):
            net.rnu  # type: ignore[attr-defined]  # noqa: B018  # which is what is tested
        assert "run" in dir(net)


def test_attributes_of_builders() -> None:
    with pytest.raises(AttributeError, match="'Network' object has no attribute 'conv2d': it is convolution2d"):
        Network("x").conv2d  # type: ignore[attr-defined]  # noqa: B018  # which is what is tested
    with pytest.raises(AttributeError, match=r"type object 'Network' has no attribute 'predict': to run a network, load it"):
        Network.predict  # type: ignore[attr-defined]  # noqa: B018  # which is what is tested


def test_arguments_of_load_and_optimize() -> None:
    for name, hint in OF_LOAD.items():
        wrong: Any = {name: 1}
        with pytest.raises(OptionError, match=f"load has no argument '{name}'") as caught:
            dovetail.load(small(), **wrong)
        assert caught.value.hint == hint
        assert caught.value.code == dovetail.ErrorCode.OPTION_UNKNOWN
    with pytest.raises(OptionError, match="optimize has no argument 'providers'"):
        dovetail.optimize(small(), providers=["x"])
    with pytest.raises(OptionError, match="load has no argument 'thread'") as caught:
        dovetail.load(small(), thread=1)
    assert caught.value.hint == "did you mean 'threads'?"
    with pytest.raises(OptionError) as caught:
        dovetail.load(small(), qqqqq=1)
    assert "runtime" in str(caught.value.hint)
    assert "more" not in str(caught.value.hint)


@pytest.mark.parametrize("remembers", [False, True])
def test_runs_as_other_libraries_have_them(*, remembers: bool) -> None:
    x = np.ones(2, np.float32)
    with dovetail.load(small(remembers=remembers), backends="CpuRef") as net:
        run: Any = net.run
        for given, wanted in (
            ((None, {"x0": x}), r"write net\.run\(\{'x0': \.\.\.\}\)$"),
            ((["y"], {"x0": x}), r"write net\.run\(\{'x0': \.\.\.\}, outputs=\['y'\]\)$"),
            (("x0", x), r"write net\.run\(\{'x0': array\}\)$"),
            (({"x0": x}, ["y"]), r"write net\.run\(feeds, outputs=\['y'\]\)$"),
            ((x, x, x), r"but 3 were given"),
        ):
            with pytest.raises(TypeError, match=wanted):
                run(*given)
        assert (net.run({"x0": x})["y"] == 1).all()


def test_calls_with_several_arrays() -> None:
    x = np.ones(2, np.float32)
    with dovetail.load(small(2), backends="CpuRef") as net:
        call: Any = net.__call__
        with pytest.raises(TypeError, match=r"2 arrays.*net\.run\(\{'x0': array, 'x1': array\}\)"):
            call(x, x)


def test_the_table_is_not_imported_without_need() -> None:
    program = """
import sys
import dovetail
network = dovetail.Network("small")
network.output(network.relu(network.input("x", (2,))), "y")
import dovetail.runtime.loaded_network
print("dovetail.ground.names_elsewhere" in sys.modules, hasattr(network, "predict"))
print("dovetail.ground.names_elsewhere" in sys.modules)
"""
    assert output_of(program).split() == ["False", "False", "True"]


def test_python_suggests_close_names() -> None:
    done = subprocess.run([sys.executable, "-c", "import dovetail; dovetail.lod"], capture_output=True, text=True, check=False)
    assert "Did you mean: 'load'?" in done.stderr


def test_bindings_are_context_managers() -> None:
    x = np.ones(2, np.float32)
    with dovetail.load(small(), backends="CpuRef") as net:
        with net.bind({"x0": x}) as bound:
            assert (bound.run()["y"] == 1).all()
        with pytest.raises(dovetail.RunError, match="this binding was closed"):
            bound.run()
        with pytest.raises(ValueError, match="mine"), net.bind({"x0": x}) as bound:
            raise ValueError("mine")
        with pytest.raises(dovetail.RunError, match="this binding was closed"):
            bound.run()
