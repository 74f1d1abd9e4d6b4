"""What of the claims no case reached: a value that is listed, or a side of a stated limit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from dovetail import Device, DType, Layer
from dovetail.contract.claims import Claim
from dovetail.contract.conditions import Condition, Range
from dovetail.contract.quantities import Quantity

from .trials import Trial


def unreached(claims: Sequence[Claim], dtype: DType, trials: Sequence[Trial], device: Device) -> list[str]:
    """Name what no case reached, in a few words each; nothing for an unclaimed element type.

    Args:
        claims: All that is claimed of the kind.
        dtype: Element type of the cases.
        trials: The cases that were made, taken or not.
        device: The device that was asked about.
    """
    found: list[str] = []
    layers = [trial.layer for trial in trials]
    for claim in claims:
        if dtype not in claim.dtypes:
            continue
        inside = [layer for layer in layers if all(one.holds(layer, device) for one in claim.where)]
        if not inside:
            found.append(" and ".join(map(str, claim.where)))
            continue
        for condition in claim.where:
            if condition.quantity.subject != "device":
                found += _missed(condition, inside, layers, device)
    return list(dict.fromkeys(found))


def _missed(condition: Condition, inside: Sequence[Layer], layers: Sequence[Layer], device: Device) -> Iterator[str]:
    name = condition.quantity.name
    tried = _tried(condition, inside, device)
    for value in condition.one_of:
        if (isinstance(value, bool), value) not in tried:
            yield f"{name} {'none' if value is None else str(value).lower() if isinstance(value, bool) else value}"
    if not condition.ranges:
        return
    asked = _tried(condition, layers, device)
    for limits in condition.ranges:
        for bound, outward in zip(_bounds(limits), (-1, 1), strict=True):
            if bound is None:
                continue
            if (False, bound) not in tried:
                yield f"{name} {bound}"
            possible = bound + outward >= 0 or any(value < 0 for _, value in asked if isinstance(value, int | float))
            if possible and not any(_is_beyond(value, bound, outward) for _, value in asked):
                yield f"{name} {'above' if outward > 0 else 'below'} {bound}"


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
