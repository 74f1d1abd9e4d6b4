from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result
from onnx import TensorProto, helper, numpy_helper

from dovetail import BackendId, IBackend, IWorkloadFactory, Layer, Support
from dovetail.discovery.registry import default_registry

Invoke = Callable[..., Result]


@pytest.fixture
def dovetail() -> Invoke:
    """Run the command line in this process; an exception that gets out fails the test."""
    from dovetail_sdk.cli import main

    def invoke(*arguments: object, environment: dict[str, str] | None = None) -> Result:
        result = CliRunner().invoke(main, [str(argument) for argument in arguments], env=environment)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return invoke


@pytest.fixture
def classifier(tmp_path: Path) -> Path:
    """A picture [N, 3, 8, 8] to 5 scores: the means of red, green and blue, then -1 and 0.25."""
    weights = np.zeros((3, 5), np.float32)
    weights[0, 0] = weights[1, 1] = weights[2, 2] = 1
    bias = np.array([0, 0, 0, -1, 0.25], np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("GlobalAveragePool", ["picture"], ["means"], name="pool"),
            helper.make_node("Flatten", ["means"], ["flat"], name="flatten"),
            helper.make_node("Gemm", ["flat", "weights", "bias"], ["scores"], name="classes"),
        ],
        "classifier",
        [helper.make_tensor_value_info("picture", TensorProto.FLOAT, ["N", 3, 8, 8])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["N", 5])],
        [numpy_helper.from_array(weights, "weights"), numpy_helper.from_array(bias, "bias")],
    )
    return save(graph, tmp_path / "classifier.onnx")


@pytest.fixture
def adder(tmp_path: Path) -> Path:
    """Two inputs [2, 3], two outputs: their sum and its negative."""
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in ("a", "b", "sum", "negative")]
    nodes = [
        helper.make_node("Add", ["a", "b"], ["sum"], name="add"),
        helper.make_node("Neg", ["sum"], ["negative"], name="negate"),
    ]
    return save(helper.make_graph(nodes, "adder", value[:2], value[2:]), tmp_path / "adder.onnx")


def save(graph: onnx.GraphProto, path: Path) -> Path:
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)
    return path


class Addition:
    def execute(self, inputs: list[Any], outputs: list[Any]) -> None:
        np.add(inputs[0], inputs[1], out=outputs[0])


class FussyFactory(IWorkloadFactory):
    def create_workload(self, layer: Layer) -> Addition:
        return Addition()


class FussyBackend(IBackend):
    id = BackendId("Fussy")

    def supports(self, layer: Layer, options: Any, device: Any) -> Support:
        operation = getattr(layer.descriptor, "operation", None)
        return Support.yes() if str(operation) == "add" else Support.no("kind", "it only adds")

    def create_workload_factory(self, context: Any, resources: Any, options: Any) -> FussyFactory:
        return FussyFactory()


@pytest.fixture
def fussy() -> Iterator[str]:
    """A backend that only adds."""
    default_registry().register(FussyBackend())
    yield "Fussy"
    default_registry().unregister("Fussy")
