"""Test that names which other libraries have lead to those of dovetail."""

from __future__ import annotations

import asyncio
import glob
import inspect
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_import import output_of

import dovetail
from dovetail import LoadedNetwork, Network, OptionError
from dovetail.ground.close_names import NamedElsewhere
from dovetail.ground.names_elsewhere import OF_BUILDERS, OF_LOAD, OF_NETWORKS, OF_PACKAGE, OF_PARSERS, OF_RUN
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
    assert not OF_RUN.keys() & inspect.signature(LoadedNetwork.submit).parameters.keys()


def test_names_of_networks_are_those_of_the_table() -> None:
    assert OF_NETWORKS.keys() == _NAMED_ELSEWHERE


@pytest.mark.parametrize(
    "table",
    [OF_PACKAGE, OF_PARSERS, OF_NETWORKS, OF_BUILDERS, OF_LOAD, OF_RUN],
    ids=["package", "parsers", "networks", "builders", "load", "run"],
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
                known = {*inspect.signature(dovetail.load).parameters, *CompileRequest._fields, "outputs", "timeout"}
                assert name in known, sentence


@pytest.mark.parametrize("name", ["InferenceSession", "Interpreter", "compile_model"])
def test_names_of_the_package(name: str) -> None:
    assert not hasattr(dovetail, name)
    with pytest.raises(AttributeError, match=rf"has no attribute '{name}': dovetail\.load\(path\)") as caught:
        getattr(dovetail, name)
    assert (caught.value.name, caught.value.obj) == (name, dovetail)


def test_names_of_backends() -> None:
    """The id of whatever is installed, however it is written; nothing is known of others."""
    for name in ("CpuRef", "Cpuref"):
        with pytest.raises(AttributeError) as caught:
            getattr(dovetail, name)
        hint = "it is the id of a backend: dovetail.load(path, backends=['CpuRef'])"
        assert str(caught.value) == f"module 'dovetail' has no attribute {name!r}: {hint}"
    with pytest.raises(AttributeError, match=r"has no attribute 'AcmeNpu'$"):
        getattr(dovetail, "AcmeNpu")  # noqa: B009  # which type checkers refuse
    with pytest.raises(ImportError, match=r"cannot import name 'CpuRef' from 'dovetail' .*backends=\['CpuRef'\]\)$"):
        exec("from dovetail import CpuRef")


def test_names_of_commands() -> None:
    for name, wanted in (
        ("explain", "net.placement.explain()"),
        ("quantize", "dovetail quantize "),
        ("diff", "`dovetail diff`"),
    ):
        with pytest.raises(AttributeError, match=rf"has no attribute '{name}': .*{re.escape(wanted)}"):
            getattr(dovetail, name)


FROM_IMPORTS = {
    "from dovetail import InferenceSession": "'InferenceSession' from 'dovetail' (FILE): dovetail.load(path) returns",
    "from dovetail import (load as l,\n SessionOptions as s)": "'SessionOptions' from 'dovetail' (FILE): give threads=",
    "def inside():\n    from dovetail import Tensor\ninside()": "'Tensor' from 'dovetail' (FILE): tensors are NumPy arrays",
    "class Inside:\n    from dovetail import float32": "'float32' from 'dovetail' (FILE): element types are",
    "from dovetail import laod": "'laod' from 'dovetail' (FILE): did you mean 'load'?",
    "from dovetail import qqqqq": "'qqqqq' from 'dovetail' (FILE)",
    "getattr(__import__('dovetail'), 'Core')": "AttributeError: module 'dovetail' has no attribute 'Core': dovetail.load(",
    "import dovetail.InferenceSession": "ModuleNotFoundError: No module named 'dovetail.InferenceSession'",
}
SEEN = f"""
import dovetail, importlib, sys
for code in {list(FROM_IMPORTS)!r}:
    try:
        exec(code, {{}})
    except Exception as error:
        print(f"{{type(error).__name__}}: {{error}}".replace(dovetail.__file__, "FILE"))
        if type(error) is ImportError:
            assert (error.name, error.path) == ("dovetail", dovetail.__file__)
names = {{}}
exec("from dovetail import ground; from dovetail.ground import errors", names)
assert names["ground"] is sys.modules["dovetail.ground"]
assert not hasattr(dovetail, "Session")
"""


def check_imports(output: str) -> None:
    lines = output.splitlines()
    assert len(lines) == len(FROM_IMPORTS)
    for line, (code, wanted) in zip(lines, FROM_IMPORTS.items(), strict=True):
        assert line.startswith(wanted if "Error: " in wanted else f"ImportError: cannot import name {wanted}"), code


def test_names_in_a_from_import() -> None:
    """Python leaves out the text of an `AttributeError` there."""
    check_imports(output_of(SEEN))
    with pytest.raises(ImportError, match=r"dovetail\.load\(path\) returns"):
        from dovetail import InferenceSession  # type: ignore[attr-defined]  # noqa: F401  # which is what is tested


@pytest.mark.parametrize("tool", ["trace", "profile"])
def test_names_in_a_from_import_that_is_watched(tool: str) -> None:
    program = f"import sys\ndef watch(*_): return watch\nsys.set{tool}(watch)\n" + SEEN
    check_imports(output_of(program))


@pytest.mark.parametrize("minor", [12, 13, 14])
def test_names_in_a_from_import_of_other_pythons(minor: int) -> None:
    pattern = os.path.join(
        os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv")), "versions", f"3.{minor}.*", "bin", "python"
    )
    python = next(iter(sorted(glob.glob(pattern))), None) or shutil.which(f"python3.{minor}")
    if python is None or subprocess.run([python, "-c", ""], check=False, capture_output=True).returncode:
        pytest.skip(f"there is no Python 3.{minor}")
    source = str(Path(dovetail.__file__).parents[1])
    program = f"import sys; sys.path.insert(0, {source!r})\n" + SEEN
    done = subprocess.run([python, "-S", "-c", program], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    check_imports(done.stdout)


def test_names_of_the_parsers() -> None:
    for package, name in (("dovetail_onnx", "InferenceSession"), ("dovetail_tflite", "Interpreter"), ("dovetail_onnx", "load")):
        module = pytest.importorskip(package)
        with pytest.raises(
            AttributeError, match=rf"module '{package}' has no attribute '{name}': dovetail\.(load|parse)\(path\)"
        ):
            getattr(module, name)
        with pytest.raises(
            ImportError, match=rf"cannot import name '{name}' from '{package}' .*: dovetail\.(load|parse)\(path\)"
        ):
            exec(f"from {package} import {name}")
        assert not set(dir(module)) & OF_PARSERS.keys()
        exec(f"from {package} import parser")


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


def test_arguments_of_runtimes() -> None:
    make: Any = dovetail.Runtime
    with pytest.raises(OptionError, match="Runtime has no argument 'num_threads'") as caught:
        make(num_threads=2)
    assert caught.value.hint == "give threads="
    assert caught.value.code is dovetail.ErrorCode.OPTION_UNKNOWN
    with pytest.raises(OptionError, match="Runtime has no argument 'thread'") as caught:
        make(thread=2)
    assert caught.value.hint == "did you mean 'threads'?"
    runtime: Any = dovetail.Runtime(threads=1)
    for name, hint in (
        ("providers", r"^give backends=.*; that is for dovetail\.load, not for Runtime\.load$"),
        ("batch_size", r"^give shapes=.*; that is for dovetail\.load, not for Runtime\.load$"),
        ("num_threads", r"^give threads=$"),
        ("backends", r"dovetail\.load\(model, runtime=runtime, backends=\.\.\.\); here .* optimize=\{'backends': \.\.\.\}$"),
        ("qqqqq", "^known: network, threads, name, optimize"),
    ):
        with pytest.raises(OptionError, match=f"Runtime.load has no argument '{name}'") as caught:
            runtime.load("model.onnx", **{name: ["x"]})
        assert re.search(hint, str(caught.value.hint))
    with runtime.load(small(), optimize={"backends": "CpuRef"}) as net:
        assert (net.run({"x0": np.ones(2, np.float32)})["y"] == 1).all()
    assert list(inspect.signature(dovetail.Runtime).parameters) == ["threads", "spin_us", "guard"]
    assert "optimize" in inspect.signature(dovetail.Runtime.load).parameters


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
        submit: Any = net.submit
        with pytest.raises(
            TypeError, match=r"^submit\(\) takes one .*; write net\.submit\(\{'x0': \.\.\.\}, outputs=\['y'\]\)$"
        ):
            submit(["y"], {"x0": x})
        run_async: Any = net.run_async
        with pytest.raises(TypeError, match=r"^run_async\(\) takes one .*; write await net\.run_async\(\{'x0': \.\.\.\}\)$"):
            asyncio.run(run_async(None, {"x0": x}, print))


@pytest.mark.parametrize("remembers", [False, True])
def test_arguments_of_runs_by_name(*, remembers: bool) -> None:
    x = np.ones(2, np.float32)
    with dovetail.load(small(remembers=remembers), backends="CpuRef") as net:

        def awaited(*given: Any, **named: Any) -> Any:
            return asyncio.run(net.run_async(*given, **named))

        def submitted(*given: Any, **named: Any) -> Any:
            return net.submit(*given, **named).result()

        calls: dict[str, Any] = {"run": net.run, "submit": submitted, "run_async": awaited}
        calls |= {} if remembers else {"bind": net.bind}  # which refuses always
        for method, call in calls.items():
            other, outputs = ("feeds", "{name: array}") if method == "bind" else ("inputs", "[name]")
            written = {"run_async": "await net.run_async"}.get(method, f"net.{method}")
            as_dictionary = f"arrays go in as a dictionary: {written}({{'x0': array}})"
            first = f"arrays go first, by input name: {written}({{name: array}})"
            for given, named, wanted, hint in (
                ((), {"x0": x}, "x0", as_dictionary),
                ((), {"outputs": None, "x0": x}, "x0", as_dictionary),
                (({"x0": x},), {"output_names": ["y"]}, "output_names", f"name what is to be returned: outputs={outputs}"),
                ((), {"input_feed": {"x0": x}}, "input_feed", first),
                ((), {other: {"x0": x}}, other, first),
                (({"x0": x},), {"outputz": ["y"]}, "outputz", "did you mean 'outputs'?"),
            ):
                with pytest.raises(OptionError, match=f"^.*{method} has no argument '{wanted}'") as caught:
                    call(*given, **named)
                assert caught.value.code is dovetail.ErrorCode.OPTION_UNKNOWN
                assert caught.value.details["option"] == wanted
                assert caught.value.hint == hint
            with pytest.raises(dovetail.InputError, match="input 'x0' is missing"):
                call()
        anything: Any = net
        with pytest.raises(OptionError, match=r"a network has no argument 'x0'") as caught:
            anything(x0=x)
        assert caught.value.hint == "arrays by input name go to net.run({'x0': array}), one array to net(array)"
        bound: Any = net.run  # a method that is kept, and one that is called with what is unpacked
        assert (bound(feeds={"x0": x})["y"] >= 1).all()
        with pytest.raises(OptionError, match="run has no argument 'x0'"):
            bound(*(), x0=x)
        with pytest.raises(OptionError, match="run has no argument 'x0'"):
            inspect.getattr_static(type(net), "run")(net, x0=x)


@pytest.mark.parametrize("remembers", [False, True])
@pytest.mark.parametrize("name", ["self", "timeout", "outputs", "state", "feeds", "inputs", "_more", "_unknown", "unknown"])
def test_inputs_called_as_arguments_are(name: str, *, remembers: bool) -> None:
    """A model's names are anybody's: given by name, an array is refused as one of any name is."""
    network = Network("n")
    network.output(network.relu(network.input(name, (2,))), "y")
    if remembers:
        network.write_state("memory", network.relu(network.state("memory", (2,))))
    x = np.ones(2, np.float32)
    with dovetail.load(network, backends="CpuRef") as net:

        def awaited(**named: Any) -> Any:
            return asyncio.run(net.run_async(**named))

        def submitted(**named: Any) -> Any:
            return net.submit(**named).result()

        calls: dict[str, Any] = {"run": net.run, "submit": submitted, "run_async": awaited, "bind": net.bind, "": net}
        for method, call in calls.items():
            with pytest.raises((OptionError, dovetail.InputError)) as caught:
                call(**{name: x})
            if name == "self" and method and not (remembers and method == "bind"):  # which refuses always
                assert f"net.{method}({{'self': array}})" in caught.value.hint
        assert (net.run({name: x})["y"] == 1).all()
        assert (net.submit({name: x}).result()["y"] == 1).all()


def test_self_is_no_argument_of_a_runtime() -> None:
    with pytest.raises(OptionError, match="Runtime has no argument 'self'"):
        dovetail.Runtime(self=1)  # type: ignore[arg-type]  # that is the mistake
    with dovetail.Runtime() as runtime, pytest.raises(OptionError, match=r"Runtime\.load has no argument 'self'"):
        runtime.load(small(), self=1)  # type: ignore[arg-type]  # that is the mistake


def test_errors_inside_a_run_are_what_they_were() -> None:
    """A `TypeError` of something that a run calls is not taken for one of its arguments."""

    class Array:
        def __dlpack__(self, **_: Any) -> Any:
            raise TypeError("mine")

        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

    with dovetail.load(small(), backends="CpuRef") as net:
        seen = []
        for named in ({}, {"timeout": 5.0}, {"outputs": ["y"]}):
            with pytest.raises(Exception, match="mine") as caught:
                net.run({"x0": Array()}, **named)
            seen.append((type(caught.value), str(caught.value)))
        assert len({*seen}) == 1
        assert seen[0][0] is not OptionError


def test_a_network_without_inputs_is_run_with_nothing() -> None:
    network = Network("constant")
    network.output(network.relu(network.constant(np.ones(3, np.float32))), "y")
    with dovetail.load(network, backends="CpuRef") as net:
        assert (net.run()["y"] == 1).all()
        assert (net.submit().result()["y"] == 1).all()
        with net.bind() as bound:
            assert (bound.run()["y"] == 1).all()


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
