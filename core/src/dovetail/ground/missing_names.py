"""Answer names that a class or a function does not have, where other libraries have them.

What is answered is imported when such a name is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from functools import wraps
from typing import Any, NoReturn, TypeVar

from .close_names import suggestion
from .errors import ErrorCode, OptionError

_Function = TypeVar("_Function", bound=Callable[..., Any])


def named_arguments(caller: str, of_load: Callable[[], Container[str]] = tuple) -> Callable[[_Function], _Function]:
    """Make a function answer arguments by name that it does not have, by what to use here.

    A `**unknown` would do the same, and make each misspelt name acceptable to type checkers.

    Args:
        caller: What to call the function.
        of_load: Returns names that `dovetail.load` has.
    """

    def decorate(function: _Function) -> _Function:
        code = function.__code__
        known = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]

        @wraps(function)
        def checked(*arguments: Any, **named: Any) -> Any:
            for name in named:
                if name not in known:
                    from .names_elsewhere import no_argument

                    own = [one for one in known if one != "self"]
                    hint = no_argument(caller, name, own, of_load()) or suggestion(name, own)
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
