"""Plans of models that functions of others helped to read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper
from tools import tflite_operators

import dovetail
import dovetail_onnx
import dovetail_tflite
from dovetail import ErrorCode, ModelError
from dovetail.loading import parsing
from kept_plans.networks import RANDOM, expected, run, written


def test_a_network_that_others_helped_to_read_is_not_kept(tmp_path: Path, keeping: Path, parsed: list[str]) -> None:
    nodes = [helper.make_node("Scale", ["x"], ["y"], domain="test.scale")]
    x, y = (helper.make_tensor_value_info(name, 1, [3]) for name in "xy")
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("test.scale", 1)]
    made = helper.make_model(helper.make_graph(nodes, "scaling", [x], [y]), opset_imports=opsets, ir_version=8)
    model = written(tmp_path / "model.onnx", made)
    for factor in (2.0, 3.0):

        @dovetail_onnx.operator("test.scale", "Scale")
        def scale(node: Any, factor: float = factor) -> Any:
            return node.network.multiplication(node.input(0), np.float32(factor))

        with scale, dovetail.load(model) as net:
            (result,) = net.run({"x": np.ones(3, np.float32)}).values()
        np.testing.assert_array_equal(result, np.full(3, factor, np.float32))
    assert not keeping.exists()
    assert len(parsed) == 2


def negated(node: Any) -> Any:
    return node.network.unary(node.input(0), "neg", name=node.label())


def test_a_plan_is_not_used_where_an_operator_is_translated_otherwise(model: Path, keeping: Path, parsed: list[str]) -> None:
    """A plan that was kept before knows nothing of a function that came to translate its Relu."""
    with dovetail.load(model) as net:
        np.testing.assert_allclose(run(net), expected(), rtol=1e-4, atol=1e-6)
    for _ in range(2):  # what such a function made is not kept
        with dovetail_onnx.operator("", "Relu", replace=True)(negated), dovetail.load(model) as net:
            assert not np.allclose(run(net), expected(), rtol=1e-2)
    assert len(parsed) == 3
    with dovetail.load(model) as net:
        np.testing.assert_allclose(run(net), expected(), rtol=1e-4, atol=1e-6)
    assert len(parsed) == 3
    assert len(list(keeping.iterdir())) == 1


def test_plans_of_tensorflow_lite_know_of_operators_of_others_too(
    tmp_path: Path, keeping: Path, parsed: list[str], root: Path
) -> None:
    """A custom operator is read anew each time; a function for another one changes nothing."""
    model = tmp_path / "model.tflite"
    model.write_bytes((root / "examples" / "tflite" / "frobnicate.tflite").read_bytes())
    x = RANDOM.random((1, 3, 5), np.float32)

    def scaled(factor: float) -> Any:
        return lambda call: call.network.multiplication(call.input(0), np.float32(factor))

    for factor in (2.0, 3.0):
        with dovetail_tflite.custom_operator("Frobnicate")(scaled(factor)), dovetail.load(model) as net:
            np.testing.assert_array_equal(net.run({"x": x})["y"], x * np.float32(factor))
    assert len(parsed) == 2
    assert not keeping.exists()


def test_a_plan_of_tensorflow_lite_is_not_used_where_others_translate_its_operator(tmp_path: Path, parsed: list[str]) -> None:
    model = tmp_path / "model.tflite"
    model.write_bytes(tflite_operators.model_of("RELU", 1, "float32"))

    def none(call: Any) -> Any:
        return call.network.multiplication(call.input(0), np.float32(0), name=call.label())

    for _ in range(2):
        with dovetail.load(model) as net:
            feeds = {spec.name: np.ones(spec.sizes, np.float32) for spec in net.inputs}
            assert all(array.all() for array in net.run(feeds).values())
        assert len(parsed) == 1
    for count in (2, 3):
        with dovetail_tflite.builtin_operator("RELU", replace=True)(none), dovetail.load(model) as net:
            assert not any(array.any() for array in net.run(feeds).values())
        assert len(parsed) == count
    for _ in range(3):  # another operator changes nothing, and is kept beside it
        with dovetail_tflite.builtin_operator("TANH", replace=True)(none), dovetail.load(model) as net:
            assert all(array.all() for array in net.run(feeds).values())
    assert len(parsed) == 4


def test_a_model_without_the_operators_of_others_is_kept_beside_them(model: Path, parsed: list[str]) -> None:
    for _ in range(3):
        with dovetail_onnx.operator("", "Sigmoid", replace=True)(negated), dovetail.load(model) as net:
            np.testing.assert_allclose(run(net), expected(), rtol=1e-4, atol=1e-6)
    assert len(parsed) == 1


def test_a_network_whose_operators_changed_while_it_was_planned_is_not_kept(
    model: Path, keeping: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The function goes while the model is read, and is there again before the plan is written."""
    registered = dovetail_onnx.operator("", "Relu", replace=True)(negated)
    parse = parsing.parse
    again = []

    def late(path: str) -> Any:
        registered.unregister()
        network = parse(path)
        again.append(dovetail_onnx.operator("", "Relu", replace=True)(negated))
        return network

    with monkeypatch.context() as patched:
        patched.setattr(parsing, "parse", late)
        with dovetail.load(model) as net:
            np.testing.assert_allclose(run(net), expected(), rtol=1e-4, atol=1e-6)
    assert not keeping.exists()
    with again[0], dovetail.load(model) as net:
        assert not np.allclose(run(net), expected(), rtol=1e-2)


def test_what_is_read_again_is_read_by_the_same_functions(model: Path) -> None:
    with dovetail.load(model):
        pass
    with dovetail.load(model) as net, dovetail_onnx.operator("", "Relu", replace=True)(negated):
        with pytest.raises(ModelError, match="registered after the model was loaded") as raised:
            net.placement  # noqa: B018
        np.testing.assert_allclose(run(net), expected(), rtol=1e-4, atol=1e-6)
    assert raised.value.code == ErrorCode.OPERATOR_FAILED
