"""One condition of a claim: what the values of a quantity must be, and how people are told."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from ..graph.layer import Layer
from ..graph.tensor import Quantization
from ..ground.records import NamedTuple
from .device import DEFAULT_DEVICE, Device
from .quantities import Quantity, Values

_CODES = {
    **dict.fromkeys(("quantization", "scale", "zero_point", "quantized_axis"), "quantization"),
    "dtype": "dtype",
    "constant": "constant",
}
"""Codes of refusals, by the fact of a tensor that is to blame; "shape" for others."""

Limit: TypeAlias = "int | float | Quantity | None"


class Range(NamedTuple):
    """Bounds of numbers, both inclusive.

    Attributes:
        minimum, maximum: A number, or the quantity whose value it is; None for no bound.
        multiple_of: Every value is a multiple of it; 1 for any.
    """

    minimum: Limit = None
    maximum: Limit = None
    multiple_of: int = 1

    def test(self, layer: Layer, device: Device) -> Callable[[int, Any], bool]:
        """Return what tells whether a value fits, given its place among the values."""
        low, high = _bounds(self.minimum, layer, device), _bounds(self.maximum, layer, device)

        def fits(place: int, value: Any) -> bool:
            if isinstance(value, bool) or not isinstance(value, int | float):
                return False
            for bounds, sign in ((low, 1), (high, -1)):
                if bounds is not None:
                    bound = _at(bounds, place)
                    if bound is None or sign * value < sign * bound:
                        return False
            return _is_multiple(value, self.multiple_of)

        return fits

    def taken(self, layer: Layer | None, device: Device) -> str:
        """Say what fits, for people."""
        low, high = (_limit_text(limit, layer, device) for limit in (self.minimum, self.maximum))
        if low and high:
            text = low if low == high else f"{low} to {high}"
        else:
            text = f"at least {low}" if low else f"at most {high}" if high else ""
        if self.multiple_of == 1:
            return text
        return f"a multiple of {self.multiple_of}{f' from {low}' if low and not high else f', {text}' if text else ''}"


class Condition:
    """What the values of one quantity must be: any of the alternatives.

    Attributes:
        quantity: What it speaks of.
        one_of: Single values; None stands for a quantity that a layer does not have.
        ranges: Ranges of numbers.
        same_as: Quantities, of any of which the values must be the same.
    """

    __slots__ = ("_absent", "_is_plain", "_words", "one_of", "quantity", "ranges", "same_as")

    def __init__(
        self,
        quantity: Quantity,
        one_of: Iterable[Any] = (),
        ranges: Iterable[Range] = (),
        same_as: Iterable[Quantity] = (),
    ) -> None:
        self.quantity = quantity
        self.one_of = tuple(one_of)
        self.ranges = tuple(ranges)
        self.same_as = tuple(same_as)
        self._absent = None in self.one_of
        self._is_plain = not any(isinstance(limit, Quantity) for one in self.ranges for limit in one[:2])
        # True equals 1 for Python, and neither stands for the other here.
        self._words = frozenset((isinstance(value, bool), value) for value in self.one_of)

    def quantities(self) -> list[Quantity]:
        """Return all quantities that it speaks of, its own first."""
        limits = [limit for one in self.ranges for limit in one[:2] if isinstance(limit, Quantity)]
        return [self.quantity, *limits, *self.same_as]

    def holds(self, layer: Layer, device: Device) -> bool:
        """Tell whether a layer whose infos are concrete fits."""
        values = self.quantity.values(layer, device)
        if not values:  # as has the shape of a scalar, which may yet be the same as another
            return self._absent or any(self._is_same(layer, device, other) for other in self.same_as)
        if self._is_plain:
            if self._fit(values):
                return True
        else:
            tests = [one.test(layer, device) for one in self.ranges]
            if all(self._fits_one(place, value, tests) for place, value in enumerate(values)):
                return True
        return bool(self.same_as) and any(self._is_same(layer, device, other) for other in self.same_as)

    def _fit(self, values: Values) -> bool:
        """Tell whether each value is a word or in a range, of which none depends on the layer.

        Without generators, since each condition of the claims is asked of each layer.
        """
        words, ranges = self._words, self.ranges
        for value in values:
            if words and (isinstance(value, bool), value) in words:
                continue
            for one in ranges:
                if _plain_fits(one, value):
                    break
            else:
                return False
        return True

    def fits(self, value: Any) -> bool:
        """Tell whether a single value fits by itself, whatever the other quantities are."""
        if (isinstance(value, bool), value) in self._words:
            return True
        numbers = [one for one in self.ranges if not any(isinstance(limit, Quantity) for limit in one[:2])]
        return any(_plain_fits(one, value) for one in numbers)

    def _fits_one(self, place: int, value: Any, tests: Iterable[Callable[[int, Any], bool]]) -> bool:
        return (isinstance(value, bool), value) in self._words or any(test(place, value) for test in tests)

    def _is_same(self, layer: Layer, device: Device, other: Quantity) -> bool:
        own, wanted = list(self.quantity.meanings(layer, device)), list(other.meanings(layer, device))
        if len(wanted) == 1:
            return bool(own) and all(value == wanted[0] for value in own)
        return bool(own) and own == wanted

    def taken(self, layer: Layer | None = None, device: Device = DEFAULT_DEVICE) -> list[str]:
        """Say what each alternative takes, for people, with the values of limits in a layer."""
        words = [_shown(value) for value in self.one_of if value is not None] + ["none"] * self._absent
        texts = words + [one.taken(layer, device) for one in self.ranges]
        for other in self.same_as:
            values = () if layer is None else other.meanings(layer, device)
            value = f" ({_all_shown(values)})" if values else "" if layer is None else ", where there is one,"
            texts.append(f"the same as {other.name}{value}")
        return list(dict.fromkeys(texts))

    def found(self, layer: Layer, device: Device) -> str:
        """Say what a layer has, for people."""
        return _all_shown(self.quantity.meanings(layer, device) if self.same_as else self.quantity.values(layer, device))

    def code(self, layer: Layer) -> str:
        """Return the code of a refusal for not fitting."""
        subject = self.quantity.subject
        if subject == "device":
            return "device"
        if not self.quantity.is_of_tensor(type(layer.descriptor)):
            return "attribute" if subject in layer.descriptor.attributes() else "shape"
        return _CODES.get(self.quantity.fact, "shape")

    def __str__(self) -> str:
        return f"{self.quantity.name}: {' or '.join(joined(self.taken()))}"


# -- what people read ------------------------------------------------------------------------------


def joined(texts: Iterable[str]) -> list[str]:
    """Put a comma between all but the last two."""
    *first, last = list(texts) or ["nothing"]
    return [", ".join(first), last] if first else [last]


def are(texts: list[str]) -> str:
    """Return the verb for these."""
    return "are" if len(texts) > 1 else "is"


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "none"
    if isinstance(value, tuple):
        return f"[{', '.join(map(_shown, value))}]"
    if isinstance(value, Quantization):
        if value.axis is not None:
            return f"{len(value.scale)} scales along axis {value.axis}"
        return f"scale {value.scale[0]:g}, zero point {value.zero_point[0]}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _all_shown(values: Values) -> str:
    texts = [_shown(value) for value in values]
    if not texts:
        return "none"
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"


def _limit_text(limit: Limit, layer: Layer | None, device: Device) -> str:
    if limit is None:
        return ""
    if not isinstance(limit, Quantity):
        return _shown(limit)
    return limit.name if layer is None else f"{limit.name} ({_all_shown(limit.values(layer, device))})"


# -- comparing -------------------------------------------------------------------------------------


def _bounds(limit: Limit, layer: Layer, device: Device) -> Values | None:
    if limit is None:
        return None
    return limit.values(layer, device) if isinstance(limit, Quantity) else (limit,)


def _at(bounds: Values, place: int) -> int | float | None:
    """Return the bound of the value at a place: the only bound, or the one at the same place."""
    bound = bounds[0] if len(bounds) == 1 else bounds[place] if place < len(bounds) else None
    return bound if isinstance(bound, int | float) else None


def _plain_fits(bounds: Range, value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    low, high, step = bounds
    fits = (low is None or value >= low) and (high is None or value <= high)  # type: ignore[operator]  # numbers: see `fits`
    return fits and _is_multiple(value, step)


def _is_multiple(value: float, step: int) -> bool:
    """Tell whether a number is a multiple of another, as any is of 1, but for NaN."""
    return value == value if step == 1 else value % step == 0
