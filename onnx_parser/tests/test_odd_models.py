"""Small models that are valid and odd, or nearly valid: what was found by writing them by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import dovetail
from dovetail import ErrorCode, ModelError
from dovetail_onnx import parse


def model(nodes: list[onnx.NodeProto], x: Any, **constants: Any) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "odd",
        [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def test_no_scales_for_an_axis_without_elements() -> None:
    x = np.zeros((0, 3), np.int8)
    node = helper.make_node("DequantizeLinear", ["x", "s", "z"], ["y"], axis=0)
    with dovetail.load(parse(model([node], x, s=np.zeros(0, np.float32), z=np.zeros(0, np.int8))), "CpuRef") as net:
        assert net.run({"x": x})["y"].shape == (0, 3)


@pytest.mark.parametrize("operator", ["QuantizeLinear", "DequantizeLinear"])
@pytest.mark.parametrize(("scales", "zeros"), [((), (3,)), ((1,), (2,)), ((3,), (2,)), ((3,), (0,)), ((), (0,))])
def test_zero_points_that_are_not_as_many_as_the_scales_are_malformed(operator: str, scales: Any, zeros: Any) -> None:
    x = np.zeros((2, 3), np.float32 if operator == "QuantizeLinear" else np.int8)
    node = helper.make_node(operator, ["x", "s", "z"], ["y"], axis=1)
    with pytest.raises(ModelError, match="zero points") as caught:
        parse(model([node], x, s=np.ones(scales, np.float32), z=np.zeros(zeros, np.int8)))
    assert caught.value.code is ErrorCode.MODEL_MALFORMED


def test_one_zero_point_for_all_scales() -> None:
    x = np.array([[1, 2], [3, 4]], np.int8)
    node = helper.make_node("DequantizeLinear", ["x", "s", "z"], ["y"], axis=1)
    with dovetail.load(parse(model([node], x, s=np.array([1, 2], np.float32), z=np.int8(1))), "CpuRef") as net:
        np.testing.assert_array_equal(net.run({"x": x})["y"], [[0, 2], [2, 6]])


def test_only_a_matrix_has_a_diagonal() -> None:
    with pytest.raises(ModelError, match="rank 3"):
        parse(model([helper.make_node("EyeLike", ["x"], ["y"])], np.zeros((2, 2, 2), np.float32)))
