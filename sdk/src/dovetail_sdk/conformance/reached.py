"""What of the claims no case reached: a value that is listed, or a side of a stated limit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from dovetail import Device, DType, Layer
from dovetail.contract.claims import Claim
from dovetail.contract.conditions import Condition, Range
from dovetail.contract.quantities import Quantity

from .cases import Operator
from .trials import Trial
from .variants import MOST


class Unreached(NamedTuple):
    """What of a claim no case reached.

    Attributes:
        what: A value or a side of a limit, in a few words.
        reason: Why no case can; empty if nothing is known that stands against one.
    """

    what: str
    reason: str = ""


def unreached(
    operator: Operator, claims: Sequence[Claim], dtype: DType, trials: Sequence[Trial], device: Device
) -> list[Unreached]:
    """Name what no case reached; nothing for an unclaimed element type.

    Args:
        operator: How the kind is judged.
        claims: All that is claimed of the kind.
        dtype: Element type of the cases.
        trials: The cases that were made, taken or not.
        device: The device that was asked about.
    """
    found: list[Unreached] = []
    layers = [trial.layer for trial in trials]
    for claim in claims:
        if dtype not in claim.dtypes:
            continue
        inside = [layer for layer in layers if all(one.holds(layer, device) for one in claim.where)]
        if not inside:
            found.append(Unreached(" and ".join(map(str, claim.where))))
            continue
        for condition in claim.where:
            if condition.quantity.subject != "device":
                found += _missed(condition, claim, inside, layers, device)
    return [_with_reason(one, operator, dtype) for one in dict.fromkeys(found)]


def _with_reason(one: Unreached, operator: Operator, dtype: DType) -> Unreached:
    text = f"{dtype}: {one.what}"
    known = next((reason for pattern, reason in operator.impossible.items() if fnmatchcase(text, pattern)), "")
    return one._replace(reason=known or one.reason)


def _missed(
    condition: Condition, claim: Claim, inside: Sequence[Layer], layers: Sequence[Layer], device: Device
) -> Iterator[Unreached]:
    name = condition.quantity.name
    tried = _tried(condition, inside, device)
    for value in condition.one_of:
        if (isinstance(value, bool), value) not in tried:
            word = "none" if value is None else str(value).lower() if isinstance(value, bool) else value
            yield Unreached(f"{name} {word}", _in_the_way(condition, value, claim, layers, device))
    if not condition.ranges:
        return
    asked = _tried(condition, layers, device)
    for limits in condition.ranges:
        for bound, outward in zip(_bounds(limits), (-1, 1), strict=True):
            if bound is None:
                continue
            large = f"the kit tries nothing beyond {MOST}" if bound > MOST else ""
            if (False, bound) not in tried:
                yield Unreached(f"{name} {bound}", large or _in_the_way(condition, bound, claim, layers, device))
            possible = bound + outward >= 0 or any(value < 0 for _, value in asked if isinstance(value, int | float))
            if possible and not any(_is_beyond(value, bound, outward) for _, value in asked):
                yield Unreached(f"{name} {'above' if outward > 0 else 'below'} {bound}", large)


def _in_the_way(condition: Condition, value: Any, claim: Claim, layers: Sequence[Layer], device: Device) -> str:
    """Name what other limits of the claim cases with a value break, of those that break fewest."""
    wanted = (isinstance(value, bool), value)
    having = [layer for layer in layers if wanted in _tried(condition, [layer], device)]
    broken = [[one.quantity.name for one in claim.where if not one.holds(layer, device)] for layer in having]
    closest = min(broken, key=len, default=[])
    return f"cases with it are outside the limit of {' and '.join(closest)}" if closest else ""


def _tried(condition: Condition, layers: Sequence[Layer], device: Device) -> set[tuple[bool, Any]]:
    """Return every value of a condition's quantity in a layer, None where the layer lacks it."""
    values: set[tuple[bool, Any]] = set()
    for layer in layers:
        found = condition.quantity.values(layer, device)
        values |= {(isinstance(value, bool), value) for value in found} if found else {(False, None)}
    return values


def _bounds(limits: Range) -> tuple[int | float | None, int | float | None]:
    """Return the lowest and the highest number that fit, as far as numbers limit them."""
    low, high = (None if isinstance(limit, Quantity) else limit for limit in limits[:2])
    step = limits.multiple_of
    if step > 1:
        low = None if low is None else math.ceil(low / step) * step
        high = None if high is None else math.floor(high / step) * step
    return low, high


def _is_beyond(value: Any, bound: int | float, outward: int) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and (value - bound) * outward > 0
