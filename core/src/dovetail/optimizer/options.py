"""Build a backend's options from what the caller wrote."""

from __future__ import annotations

import dataclasses
import os
import types
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from ..contract.artefacts import OPTION, folder_of
from ..contract.backend_calls import backend_call
from ..contract.interfaces import IBackend
from ..ground.close_names import suggestion
from ..ground.errors import BackendError, ErrorCode, OptionError
from ..ground.foreign_text import described, shown
from ..ground.host_exceptions import is_of_host
from ..ground.records import Record


def build_options(backend: IBackend, given: Mapping[str, Any] | object | None = None) -> Any:
    """Build an instance of the backend's `options_type`.

    Args:
        backend: Whose options.
        given: Values by name; None for all defaults; an instance of `options_type` is taken as it
            is.

    Raises:
        OptionError: A name is unknown (`OPTION_UNKNOWN`) or a value does not fit
            (`OPTION_INVALID`).
        BackendError: `options_type` is no dataclass whose fields all have defaults
            (`BACKEND_CONTRACT`).
    """
    with backend_call(f"backend {str(backend.id)!r}", "options_type"):
        kind = backend.options_type
    if not (isinstance(kind, type) and (issubclass(kind, Record) or dataclasses.is_dataclass(kind))):
        raise _contract(backend, f"its options_type {type(kind).__name__!r} is no dataclass")
    if isinstance(given, kind):
        _check_folder(backend, given)
        return given
    if given is not None and not isinstance(given, Mapping):
        raise OptionError(
            f"options of backend {backend.id} must be a mapping or a {kind.__name__}, got {type(given).__name__}",
            code=ErrorCode.OPTION_INVALID,
            hint=f"options={{{str(backend.id)!r}: {{name: value}}}}",
        )
    fields = _fields(kind)
    hints = _hints(kind) if given else {}  # evaluating annotations takes longer than all else here
    values: dict[str, Any] = {}
    for name, value in (given or {}).items():
        if name not in fields:
            raise OptionError(
                f"backend {backend.id} has no option {name!r}",
                hint=suggestion(str(name), fields),
                backend=str(backend.id),
                option=name,
            )
        values[name] = _fitted(backend, name, value, hints.get(name, Any))
    required = [name for name, has_default in fields.items() if not has_default]
    if required:
        raise _contract(backend, f"its options {', '.join(required)} have no defaults")
    try:
        options = kind(**values)
    except OptionError:
        raise
    except (TypeError, ValueError) as error:
        raise OptionError(
            f"backend {backend.id} refuses the options {values}: {error}",
            code=ErrorCode.OPTION_INVALID,
            hint="see the backend's documentation",
            backend=str(backend.id),
        ) from error
    except BaseException as error:  # neither a value that does not fit, nor anything that ends the program
        if is_of_host(error):
            raise
        raise _contract(backend, f"its options_type raised {described(error)}") from error
    _check_folder(backend, options)
    return options


def _check_folder(backend: IBackend, options: Any) -> None:
    """Refuse a folder for artefacts that no file system has, before anything is placed."""
    if "\0" in folder_of(options):
        raise OptionError(
            f"option {OPTION!r} of backend {backend.id} is {shown(folder_of(options))}",
            code=ErrorCode.OPTION_INVALID,
            hint="name a folder; a path has no NUL in it",
            backend=str(backend.id),
            option=OPTION,
        )


def _fields(kind: Any) -> dict[str, bool]:
    """Return the options by name, and whether each has a default."""
    if issubclass(kind, Record):
        return {name: name in kind._field_defaults for name in kind._fields}
    missing = dataclasses.MISSING
    return {f.name: f.default is not missing or f.default_factory is not missing for f in dataclasses.fields(kind) if f.init}


def _contract(backend: IBackend, problem: str) -> BackendError:
    return BackendError(
        f"backend {backend.id}: {problem}",
        code=ErrorCode.BACKEND_CONTRACT,
        hint="options_type must be a frozen dataclass whose fields all have defaults; tell the backend's vendor",
        backend=str(backend.id),
    )


def _hints(kind: Any) -> dict[str, Any]:
    try:
        return get_type_hints(kind)
    except (NameError, TypeError, AttributeError):  # annotations that only a type checker can resolve
        # Text that stands for a member of an enum must not reach the backend as it was written.
        return {one.name: type(one.default) for one in dataclasses.fields(kind) if isinstance(one.default, Enum)}


def _fitted(backend: IBackend, name: str, value: Any, wanted: Any) -> Any:
    fits, result = _fit(value, wanted)
    if not fits:
        raise OptionError(
            f"option {name!r} of backend {backend.id} is {value!r} ({type(value).__name__})",
            code=ErrorCode.OPTION_INVALID,
            hint=f"expected {_type_text(wanted)}",
            backend=str(backend.id),
            option=name,
        )
    return result


def _fit(value: Any, wanted: Any) -> tuple[bool, Any]:
    origin, arguments = get_origin(wanted), get_args(wanted)
    if wanted is Any:
        return True, value
    if origin in (Union, types.UnionType):
        return next((fit for fit in (_fit(value, one) for one in arguments) if fit[0]), (False, value))
    if origin is Literal:
        return value in arguments, value
    if wanted is None or wanted is type(None):
        return value is None, value
    if origin is tuple:
        return _fit_tuple(value, arguments)
    target = origin or wanted
    if not isinstance(target, type):
        return True, value
    if issubclass(target, Enum):
        member = (
            next((m for m in target if value in (m, m.value, m.name)), None) if isinstance(value, str | int | target) else None
        )
        return member is not None, member
    if target is float and isinstance(value, int) and not isinstance(value, bool):
        return True, float(value)
    if isinstance(value, str) and issubclass(target, os.PathLike):  # a `Path`
        made: Any = target
        return True, made(value)
    if target in (int, float) and isinstance(value, bool):
        return False, value
    return isinstance(value, target), value


def _fit_tuple(value: Any, arguments: tuple[Any, ...]) -> tuple[bool, Any]:
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        return False, value
    wanted = [arguments[0]] * len(value) if len(arguments) == 2 and arguments[1] is Ellipsis else list(arguments)
    if len(wanted) != len(value):
        return False, value
    fits = [_fit(v, w) for v, w in zip(value, wanted, strict=True)]
    return all(fit for fit, _ in fits), tuple(v for _, v in fits)


def _type_text(wanted: Any) -> str:
    if get_origin(wanted) in (Union, types.UnionType):
        return " or ".join(_type_text(one) for one in get_args(wanted))
    if get_origin(wanted) is Literal:
        return f"one of {', '.join(map(repr, get_args(wanted)))}"
    if isinstance(wanted, type) and issubclass(wanted, Enum):
        return f"one of {', '.join(repr(member.value) for member in wanted)}"
    return str(getattr(wanted, "__name__", wanted)) if get_origin(wanted) is None else str(wanted)
