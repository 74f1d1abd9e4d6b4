"""What kinds do with sizes that may be expressions, beyond sums, products and quotients.

For ints these are what they look like. For expressions, a question is answered by yes only where it
is known for all sizes: a kind that refuses what cannot fit asks so, and is asked again once sizes
are numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .expressions import Expression, UndecidedError, function_of, is_written_alike, unknown_between


def as_size(number: int) -> int:
    """Return a number that is a size.

    Where something unknown might make it negative, it is a size of which nothing is known.
    """
    if not isinstance(number, Expression):
        return int(number)
    return number if number.low >= 0 or number.is_known else unknown_between(0, max(number.high, 0))


def larger(a: int, b: int) -> int:
    """Return the larger of two numbers."""
    if type(a) is int and type(b) is int:
        return max(a, b)
    return _extreme("max", a, b)


def smaller(a: int, b: int) -> int:
    """Return the smaller of two numbers."""
    if type(a) is int and type(b) is int:
        return min(a, b)
    return _extreme("min", a, b)


def broadcast_size(a: int, b: int) -> int:
    """Return what two sizes that do broadcast become: the other one where one is 1.

    See `differ` for those that do not.
    """
    for one, other in ((a, b), (b, a)):
        if not isinstance(one, Expression):  # 1, or a number that the other one must be too, if it is not 1
            return other if one == 1 else one
        if _holds_among_smallest(other, one):
            return one
    assert isinstance(a, Expression)
    assert isinstance(b, Expression)
    if a.terms == b.terms:
        return a
    first, second = sorted((a, b), key=str)
    low, high = min(a.low, b.low), max(a.high, b.high)
    return function_of("broadcast", (first, second), f"broadcast({first}, {second})", low, high)


def differ(a: object, b: object) -> bool:
    """Say whether two numbers are known to differ."""
    try:
        return a != b
    except UndecidedError:
        return False


def equal(a: object, b: object) -> bool:
    """Say whether two numbers are known to be equal."""
    try:
        return a == b
    except UndecidedError:
        return False


def below(a: Any, b: Any) -> bool:
    """Say whether a number is known to be below another one."""
    try:
        return bool(a < b)
    except UndecidedError:
        return False


def some_below(numbers: Sequence[int], limit: int) -> bool:
    """Say whether one of some numbers is known to be below another one."""
    try:
        return min(numbers, default=limit) < limit
    except UndecidedError:
        return any(below(number, limit) for number in numbers)


def shapes_differ(a: Sequence[object], b: Sequence[object]) -> bool:
    """Say whether two shapes are known to differ."""
    try:
        return a != b
    except UndecidedError:
        return len(a) != len(b) or any(map(differ, a, b))


def are_symbolic(sizes: Iterable[object]) -> bool:
    """Say whether some of these sizes are no numbers yet."""
    return any(isinstance(size, Expression) for size in sizes)


def holds_zero(sizes: Sequence[int]) -> bool:
    """Say whether one of some sizes is known to be 0."""
    try:
        return 0 in sizes
    except UndecidedError:
        return any(equal(size, 0) for size in sizes)


_LARGER = {"max": True, "min": False}


def _extreme(operation: str, a: int, b: int) -> int:
    """Return the maximum or minimum, without operands that others beat for all sizes."""
    operands: list[int] = []
    for one in (*_operands(operation, a), *_operands(operation, b)):
        if any(_beats(operation, other, one) for other in operands):
            continue
        operands = [other for other in operands if not _beats(operation, one, other)]
        operands.append(one)
    if len(operands) == 1:
        return operands[0]
    operands.sort(key=lambda one: (not isinstance(one, Expression), str(one)))
    bounds = [(one.low, one.high) if isinstance(one, Expression) else (one, one) for one in operands]
    best = max if _LARGER[operation] else min
    low, high = best(low for low, _ in bounds), best(high for _, high in bounds)
    return function_of(operation, tuple(operands), f"{operation}({', '.join(map(str, operands))})", low, high)


def _operands(operation: str, number: int) -> tuple[int, ...]:
    if isinstance(number, Expression) and len(number.terms) == 1:
        monomial, factor = number.terms[0]
        if factor == 1 and len(monomial) == 1 and monomial[0].operation == operation:
            return monomial[0].arguments
    return (number,)


def _beats(operation: str, a: int, b: int) -> bool:
    """Say whether a is at least (at most) b for all sizes."""
    difference = a - b if _LARGER[operation] else b - a
    return (difference.low if isinstance(difference, Expression) else difference) >= 0


def _holds_among_smallest(number: int, one: int) -> bool:
    """Say whether a number is a minimum of `one` and of what is positive.

    The two broadcast to `one`, whichever it is.
    """
    operands = _operands("min", number)
    return (
        len(operands) > 1
        and all(
            is_written_alike(operand, one) or (operand.low if isinstance(operand, Expression) else operand) > 0
            for operand in operands
        )
        and any(is_written_alike(operand, one) for operand in operands)
    )
