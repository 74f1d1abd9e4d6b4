"""The table of dovetail's own translations: which function translates which operator."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from dovetail.ground.records import NamedTuple

from .operators import HOME
from .own_operators import Translator, key_of


class Operator(NamedTuple):
    """One translation.

    Attributes:
        translate: The function.
        newest: Newest version of the operator whose changes were read; a newer one is refused.
    """

    translate: Translator
    newest: int


_TABLE: dict[str, Operator] = {}
_imported: set[str] = set()


def operator(*names: str, newest: int = 1) -> Callable[[Translator], Translator]:
    """Register a function of this package for operators up to version `newest`.

    Args:
        names: Of the schema, or `custom:` and that of a custom operator.
        newest: Newest version whose changes were read.
    """

    def register(function: Translator) -> Translator:
        for name in names:
            _TABLE[name] = Operator(function, newest)
        return function

    return register


def find(name: str, *, custom: bool = False) -> Operator | None:
    """Return dovetail's translation of an operator, if there is one."""
    key = key_of(name, is_custom=custom)
    family = HOME.get(key)
    if family is not None and family not in _imported:  # most models use only some
        import_module(f".operators.{family}", __package__)
        _imported.add(family)
    return _TABLE.get(key)
