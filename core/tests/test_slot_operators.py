"""Test Python's operators on slots against those of NumPy."""

from __future__ import annotations

import copy
import gc
import operator
import pickle
import time
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dovetail
from dovetail import DType, ErrorCode, GraphError, Network, Quantization
from dovetail.graph.graph import Graph

RANDOM = np.random.default_rng(11)
EXPRESSIONS: dict[str, Callable[[Any, Any], Any]] = {
    "x + y": lambda x, y: x + y,
    "x - y": lambda x, y: x - y,
    "x * y": lambda x, y: x * y,
    "x / y": lambda x, y: x / y,
    "x ** y": lambda x, y: x**y,
    "-x": lambda x, y: -x,
    "x + 1.5": lambda x, y: x + 1.5,
    "1.5 + x": lambda x, y: 1.5 + x,
    "x - 1": lambda x, y: x - 1,
    "1.0 - x": lambda x, y: 1.0 - x,
    "3 * x": lambda x, y: 3 * x,
    "x / 2": lambda x, y: x / 2,
    "2 / x": lambda x, y: 2 / x,
    "x ** 2": lambda x, y: x**2,
    "2 ** x": lambda x, y: 2**x,
    "float64 scalar": lambda x, y: x * np.sqrt(4.0),
    "both sides": lambda x, y: (1 - x) * (y + 2) / 4 - -y,
}
EXACT_ON_INTEGERS: dict[str, Callable[[Any, Any], Any]] = {
    "x + y": operator.add,
    "x - y": operator.sub,
    "x * y": operator.mul,
    "-x": lambda x, y: -x,
    "x + 3": lambda x, y: x + 3,
    "3 - x": lambda x, y: 3 - x,
    "x * -2": lambda x, y: x * -2,
    "x ** 2": lambda x, y: x**2,
}


def computed(expression: Callable[[Any, Any], Any], x: Any, y: Any, shape: tuple[Any, ...] | None = None) -> Any:
    """Build a network that computes an expression of x and y, and run it."""
    network = Network("expression")
    made = expression(network.input("x", shape or x.shape, x.dtype), network.input("y", y.shape, y.dtype))
    network.output(made, "z")
    with dovetail.load(network, "CpuRef") as net:
        return net.run({"x": x, "y": y})["z"]


@pytest.mark.parametrize("name", EXPRESSIONS)
@pytest.mark.parametrize("shape", [None, ("N", 5), ("N", "M")])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_real_numbers(name: str, shape: tuple[Any, ...] | None, dtype: str) -> None:
    x = RANDOM.uniform(0.5, 2, (3, 5)).astype(dtype)
    y = RANDOM.uniform(0.5, 2, (1, 5)).astype(dtype)
    found = computed(EXPRESSIONS[name], x, y, shape)
    expected = EXPRESSIONS[name](x.astype(np.float64), y.astype(np.float64))
    assert found.dtype == dtype
    # Five roundings at most, of numbers up to 4 times the result, and a power's some units besides.
    unit = float(np.finfo(dtype).eps)
    np.testing.assert_allclose(found, expected, rtol=40 * unit, atol=20 * unit)


@pytest.mark.parametrize("name", EXACT_ON_INTEGERS)
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_integers(name: str, dtype: str) -> None:
    x, y = (RANDOM.integers(-1000, 1000, (2, 3)).astype(dtype) for _ in range(2))
    found = computed(EXACT_ON_INTEGERS[name], x, y)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, EXACT_ON_INTEGERS[name](x, y))


def test_matrix_products() -> None:
    a, b = RANDOM.standard_normal((2, 3, 4)).astype(np.float32), RANDOM.standard_normal((4, 5)).astype(np.float32)
    left = RANDOM.standard_normal((6, 3)).astype(np.float32)
    np.testing.assert_allclose(computed(lambda x, y: x @ y, a, b), a @ b, rtol=1e-5, atol=1e-5)  # 4 products of unit normals
    np.testing.assert_allclose(computed(lambda x, y: x @ b, a, b), a @ b, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(computed(lambda x, y: left @ x, a, b), left @ a, rtol=1e-5, atol=1e-5)


def test_arrays_on_both_sides() -> None:
    x, array = np.array([[1, 2, 3]], np.float32), np.array([[4], [5]], np.float32)
    expressions: list[Callable[[Any, Any], Any]] = [
        lambda x, y: x * array,
        lambda x, y: array * x,
        lambda x, y: x * np.float32(4),
        lambda x, y: np.float32(4) * x,
    ]
    for expression in expressions:
        np.testing.assert_array_equal(computed(expression, x, x), expression(x, x))


def test_numbers_are_rounded_to_bfloat16() -> None:
    """A number is rounded to the nearest of the type."""
    network = Network("bfloat16")
    x = network.input("x", (1,), DType.BFLOAT16)
    slot = x + 1.01  # between 1.0078125 and 1.015625
    value = slot.layer.constant(1)
    assert value is not None
    assert value.dtype == np.uint16
    assert int(value) == 0x3F81  # 1.0078125
    assert slot.dtype is DType.BFLOAT16


@pytest.mark.parametrize("size", [2, "N"])
def test_a_number_takes_the_type_of_the_slot(size: int | str) -> None:
    for dtype in (DType.FLOAT16, DType.FLOAT32, DType.FLOAT64, DType.INT8, DType.UINT8, DType.INT64):
        network = Network("types")
        slot = network.input("x", (size,), dtype)
        for _ in range(3):
            slot = network.reshape(slot * 2, (-1,))
        constants = [layer.output.dtype for layer in network if layer.kind == "dovetail.Constant" and layer.output.shape == ()]
        assert constants == [dtype] * 3


@pytest.mark.parametrize("size", [2, "N"])
@pytest.mark.parametrize(
    ("dtype", "number", "instead"),
    [
        ("int32", 0.5, "float32"),
        ("int32", 2.0, "float32"),
        ("int32", 1 << 31, "int64"),
        ("uint8", -1, "int64"),
        ("int8", 128, "int64"),
        ("int64", 1 << 63, "int64"),
        ("float16", 1e6, "float64"),
        ("float32", 1e39, "float64"),
        ("float32", 1e-60, "float64"),
        ("float32", 10**400, "int64"),
        ("bool", 1, "int64"),
        (DType.BFLOAT16, 1e39, "float64"),
    ],
)
def test_numbers_that_do_not_fit(dtype: Any, number: Any, instead: str, size: int | str) -> None:
    network = Network("small")
    x = network.input("x", (size,), dtype)
    count = len(network)
    operations: list[Callable[[], Any]] = [lambda: x + number, lambda: number - x, lambda: x * number]
    for operation in operations:
        with pytest.raises(GraphError, match="with 'x' does not fit its element type") as caught:
            operation()
        assert caught.value.code is ErrorCode.DTYPE_MISMATCH
        assert instead in str(caught.value.hint)
    assert len(network) == count  # nothing was added


@pytest.mark.parametrize("number", [float("inf"), float("nan"), 0, 0.0, -0.0])
def test_numbers_that_are_no_ordinary_ones(number: float) -> None:
    x = np.array([1, 2], np.float32)
    np.testing.assert_array_equal(computed(lambda x, y: x + number, x, x), x + np.float32(number))


@pytest.mark.parametrize("size", [2, "N"])
def test_integers_are_not_divided_silently(size: int | str) -> None:
    network = Network("integers")
    x, y = network.input("x", (size,), np.int32), network.input("y", (2,), np.int32)
    operations: list[Callable[[], Any]] = [lambda: x / 2, lambda: x / y, lambda: 7 / x, lambda: (x * 2) / y]
    for operation in operations:
        with pytest.raises(GraphError, match="would have to round") as caught:
            operation()
        assert "network.division" in str(caught.value.hint)


def test_quantized_slots_want_to_be_dequantized() -> None:
    network = Network("quantized")
    x = network.input("x", ("N",), np.int8, Quantization((0.5,), (0,)))
    with pytest.raises(GraphError, match="whose integers stand for other numbers") as caught:
        x + 1
    assert "dequantize" in str(caught.value.hint)
    real = network.dequantize(x, Quantization((0.5,), (0,))) + 1
    assert real.layer.inputs[1].info is not None
    assert real.layer.inputs[1].info.dtype is DType.FLOAT32


@pytest.mark.parametrize("other", ["a", None, True, 1j, [1.0], object()])
def test_what_is_no_operand(other: Any) -> None:
    x: Any = Network("small").input("x", (2,))
    for operation in (operator.add, operator.sub, operator.truediv, operator.pow, operator.matmul):
        with pytest.raises(TypeError):
            operation(x, other)
        with pytest.raises(TypeError):
            operation(other, x)


def test_slots_equal_themselves_alone() -> None:
    network = Network("small")
    x, y = network.input("x", (2,)), network.input("y", (2,))
    assert x == x
    assert x != y
    assert len({x, y, x}) == 2
    assert bool(x)
    wrong: Any = x
    with pytest.raises(TypeError):
        wrong < 1  # noqa: B015  # it is what is tested
    with pytest.raises(TypeError):
        wrong @ 2


def test_slots_of_two_networks() -> None:
    one, other = Network("one"), Network("other")
    with pytest.raises(GraphError, match="slot 'y' belongs to another network than 'one'"):
        one.input("x", (2,)) + other.input("y", (2,))


def test_a_network_that_is_gone() -> None:
    def slot() -> Any:
        return Network("gone").input("x", (2,))

    x = slot()
    gc.collect()
    with pytest.raises(GraphError, match="the network of slot 'x' is gone") as caught:
        x + 1
    assert caught.value.code is ErrorCode.GRAPH_DANGLING


def test_slots_do_not_keep_their_network() -> None:
    network = Network("dropped")
    x = network.input("x", (2,)) * 2 + 1
    reference = weakref.ref(network)
    del network
    assert reference() is None
    assert x.name == "add"


def test_a_graph_without_builder_methods() -> None:
    graph = Graph("plain")
    x = graph.input("x", (2,))
    with pytest.raises(GraphError, match="has no builder methods"):
        x + 1


@pytest.mark.parametrize("operands", [("+",), ("%", 1, 2), ("-", 1, 2, 3), ("@", 1)])
def test_operators_that_there_are_not(operands: tuple[Any, ...]) -> None:
    with pytest.raises(GraphError, match="there is no operator"):
        Network("small").operate(*operands)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one)), lambda one: one.copy()])
def test_copies_have_operators_of_their_own(copied: Callable[[Network], Network]) -> None:
    network = Network("original")
    network.output(network.input("x", (2,)) * 2, "y")
    twin = copied(network)
    count = len(network)
    twin.output(twin.layer("mul").output + 1, "z")
    assert len(network) == count
    network.layer("mul").output - 1
    assert len(network) == count + 2
    del network
    gc.collect()
    with dovetail.load(twin, "CpuRef") as net:
        assert net.run({"x": np.ones(2, np.float32)})["z"].tolist() == [3, 3]


def test_a_shallow_copy_leaves_the_original_its_slots() -> None:
    network = Network("original")
    x = network.input("x", (2,))
    shallow = copy.copy(network)
    x + 1
    assert "add" in network
    del shallow
    x - 1
    assert "sub" in network


def test_types_are_worked_out_anew_after_an_edit() -> None:
    network = Network("edited")
    x, y = network.input("x", ("N",)), network.input("y", ("N",), np.int32)
    cast = network.cast(x, np.int64)
    after = network.unary(cast, "abs")

    def type_of_constant() -> str:
        info = (after * 2).layer.inputs[1].info
        return str(info and info.dtype)

    assert type_of_constant() == "int64"
    network.redirect(cast, y)
    assert type_of_constant() == "int32"


def test_long_chains_take_time_in_proportion() -> None:
    def seconds(count: int) -> float:
        network = Network("chain")
        x = network.input("x", ("N",))
        began = time.perf_counter()
        for _ in range(count):
            x = x * 1.5 + 0.5
        return time.perf_counter() - began

    seconds(50)
    few, many = min(seconds(200) for _ in range(3)), min(seconds(1600) for _ in range(3))
    assert many < 32 * few  # 8 times as much; 64 times if each number looked at all layers


def test_powers_of_integers_that_would_round() -> None:
    net = Network("powers")
    x = net.input("x", (3,), "int32")
    for exponent in (-1, np.float32(0.5), np.array([1, -1, 2], np.int32)):
        with pytest.raises(GraphError, match="would have to round"):
            _ = x**exponent
    assert (x**2).layer.kind == "dovetail.ElementwiseBinary"
    with pytest.raises(GraphError, match="of no slot"):
        net.operate("+", 1, 2)


@pytest.mark.parametrize("operation", [lambda x: x + x, lambda x: -x, lambda x: x @ x, lambda x: np.ones((2, 2), np.uint8) + x])
def test_integers_that_stand_for_other_numbers_have_no_operators(operation: Callable[[Any], Any]) -> None:
    net = Network("quantized")
    x = net.input("x", (2, 2), "uint8", quantization=Quantization((0.5,), (3,)))
    with pytest.raises(GraphError, match="whose integers stand for other numbers"):
        operation(x)
