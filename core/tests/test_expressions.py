"""Integer expressions over symbolic sizes, held against Python's integers."""

from __future__ import annotations

import math
import operator
import random
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from dovetail.graph.expressions import Expression, UndecidedError, symbol, unknown_integer, unknown_size
from dovetail.graph.size_rules import as_size, below, broadcast_size, differ, equal, holds_zero, larger, shapes_differ, smaller
from dovetail.ground.errors import ErrorCode

N, M, K = symbol("n"), symbol("m"), symbol("k")


def value(number: Any, sizes: Mapping[str, int]) -> int:
    return number.evaluate(sizes) if isinstance(number, Expression) else number


OPERATIONS: list[Callable[[Any, Any], Any]] = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.add,
    operator.mul,
    larger,
    smaller,
]


def random_pair(source: random.Random, depth: int, sizes: Mapping[str, int]) -> tuple[Any, int]:
    """Return an expression and what Python's integers give for it."""
    if depth == 0:
        if source.random() < 0.4:
            number = source.randint(-3, 9)
            return number, number
        name = source.choice(list(sizes))
        return symbol(name), sizes[name]
    a, left = random_pair(source, depth - 1, sizes)
    b, right = random_pair(source, depth - 1, sizes)
    kind = source.randrange(len(OPERATIONS) + 3)
    if kind < len(OPERATIONS):
        return OPERATIONS[kind](a, b), OPERATIONS[kind](left, right)
    divisor = source.choice([1, 2, 3, 4, 6, -2, 7])
    if kind == len(OPERATIONS):
        return a // divisor, left // divisor
    if kind == len(OPERATIONS) + 1:
        return a % divisor, left % divisor
    if right == 0:
        return a, left
    if isinstance(b, Expression) and (left * right) % right == 0:
        return (a * b) // b, left
    return -(-a // divisor), -(-left // divisor)


@pytest.mark.parametrize("seed", range(4))
def test_arithmetic_is_that_of_integers(seed: int) -> None:
    source = random.Random(seed)
    for _ in range(400):
        sizes = {name: source.choice([0, 1, 2, 3, 5, 8, 64]) for name in "nmk"}
        number, expected = random_pair(source, source.randint(1, 4), sizes)
        if isinstance(number, Expression) and not number.is_known:
            assert number.low <= expected <= number.high  # it grew too long
            continue
        assert value(number, sizes) == expected
        if isinstance(number, Expression):
            assert number.low <= expected <= number.high
            assert eval(str(number), {"__builtins__": {}, "max": max, "min": min}, dict(sizes)) == expected  # our text


def test_equal_expressions_are_written_alike() -> None:
    assert N + M == M + N
    assert hash(2 * N + 1) == hash(N + 1 + N)
    assert (N + 1) * (N - 1) == N * N - 1
    assert N - N == 0
    assert type(N - N) is int
    assert -(-N // 2) == (N + 1) // 2
    assert ((N + 1) // 2 + 1) // 2 == (N + 3) // 4  # two windows of stride 2
    assert (6 * N + 4) // 4 == (3 * N) // 2 + 1
    assert N * M * 768 // (M * 12 * 64) == N
    assert (N + M) * 64 // (N + M) == 64
    assert 4 * N % 2 == 0
    assert broadcast_size(N, 1) == N
    assert broadcast_size(N, 64) == 64
    assert broadcast_size(N, M) == broadcast_size(M, N)
    assert broadcast_size(N, smaller(N, 512)) == N
    assert larger(N, 0) == N
    assert smaller(smaller(N, 7), 5) == smaller(5, N)
    assert {N: 1}[symbol("n")] == 1


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (N, "n"),
        (2 * N + 1, "2*n + 1"),
        (N * M - 3, "m*n - 3"),
        (-N, "-n"),
        (N // 2 * 4, "4*(n//2)"),
        ((N + 1) // 2, "(n + 1)//2"),
        (N // 2 // M, "(n//2)//m"),
        (smaller(N, 5) + 1, "min(n, 5) + 1"),
        (5 - N, "-n + 5"),
        (symbol("batch size"), "batch size"),
    ],
)
def test_text(number: Expression, text: str) -> None:
    assert str(number) == text


def test_comparisons_that_sizes_decide_are_refused() -> None:
    assert N + 1 > 0
    assert N >= 0
    assert N != -1
    assert 2 * N != 3
    assert N + 1 != N
    assert not N < 0
    assert bool(N + 1)
    for question in (
        lambda: N == 1,
        lambda: N != M,
        lambda: N > 0,
        lambda: N < M,
        lambda: bool(N),
        lambda: int(N),
        lambda: range(N),  # type: ignore[arg-type, call-overload]  # an expression is a number to kinds
        lambda: [1, 2][N],  # type: ignore[call-overload]
        lambda: max(N, 1),  # type: ignore[type-var]
        lambda: N in (1, 2),
    ):
        with pytest.raises(UndecidedError) as caught:
            question()
        assert caught.value.code is ErrorCode.SHAPE_UNKNOWN
        assert "n" in caught.value.message


def test_what_is_known() -> None:
    assert differ(N, -1)
    assert not differ(N, 3)
    assert not differ(N, M)
    assert equal(N, N)
    assert not equal(N, 3)
    assert below(N, N + 1)
    assert not below(N, 5)
    assert below(-1, N)
    assert shapes_differ((N, 3), (N, 4))
    assert shapes_differ((N, 3), (N, 3, 1))
    assert not shapes_differ((N, 3), (M, 3))
    assert holds_zero((N, 0))
    assert not holds_zero((N, 3))


def test_unknown_sizes_equal_no_other() -> None:
    a, b = unknown_size(), unknown_size()
    assert a == a
    with pytest.raises(UndecidedError):
        _ = a == b
    assert not a.is_known
    assert not (N * a).is_known
    assert unknown_integer().low == -math.inf
    assert as_size(unknown_integer()).low == 0  # type: ignore[union-attr]  # an expression
    assert as_size(N) is N
    assert as_size(5) == 5
    with pytest.raises(KeyError):
        a.evaluate({})


def test_symbols_of_any_name_are_told_apart_from_expressions() -> None:
    assert differ(symbol("n//2"), N // 2) is False
    assert symbol("n//2") + 1 != symbol("n//2")
    assert symbol("n + 1").evaluate({"n + 1": 7}) == 7
    assert symbol("n + 1").name == "n + 1"
    assert (N + 1).name is None


def test_numbers_of_numpy_take_part() -> None:
    assert np.int64(3) * N == 3 * N
    assert N + np.int32(2) == N + 2
    assert type((N - N) + np.int64(1)) in (int, np.int64)
    array = np.array([N, 3], object) * np.array([2, 5])
    assert array[0] == 2 * N
    assert array[1] == 15
    with pytest.raises(TypeError):
        _ = N * 0.3  # type: ignore[operator]  # a fraction is no size
    assert N * 2.0 == 2 * N


def test_functions_of_functions_stay_short() -> None:
    row: list[Any] = [symbol(f"s{i}" + "_" * 10_000) for i in range(16)]
    for _ in range(8):
        row = [sum(row[:i] + row[i + 1 :]) // 7 for i in range(16)]
    assert len(str(row[0])) < 20_000
    assert row[0] >= 0
    assert str(symbol("x" * 1000)) == "x" * 1000


@pytest.mark.parametrize("hostile", ["terms", "degree", "depth", "coefficient"])
def test_expressions_do_not_grow_without_end(hostile: str) -> None:
    number: Any = N
    for i in range(200):
        if hostile == "terms":
            number = number + symbol(f"s{i}")
        elif hostile == "degree":
            number = number * M
        elif hostile == "depth":
            number = number // symbol(f"d{i}") + 1
        else:
            number = number * 10**9
    assert len(str(number)) < 1000
    assert number >= 0
