"""The kinds that the kit can judge."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable
from functools import cache
from importlib import import_module

from .cases import Operator


@cache
def standard_operators() -> dict[str, Operator]:
    """Import every module of `operators`; returns what they say, by kind.

    Raises:
        ValueError: Two modules judge the same kind.
    """
    from . import operators

    found: dict[str, Operator] = {}
    for module in sorted(module.name for module in pkgutil.iter_modules(operators.__path__)):
        operator: Operator = import_module(f"{operators.__name__}.{module}").OPERATOR
        if operator.kind in found:
            raise ValueError(f"the module operators/{module}.py judges {operator.kind}, as another one does")
        found[operator.kind] = operator
    return dict(sorted(found.items()))


def all_operators(further: Iterable[Operator] = ()) -> dict[str, Operator]:
    """Return the standard operators and further ones, which win over those of the same kind."""
    return {**standard_operators(), **{operator.kind: operator for operator in further}}


def kinds() -> list[str]:
    """Return the kinds of the standard operators."""
    return list(standard_operators())
