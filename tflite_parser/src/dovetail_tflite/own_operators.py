"""Translations of operators from outside: what others registered.

What is registered is asked before dovetail's own translations. A package names the module that
registers a custom operator by an entry point of the group `dovetail.tflite_operators`, called after
the operator; the module is imported when a model uses the operator.
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

from .operators import CUSTOM, HOME, OF_RESOURCES
from .schema import OPERATORS
from .unsupported import Unsupported

if TYPE_CHECKING:
    from .call import Call

Result: TypeAlias = "OutputSlot | Sequence[OutputSlot]"
Translator: TypeAlias = "Callable[[Call], Result]"

GROUP = "dovetail.tflite_operators"
"""Entry points that name a module which registers a custom operator."""

OWN: TranslationTable[str] = TranslationTable("dovetail_tflite", GROUP, str)
"""What others registered; `custom:` stands before custom operators, versions are newest ones."""


class RegisteredOperator(RegisteredTranslation[str]):
    """A function that translates operators, until it is unregistered.

    It is called like the function. As a context manager it is registered until the block ends.

    Attributes:
        names: Of the operators.
        newest: Newest version of them that it is asked for.
        is_custom: Whether they are custom operators, not those of the schema.
    """

    def __init__(self, function: Translator, names: tuple[str, ...], newest: int, is_custom: bool) -> None:
        super().__init__(OWN, [key_of(name, is_custom=is_custom) for name in names], function)
        self.names = names
        self.newest = newest
        self.is_custom = is_custom

    def __repr__(self) -> str:
        kind = "custom" if self.is_custom else "builtin"
        return f"<translation of {kind} {', '.join(self.names)} to version {self.newest} by {described(self._function)}>"


def custom_operator(*names: str, newest: int = 1, replace: bool = False) -> Callable[[Translator], RegisteredOperator]:
    """Register a function that turns a custom operator into layers, for all of this process.

    The function is handed a `Call` and adds layers to `call.network`. It returns the output slot of
    the last one, or a sequence of slots, one for each output of the operator::

        @dovetail_tflite.custom_operator("Swish")
        def swish(call):
            return call.add_real(Swish(beta=call.custom_numbers()["beta"]), call.input(0))

    May be called at any time by any thread: models that are being read take what is registered when
    they come to an operator.

    Args:
        names: Of the operators, one or more. The function finds the name in `call.op`.
        newest: Newest version of them that the function is right for: a later one is refused. Of
            several functions the one with the lowest `newest` that suffices is asked. Most custom
            operators have version 1 alone.
        replace: Whether it may take the place of another function with the same `newest`, or of
            dovetail's own translation.

    Returns:
        A decorator, whose result is called like the function and has `unregister`.

    Raises:
        OptionError: Such an operator is translated already, and `replace` is false; or an argument
            is none of what is expected (`OPTION_INVALID`).
    """
    return _registering("custom_operator", names, newest, replace, is_custom=True)


def builtin_operator(*names: str, newest: int = 1, replace: bool = False) -> Callable[[Translator], RegisteredOperator]:
    """Register a function for operators of TensorFlow Lite itself, as `custom_operator` does.

    It is for those that dovetail lacks, or, with `replace`, in the place of its own translation.

    Args:
        names: As in the schema, such as "UNIQUE".
        newest: As for custom operators.
        replace: As for custom operators.

    Returns:
        A decorator, whose result is called like the function and has `unregister`.

    Raises:
        OptionError: As for custom operators; or there is no such operator, or it is one of
            resources, which only the parser itself translates.
    """
    for name in names:
        if isinstance(name, str) and name and (name not in OPERATORS or name == "CUSTOM"):
            raise refused(f"TensorFlow Lite has no builtin operator {name!r}", "write it as in the schema, such as 'UNIQUE'")
        if name in OF_RESOURCES:
            raise refused(f"{name} cannot be translated by others: the parser itself makes states of resources")
    return _registering("builtin_operator", names, newest, replace, is_custom=False)


def find_own(name: str, version: int, *, is_custom: bool) -> Registration | None:
    """Return the registered translation that fits a version of an operator, if there is one.

    Raises:
        Unsupported: A package offers one, but it cannot be imported.
    """
    if is_custom:
        try:
            OWN.take_offers(name)
        except OfferError as error:
            raise Unsupported(str(error)) from error.__cause__
    fitting = [one for one in OWN.entries(key_of(name, is_custom=is_custom)) if one.version >= version]
    return next((one for one in reversed(fitting) if one.version == fitting[0].version), None)


def newest_of_own(name: str, *, is_custom: bool) -> int | None:
    """Return the newest version for which an operator is registered; None if it is for none."""
    entries = OWN.entries(key_of(name, is_custom=is_custom))
    return entries[-1].version if entries else None


def key_of(name: str, *, is_custom: bool) -> str:
    """Return what tells a custom operator from one of the schema with the same name."""
    return f"{CUSTOM}{name}" if is_custom else name


def _registering(
    called: str, names: tuple[str, ...], newest: int, replace: bool, *, is_custom: bool
) -> Callable[[Translator], RegisteredOperator]:
    if not names:
        raise refused(f"{called}() names no operator", f"write its name: {called}({'Swish' if is_custom else 'UNIQUE'!r})")
    for name in names:
        if callable(name):
            raise refused(f"{called} names no operator", f"write its name: @{called}({'Swish' if is_custom else 'UNIQUE'!r})")
        if not isinstance(name, str) or not name:
            raise refused(f"an operator is called {shown_argument(name)}, expected a name such as 'Swish'")
    if type(newest) is not int or newest < 1:
        raise refused(f"newest is {shown_argument(newest)}, expected a version of an operator, from 1 on")

    def register(function: Translator) -> RegisteredOperator:
        translate = plain_function(function, names[0])
        registered = RegisteredOperator(translate, names, newest, is_custom)
        entry = Registration(newest, translate, frozenset(), registered)
        keys = [key_of(name, is_custom=is_custom) for name in names]
        return OWN.add(registered, keys, entry, None if replace else partial(_check_free, called, newest))

    return register


def _check_free(called: str, newest: int, key: str, other: Registration | None) -> None:
    if other is None and key not in HOME:
        return
    name = key.removeprefix(CUSTOM)
    if other is None:
        what = f"{name} is translated by dovetail itself"
    else:
        what = f"{name} to version {newest} is translated by {described(other.translate)} already"
    hint = f"pass replace=True to {called}() if yours is to be asked instead, or unregister the other first"
    raise refused(what, hint, op=name, newest=newest)
