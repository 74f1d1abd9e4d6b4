"""Graphs of a file: names, order, what is asked for in vain, and what contradicts itself."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tflite_making import Model, Subgraph

import dovetail
from dovetail import ErrorCode, ModelError, Network, UnsupportedModelError
from dovetail.ground.offers import Offers
from dovetail_tflite import own_operators, parse

F32 = np.float32
ONE = (1, 1, 1, 1)
POOL = dict.fromkeys(("stride_w", "stride_h", "filter_width", "filter_height"), 1)


def image(graph: Subgraph, name: str, **arguments: Any) -> int:
    return graph.tensor(name, F32, ONE, **arguments)


def pool(graph: Subgraph, x: int, y: int, **arguments: Any) -> int:
    """Add an operator that gives its input as it is."""
    graph.operator("MAX_POOL_2D", [x], [y], POOL, **arguments)
    return y


def error_of(model: Model) -> ModelError:
    with pytest.raises(ModelError) as caught:
        parse(model.build())
    assert caught.value.hint
    return caught.value


def malformed(model: Model) -> str:
    error = error_of(model)
    assert error.code is ErrorCode.MODEL_MALFORMED
    return error.message


def unsupported(model: Model) -> list[dict[str, Any]]:
    error = error_of(model)
    assert isinstance(error, UnsupportedModelError)
    found: list[dict[str, Any]] = error.details["unsupported"]
    assert all(entry["reason"] in error.message for entry in found[:50])
    return found


def names(network: Network) -> tuple[list[str], list[str]]:
    return [layer.name for layer in network.inputs], [layer.name for layer in network.outputs]


def run(model: Model, **inputs: float) -> dict[str, float]:
    with dovetail.load(parse(model.build()), backends=["CpuRef"]) as network:
        found = network.run({name: np.full(ONE, value, F32) for name, value in inputs.items()})
    return {name: float(value.reshape(())) for name, value in found.items()}


# -- names and ends --------------------------------------------------------------------------------


def test_a_network_is_named_after_its_subgraph() -> None:
    model = Model("classifier")
    model.main.output(model.main.input("x", F32, ONE))
    assert parse(model.build()).name == "classifier"
    model.main.tree["name"] = ""
    assert parse(model.build()).name == "network"


def test_ends_keep_their_names() -> None:
    model = Model()
    graph = model.main
    graph.output(pool(graph, graph.input("x:0", F32, ONE), image(graph, "scope/y;other/y")))
    assert names(parse(model.build())) == (["x:0"], ["scope/y;other/y"])
    assert run(model, **{"x:0": 3}) == {"scope/y;other/y": 3}


def test_names_are_made_unique() -> None:
    model = Model()
    graph = model.main
    a, b = (graph.input("same", F32, ONE) for _ in range(2))
    graph.output(pool(graph, a, image(graph, "same")))
    graph.output(pool(graph, b, image(graph, "same")))
    inputs, outputs = names(parse(model.build()))
    assert len({*inputs, *outputs}) == 4
    assert inputs[0] == "same"
    assert sorted(run(model, **{inputs[0]: 1, inputs[1]: 2}).values()) == [1, 2]


def test_tensors_without_names() -> None:
    model = Model()
    graph = model.main
    graph.output(pool(graph, graph.input("", F32, ONE), image(graph, "")))
    inputs, outputs = names(parse(model.build()))
    assert (inputs, outputs) == (["input_0"], ["output_0"])
    assert run(model, input_0=4) == {"output_0": 4}


def test_an_output_that_is_an_input() -> None:
    model = Model()
    model.main.output(model.main.input("x", F32, ONE))
    ((name, value),) = run(model, x=5).items()
    assert (name, value) == ("x_output", 5)


def test_an_output_that_is_a_constant() -> None:
    model = Model()
    model.main.output(model.main.constant("c", np.full(ONE, 7, F32)))
    assert run(model) == {"c": 7}


def test_an_output_twice() -> None:
    model = Model()
    graph = model.main
    y = pool(graph, graph.input("x", F32, ONE), image(graph, "y"))
    for _ in range(3):
        graph.output(y)
    found = run(model, x=6)
    assert len(found) == 3
    assert "y" in found
    assert set(found.values()) == {6}


def test_an_output_that_others_read() -> None:
    model = Model()
    graph = model.main
    y = graph.output(pool(graph, graph.input("x", F32, ONE), image(graph, "y")))
    graph.output(pool(graph, y, image(graph, "z")))
    assert run(model, x=2) == {"y": 2, "z": 2}


def test_a_constant_that_many_read_is_one_layer() -> None:
    model = Model()
    graph = model.main
    c = graph.constant("c", np.full(ONE, 7, F32))
    for number in range(3):
        graph.output(pool(graph, c, image(graph, f"y{number}")))
    kinds = [layer.kind for layer in parse(model.build())]
    assert sum("Constant" in kind for kind in kinds) == 1


def test_layers_know_their_operator() -> None:
    model = Model()
    graph = model.main
    graph.output(pool(graph, graph.input("x", F32, ONE), image(graph, "y")))
    assert ("y",) in [layer.sources for layer in parse(model.build())]


# -- order -----------------------------------------------------------------------------------------


def test_a_tensor_that_is_written_twice() -> None:
    model = Model()
    graph = model.main
    x, y = graph.input("x", F32, ONE), image(graph, "y")
    pool(graph, x, y)
    graph.output(pool(graph, x, y))
    assert "writes tensor 1 twice, the second time by 'y'" in malformed(model)


def test_an_input_that_is_written() -> None:
    model = Model()
    graph = model.main
    x = graph.input("x", F32, ONE)
    graph.output(pool(graph, x, x))
    assert "writes tensor 0 twice" in malformed(model)


def test_an_input_twice() -> None:
    model = Model()
    graph = model.main
    x = graph.output(graph.input("x", F32, ONE))
    graph.tree["inputs"].append(x)
    assert "as two inputs" in malformed(model)


def test_what_is_read_before_it_is_written() -> None:
    model = Model()
    graph = model.main
    x, y, z = graph.input("x", F32, ONE), image(graph, "y"), image(graph, "z")
    graph.output(pool(graph, y, z))
    pool(graph, x, y)
    assert "read tensor 'y', which nothing writes before it" in malformed(model)


def test_a_cycle() -> None:
    model = Model()
    graph = model.main
    graph.input("x", F32, ONE)
    y = image(graph, "y")
    graph.output(pool(graph, y, y))
    assert "which nothing writes before it" in malformed(model)


def test_an_output_that_nothing_writes() -> None:
    model = Model()
    model.main.input("x", F32, ONE)
    model.main.output(image(model.main, "y"))
    assert "output 0 read tensor 'y', which nothing writes" in malformed(model)


@pytest.mark.parametrize("number", [2, -2, (1 << 31) - 1, -(1 << 31)])
@pytest.mark.parametrize("place", ["graph inputs", "graph outputs", "inputs", "outputs"])
def test_tensors_that_are_not_there(number: int, place: str) -> None:
    model = Model()
    graph = model.main
    graph.output(pool(graph, graph.input("x", F32, ONE), image(graph, "y")))
    tree = graph.tree if place.startswith("graph") else graph.tree["operators"][0]
    tree[place.split()[-1]] = [number]
    assert f"refers to tensor {number} of 2" in malformed(model)


def test_an_input_that_is_left_out() -> None:
    model = Model()
    graph = model.main
    graph.output(pool(graph, -1, image(graph, "y")))
    assert "lacks its input 0" in malformed(model)


def test_an_operator_that_gives_nothing() -> None:
    model = Model()
    graph = model.main
    graph.operator("ABS", [graph.input("x", np.float32, (2,))], [])
    assert "operator ABS (version 1) of 'abs_0' has no outputs" in malformed(model)


def test_an_output_that_is_left_out() -> None:
    model = Model()
    model.main.input("x", F32, ONE)
    model.main.output(-1)
    assert "nothing produces" in malformed(model)


@pytest.mark.parametrize("outputs", [[], [1, 2]])
def test_another_number_of_results(outputs: list[int]) -> None:
    model = Model()
    graph = model.main
    x = graph.input("x", F32, ONE)
    image(graph, "y")
    image(graph, "z")
    graph.operator("MAX_POOL_2D", [x], outputs, POOL)
    graph.output(x)
    assert "operator MAX_POOL_2D (version 1) of" in malformed(model)


def test_a_result_of_another_type() -> None:
    model = Model()
    graph = model.main
    graph.output(pool(graph, graph.input("x", F32, ONE), graph.tensor("y", np.int32, ONE)))
    assert "the file says" in malformed(model)


def test_an_operator_without_options() -> None:
    model = Model()
    graph = model.main
    x, y = graph.input("x", F32, ONE), graph.output(image(graph, "y"))
    graph.operator("MAX_POOL_2D", [x], [y])
    assert "has no options" in malformed(model)


def test_options_of_another_operator() -> None:
    model = Model()
    graph = model.main
    graph.output(pool(graph, graph.input("x", F32, ONE), image(graph, "y")))
    graph.tree["operators"][0] |= {"builtin_options_type": 9, "builtin_options": ("SoftmaxOptions", {"beta": 1.0})}
    assert "operator MAX_POOL_2D (version 1) of 'y' is malformed" in malformed(model)


def test_options_that_are_not_there() -> None:
    model = Model()
    graph = model.main
    graph.output(pool(graph, graph.input("x", F32, ONE), image(graph, "y")))
    del graph.tree["operators"][0]["builtin_options"]
    assert "has no Pool2DOptions, though it says so" in malformed(model)


def test_a_code_that_is_not_there() -> None:
    model = Model()
    graph = model.main
    graph.output(pool(graph, graph.input("x", F32, ONE), image(graph, "y")))
    graph.tree["operators"][0]["opcode_index"] = 1
    assert "has an operator of code 1 of 1" in malformed(model)


# -- what dovetail does not have -------------------------------------------------------------------


def test_all_that_is_missing_is_told_at_once() -> None:
    model = Model()
    graph = model.main
    x = graph.input("x", F32, ONE)
    s = graph.input("s", "string", (1,))
    y, z, w, v = (image(graph, name) for name in "yzwv")
    graph.operator("custom:Mine", [x], [y], version=3)
    pool(graph, y, z)  # which only lacks what is missing already
    graph.operator("RFFT2D", [x], [w])
    graph.operator("custom:", [s], [v])
    u = graph.output(graph.tensor("u", "complex64", (1,)))
    graph.operator("IMAG", [z], [u])
    for number in (z, w, v):
        graph.output(number)
    found = unsupported(model)
    assert [(entry["op"], entry["version"], entry["node"]) for entry in found] == [
        ("input", 1, "input 1"),
        ("Mine", 3, "y"),
        ("RFFT2D", 1, "w"),
        ("", 1, "v"),
        ("IMAG", 1, "u"),
    ]
    assert "is of type string" in found[0]["reason"]


@pytest.mark.parametrize("version", [100, (1 << 31) - 1])
def test_a_version_that_is_too_new(version: int) -> None:
    model = Model()
    graph = model.main
    graph.output(pool(graph, graph.input("x", F32, ONE), image(graph, "y"), version=version))
    (entry,) = unsupported(model)
    assert (entry["op"], entry["version"]) == ("MAX_POOL_2D", version)
    assert "newer than" in entry["reason"]


@pytest.mark.parametrize(
    ("old", "new", "name"), [(127, 300, "builtin 300"), (127, 1 << 20, "builtin 1048576"), (-3, -5, "builtin -3")]
)
def test_operators_that_nobody_has(old: int, new: int, name: str) -> None:
    model = Model()
    graph = model.main
    graph.output(pool(graph, graph.input("x", F32, ONE), image(graph, "y")))
    model.tree["operator_codes"][0] |= {"deprecated_builtin_code": old, "builtin_code": new}
    assert [entry["op"] for entry in unsupported(model)] == [name]


def test_old_and_new_codes() -> None:
    """Old files have one field, new ones both; the old one alone cannot name newer operators."""
    model = Model()
    graph = model.main
    graph.output(pool(graph, graph.input("x", F32, ONE), image(graph, "y")))
    code = model.tree["operator_codes"][0]
    for changed in ({"builtin_code": None}, {"deprecated_builtin_code": None}, {"deprecated_builtin_code": 127}):
        model.tree["operator_codes"] = [code | changed]
        assert run(model, x=1) == {"y": 1}, changed


def test_results_of_a_missing_operator_may_be_left_out() -> None:
    model = Model()
    graph = model.main
    x = graph.output(graph.input("x", F32, ONE))
    for _ in range(2):
        graph.operator("custom:Mine", [x], [-1])
    assert [entry["op"] for entry in unsupported(model)] == ["Mine", "Mine"]


def test_long_lists_are_cut_in_the_text_only() -> None:
    model = Model()
    graph = model.main
    x = graph.output(graph.input("x", F32, ONE))
    for number in range(1000):
        graph.operator(f"custom:{number}{'c' * 1000}", [x], [])
    error = error_of(model)
    assert len(error.details["unsupported"]) == 1000
    assert len(str(error)) < 20_000
    assert "more, all in details" in error.message


def test_many_custom_operators_are_asked_for_quickly() -> None:
    """Each is looked for among what packages offer, which is listed once for all of them."""
    model = Model()
    graph = model.main
    x = graph.output(graph.input("x", F32, ONE))
    for number in range(5000):
        graph.operator(f"custom:C{number}", [x], [])
    data = model.build()
    begin = time.process_time()
    with pytest.raises(UnsupportedModelError):
        parse(data)
    assert time.process_time() - begin < 5


@pytest.fixture
def offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Install a package, as pip would, that translates the custom operator Mine."""
    monkeypatch.setattr(own_operators.OWN, "_offers", Offers(own_operators.GROUP))
    monkeypatch.syspath_prepend(tmp_path)
    info = tmp_path / "dovetail_mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: dovetail-mine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[dovetail.tflite_operators]\nMine = mine_tflite_operators\n")
    yield tmp_path / "mine_tflite_operators.py"
    sys.modules.pop("mine_tflite_operators", None)
    own_operators.OWN.clear()


def custom() -> Model:
    model = Model()
    graph = model.main
    graph.operator("custom:Mine", [graph.input("x", F32, ONE)], [graph.output(image(graph, "y"))])
    return model


def test_a_custom_operator_of_a_package(offered: Path) -> None:
    offered.write_text(
        "from dovetail_tflite import custom_operator\n\n\n@custom_operator('Mine')\ndef mine(call):\n    return call.input(0)\n"
    )
    assert run(custom(), x=3) == {"y": 3}


def test_a_package_that_cannot_be_imported(offered: Path) -> None:
    offered.write_text("raise RuntimeError('on purpose')\n")
    for _ in range(2):  # what failed is tried again
        (entry,) = unsupported(custom())
        assert "dovetail-mine 1.0 offers mine_tflite_operators for 'Mine'" in entry["reason"]
        assert entry["reason"].endswith("on purpose")
