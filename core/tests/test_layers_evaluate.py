"""What kinds compute from constants, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dovetail import layers as kinds
from dovetail.graph.descriptor import Array, Descriptor
from dovetail.graph.element_types import DType
from dovetail.graph.tensor import Quantization, TensorInfo
from dovetail.layers import BinaryOperation, ComparisonOperation, UnaryOperation

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4) - 7
I = np.array([[5, -3, 2], [0, 7, -8]], np.int64)  # noqa: E741  # integers, beside X


def evaluated(descriptor: Descriptor, *values: Array) -> Any:
    infos = [TensorInfo.of_array(v) for v in values]
    return descriptor.evaluate(infos, list(values))


CASES: dict[str, tuple[Descriptor, list[Array], Callable[[], Any]]] = {
    "reshape": (kinds.Reshape(shape=(4, -1)), [X], lambda: X.reshape(4, 6)),
    "expand dims": (kinds.ExpandDims(axes=(1,)), [X], lambda: X[:, None]),
    "squeeze": (kinds.Squeeze(), [X[:, :1]], lambda: X[:, 0]),
    "flatten": (kinds.Flatten(axis=2), [X], lambda: X.reshape(6, 4)),
    "permute": (kinds.Permute(permutation=(2, 0, 1)), [X], lambda: X.transpose(2, 0, 1)),
    "broadcast": (kinds.BroadcastTo(shape=(5, 1, 3, 4)), [X], lambda: np.broadcast_to(X, (5, 2, 3, 4))),
    "tile": (kinds.Tile(repeats=(1, 2, 3)), [X], lambda: np.tile(X, (1, 2, 3))),
    "shape": (kinds.Shape(start=1), [X], lambda: np.array([3, 4])),
    "concat": (kinds.Concat(axis=1), [X, X], lambda: np.concatenate([X, X], 1)),
    "stack": (kinds.Stack(axis=1), [X, X], lambda: np.stack([X, X], 1)),
    "pad": (
        kinds.Pad(before=(0, 1, 0), after=(2, 0, 0), value=3),
        [X],
        lambda: np.pad(X, [(0, 2), (1, 0), (0, 0)], constant_values=3),
    ),
    "slice backwards": (kinds.StridedSlice(begin=(-1,), end=(-9,), axes=(2,), stride=(-2,)), [X], lambda: X[:, :, -1:-9:-2]),
    "slice": (kinds.StridedSlice(begin=(0, 1), end=(1, 99)), [X], lambda: X[0:1, 1:]),
    "gather": (kinds.Gather(axis=1), [X, np.array([[0, -1]])], lambda: np.take(X, [[0, -1]], 1)),
    "trilu": (kinds.Trilu(upper=False, k=1), [X], lambda: np.tril(X, 1)),
    "range": (kinds.Range(start=7, limit=0, delta=-3), [], lambda: np.array([7, 4, 1])),
    "fill": (kinds.Fill(shape=(2, 2), value=3, dtype=DType.INT32), [], lambda: np.full((2, 2), 3, np.int32)),
    "cast": (kinds.Cast(dtype=DType.INT32), [X * np.float32(0.5)], lambda: (X * np.float32(0.5)).astype(np.int32)),
    "cast to bool": (kinds.Cast(dtype=DType.BOOL), [I], lambda: I != 0),
    "where": (kinds.Where(), [I > 0, I, np.int64(9)], lambda: np.where(I > 0, I, 9)),
    "reduce": (kinds.Reduce(function=kinds.ReduceFunction.PROD, axes=(1,)), [I], lambda: I.prod(1)),
    "divide truncates": (
        kinds.ElementwiseBinary(operation=BinaryOperation.DIV),
        [I, np.array([2, 2, -3])],
        lambda: np.array([[2, -1, 0], [0, 3, 2]]),
    ),
    "dequantize": (
        kinds.Dequantize(quantization=Quantization.per_axis((0.5, 2.0), (1, -1), axis=0)),
        [np.array([[1, 3], [0, -4]], np.int8)],
        lambda: np.array([[0, 1], [2, -6]], np.float32),
    ),
    **{
        name: (kinds.ElementwiseBinary(operation=operation), [X, X[0] + 1], lambda f=function: f(X, X[0] + 1))
        for name, operation, function in (
            ("add", BinaryOperation.ADD, np.add),
            ("sub", BinaryOperation.SUB, np.subtract),
            ("mul", BinaryOperation.MUL, np.multiply),
            ("maximum", BinaryOperation.MAXIMUM, np.maximum),
            ("minimum", BinaryOperation.MINIMUM, np.minimum),
        )
    },
    **{
        name: (kinds.ElementwiseUnary(operation=operation), [X], lambda f=function: f(X))
        for name, operation, function in (
            ("abs", UnaryOperation.ABS, np.abs),
            ("neg", UnaryOperation.NEG, np.negative),
            ("floor", UnaryOperation.FLOOR, np.floor),
            ("ceil", UnaryOperation.CEIL, np.ceil),
        )
    },
    **{
        operation.value: (kinds.Comparison(operation=operation), [I, np.int64(2) + 0 * I], lambda f=function: f(I, 2))
        for operation, function in (
            (ComparisonOperation.EQUAL, np.equal),
            (ComparisonOperation.NOT_EQUAL, np.not_equal),
            (ComparisonOperation.LESS, np.less),
            (ComparisonOperation.GREATER_OR_EQUAL, np.greater_equal),
        )
    },
}


@pytest.mark.parametrize("name", CASES)
def test_evaluate_agrees_with_numpy_and_with_infer(name: str) -> None:
    descriptor, values, wanted = CASES[name]
    values = [np.asarray(v) for v in values]
    found = evaluated(descriptor, *values)
    assert found is not None
    expected = np.asarray(wanted())
    np.testing.assert_array_equal(found[0], expected)
    info = descriptor.infer([TensorInfo.of_array(v) for v in values])[0]
    assert (found[0].shape, found[0].dtype) == (info.sizes, info.dtype.numpy)


def test_split_evaluates_every_part() -> None:
    parts = evaluated(kinds.Split(parts=3, axis=2), X)
    assert [p.shape for p in parts] == [(2, 3, 2), (2, 3, 2), (2, 3, 0)]
    np.testing.assert_array_equal(np.concatenate(parts, 2), X)


@pytest.mark.parametrize(
    ("descriptor", "values"),
    [
        (kinds.Gather(), [X, np.array([7])]),  # out of range: the run must fail, not the optimizer
        (kinds.Cast(dtype=DType.INT32), [np.array([np.nan], np.float32)]),
        (kinds.ElementwiseUnary(operation=UnaryOperation.ERF), [X]),
        (kinds.Reduce(function=kinds.ReduceFunction.SUM), [X]),  # a float sum depends on its order
        (kinds.Pad(before=(-1, 0, 0), after=(0, 0, 0)), [X]),
        (kinds.Activation(function=kinds.ActivationFunction.RELU), [X]),
    ],
)
def test_what_a_backend_decides_is_left_to_it(descriptor: Descriptor, values: list[Array]) -> None:
    assert evaluated(descriptor, *values) is None


@pytest.mark.parametrize(
    "descriptor",
    [
        kinds.Permute(permutation=(2, 0, 1)),
        kinds.Concat(axis=0),
        kinds.Split(parts=2),
        kinds.ElementwiseUnary(operation=UnaryOperation.ABS),
        kinds.Where(),
        kinds.Cast(dtype=DType.INT32),
        kinds.Reshape(shape=(24,)),
        kinds.Trilu(),
        kinds.Dequantize(quantization=Quantization.per_tensor(1.0)),
    ],
)
def test_unknown_values_are_not_evaluated(descriptor: Descriptor) -> None:
    dtype = DType.INT8 if isinstance(descriptor, kinds.Dequantize) else DType.FLOAT32
    infos = [TensorInfo.of((2, 3, 4), dtype)] * 3
    assert descriptor.evaluate(infos, [None] * 3) is None
