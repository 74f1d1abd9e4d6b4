"""The table of operators: which function translates which operator from which operator set on.

A package from outside adds translations for a domain of its own, or of somebody else's. It
registers them by `operator`, in a module that it offers as an entry point of the group
`dovetail.onnx_operators`, named after the domain. The module is imported when a model uses the
domain.
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
    from .node import Node

Result: TypeAlias = "OutputSlot | Sequence[OutputSlot | None]"
Translator: TypeAlias = "Callable[[Node], Result]"

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


GROUP = "dovetail.onnx_operators"
"""Entry points that name a module which registers the operators of a domain."""

_TABLE: dict[tuple[str, str], list[Operator]] = {}
_offers = Offers(GROUP)
_imported: set[str] = set()


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
    """Return the translation that fits an operator set, if there is one.

    Raises:
        Unsupported: A package offers translations for the domain, but they cannot be imported.
    """
    if not domain:
        _import_family(name)
    else:
        _import_translations(domain)
    for entry in reversed(_TABLE.get((domain, name), ())):
        if entry.since <= opset:
            return entry
    return None


def is_known(domain: str, name: str) -> bool:
    """Tell whether some operator set of this operator is translated."""
    return (domain, name) in _TABLE or (not domain and name in HOME)


def _import_family(name: str) -> None:
    """Import the module that translates an operator of ai.onnx; most models use only some."""
    family = HOME.get(name)
    if family is not None and family not in _imported:
        import_module(f".operators.{family}", __package__)
        _imported.add(family)


def _import_translations(domain: str) -> None:
    """Import what packages offer for a domain."""
    try:
        _offers.take(domain)
    except OfferError as error:
        raise Unsupported(str(error)) from error.__cause__
