"""Layers between ONNX's DequantizeLinear and QuantizeLinear, computed on integers.

The reference is the literal execution in float64: the numbers that integers stand for, the
operator, and the nearest integer. onnxruntime's results, where it is installed, are the same within
a step.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import dovetail
from dovetail_onnx import parse

Array = np.ndarray[Any, Any]
BACKENDS = [["CpuRef"], ["CpuAcc", "CpuRef"]]
RANDOM = np.random.default_rng(5)


class Scheme(NamedTuple):
    """What integers stand for; `axis` where there is a scale for each of its indices."""

    scale: Any
    zero: Any
    axis: int | None = None

    def real(self, x: Array) -> Array:
        """The numbers, as DequantizeLinear forms them."""
        shape = [1] * x.ndim
        if self.axis is not None:
            shape[self.axis] = -1
        scale = np.asarray(self.scale, np.float32).astype(np.float64).reshape(shape if self.axis is not None else ())
        return np.asarray((x.astype(np.float64) - self.zero) * scale)


class Operator(NamedTuple):
    """An operator of ONNX on numbers, and the same in float64."""

    op: str
    of: Callable[..., Array]
    shapes: tuple[tuple[int, ...], ...]
    attributes: Mapping[str, Any] = {}
    stored: tuple[int, ...] = ()
    """Which operands are constants."""
    result: Scheme = Scheme(0.04, 3)
    schemes: tuple[Scheme, ...] = (Scheme(0.02, 5), Scheme(0.03, -2), Scheme(0.01, 0))
    signed: bool = True


def softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


def transposed(x: Array, weights: Array) -> Array:
    found = np.zeros((x.shape[0], weights.shape[1], 2 * x.shape[2] + 1, 2 * x.shape[3] + 1))
    for i in range(3):
        for j in range(3):
            found[:, :, i : i + 2 * x.shape[2] : 2, j : j + 2 * x.shape[3] : 2] += np.einsum(
                "nchw,co->nohw", x, weights[:, :, i, j]
            )
    return found


PER_COLUMN = Scheme(tuple(0.01 + 0.002 * i for i in range(6)), 0, 1)
OPERATORS = {
    "mul": Operator("Mul", np.multiply, ((2, 9), (2, 9))),
    "mul by a constant": Operator("Mul", np.multiply, ((2, 9), (1,)), stored=(1,)),
    "sub": Operator("Sub", np.subtract, ((2, 9), (9,))),
    "max": Operator("Max", np.maximum, ((2, 9), (2, 9)), schemes=(Scheme(0.04, 3),) * 2),
    "sigmoid": Operator("Sigmoid", lambda x: 1 / (1 + np.exp(-x)), ((3, 41),), result=Scheme(1 / 256, -128)),
    "relu": Operator("Relu", lambda x: np.maximum(x, 0), ((3, 41),)),
    "leaky relu": Operator("LeakyRelu", lambda x: np.where(x < 0, 0.01 * x, x), ((3, 41),)),
    "hard swish": Operator("HardSwish", lambda x: x * np.clip(x / 6 + 0.5, 0, 1), ((3, 41),)),
    "exp": Operator("Exp", np.exp, ((3, 41),)),
    "prelu": Operator("PRelu", lambda x, a: np.where(x < 0, a * x, x), ((2, 5, 7), (5, 1)), stored=(1,)),
    "stored matrix": Operator("MatMul", np.matmul, ((2, 5, 12), (12, 6)), stored=(1,)),
    "stored matrix per column": Operator(
        "MatMul", np.matmul, ((2, 5, 12), (12, 6)), stored=(1,), schemes=(Scheme(0.02, 5), PER_COLUMN)
    ),
    "transposed convolution": Operator(
        "ConvTranspose",
        transposed,
        ((1, 4, 5, 6), (4, 3, 3, 3)),
        {"strides": [2, 2]},
        (1,),
        schemes=(Scheme(0.02, 5), Scheme((0.01, 0.02, 0.015), 0, 1)),
    ),
    "concat": Operator("Concat", lambda a, b: np.concatenate([a, b], 1), ((2, 3), (2, 4)), {"axis": 1}),
    "mean": Operator("ReduceMean", lambda x: x.mean((2, 3)), ((2, 5, 6, 7),), {"axes": [2, 3], "keepdims": 0}),
    "global average": Operator("GlobalAveragePool", lambda x: x.mean((2, 3), keepdims=True), ((2, 5, 6, 7),)),
    "global maximum": Operator("GlobalMaxPool", lambda x: x.max((2, 3), keepdims=True), ((2, 5, 6, 7),)),
    "transpose": Operator(
        "Transpose", lambda x: x.transpose(0, 2, 1), ((2, 5, 6),), {"perm": [0, 2, 1]}, schemes=(Scheme(0.04, 3),)
    ),
}

IN_FLOATS = {
    "softmax": Operator("Softmax", softmax, ((4, 37),), result=Scheme(1 / 256, -128)),
    "softmax of another scale": Operator("Softmax", softmax, ((4, 37),), result=Scheme(0.0051, -100)),
    "softmax of unsigned": Operator("Softmax", softmax, ((2, 3, 10),), result=Scheme(1 / 256, 0), signed=False),
    "product": Operator("MatMul", np.matmul, ((2, 5, 12), (2, 12, 6))),
    "product, transposed behind": Operator("MatMul", np.matmul, ((3, 7, 20), (20, 6))),
}
"""Operators that take less time to and from floats."""


def integers(operator: Operator, shape: tuple[int, ...]) -> Array:
    least = -128 if operator.signed else 0
    return RANDOM.integers(least, least + 256, shape).astype(np.int8 if operator.signed else np.uint8)


def model_of(operator: Operator) -> tuple[onnx.ModelProto, dict[str, Array], list[Array]]:
    """Return the model, what to feed it, and the integers of all operands."""
    nodes, inputs, constants, values = [], [], [], []
    dtype = np.int8 if operator.signed else np.uint8
    code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))

    def scheme_of(name: str, scheme: Scheme) -> list[str]:
        scale = np.asarray(scheme.scale, np.float32)
        constants.append(numpy_helper.from_array(scale, f"{name}_scale"))
        constants.append(numpy_helper.from_array(np.full(scale.shape, scheme.zero, dtype), f"{name}_zero"))
        return [f"{name}_scale", f"{name}_zero"]

    for number, (shape, scheme) in enumerate(zip(operator.shapes, operator.schemes, strict=False)):
        name = f"x{number}"
        values.append(integers(operator, shape))
        if number in operator.stored:
            constants.append(numpy_helper.from_array(values[-1], name))
        else:
            inputs.append(helper.make_tensor_value_info(name, code, shape))
        axis = {} if scheme.axis is None else {"axis": scheme.axis}
        nodes.append(helper.make_node("DequantizeLinear", [name, *scheme_of(name, scheme)], [f"real{number}"], **axis))
    nodes.append(
        helper.make_node(operator.op, [f"real{number}" for number in range(len(values))], ["r"], **operator.attributes)
    )
    nodes.append(helper.make_node("QuantizeLinear", ["r", *scheme_of("y", operator.result)], ["y"]))
    graph = helper.make_graph(nodes, "integers", inputs, [helper.make_tensor_value_info("y", code, None)], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=8)
    feeds = {f"x{number}": value for number, value in enumerate(values) if number not in operator.stored}
    return model, feeds, values


def of_onnxruntime(model: onnx.ModelProto, feeds: dict[str, Array]) -> Array | None:
    with contextlib.suppress(ImportError):  # it is in no group but bench
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        found: Array = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(
            None, feeds
        )[0]
        return found
    return None


@pytest.mark.parametrize("backends", BACKENDS, ids="+".join)
@pytest.mark.parametrize("name", [*OPERATORS, *IN_FLOATS])
def test_an_operator_between_integers(name: str, backends: list[str]) -> None:
    operator = (OPERATORS | IN_FLOATS)[name]
    model, feeds, values = model_of(operator)
    reals = [scheme.real(value) for scheme, value in zip(operator.schemes, values, strict=False)]
    scale, zero = float(np.float32(operator.result.scale)), operator.result.zero
    least = -128 if operator.signed else 0
    wanted = np.clip(np.rint(operator.of(*reals) / scale) + zero, least, least + 255)
    passes = dovetail.optimize(parse(model), backends, integer_layers=True).placement.passes
    assert dict(passes).get("integer_layers", 0) == (name in OPERATORS)
    with dovetail.load(parse(model), backends=backends, integer_layers=True, threads=1) as network:
        found = network.run(feeds)["y"]
    assert found.shape == wanted.shape
    assert np.abs(found.astype(np.int64) - wanted).max() <= 1
    theirs = of_onnxruntime(model, feeds)
    if theirs is not None:
        assert np.abs(found.astype(np.int64) - theirs.astype(np.int64)).max() <= 1


@pytest.mark.parametrize("oracle", [True, False])
@pytest.mark.parametrize("backends", BACKENDS, ids="+".join)
@pytest.mark.parametrize("name", [*OPERATORS, *IN_FLOATS])
def test_integers_that_are_all_constants_stand_for_the_same_numbers(name: str, backends: list[str], oracle: bool) -> None:
    operator = (OPERATORS | IN_FLOATS)[name]
    model, feeds, _ = model_of(operator._replace(stored=tuple(range(len(operator.shapes)))))
    assert not feeds
    with dovetail.load(parse(model), backends=backends, passes=False) as network:
        wanted = network.run({})["y"].astype(np.int64)
    with dovetail.load(parse(model), backends=backends, integer_layers=True, oracle=oracle) as network:
        assert np.abs(network.run({})["y"].astype(np.int64) - wanted).max() <= 1
