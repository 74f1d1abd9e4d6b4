"""The table of dovetail's own translations: which function is right from which operator set on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module

from dovetail.ground.records import NamedTuple
from dovetail.ground.registered_translations import Registration

from .operators import HOME
from .own_operators import Translator, find_own

NEWEST_OPSET = 28
"""Newest operator set of ai.onnx whose changes were read.

A model that imports a newer one is refused, not guessed at.
"""


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


_TABLE: dict[str, list[Operator]] = {}
_imported: set[str] = set()


def builtin(*names: str, since: int = 1, ignored: Sequence[str] = ()) -> Callable[[Translator], Translator]:
    """Register a function of this package for operators of ONNX from operator set `since` on."""

    def register(function: Translator) -> Translator:
        for name in names:
            versions = _TABLE.setdefault(name, [])
            versions.append(Operator(since, function, frozenset(ignored)))
            versions.sort(key=lambda entry: entry.since)
        return function

    return register


def find(domain: str, name: str, opset: int) -> Operator | Registration | None:
    """Return the translation that fits an operator set, if there is one; that of others first.

    Raises:
        Unsupported: A package offers translations for the domain, but they cannot be imported.
    """
    own = find_own(domain, name, opset)
    if own is not None or domain:
        return own
    _import_family(name)
    for entry in reversed(_TABLE.get(name, ())):
        if entry.since <= opset:
            return entry
    return None


def is_known(domain: str, name: str) -> bool:
    """Tell whether some operator set of this operator is translated by dovetail."""
    return not domain and name in HOME


def _import_family(name: str) -> None:
    """Import the module that translates an operator of ai.onnx; most models use only some."""
    family = HOME.get(name)
    if family is not None and family not in _imported:
        import_module(f".operators.{family}", __package__)
        _imported.add(family)
