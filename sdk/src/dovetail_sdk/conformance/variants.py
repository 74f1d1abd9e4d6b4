"""Which parameters of an operator are worth trying for a backend.

They are defaults, edges, and both sides of each declared boundary.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from dovetail import DType
from dovetail.contract.claims import Claim
from dovetail.contract.conditions import Condition, Range
from dovetail.contract.quantities import Quantity

from .cases import Operator, Parameters

MOST = 1 << 16
"""A boundary beyond this is not stepped over: the tensors would be too large for a test."""


@dataclass(frozen=True, slots=True)
class Variant:
    """Parameters to try.

    Attributes:
        parameters: All of them.
        label: Those that differ from the operator's defaults, for people and for ids.
        invented: True if a value comes from a claim's boundary rather than from the operator's
            module: it may make no sense.
    """

    parameters: Parameters
    label: str
    invented: bool = False


def variants(operator: Operator, dtype: DType, claims: Sequence[Claim]) -> list[Variant]:
    """Return what to try: around the defaults, and around the plainest case that each claim covers.

    Args:
        operator: How the kind is judged.
        dtype: Element type.
        claims: What the manifest claims of the kind; empty for a backend without claims.
    """
    defaults = {name: values[0] for name, values in operator.parameters.items()}
    fitting = [claim for claim in claims if dtype in claim.dtypes]
    found: dict[str, Variant] = {}

    def add(parameters: Parameters, invented: bool) -> None:
        label = label_of(parameters, defaults)
        if label not in found or (found[label].invented and not invented):
            found[label] = Variant(parameters, label, invented)

    add(defaults, False)
    for parameters in _around(operator, defaults):
        add(parameters, False)
    for claim in fitting:
        base, is_invented = _plainest(operator, claim, defaults)
        add(base, is_invented)
        for parameters in _around(operator, base):
            add(parameters, is_invented)
        for condition in claim.where:
            name, reach = parameter_of(operator, condition.quantity.name), operator.reaching.get(condition.quantity.name)
            if name is not None:
                for value in boundary_values(condition, base[name]):
                    add({**base, name: value}, True)
            if reach is not None:
                for value in boundary_values(condition, None):
                    add({**base, **reach(value)}, True)
    return list(found.values())


def _around(operator: Operator, base: Mapping[str, Any]) -> Iterator[Parameters]:
    """Change one parameter at a time, then those that the module wants changed together."""
    for name, values in operator.parameters.items():
        for value in values:
            yield {**base, name: value}
    for together in operator.together:
        yield {**base, **together}


def parameter_of(operator: Operator, quantity: str) -> str | None:
    """Return the parameter that governs a quantity of a claim; None if there is none."""
    if quantity in operator.quantities:
        return operator.quantities[quantity]
    return quantity if quantity in operator.parameters else None


def _plainest(operator: Operator, claim: Claim, defaults: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """Adjust the defaults until the claim's conditions hold, as far as parameters govern these."""
    base, invented = dict(defaults), False
    by_parameter: dict[str, list[Condition]] = {}
    for condition in claim.where:
        name = parameter_of(operator, condition.quantity.name)
        if name is not None and (condition.one_of or condition.ranges):
            by_parameter.setdefault(name, []).append(condition)
    for name, conditions in by_parameter.items():
        known = [value for value in operator.parameters[name] if _fits(value, conditions)]
        if known:
            base[name] = known[0]
            continue
        made = [value for condition in conditions for value in boundary_values(condition, base[name])]
        fitting = [value for value in made if _fits(value, conditions)]
        if fitting:
            base[name], invented = fitting[0], True
    return base, invented


def _fits(value: Any, conditions: Iterable[Condition]) -> bool:
    values = _plain_values(value) or [None]
    return all(condition.fits(one) for condition in conditions for one in values)


def _plain_values(value: Any) -> list[Any]:
    """Return the values of a parameter as claims see those of an attribute."""
    if value is None:
        return []
    values = list(value) if isinstance(value, tuple | list) else [value]
    return [one.value if isinstance(one, Enum) else one for one in values]


def boundary_values(condition: Condition, like: Any) -> list[Any]:
    """Return values inside, at, and on both sides of each boundary of a condition.

    They are shaped like a parameter's value.
    """
    listed = [_shaped(value, like) for value in condition.one_of if value is not None and not _is_too_large(value)]
    return listed + [value for limits in condition.ranges for value in _around_limits(limits, like)]


def _is_too_large(value: Any) -> bool:
    return isinstance(value, int | float) and value > MOST


def _around_limits(limits: Range, like: Any) -> list[Any]:
    numbers: list[int | float] = []
    step = limits.multiple_of
    low, high = (None if isinstance(limit, Quantity) else limit for limit in limits[:2])
    if step > 1:
        numbers += [step, 2 * step, step - 1, step + 1]
    if low is not None:
        at = low if low % step == 0 else low + step - low % step
        numbers += [at, low - 1, low + 1]
    if high is not None:
        numbers += [high - high % step, high, high - 1, high + 1]
    whole = all(isinstance(one, int) for one in numbers)
    sensible = [one for one in dict.fromkeys(numbers) if not whole or 0 <= one <= MOST]
    return [shaped for one in sensible for shaped in _shapes_of(one, like)]


def _shapes_of(value: Any, like: Any) -> list[Any]:
    if isinstance(like, tuple) and len(like) > 1:  # all elements alike, and the first one only
        return [(value,) * len(like), (value, *like[1:])]
    return [_shaped(value, like)]


def _shaped(value: Any, like: Any) -> Any:
    if isinstance(like, Enum) and not isinstance(value, Enum):
        try:
            return type(like)(value)
        except ValueError:
            return value
    return (value,) * len(like) if isinstance(like, tuple) and not isinstance(value, tuple) else value


def label_of(parameters: Parameters, defaults: Parameters) -> str:
    """Name the parameters that differ from the defaults."""
    changed = [
        f"{name}={_text(value)}"
        for name, value in parameters.items()
        if value is not defaults[name] and _text(value) != _text(defaults[name])
    ]
    return ",".join(changed) or "default"


def _text(value: Any) -> str:
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, tuple | list):
        return "x".join(_text(one) for one in value) or "()"
    return str(value)
