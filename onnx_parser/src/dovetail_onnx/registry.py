"""The table of operators: which function translates which operator from which operator set on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from dovetail.graph.layer import OutputSlot

if TYPE_CHECKING:
    from .node import Node

Result: TypeAlias = "OutputSlot | Sequence[OutputSlot | None]"
Translator: TypeAlias = "Callable[[Node], Result]"

NEWEST_OPSET = 28
"""Newest operator set of ai.onnx whose changes were read; a model that imports a newer one is refused, not guessed at."""


class Operator(NamedTuple):
    """One translation.

    Attributes:
        since: First operator set that it is right for.
        translate: The function.
        ignored: Attributes that change nothing at inference.
    """

    since: int
    translate: Translator
    ignored: frozenset[str]


_TABLE: dict[tuple[str, str], list[Operator]] = {}


def operator(*names: str, since: int = 1, domain: str = "", ignored: Sequence[str] = ()) -> Callable[[Translator], Translator]:
    """Register a function for operators of these names from operator set `since` on."""

    def register(function: Translator) -> Translator:
        for name in names:
            versions = _TABLE.setdefault((domain, name), [])
            versions.append(Operator(since, function, frozenset(ignored)))
            versions.sort(key=lambda entry: entry.since)
        return function

    return register


def find(domain: str, name: str, opset: int) -> Operator | None:
    """Return the translation that fits an operator set, if there is one."""
    for entry in reversed(_TABLE.get((domain, name), ())):
        if entry.since <= opset:
            return entry
    return None


def is_known(domain: str, name: str) -> bool:
    """Tell whether some operator set of this operator is translated."""
    return (domain, name) in _TABLE
