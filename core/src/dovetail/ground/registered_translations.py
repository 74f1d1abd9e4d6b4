"""Functions of others that translate operators for a parser: registered, found, and undone again.

Each parser has a table of its own, and a decorator that fills it. What is registered is asked
before the parser's own translations. A package may name the module that registers something by an
entry point; the module is imported when a model asks for what it offers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import update_wrapper
from itertools import count
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from .errors import ErrorCode, OptionError, shown_argument
from .offers import Offers
from .outside_translations import state_translations
from .records import NamedTuple

Function = Callable[..., Any]


class Registration(NamedTuple):
    """One entry of a table.

    Attributes:
        version: Version of the operator by which the parser chooses among several functions.
        translate: The function.
        ignored: Attributes that change nothing at inference.
        registered: What undoes it.
    """

    version: int
    translate: Function
    ignored: frozenset[str]
    registered: RegisteredTranslation[Any]


_Key = TypeVar("_Key", bound=Hashable)


class RegisteredTranslation(Generic[_Key]):
    """A function that translates operators, until it is unregistered.

    It is called like the function. As a context manager it is registered until the block ends.

    Attributes:
        is_registered: Whether it is asked at all. What the table still holds counts for nothing
            once this is false: whoever was changing the table when the collector unregistered it
            may have put it back.
    """

    def __init__(self, table: TranslationTable[_Key], keys: Sequence[_Key], function: Function) -> None:
        self.is_registered = True
        self._table = table
        self._keys = tuple(keys)
        self._function = function
        update_wrapper(self, function, updated=())  # no attributes: they may be those of another registration

    def __call__(self, operator: Any) -> Any:
        return self._function(operator)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.unregister()

    def unregister(self) -> None:
        """Undo the registration; what it had replaced counts again. Done twice it does nothing.

        Networks that were read keep what the function made of their operators.
        """
        self.is_registered = False
        self._table.drop(self._keys)


_Registered = TypeVar("_Registered", bound=RegisteredTranslation[Any])


class TranslationTable(Generic[_Key]):
    """What others registered for a parser, by operator.

    May be used by any thread at any time. Whoever reads takes no lock.

    Args:
        parser: The parser's package, such as "dovetail_onnx".
        group: Entry points that name modules which register something.
        in_words: Names an operator, for whom plans are kept; different ones differently.
    """

    def __init__(self, parser: str, group: str, in_words: Callable[[_Key], str]) -> None:
        self._parser = parser
        self._in_words = in_words
        self._offers = Offers(group)
        # From the lowest version up, the newest of one version last; entries are replaced and never
        # changed.
        self._table: dict[_Key, tuple[Registration, ...]] = {}
        self._lock = threading.RLock()  # again where the collector runs, while it is held, what unregisters
        self._changes = count()
        self._importing = threading.local()

    def __len__(self) -> int:
        return len(self._table)

    def entries(self, key: _Key) -> tuple[Registration, ...]:
        """Return what is registered for an operator, by version."""
        return tuple(one for one in self._table.get(key, ()) if one.registered.is_registered)

    def add(
        self,
        registered: _Registered,
        keys: Sequence[_Key],
        entry: Registration,
        check: Callable[[_Key, Registration | None], None] | None,
    ) -> _Registered:
        """Register a function for operators: all of them or, if one is refused, none.

        Args:
            registered: What is handed to the caller.
            keys: The operators.
            entry: What is registered for each.
            check: Raises if an operator may not be registered; it is handed what is registered for
                the same version already, or None. None: this one takes the place of any other.
        """
        with self._lock:
            if check is not None:
                for key in keys:
                    same = [one for one in self.entries(key) if one.version == entry.version]
                    check(key, same[-1] if same else None)
            for key in keys:
                self._table[key] = tuple(sorted((*self.entries(key), entry), key=lambda one: one.version))
            self._state()
        made = getattr(self._importing, "made", None)
        if made is not None:
            made.append(registered)
        return registered

    def drop(self, keys: Sequence[_Key]) -> None:
        """Remove what is not registered any more."""
        with self._lock:
            for key in keys:
                kept = self.entries(key)
                if kept:
                    self._table[key] = kept
                else:
                    self._table.pop(key, None)
            self._state()

    def clear(self) -> None:
        """Unregister everything."""
        for entries in self._table.copy().values():
            for one in entries:
                one.registered.unregister()

    def take_offers(self, name: str) -> None:
        """Import what packages offer under a name, once.

        What a module registered that then failed is undone: it is imported again next time.

        Raises:
            OfferError: It cannot be imported; the text says whose it is and why.
        """
        with self._undone_on_failure():
            self._offers.take(name)

    def _state(self) -> None:
        """Tell what is translated, again if the collector unregistered something meanwhile."""
        while True:
            change = next(self._changes)
            names = [f"{self._in_words(key)}:{one.version}" for key in self._table.copy() for one in self.entries(key)]
            state_translations(self._parser, names)
            if next(self._changes) == change + 1:
                return

    @contextmanager
    def _undone_on_failure(self) -> Iterator[None]:
        around = getattr(self._importing, "made", None)
        made: list[RegisteredTranslation[_Key]] = []
        self._importing.made = made
        try:
            yield
        except BaseException:
            for one in made:
                one.unregister()
            raise
        finally:
            self._importing.made = around


def plain_function(function: Any, of: str) -> Function:
    """Return the function itself, of one that is registered already too.

    Raises:
        OptionError: It is none.
    """
    if not callable(function):
        raise refused(f"{shown_argument(function)} is no function, so it cannot translate {of}")
    return function._function if isinstance(function, RegisteredTranslation) else function


def refused(what: str, hint: str | None = None, **details: Any) -> OptionError:
    """Build the error for what cannot be registered."""
    return OptionError(what, code=ErrorCode.OPTION_INVALID, hint=hint, **details)


def described(function: Function) -> str:
    """Name a function and where it stands, for messages."""
    code = getattr(function, "__code__", None)
    where = f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{getattr(function, '__module__', None) or 'unknown'}.{name}{where}"
