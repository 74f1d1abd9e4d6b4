"""Translations of operators from outside: registered, found, and undone again.

`operator` is the public way in. What is registered is asked before dovetail's own translations. A
package names the module that registers the operators of a domain by an entry point of the group
`dovetail.onnx_operators`, called after the domain; the module is imported when a model uses it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import update_wrapper
from itertools import count
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeAlias

from dovetail import ErrorCode, OptionError
from dovetail.graph.layer import OutputSlot
from dovetail.ground.errors import shown_argument
from dovetail.ground.offers import OfferError, Offers
from dovetail.ground.outside_translations import state_translations
from dovetail.ground.records import NamedTuple

from .operators import HOME
from .scope import plain_domain
from .unsupported import Unsupported

if TYPE_CHECKING:
    from .node import Node

Result: TypeAlias = "OutputSlot | Sequence[OutputSlot | None]"
Translator: TypeAlias = "Callable[[Node], Result]"
Key: TypeAlias = tuple[str, str]

GROUP = "dovetail.onnx_operators"
"""Entry points that name a module which registers the operators of a domain."""


class OwnOperator(NamedTuple):
    """One registered translation.

    Attributes:
        since: First operator set of its domain that it is right for.
        translate: The function.
        ignored: Attributes that change nothing at inference.
        registered: What undoes it.
    """

    since: int
    translate: Translator
    ignored: frozenset[str]
    registered: RegisteredOperator


_TABLE: dict[Key, tuple[OwnOperator, ...]] = {}
"""By domain and operator, from the lowest operator set up, the newest of one operator set last.

Whoever reads it takes no lock, so entries are replaced and never changed.
"""
_lock = threading.RLock()  # again where the collector runs, while it is held, what unregisters
_changes = count()
_offers = Offers(GROUP)
_importing = threading.local()


class RegisteredOperator:
    """A function that translates operators, until it is unregistered.

    It is called like the function. As a context manager it is registered until the block ends.

    Attributes:
        domain: Of the operators; "" is ONNX's own.
        op_types: Their names.
        since: First operator set of the domain that it is asked for.
        is_registered: Whether it is asked at all. What the table still holds counts for nothing
            once this is false: whoever was changing the table when the collector unregistered it
            may have put it back.
    """

    def __init__(self, function: Translator, domain: str, op_types: tuple[str, ...], since: int) -> None:
        self.domain = domain
        self.op_types = op_types
        self.since = since
        self.is_registered = True
        self._function = function
        update_wrapper(self, function, updated=())  # no attributes: they may be those of another registration

    def __call__(self, node: Node) -> Result:
        return self._function(node)

    def __repr__(self) -> str:
        names = ", ".join(f"{self.domain or 'ai.onnx'}.{name}" for name in self.op_types)
        return f"<translation of {names} since {self.since} by {described(self._function)}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.unregister()

    def unregister(self) -> None:
        """Undo the registration; what it had replaced counts again. Done twice it does nothing.

        Networks that were read keep what the function made of their operators.
        """
        self.is_registered = False
        with _lock:
            for name in self.op_types:
                kept = _entries(self.domain, name)
                if kept:
                    _TABLE[self.domain, name] = kept
                else:
                    _TABLE.pop((self.domain, name), None)
            _state()


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
        raise _invalid(f"ignored is {ignored!r}, expected a list of names of attributes", f"write [{ignored!r}]")
    if not isinstance(ignored, Sequence) or not all(isinstance(one, str) for one in ignored):
        raise _invalid(f"ignored is {shown_argument(ignored)}, expected a list of names of attributes")
    plain = plain_domain(domain)

    def register(function: Translator) -> RegisteredOperator:
        if not callable(function):
            raise _invalid(f"{shown_argument(function)} is no function, so it cannot translate {op_types[0]}")
        if isinstance(function, RegisteredOperator):
            function = function._function
        registered = RegisteredOperator(function, plain, op_types, since)
        entry = OwnOperator(since, function, frozenset(ignored), registered)
        with _lock:
            if not replace:
                for name in op_types:
                    _check_free(plain, name, since)
            for name in op_types:
                _TABLE[plain, name] = tuple(sorted((*_entries(plain, name), entry), key=lambda one: one.since))
            _state()
        made = getattr(_importing, "made", None)
        if made is not None:
            made.append(registered)
        return registered

    return register


def find_own(domain: str, name: str, opset: int) -> OwnOperator | None:
    """Return the registered translation that fits an operator set, if there is one.

    Raises:
        Unsupported: A package offers translations for the domain, but they cannot be imported.
    """
    if domain:
        _import_translations(domain)
    return next((entry for entry in reversed(_entries(domain, name)) if entry.since <= opset), None)


def _entries(domain: str, name: str) -> tuple[OwnOperator, ...]:
    return tuple(one for one in _TABLE.get((domain, name), ()) if one.registered.is_registered)


def first_of_own(domain: str, name: str) -> int | None:
    """Return the first operator set for which an operator is registered; None if it is for none."""
    entries = _entries(domain, name)
    return entries[0].since if entries else None


def described(function: Translator) -> str:
    """Name a function and where it stands, for messages."""
    code = getattr(function, "__code__", None)
    where = f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{getattr(function, '__module__', None) or 'unknown'}.{name}{where}"


def _check_names(domain: str, op_types: tuple[str, ...], since: int) -> None:
    if not isinstance(domain, str):
        raise _invalid(f"the domain is {shown_argument(domain)}, expected a string such as 'my.ops'")
    if not op_types:
        raise _invalid(
            f"operator({domain!r}) names a domain and no operator", "write the domain first: operator('my.ops', 'Frobnicate')"
        )
    for name in op_types:
        if not isinstance(name, str) or not name:
            raise _invalid(f"an operator is called {shown_argument(name)}, expected a name such as 'Frobnicate'")
        if name == "If" and not plain_domain(domain):
            raise _invalid("If cannot be translated by others: the parser chooses among its branches")
    if type(since) is not int or since < 1:
        raise _invalid(f"since is {shown_argument(since)}, expected a number of an operator set, from 1 on")


def _check_free(domain: str, name: str, since: int) -> None:
    other = next((one for one in reversed(_entries(domain, name)) if one.since == since), None)
    if other is None and (domain or name not in HOME):
        return
    if other is None:
        what = f"{name} of ai.onnx is translated by dovetail itself"
    else:
        what = f"{name} of domain {domain or 'ai.onnx'!r} since {since} is translated by {described(other.translate)} already"
    raise OptionError(
        what,
        code=ErrorCode.OPTION_INVALID,
        hint="pass replace=True to operator() if yours is to be asked instead, or unregister the other first",
        domain=domain,
        op=name,
        since=since,
    )


def _invalid(what: str, hint: str | None = None) -> OptionError:
    return OptionError(what, code=ErrorCode.OPTION_INVALID, hint=hint)


def _state() -> None:
    """Tell what is translated, again if the collector unregistered something meanwhile."""
    while True:
        change = next(_changes)
        names = [f"{domain}:{name}:{one.since}" for domain, name in _TABLE.copy() for one in _entries(domain, name)]
        state_translations(__package__, names)
        if next(_changes) == change + 1:
            return


def _import_translations(domain: str) -> None:
    """Import what packages offer for a domain."""
    with _undone_on_failure():
        try:
            _offers.take(domain)
        except OfferError as error:
            raise Unsupported(str(error)) from error.__cause__


@contextmanager
def _undone_on_failure() -> Iterator[None]:
    """Unregister what a module registered that then failed: it is imported again next time."""
    around = getattr(_importing, "made", None)
    made: list[RegisteredOperator] = []
    _importing.made = made
    try:
        yield
    except BaseException:
        for one in made:
            one.unregister()
        raise
    finally:
        _importing.made = around
