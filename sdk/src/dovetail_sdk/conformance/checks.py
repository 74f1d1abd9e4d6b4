"""What a check is: a function of a `Subject` in a module of `levels`, with a docstring.

A check passes by returning. It fails by raising `ConformanceFailure`, or anything else. It raises
`NotApplicable` where the backend promises nothing that the check could look at. Its docstring is
what a vendor reads first, and helps when the check fails::

    @check(level=1, title="answers the same question twice in the same way")
    def supports_is_deterministic(subject: Subject) -> None:
        \"\"\"Ask about every layer of the catalogue twice.

        Troubleshooting: `supports` must look at the layer and the options only, not at the time or
        at what was asked before.
        \"\"\"
"""

from __future__ import annotations

import inspect
import pkgutil
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from .subject import Subject

_Function = TypeVar("_Function", bound=Callable[..., None])

SECONDS = 120.0
"""For how long a check may say nothing, unless it wants longer; then it hangs."""


class Level(IntEnum):
    """What is proven, each level on top of those below."""

    IDENTITY = 0
    CONTRACT = 1
    OPERATORS = 2
    GRAPHS = 3
    STRESS = 4
    PERFORMANCE = 5


@dataclass(frozen=True, slots=True)
class Check:
    """One check, or one of a family if it is run `each` for a list of things.

    Attributes:
        id: Module and function, such as "contract.supports_is_deterministic", of a family with the
            thing in brackets.
        level: The level that it belongs to.
        title: What a conforming backend does, as the end of a sentence that begins with its name.
        troubleshooting: What a vendor should look at when it fails.
        function: What to call.
        item: The thing, for a family.
        seconds: It counts as hung if it says nothing for so long: no step, no case, no end.
    """

    id: str
    level: Level
    title: str
    troubleshooting: str
    function: Callable[..., None]
    item: str | None = None
    seconds: float = SECONDS

    def run(self, subject: Subject) -> None:
        """Call the function.

        Raises:
            Exception: Whatever the function raises: the backend does not conform.
        """
        if self.item is None:
            self.function(subject)
        else:
            self.function(subject, self.item)


@dataclass(frozen=True, slots=True)
class _Registered:
    check: Check
    each: Callable[[], Iterable[str]] | None


_registered: dict[str, _Registered] = {}


def check(
    *, level: int, title: str, seconds: float = SECONDS, each: Callable[[], Iterable[str]] | None = None
) -> Callable[[_Function], _Function]:
    """Register a function as a check.

    Args:
        level: The level that it belongs to.
        title: What a conforming backend does, as the end of a sentence that begins with its name.
        seconds: It counts as hung if it says nothing for so long.
        each: Returns names, for each of which the function is a check of its own; it is then called
            with the name too.

    Raises:
        ValueError: The docstring has no line that begins with "Troubleshooting:".
    """

    def register(function: _Function) -> _Function:
        id = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
        text = troubleshooting_of(function)
        if not text:
            raise ValueError(f"check {id} has no line 'Troubleshooting: ...' in its docstring")
        _registered[id] = _Registered(Check(id, Level(level), title, text, function, None, seconds), each)
        return function

    return register


def troubleshooting_of(function: Callable[..., Any]) -> str:
    """Return a docstring's "Troubleshooting:" paragraph, as one line without that word."""
    found = re.search(r"^Troubleshooting:\s*(.+?)(?:\n\s*\n|\Z)", inspect.getdoc(function) or "", re.MULTILINE | re.DOTALL)
    return " ".join(found[1].split()) if found else ""


@cache
def all_checks() -> tuple[Check, ...]:
    """Import all modules of `levels`; return their checks by level, then as they stand in them."""
    from . import levels

    for module in sorted(module.name for module in pkgutil.iter_modules(levels.__path__)):
        import_module(f"{levels.__name__}.{module}")
    found: list[Check] = []
    for entry in _registered.values():
        one = entry.check
        if entry.each is None:
            found.append(one)
            continue
        found += [
            Check(f"{one.id}[{item}]", one.level, f"{one.title}: {item}", one.troubleshooting, one.function, item, one.seconds)
            for item in entry.each()
        ]
    return tuple(sorted(found, key=lambda one: one.level))  # sorted() keeps the order within a level


def checks_up_to(level: int, patterns: Iterable[str] = ()) -> tuple[Check, ...]:
    """Return the checks up to a level.

    With patterns, those whose id has one of them in it, or matches it as a glob; case does not
    count.
    """
    from fnmatch import fnmatchcase

    wanted = [pattern.lower() for pattern in patterns]

    def is_wanted(id: str) -> bool:
        return not wanted or any(pattern in id or fnmatchcase(id, pattern) for pattern in wanted)

    return tuple(one for one in all_checks() if one.level <= level and is_wanted(one.id.lower()))


def pattern_hint(patterns: Iterable[str], level: int) -> str:
    """Say what to write instead of patterns that match no check up to a level."""
    from dovetail.ground.close_names import suggestion

    wanted = tuple(patterns)
    above = checks_up_to(max(Level), wanted)
    if above:
        return f"--level {min(one.level for one in above)} has {above[0].id!r}"
    checks = all_checks()
    names = [one.id.partition(".")[0] for one in checks]
    names += [one.id.partition("[")[0].rpartition(".")[2] for one in checks]
    for item in [one.item for one in checks if one.item]:
        names += [item.rpartition(".")[2], item]
    return "; ".join(dict.fromkeys(suggestion(pattern.strip("*"), names) for pattern in wanted))
