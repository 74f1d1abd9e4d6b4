"""Translations of operators from outside: what others registered by `operator`.

What is registered is asked before dovetail's own translations. A package names the module that
registers the operators of a domain by an entry point of the group `dovetail.onnx_operators`, called
after the domain; the module is imported when a model uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from dovetail.graph.layer import OutputSlot
from dovetail.ground.errors import shown_argument
from dovetail.ground.offers import OfferError
from dovetail.ground.registered_translations import (
    RegisteredTranslation,
    Registration,
    TranslationTable,
    described,
    plain_function,
    refused,
)

from .operators import HOME
from .scope import plain_domain
from .unsupported import Unsupported

if TYPE_CHECKING:
    from .node import Node

Result: TypeAlias = "OutputSlot | Sequence[OutputSlot | None]"
Translator: TypeAlias = "Callable[[Node], Result]"
Key: TypeAlias = tuple[str, str]
"""Domain and operator."""

GROUP = "dovetail.onnx_operators"
"""Entry points that name a module which registers the operators of a domain."""

OWN: TranslationTable[Key] = TranslationTable("dovetail_onnx", GROUP, ":".join)
"""What others registered; versions are operator sets of the domain."""


class RegisteredOperator(RegisteredTranslation[Key]):
    """A function that translates operators, until it is unregistered.

    It is called like the function. As a context manager it is registered until the block ends.

    Attributes:
        domain: Of the operators; "" is ONNX's own.
        op_types: Their names.
        since: First operator set of the domain that it is asked for.
    """

    def __init__(self, function: Translator, domain: str, op_types: tuple[str, ...], since: int) -> None:
        super().__init__(OWN, [(domain, name) for name in op_types], function)
        self.domain = domain
        self.op_types = op_types
        self.since = since

    def __repr__(self) -> str:
        names = ", ".join(f"{self.domain or 'ai.onnx'}.{name}" for name in self.op_types)
        return f"<translation of {names} since {self.since} by {described(self._function)}>"


def operator(
    domain: str, *op_types: str, since: int = 1, ignored: Sequence[str] = (), replace: bool = False
) -> Callable[[Translator], RegisteredOperator]:
    """Register a function that turns nodes of an operator into layers, for all of this process.

    The function is handed a `Node` and adds layers to `node.network`. It returns the output slot of
    the last one, or a sequence of slots, one for each output of the node::

        @dovetail_onnx.operator("my.ops", "Frobnicate")
        def frobnicate(node):
            kind = Frobnicate(alpha=node.floating("alpha", 1.0))
            return node.network.add(kind, node.input(0), name=node.label()).output

    It is asked for models that import operator set `since` of the domain or a later one; of several
    functions the one with the latest `since` that fits. A function that a model defines itself
    comes first. May be called at any time by any thread: models that are being read take what is
    registered when they come to a node.

    Args:
        domain: Of the operators; "" or "ai.onnx" is ONNX's own.
        op_types: Their names, one or more. The function finds the name in `node.op`.
        since: First operator set of the domain that the function is right for.
        ignored: Attributes that change nothing. Others that it does not read are an error of the
            model: what nobody reads would be lost.
        replace: Whether it may take the place of another function for the same operator set, or of
            dovetail's own translation of an operator of ONNX.

    Returns:
        A decorator, whose result is called like the function and has `unregister`.

    Raises:
        OptionError: Such an operator is translated already, and `replace` is false; or an argument
            is none of what is expected (`OPTION_INVALID`).
    """
    _check_names(domain, op_types, since)
    if isinstance(ignored, str):
        raise refused(f"ignored is {ignored!r}, expected a list of names of attributes", f"write [{ignored!r}]")
    if not isinstance(ignored, Sequence) or not all(isinstance(one, str) for one in ignored):
        raise refused(f"ignored is {shown_argument(ignored)}, expected a list of names of attributes")
    plain = plain_domain(domain)

    def register(function: Translator) -> RegisteredOperator:
        translate = plain_function(function, op_types[0])
        registered = RegisteredOperator(translate, plain, op_types, since)
        entry = Registration(since, translate, frozenset(ignored), registered)
        keys = [(plain, name) for name in op_types]
        return OWN.add(registered, keys, entry, None if replace else partial(_check_free, since))

    return register


def find_own(domain: str, name: str, opset: int) -> Registration | None:
    """Return the registered translation that fits an operator set, if there is one.

    Raises:
        Unsupported: A package offers translations for the domain, but they cannot be imported.
    """
    if domain:
        try:
            OWN.take_offers(domain)
        except OfferError as error:
            raise Unsupported(str(error)) from error.__cause__
    return next((entry for entry in reversed(OWN.entries((domain, name))) if entry.version <= opset), None)


def first_of_own(domain: str, name: str) -> int | None:
    """Return the first operator set for which an operator is registered; None if it is for none."""
    entries = OWN.entries((domain, name))
    return entries[0].version if entries else None


def _check_names(domain: str, op_types: tuple[str, ...], since: int) -> None:
    if not isinstance(domain, str):
        raise refused(f"the domain is {shown_argument(domain)}, expected a string such as 'my.ops'")
    if not op_types:
        raise refused(
            f"operator({domain!r}) names a domain and no operator", "write the domain first: operator('my.ops', 'Frobnicate')"
        )
    for name in op_types:
        if not isinstance(name, str) or not name:
            raise refused(f"an operator is called {shown_argument(name)}, expected a name such as 'Frobnicate'")
        if name == "If" and not plain_domain(domain):
            raise refused("If cannot be translated by others: the parser chooses among its branches")
    if type(since) is not int or since < 1:
        raise refused(f"since is {shown_argument(since)}, expected a number of an operator set, from 1 on")


def _check_free(since: int, key: Key, other: Registration | None) -> None:
    domain, name = key
    if other is None and (domain or name not in HOME):
        return
    if other is None:
        what = f"{name} of ai.onnx is translated by dovetail itself"
    else:
        what = f"{name} of domain {domain or 'ai.onnx'!r} since {since} is translated by {described(other.translate)} already"
    hint = "pass replace=True to operator() if yours is to be asked instead, or unregister the other first"
    raise refused(what, hint, domain=domain, op=name, since=since)
