"""Subgraphs in the place of operators: what they may not do, and how much they may become."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from operator_models import results_of
from tflite_making import Model, Subgraph

from dovetail import ErrorCode, GraphError, LimitError, Limits, ModelError, UnsupportedModelError
from dovetail.ground.limits import limited
from dovetail_tflite import parse

X = np.arange(6, dtype=np.float32).reshape(2, 3)
COMPOSITE, DECOMPOSITION = "STABLEHLO_COMPOSITE", "decomposition_subgraph_index"


def called(graph: Subgraph, index: int, shape: Any = (2, 3)) -> None:
    """Let a subgraph of one input be another of its inputs."""
    x = graph.input("x", np.float32, shape)
    y = graph.output(graph.tensor("y", np.float32, shape))
    graph.operator("CALL", [x], [y], {"subgraph": index})


def reversing(graph: Subgraph, axis: int, dtype: Any = np.float32) -> None:
    """Let a subgraph reverse an axis of its input."""
    x = graph.input("x", dtype, (2, 3))
    axes = graph.constant("axes", np.array([axis], np.int32))
    y = graph.output(graph.tensor("y", dtype, (2, 3)))
    graph.operator("REVERSE_V2", [x, axes], [y])


def choosing(condition: Any = None, then: int = 1, other: int = 2) -> Model:
    """Make a model of an IF; a condition that is None is an input."""
    model = Model()
    graph = model.main
    x = graph.input("x", np.float32, (2, 3))
    known = None if condition is None else np.asarray(condition)
    number = graph.input("condition", np.bool_, ()) if known is None else graph.constant("condition", known)
    y = graph.output(graph.tensor("y", np.float32, (2, 3)))
    graph.operator("IF", [number, x], [y], {"then_subgraph_index": then, "else_subgraph_index": other})
    return model


def refused(model: Model) -> ModelError:
    with pytest.raises(ModelError) as caught:
        parse(model.build())
    assert caught.value.code is ErrorCode.MODEL_MALFORMED
    return caught.value


@pytest.mark.parametrize("name", ["CALL", COMPOSITE])
def test_a_subgraph_stands_in_the_place_of_an_operator(name: str) -> None:
    model = Model()
    graph = model.main
    x, twice = graph.input("x", np.float32, (2, 3)), graph.tensor("twice", np.float32, (2, 3))
    y = graph.output(graph.tensor("y", np.float32, (2, 3)))
    option = "subgraph" if name == "CALL" else DECOMPOSITION
    for source, target in ((x, twice), (twice, y)):
        graph.operator(name, [source], [target], {option: 1} | ({} if name == "CALL" else {"name": "any.thing"}))
    reversing(model.subgraph(), 1)
    network = parse(model.build())
    assert {"twice/y", "y/y"} <= {layer.name for layer in network}
    assert network.layer("twice/y").sources == ("twice/y",)
    np.testing.assert_array_equal(results_of(model.build(), [X])[0], X)


def test_an_operator_inside_is_reported_once_by_its_name() -> None:
    model = Model()
    called(model.main, 1)
    inner = model.subgraph()
    x, y = inner.input("x", np.float32, (2, 3)), inner.output(inner.tensor("y", np.float32, (2, 3)))
    inner.operator("custom:Mine", [x], [y])
    with pytest.raises(UnsupportedModelError) as caught:
        parse(model.build())
    assert [(entry["op"], entry["node"]) for entry in caught.value.details["unsupported"]] == [("Mine", "y/y")]


def test_what_a_subgraph_leaves_alone_goes_through_it() -> None:
    model = Model()
    called(model.main, 1)
    inner = model.subgraph()
    inner.output(inner.input("x", np.float32, (2, 3)))
    np.testing.assert_array_equal(results_of(model.build(), [X])[0], X)


@pytest.mark.parametrize("index", [2, -1, 2**31 - 1])
def test_there_is_no_such_subgraph(index: int) -> None:
    model = choosing(False, 1, index)
    reversing(model.subgraph(), 0)
    assert f"subgraph {index} of 2" in str(refused(model))


@pytest.mark.parametrize(("first", "second"), [(0, 1), (1, 1), (1, 0)])
def test_no_subgraph_stands_in_itself(first: int, second: int) -> None:
    model = Model()
    called(model.main, first)
    called(model.subgraph(), second)
    assert "calls itself" in str(refused(model))


def test_other_numbers_of_tensors() -> None:
    model = Model()
    called(model.main, 1)
    inner = model.subgraph()
    reversing(inner, 0)
    inner.input("more", np.float32, ())
    assert "hand 1 tensors to subgraph 1, which takes 2" in str(refused(model))
    model = Model()
    called(model.main, 1)
    inner = model.subgraph()
    reversing(inner, 0)
    inner.output(0)
    assert "1 outputs, expected 2" in str(refused(model))


def test_one_tensor_as_two_inputs() -> None:
    model = Model()
    graph = model.main
    x, y = graph.input("x", np.float32, (2, 3)), graph.output(graph.tensor("y", np.float32, (2, 3)))
    graph.operator("CALL", [x, x], [y], {"subgraph": 1})
    inner = model.subgraph()
    inner.tree["inputs"] = [inner.output(inner.tensor("x", np.float32, (2, 3)))] * 2
    assert "as two inputs" in str(refused(model))


def test_an_output_that_is_left_out() -> None:
    model = Model()
    called(model.main, 1)
    inner = model.subgraph()
    inner.input("x", np.float32, (2, 3))
    inner.tree["outputs"] = [-1]
    assert "give no tensor" in str(refused(model))


def test_another_type_than_stated() -> None:
    model = Model()
    called(model.main, 1)
    inner = model.subgraph()
    inner.input("x", np.float32, (2, 3))
    inner.output(inner.constant("y", X.astype(np.int32)))
    assert "gives int32, but the file says float32" in str(refused(model))


def nested(depth: int) -> Model:
    model = Model()
    for index in range(depth):
        called(model.main if index == 0 else model.subgraph(), index + 1)
    reversing(model.subgraph(), 0)
    return model


def test_nesting_has_a_limit() -> None:
    np.testing.assert_array_equal(results_of(nested(8).build(), [X])[0], X[::-1])
    with limited(Limits(nesting=7)), pytest.raises(LimitError) as caught:
        parse(nested(8).build())
    assert caught.value.code is ErrorCode.LIMIT_EXCEEDED
    with pytest.raises(LimitError):
        parse(nested(65).build())


@pytest.mark.parametrize("arguments", [0, 1])
def test_subgraphs_that_double_with_each_level_are_refused(arguments: int) -> None:
    """The file is of some kilobytes, and would become more operators than there are atoms."""
    model = Model()
    for index in range(60):
        graph = model.main if index == 0 else model.subgraph()
        x = [graph.input("x", np.float32, (2, 3))] if arguments else []
        for _ in range(2):
            results = [graph.tensor("y", np.float32, (2, 3))] if arguments else []
            graph.operator("CALL", x, results, {"subgraph": index + 1})
        graph.tree["outputs"] = results
    last = model.subgraph()
    if arguments:
        last.output(last.input("x", np.float32, (2, 3)))
    assert "times larger than its file" in str(refused(model))


@pytest.mark.parametrize("condition", [True, False, [[True]]])
def test_a_constant_condition_takes_one_branch(condition: Any) -> None:
    """What the other one has does not matter."""
    model = choosing(condition)
    taken, other = model.subgraph(), model.subgraph()
    if not np.all(condition):
        taken, other = other, taken
    reversing(taken, 0)
    x, y = other.input("x", np.float32, (2, 3)), other.output(other.tensor("y", np.float32, (2, 3)))
    other.operator("custom:Mine", [x], [y])
    np.testing.assert_array_equal(results_of(model.build(), [X])[0], X[::-1])


def test_a_condition_that_is_known_late() -> None:
    model = choosing()
    for axis in (0, 1):
        reversing(model.subgraph(), axis)
    file = model.build()
    np.testing.assert_array_equal(results_of(file, [X, np.array(True)])[0], X[::-1])
    np.testing.assert_array_equal(results_of(file, [X, np.array(False)])[0], X[:, ::-1])


def test_only_the_branch_that_is_taken_must_fit() -> None:
    model = choosing()
    reversing(model.subgraph(), 0)
    reversing(model.subgraph(), 7)
    file = model.build()
    np.testing.assert_array_equal(results_of(file, [X, np.array(True)])[0], X[::-1])
    with pytest.raises(GraphError) as caught:
        results_of(file, [X, np.array(False)])
    assert caught.value.code is ErrorCode.ATTRIBUTE_INVALID


def test_branches_of_different_types() -> None:
    model = choosing()
    reversing(model.subgraph(), 0)
    other = model.subgraph()
    other.input("x", np.float32, (2, 3))
    other.output(other.constant("y", X.astype(np.int32)))
    assert "branches whose output 0 is float32 and int32" in str(refused(model))


@pytest.mark.parametrize("condition", [1.0, [True, False], np.zeros(0, np.bool_)])
def test_conditions_that_decide_nothing(condition: Any) -> None:
    model = choosing(condition)
    for axis in (0, 1):
        reversing(model.subgraph(), axis)
    assert "condition of" in str(refused(model))
