"""The adapter by itself."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from dovetail import BackendUnavailableError, InputError
from dovetail_onnx import backend
from dovetail_onnx.backend import BACKENDS_VARIABLE, DovetailBackend

TEXT = """<ir_version: 8, opset_import: ["" : 17]>
g (float[N,2] x, float[N,2] w) => (float[N,2] y, float[N,2] z) { y = Add(x, w)  z = Sub(x, w) }"""
X, W = np.asarray([[1, 2]], np.float32), np.asarray([[10, 20]], np.float32)


def test_outputs_come_in_the_order_of_the_model() -> None:
    rep = backend.prepare(onnx.parser.parse_model(TEXT))
    for inputs in ([X, W], {"w": W, "x": X}):
        y, z = rep.run(inputs)
        np.testing.assert_array_equal(y, X + W)
        np.testing.assert_array_equal(z, X - W)
    y, _ = rep.run([np.repeat(X, 3, axis=0), np.repeat(W, 3, axis=0)])
    assert y.shape == (3, 2)


def test_initializers_are_not_inputs() -> None:
    proto = onnx.parser.parse_model(TEXT)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(W, "w"))
    rep = DovetailBackend.prepare(proto)
    np.testing.assert_array_equal(rep.run([X])[0], X + W)
    np.testing.assert_array_equal(rep.run(X)[0], X + W)
    with pytest.raises(InputError, match="2 arrays for 1 inputs"):
        rep.run([X, W])


def test_a_value_that_shapes_the_result_may_be_fed() -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[2,3] x, int64[R] s) => (float[a,b] y) { y = Reshape(x, s) }'
    rep = DovetailBackend.prepare(onnx.parser.parse_model(text))
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for shape in ([3, 2], [6], [1, -1], [3, 2]):
        np.testing.assert_array_equal(rep.run([x, np.asarray(shape)])[0], x.reshape(shape))


def test_one_node() -> None:
    node = helper.make_node("Clip", ["x", "", "most"], ["y"])
    (y,) = backend.run_node(node, [X, np.float32(1.5)])
    np.testing.assert_array_equal(y, [[1, 1.5]])
    (y,) = backend.run_node(helper.make_node("Softmax", ["x"], ["y"]), [np.zeros((1, 2, 2), np.float32)], opset_version=11)
    np.testing.assert_allclose(y, np.full((1, 2, 2), 0.25))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize(
    ("low", "high"),
    [(None, None), (0, None), (None, 6), (None, "largest"), ("lowest", "largest"), (-np.inf, 6), (None, np.inf), (np.nan, 1)],
)
def test_clip_to_the_ends_of_a_type(dtype: Any, low: Any, high: Any) -> None:
    limit = np.finfo(dtype).max
    x = np.asarray([-np.inf, -limit, -limit / 2, -5, 0, 5, limit / 2, limit, np.inf, np.nan], dtype)
    ends = {"lowest": -limit, "largest": limit}
    bounds = [None if end is None else np.asarray(ends.get(end, end), dtype) for end in (low, high)]
    node = helper.make_node(
        "Clip", ["x", *("" if end is None else name for name, end in zip("ab", bounds, strict=True))], ["y"]
    )
    tensors = [onnx.numpy_helper.from_array(end, name) for name, end in zip("ab", bounds, strict=True) if end is not None]
    code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    entries = [[helper.make_tensor_value_info(name, code, [10])] for name in "xy"]
    model = helper.make_model(helper.make_graph([node], "g", *entries, tensors), opset_imports=[helper.make_opsetid("", 13)])
    (y,) = DovetailBackend.prepare(model).run([x])
    minimum, maximum = (default if end is None else end for end, default in zip(bounds, (-limit, limit), strict=True))
    np.testing.assert_array_equal(y, np.minimum(np.maximum(x, minimum), maximum))


def test_bfloat16_comes_back_as_such() -> None:
    node = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.BFLOAT16)
    (y,) = backend.run_node(node, [X])
    assert y.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(y.astype(np.float32), X)


def test_devices() -> None:
    assert backend.supports_device("CPU")
    assert not backend.supports_device("CUDA:0")
    assert backend.is_compatible(onnx.ModelProto())


def test_the_environment_names_the_backends(monkeypatch) -> None:
    monkeypatch.setenv(BACKENDS_VARIABLE, "NoSuchBackend")
    with pytest.raises(BackendUnavailableError, match="NoSuchBackend"):
        backend.prepare(onnx.parser.parse_model(TEXT))
    monkeypatch.setenv(BACKENDS_VARIABLE, "NoSuchBackend?, CpuRef")
    assert len(backend.prepare(onnx.parser.parse_model(TEXT)).run([X, W])) == 2
