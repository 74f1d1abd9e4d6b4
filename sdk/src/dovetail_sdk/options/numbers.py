"""Numbers, and the limits of a load that are written with them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from dovetail import Limits


class FiniteRange(click.FloatRange):
    """A number in a range, which infinity and NaN are not, though each compares as it likes."""

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        """Read a number; raises `click.BadParameter`."""
        number = super().convert(value, parameter, context)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", parameter, context)
        return number


def numbers_of(text: str | tuple[float, ...]) -> tuple[float, ...]:
    """Read ``0.5`` or ``123.7,116.3,103.5`` as numbers.

    Raises:
        click.BadParameter: It is not written so.
    """
    if isinstance(text, tuple):  # the default
        return text
    try:
        numbers = tuple(float(number) for number in text.split(","))
    except ValueError:
        numbers = ()
    if not numbers or not all(map(math.isfinite, numbers)):
        raise click.BadParameter(f"{text!r} is neither a number nor numbers separated by commas")
    return numbers


_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def _collect_limits(context: click.Context, parameter: click.Parameter, value: Sequence[str]) -> Limits | None:
    from dovetail import Limits, OptionError

    given: dict[str, Any] = {}
    for text in value:
        found = re.fullmatch(r"(memory|elements|layers|nesting)=(\d+)([kmg]?)|(seconds)=(\d+(?:\.\d*)?)", text, re.ASCII | re.I)
        if found is None:
            raise click.BadParameter(f"{text!r} is no limit; write memory=2G, elements=, layers=, nesting= or seconds=5")
        name, count, unit, seconds, time = found.groups()
        given |= {seconds.lower(): float(time)} if seconds else {name.lower(): int(count) * _UNITS[unit.lower()]}
    try:
        return Limits(**given) if given else None
    except OptionError as error:
        raise click.BadParameter(f"{error.message}; {error.hint}", context, parameter) from None


limits_option = click.option(
    "--limit",
    "limits",
    multiple=True,
    metavar="NAME=NUMBER",
    callback=_collect_limits,
    help="What loading may take: memory=2G, elements=, layers=, nesting=, seconds=5. Repeatable.",
)
"""Add ``--limit``, passed on as `limits`: what loading may take, or None."""
