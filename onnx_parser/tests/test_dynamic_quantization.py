"""DynamicQuantizeLinear against onnxruntime: what has no range gets a scale that divides."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import dovetail
from dovetail_onnx import parse

Arrays = dict[str, np.ndarray[Any, Any]]
BACKENDS = ("CpuRef", "CpuAcc")
WAYS: tuple[dict[str, Any], ...] = ({}, {"oracle": False}, {"passes": False})
"""With everything folded, with nothing folded, and without any pass."""
ZEROS = {"plus": [0.0] * 5, "minus": [-0.0] * 5, "plus_first": [0.0, -0.0, 0.0], "minus_first": [-0.0, 0.0], "one": [-0.0]}


def model(x: np.ndarray[Any, Any], *, constant: bool) -> onnx.ModelProto:
    """Quantize x, quantize it once more by what was found, and take both back."""
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["y", "scale", "zero"]),
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["again"]),
        helper.make_node("DequantizeLinear", ["y", "scale", "zero"], ["real"]),
        helper.make_node("Mul", ["real", "one"], ["result"]),
    ]
    one = np.ones((), np.float32)  # a network has an input even if x is none
    name, fed, held = ("x", x, {"one": one}) if not constant else ("one", one, {"x": x})
    graph = helper.make_graph(
        nodes,
        "dynamic",
        [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, fed.shape)],
        [helper.make_empty_tensor_value_info(name) for name in ("y", "scale", "zero", "again", "result")],
        [numpy_helper.from_array(value, name) for name, value in held.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def by_onnxruntime(x: np.ndarray[Any, Any]) -> Arrays:
    onnxruntime = pytest.importorskip("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    encoded = onnx.shape_inference.infer_shapes(model(x, constant=False)).SerializeToString()
    session = onnxruntime.InferenceSession(encoded, options, providers=["CPUExecutionProvider"])
    return dict(zip([one.name for one in session.get_outputs()], session.run(None, {"x": x}), strict=True))


def by_dovetail(x: np.ndarray[Any, Any], backend: str, constant: bool, way: dict[str, Any]) -> Arrays:
    with dovetail.load(parse(model(x, constant=constant)), backend, **way) as net:
        return dict(net.run({"one": np.ones((), np.float32)} if constant else {"x": x}))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("zeros", ZEROS)
def test_zeros_have_a_scale_of_one(zeros: str, constant: bool, way: dict[str, Any], backend: str) -> None:
    x = np.array(ZEROS[zeros], np.float32)
    found, wanted = by_dovetail(x, backend, constant, way), by_onnxruntime(x)
    assert wanted["scale"] == 1
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        assert (found[name].dtype, found[name].shape) == (value.dtype, value.shape), name
        np.testing.assert_array_equal(found[name], value, err_msg=name)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("lowest", [1e-45, 3e-44, 1.7e-43])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_range_that_255_steps_make_vanish_leaves_no_scale_of_zero(
    sign: int, lowest: float, way: dict[str, Any], backend: str
) -> None:
    x = np.array([lowest, 0.0, lowest], np.float32) * sign
    assert by_onnxruntime(x)["scale"] == 0  # what is not taken over
    found = by_dovetail(x, backend, False, way)
    assert found["scale"] == 1
    for name in ("zero", "y", "again", "result"):
        assert not found[name].any(), name


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("seed", range(40))
def test_other_numbers_have_the_bits_of_onnxruntime(seed: int, backend: str) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(int(size) for size in rng.integers(1, 8, rng.integers(0, 4)))
    offset, spread = rng.choice([-3.0, 0.0, 5.0]), 10.0 ** rng.integers(-39, 30)
    x = np.asarray((rng.standard_normal(shape) + offset) * spread, np.float32)
    found, wanted = by_dovetail(x, backend, False, {}), by_onnxruntime(x)
    for name in ("scale", "zero", "y", "again"):
        np.testing.assert_array_equal(found[name], wanted[name], err_msg=name)
