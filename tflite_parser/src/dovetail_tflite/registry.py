"""The table of operators: which function translates which operator.

A package from outside translates custom operators: it registers them by `custom_operator`, in a
module that it offers as an entry point of the group `dovetail.tflite_operators`, named after the
operator. The module is imported when a model uses the operator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, TypeAlias

from dovetail.graph.layer import OutputSlot
from dovetail.ground.offers import OfferError, Offers
from dovetail.ground.records import NamedTuple

from .operators import HOME
from .unsupported import Unsupported

if TYPE_CHECKING:
    from .call import Call

Result: TypeAlias = "OutputSlot | Sequence[OutputSlot]"
Translator: TypeAlias = "Callable[[Call], Result]"


class Operator(NamedTuple):
    """One translation.

    Attributes:
        translate: The function.
        newest: Newest version of the operator whose changes were read; a newer one is refused.
    """

    translate: Translator
    newest: int


GROUP = "dovetail.tflite_operators"
"""Entry points that name a module which registers a custom operator."""

_TABLE: dict[str, Operator] = {}
_CUSTOM: dict[str, Operator] = {}
_offers = Offers(GROUP)
_imported: set[str] = set()


def operator(*names: str, newest: int = 1) -> Callable[[Translator], Translator]:
    """Register a function for builtin operators of these names up to version `newest`."""

    def register(function: Translator) -> Translator:
        for name in names:
            _TABLE[name] = Operator(function, newest)
        return function

    return register


def custom_operator(*names: str, newest: int = 1) -> Callable[[Translator], Translator]:
    """Register a function for custom operators of these names up to version `newest`."""

    def register(function: Translator) -> Translator:
        for name in names:
            _CUSTOM[name] = Operator(function, newest)
        return function

    return register


def find(name: str, *, custom: bool = False) -> Operator | None:
    """Return the translation of an operator, if there is one.

    Raises:
        Unsupported: A package offers one, but cannot be imported.
    """
    if not custom:
        _import_family(name)
        return _TABLE.get(name)
    _import_family(f"custom:{name}")
    if name not in _CUSTOM:
        _import_translations(name)
    return _CUSTOM.get(name)


def _import_family(name: str) -> None:
    """Import the module that translates a builtin operator; most models use only some."""
    family = HOME.get(name)
    if family is not None and family not in _imported:
        import_module(f".operators.{family}", __package__)
        _imported.add(family)


def _import_translations(name: str) -> None:
    """Import what packages offer for a custom operator."""
    try:
        _offers.take(name)
    except OfferError as error:
        raise Unsupported(str(error)) from error.__cause__
