"""int expressions over symbolic sizes: what a size is before the sizes of the inputs are fixed.

An expression is a polynomial over *atoms*: symbols, sizes of which nothing is known, and the
functions that kinds need (floored quotients, maxima, minima, broadcasts). It behaves like an
integer in sums, products and quotients. Two expressions that are written differently may well be
equal for some sizes, so a comparison has three answers: where the sizes decide it, the operators
``==``, ``<``, ``if`` and ``int()`` raise `UndecidedError`. Whoever only refuses what cannot fit
asks `differ` and `below`, which are true where it is known; what stays open is asked again once
sizes are numbers.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias

from ..ground.errors import ErrorCode, GraphError

if TYPE_CHECKING:
    _Integer = int  # for which an expression passes where a kind computes with sizes
else:
    _Integer = object  # but nothing takes it for a number
_Monomial: TypeAlias = "tuple[_Atom, ...]"
_Terms: TypeAlias = "dict[_Monomial, int]"

_MAX_TERMS = 32
_MAX_DEGREE = 8
_MAX_WEIGHT = 48
_MAX_NAME = 64
_MAX_COEFFICIENT = 1 << 96
"""A file decides how long an expression grows.

What is beyond these is a size of which nothing is known but its bounds.

A function weighs as much as the symbols in it; the texts of all of them are kept, and so are cut
short in names.
"""
_MAX_BOUND = 1 << 64
"""Bounds beyond it say no more than that there is none."""

_numbers = count(1)


class UndecidedError(GraphError):
    """Sizes that are not fixed yet decide a comparison."""

    default_code = ErrorCode.SHAPE_UNKNOWN


class _Atom:
    """A factor: a symbol, an unknown, or a function of expressions.

    Attributes:
        operation: "symbol", "unknown", or a key of `_FUNCTIONS`.
        arguments: Name or number of a symbol or unknown; the operands of a function.
        text: As printed to people.
        low, high: Bounds of its value.
        weight: How many symbols and functions it is made of.
        order: Where it stands among others.
    """

    __slots__ = ("_hash", "arguments", "high", "low", "operation", "order", "text", "weight")

    def __init__(self, operation: str, arguments: tuple[Any, ...], text: str, low: float, high: float, weight: int = 1) -> None:
        self.operation = operation
        self.arguments = arguments
        self.text = text
        self.low = low if low > -_MAX_BOUND else -math.inf
        self.high = high if high < _MAX_BOUND else math.inf
        self.weight = weight
        self.order = (text, operation)
        self._hash = hash((operation, arguments))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, _Atom) or self._hash != other._hash or self.operation != other.operation:
            return False
        return len(self.arguments) == len(other.arguments) and all(map(is_written_alike, self.arguments, other.arguments))


def is_written_alike(a: Any, b: Any) -> bool:
    """Say whether two numbers, or names, are the same without comparing what symbols decide."""
    if isinstance(a, Expression) or isinstance(b, Expression):
        return isinstance(a, Expression) and isinstance(b, Expression) and a.terms == b.terms
    return type(a) is type(b) and bool(a == b)


class Expression(_Integer):
    """A polynomial over symbols; immutable.

    `symbol`, `unknown_size` and arithmetic make them, nobody calls the constructor.

    Attributes:
        terms: Coefficient of each product of atoms, in a canonical order; equal ones are equal
            expressions.
        low, high: Bounds of its value, infinite where there is none.
    """

    __slots__ = ("_hash", "high", "low", "terms")
    __array_ufunc__ = None  # a number of NumPy leaves arithmetic to this class

    def __init__(self, terms: tuple[tuple[_Monomial, int], ...]) -> None:
        self.terms = terms
        self._hash = hash(terms)
        self.low, self.high = _bounds(terms)

    # -- arithmetic --------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Any:
        number = _operand(other)
        return NotImplemented if number is None else _sum(self, number, 1)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        number = _operand(other)
        return NotImplemented if number is None else _sum(self, number, -1)

    def __rsub__(self, other: Any) -> Any:
        number = _operand(other)
        return NotImplemented if number is None else _sum(-self, number, 1)

    def __neg__(self) -> Expression:
        return Expression(tuple([(monomial, -factor) for monomial, factor in self.terms]))

    def __pos__(self) -> Expression:
        return self

    def __mul__(self, other: Any) -> Any:
        number = _operand(other)
        return NotImplemented if number is None else _product(self, number)

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Any:
        number = _operand(other)
        return NotImplemented if number is None else _floored(self, number)

    def __rfloordiv__(self, other: Any) -> Any:
        number = _operand(other)
        return NotImplemented if number is None else _floored(number, self)

    def __mod__(self, other: Any) -> Any:
        number = _operand(other)
        return NotImplemented if number is None else self - number * _floored(self, number)

    def __rmod__(self, other: Any) -> Any:
        number = _operand(other)
        return NotImplemented if number is None else number - self * _floored(number, self)

    def __floor__(self) -> Expression:
        return self

    __ceil__ = __trunc__ = __floor__

    # -- comparisons -------------------------------------------------------------------------------

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        number = _operand(other)
        if number is None:
            return NotImplemented
        if isinstance(number, Expression) and self.terms == number.terms:
            return True
        difference = self - number
        if not isinstance(difference, Expression):
            return bool(difference == 0)
        if difference.low > 0 or difference.high < 0 or _leaves_rest(difference):
            return False
        raise _undecided(self, "==", number)

    def __ne__(self, other: object) -> Any:
        equal: Any = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    def __lt__(self, other: Any) -> Any:
        return self._compared(other, operator.lt)

    def __le__(self, other: Any) -> Any:
        return self._compared(other, operator.le)

    def __gt__(self, other: Any) -> Any:
        return self._compared(other, operator.gt)

    def __ge__(self, other: Any) -> Any:
        return self._compared(other, operator.ge)

    def _compared(self, other: Any, comparison: Callable[[Any, Any], Any]) -> Any:
        number = _operand(other)
        if number is None:
            return NotImplemented
        difference = self - number
        if not isinstance(difference, Expression):
            return comparison(difference, 0)
        at_least, at_most = comparison(difference.low, 0), comparison(difference.high, 0)
        if at_least is not at_most:
            raise _undecided(self, {operator.lt: "<", operator.le: "<=", operator.gt: ">"}.get(comparison, ">="), number)
        return at_least

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __int__(self) -> int:
        raise UndecidedError(
            f"the size {self} is not a number yet",
            hint="a kind that needs the number of a size answers once sizes are fixed; until then its shape is unknown",
        )

    __index__ = __float__ = __int__

    # -- reading -----------------------------------------------------------------------------------

    @property
    def name(self) -> str | None:
        """The name, if it is a symbol alone."""
        (monomial, factor), *more = self.terms
        if more or factor != 1 or len(monomial) != 1 or monomial[0].operation != "symbol":
            return None
        return str(monomial[0].arguments[0])

    @property
    def atoms(self) -> Iterator[_Atom]:
        """The symbols and unknowns in it, those inside functions included."""
        for monomial, _ in self.terms:
            for atom in monomial:
                if atom.operation in _FUNCTIONS:
                    for argument in atom.arguments:
                        if isinstance(argument, Expression):
                            yield from argument.atoms
                else:
                    yield atom

    @property
    def is_known(self) -> bool:
        """True if symbols alone decide it, and no size of which nothing is known."""
        return all(atom.operation == "symbol" for atom in self.atoms)

    def evaluate(self, sizes: Mapping[str, int]) -> int:
        """Return its value for these sizes of symbols.

        Raises:
            KeyError: A symbol has no size, or it holds a size of which nothing is known.
        """
        return sum(factor * math.prod([_value(atom, sizes) for atom in monomial]) for monomial, factor in self.terms)

    def __str__(self) -> str:
        name = self.name
        if name is not None:
            return name
        text = ""
        for monomial, factor in sorted(self.terms, key=_printed_order):
            sign = "-" if factor < 0 else "+"
            part = _monomial_text(monomial, abs(factor), is_bracketed=factor < 0)
            text += f" {sign} {part}" if text else f"{'-' if factor < 0 else ''}{part}"
        return text

    __repr__ = __str__


# -- making them -----------------------------------------------------------------------------------


def symbol(name: str) -> Expression:
    """Return a symbolic size: an integer that is not negative."""
    text = name if len(name) <= _MAX_NAME else f"{name[: _MAX_NAME - 3]}..."
    return _of_atom(_Atom("symbol", (name,), text, 0, math.inf))


def unknown_size() -> Expression:
    """Return a size of which nothing is known, as where a value decides; it equals no other."""
    return unknown_between(0, math.inf)


def unknown_integer() -> Expression:
    """Return an integer of which nothing is known, not even its sign; it equals no other."""
    return unknown_between(-math.inf, math.inf)


# -- how they are kept -----------------------------------------------------------------------------


def _operand(value: object) -> int | None:
    if isinstance(value, Expression):
        return value
    if type(value) is int:
        return value
    if isinstance(value, float) and value.is_integer():  # shapes are computed in floats, too
        return int(value)
    try:
        return operator.index(value)  # type: ignore[arg-type]  # what is no integer is told by the error
    except TypeError:
        return None


def _of_atom(atom: _Atom) -> Expression:
    return Expression((((atom,), 1),))


def unknown_between(low: float, high: float) -> Expression:
    """Return an integer of which nothing but bounds is known; it equals no other."""
    return _of_atom(_Atom("unknown", (next(_numbers),), "?", low, high))


def _terms(number: int) -> _Terms:
    return dict(number.terms) if isinstance(number, Expression) else ({(): number} if number else {})


def _monomial_order(term: tuple[_Monomial, int]) -> tuple[int, list[tuple[str, str]]]:
    return -len(term[0]), [atom.order for atom in term[0]]


def _printed_order(term: tuple[_Monomial, int]) -> tuple[int, bool, list[tuple[str, str]]]:
    """Print the highest powers first, and what is added before what is taken away."""
    return -len(term[0]), term[1] < 0, [atom.order for atom in term[0]]


def _made(terms: _Terms) -> int:
    """Return the number of these terms: a plain integer if no symbol is left."""
    kept = [(monomial, factor) for monomial, factor in terms.items() if factor]
    if not kept:
        return 0
    if len(kept) == 1 and not kept[0][0]:
        return kept[0][1]
    kept.sort(key=_monomial_order)
    made = Expression(tuple(kept))
    is_long = len(kept) > _MAX_TERMS or any(
        len(monomial) > _MAX_DEGREE or abs(factor) > _MAX_COEFFICIENT for monomial, factor in kept
    )
    return unknown_between(made.low, made.high) if is_long else made


def _sum(a: int, b: int, sign: int) -> int:
    terms = _terms(a)
    for monomial, factor in _terms(b).items():
        terms[monomial] = terms.get(monomial, 0) + sign * factor
    return _made(terms)


def _product(a: int, b: int) -> int:
    terms: _Terms = {}
    for left, factor in _terms(a).items():
        for right, other in _terms(b).items():
            monomial = tuple(sorted((*left, *right), key=_atom_order)) if left and right else left or right
            terms[monomial] = terms.get(monomial, 0) + factor * other
    return _made(terms)


def _atom_order(atom: _Atom) -> tuple[str, str]:
    return atom.order


def _bounds(terms: Sequence[tuple[_Monomial, int]]) -> tuple[float, float]:
    """Return the bounds of a sum of products by interval arithmetic."""
    low, high = 0.0, 0.0
    for monomial, factor in terms:
        least: float = factor
        most: float = factor
        for atom in monomial:
            ends = [_times(one, other) for one in (least, most) for other in (atom.low, atom.high)]
            least, most = min(ends), max(ends)
        low, high = low + least, high + most
    return (low if low > -_MAX_BOUND else -math.inf), (high if high < _MAX_BOUND else math.inf)


def _times(a: float, b: float) -> float:
    return 0 if a == 0 or b == 0 else a * b


def _leaves_rest(difference: Expression) -> bool:
    """Say whether a sum cannot be 0, as its constant is no multiple of its other factors' gcd."""
    factors = [factor for monomial, factor in difference.terms if monomial]
    constant = next((factor for monomial, factor in difference.terms if not monomial), 0)
    return constant % math.gcd(*factors) != 0


def function_of(operation: str, arguments: tuple[int, ...], text: str, low: float, high: float) -> int:
    """Return a function of numbers, or an unknown one if it is made of too many.

    Args:
        operation: A key of `_FUNCTIONS`.
        arguments: Its operands, in canonical order.
        text: As printed to people.
        low: Lower bound of its value.
        high: Upper bound of its value.
    """
    read = [one for one in arguments if isinstance(one, Expression)]
    weight = 1 + sum(atom.weight for one in read for monomial, _ in one.terms for atom in monomial)
    if weight > _MAX_WEIGHT:
        return unknown_between(low, high)
    return _of_atom(_Atom(operation, arguments, text, low, high, weight))


def _floored(number: int, divisor: int) -> int:
    """Return the quotient, rounded down."""
    if isinstance(divisor, Expression):
        exact = _exact_quotient(number, divisor)
        if exact is not None:
            return exact
        if isinstance(number, Expression) and number.low < 0:
            low, high = -math.inf, math.inf
        else:
            low, high = 0, number.high if isinstance(number, Expression) else number
        if divisor.low < 0:
            low, high = -math.inf, math.inf
        return function_of("//", (number, divisor), f"{_bracketed(number)}//{_bracketed(divisor)}", low, high)
    if divisor == 0:
        raise ZeroDivisionError("a size is divided by 0")
    if not isinstance(number, Expression):
        return number // divisor
    if divisor < 0:
        return _floored(-number, -divisor)
    return _floored_by_number(number, divisor)


def _floored_by_number(number: Expression, divisor: int) -> int:
    """Take whole multiples out, so that the rest has factors up to half of the divisor.

    The first factor is positive.
    """
    whole: _Terms = {}
    rest: _Terms = {}
    for monomial, factor in number.terms:
        times, left = divmod(factor, divisor)
        if monomial and (2 * left > divisor or (2 * left == divisor and factor < 0)):
            times, left = times + 1, left - divisor
        whole[monomial], rest[monomial] = times, left
    inside, outside = _made(rest), _made(whole)
    if not isinstance(inside, Expression):
        return outside + inside // divisor
    if inside.terms[0][1] < 0:  # floor(-a / d) is -ceil(a / d)
        return outside - _floored_by_number(_expression(-inside + (divisor - 1)), divisor)
    if inside.low >= 0 and inside.high < divisor:
        return outside
    shared = math.gcd(divisor, *[factor for monomial, factor in inside.terms if monomial])
    if shared > 1:
        reduced = _made({monomial: factor // shared for monomial, factor in inside.terms})
        return outside + _floored(reduced, divisor // shared)
    nested = _nested_quotient(inside)
    if nested is not None:  # (a // b + c) // d is (a + b * c) // (b * d)
        return outside + _floored(nested[0], nested[1] * divisor)
    low, high = _divided_bound(inside.low, divisor), _divided_bound(inside.high, divisor)
    return outside + function_of("//", (inside, divisor), f"{_bracketed(inside)}//{divisor}", low, high)


def _expression(number: int) -> Expression:
    assert isinstance(number, Expression)
    return number


def _divided_bound(bound: float, divisor: int) -> float:
    return bound if math.isinf(bound) else bound // divisor


def _nested_quotient(number: Expression) -> tuple[int, int] | None:
    """Read ``a // b + c`` as (a + b * c, b)."""
    atom: _Atom | None = None
    constant = 0
    for monomial, factor in number.terms:
        if not monomial:
            constant = factor
        elif len(monomial) == 1 and factor == 1 and atom is None and monomial[0].operation == "//":
            atom = monomial[0]
        else:
            return None
    if atom is None or isinstance(atom.arguments[1], Expression):
        return None
    return atom.arguments[0] + atom.arguments[1] * constant, atom.arguments[1]


def _exact_quotient(number: int, divisor: Expression) -> int | None:
    """Divide polynomials; None if there is a rest.

    A divisor that is 0 for some sizes is not asked about those.
    """
    left, result = _terms(number), dict[_Monomial, int]()
    lead, lead_factor = divisor.terms[0]
    for _ in range(_MAX_TERMS):
        if not left:
            return _made(result)
        monomial, factor = min(left.items(), key=_monomial_order)
        cofactor = _without(monomial, lead)
        if cofactor is None or factor % lead_factor:
            return None
        times = factor // lead_factor
        result[cofactor] = result.get(cofactor, 0) + times
        left = _terms(_sum(_made(left), _product(divisor, _made({cofactor: times})), -1))
    return None


def _without(monomial: _Monomial, divisor: _Monomial) -> _Monomial | None:
    left = list(monomial)
    for atom in divisor:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


_FUNCTIONS: dict[str, Callable[..., int]] = {
    "//": operator.floordiv,
    "max": max,
    "min": min,
    "broadcast": lambda a, b: b if a == 1 else a,
}


def _value(atom: _Atom, sizes: Mapping[str, int]) -> int:
    if atom.operation == "symbol":
        return sizes[atom.arguments[0]]
    if atom.operation == "unknown":
        raise KeyError(atom.text)
    return _FUNCTIONS[atom.operation](*[one.evaluate(sizes) if isinstance(one, Expression) else one for one in atom.arguments])


def _bracketed(number: int) -> str:
    if isinstance(number, Expression) and (len(number.terms) > 1 or number.terms[0][1] != 1 or len(number.terms[0][0]) > 1):
        return f"({number})"
    if isinstance(number, Expression) and number.terms[0][0][0].operation == "//":
        return f"({number})"
    return str(number)


def _monomial_text(monomial: _Monomial, factor: int, *, is_bracketed: bool) -> str:
    is_bracketed = is_bracketed or factor != 1 or len(monomial) > 1
    factors = [f"({atom.text})" if atom.operation == "//" and is_bracketed else atom.text for atom in monomial]
    return "*".join(([] if factor == 1 and factors else [str(factor)]) + factors)


def _undecided(a: int, comparison: str, b: int) -> UndecidedError:
    return UndecidedError(
        f"whether {a} {comparison} {b} depends on sizes that are not fixed",
        hint="fix the symbolic sizes of the inputs: give shapes={name: size} to dovetail.load or dovetail.optimize",
    )
