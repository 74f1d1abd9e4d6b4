"""Answer names that do not exist: by close ones, or by what they mean elsewhere.

What other libraries have is imported when such a name is asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Container, Iterable
from functools import wraps
from types import ModuleType
from typing import Any, NoReturn, TypeVar

from .errors import ErrorCode, OptionError
from .foreign_text import printable

_Function = TypeVar("_Function", bound=Callable[..., Any])


STRICT = 0.65
"""How alike names are that no chance made so, of 1.

The default of `close_names` takes "list" for "claims", and "cuda" for CpuAcc.
"""


def close_names(name: str, known: Iterable[str], *, count: int = 3, cutoff: float = 0.6) -> list[str]:
    """Return known names that are like this one, the closest first; case does not count.

    Args:
        name: What was written.
        known: What there is.
        count: Names at most.
        cutoff: How alike they have to be, of 1; `STRICT` where guesses are wilder than none.
    """
    from difflib import get_close_matches  # here, since only what goes wrong needs it

    by_lower: dict[str, str] = {}
    for candidate in known:
        by_lower.setdefault(candidate.lower(), candidate)
    return [by_lower[match] for match in get_close_matches(name.lower(), by_lower, n=count, cutoff=cutoff)]


def suggestion(name: str, known: Iterable[str], *, limit: int = 12) -> str:
    """Say which known names are close to this one, or, if none is, which there are."""
    names = list(dict.fromkeys(printable(str(one)) for one in known))
    close = close_names(name, names)
    if close:
        return f"did you mean {' or '.join(map(repr, close))}?"
    if not names:
        return "there is none"
    listed = ", ".join(names[:limit])
    return f"known: {listed}{f' and {len(names) - limit} more' if len(names) > limit else ''}"


def no_name(module: ModuleType, name: str, elsewhere: dict[str, str]) -> AttributeError | ImportError:
    """Build the error of a module's `__getattr__`, which calls this itself.

    Of an `AttributeError` the statement ``from module import name`` leaves out the text. So there
    it is the `ImportError` that Python would make, with the sentence behind.
    """
    from .names_elsewhere import no_attribute

    if _is_from_import():
        path = getattr(module, "__file__", None)
        sentence = elsewhere.get(name) or " or ".join(map(repr, close_names(name, dir(module))))
        if sentence:
            text = f"cannot import name {name!r} from {module.__name__!r} ({path or 'unknown location'})"
            what = sentence if name in elsewhere else f"did you mean {sentence}?"
            return ImportError(f"{text}: {what}", name=module.__name__, path=path)
    return AttributeError(no_attribute(f"module {module.__name__!r}", name, elsewhere), name=name, obj=module)


def _is_from_import() -> bool:
    """Tell whether whoever asked the module for a name executes ``from module import name``."""
    try:
        from opcode import opmap

        frame = sys._getframe(3)
        return frame.f_code.co_code[frame.f_lasti] == opmap["IMPORT_FROM"]
    except (AttributeError, ImportError, IndexError, KeyError, ValueError):  # an interpreter of another make
        return False


def named_arguments(caller: str, of_load: Callable[[], Container[str]] = tuple) -> Callable[[_Function], _Function]:
    """Make a function answer arguments by name that it does not have, by what to use here.

    A `**unknown` would do the same, and make each misspelt name acceptable to type checkers.

    Args:
        caller: What to call the function.
        of_load: Returns names that `dovetail.load` has.
    """

    def decorate(function: _Function) -> _Function:
        code = function.__code__
        known = [name for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] if name != "self"]

        @wraps(function)
        def checked(*arguments: Any, **named: Any) -> Any:
            for name in named:
                if name not in known:
                    from .names_elsewhere import no_argument

                    hint = no_argument(caller, name, known, of_load()) or suggestion(name, known)
                    raise OptionError(
                        f"{caller} has no argument {name!r}", code=ErrorCode.OPTION_UNKNOWN, hint=hint, option=name
                    )
            return function(*arguments, **named)

        return checked  # type: ignore[return-value]  # of the same signature

    return decorate


class NamedElsewhere:
    """An attribute that a class does not have, though other libraries call something of it so.

    It raises the error that says what to use. A `__getattr__` would do the same, and make each
    attribute that is there take twice the time.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type) -> NoReturn:
        from .names_elsewhere import OF_NETWORKS, no_attribute

        whose = f"type object {owner.__name__!r}" if instance is None else f"{owner.__name__!r} object"
        raise AttributeError(
            no_attribute(whose, self._name, OF_NETWORKS), name=self._name, obj=owner if instance is None else instance
        )
