"""Where and how a model runs: backends, their options, threads."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import click

from .sizes import shape_option

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _split_backends(context: click.Context, parameter: click.Parameter, value: Sequence[str]) -> list[str] | None:
    from dovetail import BackendError
    from dovetail.contract.backend_id import BackendRequest

    names = [name.strip() for text in value for name in text.split(",") if name.strip()]
    try:
        for name in names:
            BackendRequest.parse(name)
    except BackendError as error:
        raise click.BadParameter(f"{error.message}; {error.hint}", context, parameter) from None
    if value and not names:
        raise click.BadParameter("it names no backend; leave it out for the default", context, parameter)
    return names or None


def _complete_ids(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """List the ids of backends that the last of a list may become; none is imported."""
    from dovetail.discovery.registry import default_registry

    before, comma, last = incomplete.rpartition(",")
    given = set(before.split(","))
    ids = sorted({row.id for row in default_registry().rows() if row.id is not None} - given)
    return [f"{before}{comma}{id}" for id in ids if id.lower().startswith(last.lower())]


backends_option = click.option(
    "-b",
    "--backends",
    multiple=True,
    metavar="ID[,ID...]",
    callback=_split_backends,
    shell_complete=_complete_ids,
    help="Backends by preference; 'Id?' may be absent, 'Id:1' is device 1 of Id. Default: the installed CPU backends.",
)
"""Add ``--backends``: a list of ids, or None."""


against_option = click.option(
    "--against",
    multiple=True,
    metavar="ID[,ID...]",
    callback=_split_backends,
    shell_complete=_complete_ids,
    help="Backends by preference of what A is compared with. Default: those of A.",
)
"""Add ``--against``: a list of ids, or None."""


def value_of(text: str) -> Any:
    """Read what stands behind an ``=``: JSON, such as 3, true or [1, 2], or else a text."""
    import json

    try:
        return json.loads(text)
    except ValueError:
        return text


def _collect_options(
    context: click.Context, parameter: click.Parameter, value: Sequence[str]
) -> dict[str, dict[str, Any]] | None:
    found: dict[str, dict[str, Any]] = {}
    for text in value:
        name, equals, content = text.partition("=")
        backend, dot, option = name.partition(".")
        if not (equals and dot and backend and option):
            raise click.BadParameter(f"{text!r} is not an option; write ID.NAME=VALUE, as in AcmeNpu.latency_us=500")
        found.setdefault(backend, {})[option] = value_of(content)
    return found or None


backend_options_option = click.option(
    "--option",
    "options",
    multiple=True,
    metavar="ID.NAME=VALUE",
    callback=_collect_options,
    help="Option of a backend, such as AcmeNpu.latency_us=500. Repeatable.",
)
"""Add ``--option``, passed on as `options`: options of backends by id, or None."""


def _collect_ids(context: click.Context, parameter: click.Parameter, value: Sequence[str]) -> list[str] | None:
    return [name.strip() for text in value for name in text.split(",") if name.strip()] if value else None


isolate_option = click.option(
    "--isolate",
    multiple=True,
    metavar="ID[,ID...]",
    callback=_collect_ids,
    shell_complete=_complete_ids,
    help="Backends that run in a process of their own; '' for none. Default: those whose manifest asks for it.",
)
"""Add ``--isolate``: a list of ids, or None."""


def threads_option(function: _Function) -> _Function:
    """Add ``--threads``."""
    return click.option("--threads", type=click.IntRange(min=1), help="CPU threads at most. Default: all.")(function)


class Placing(NamedTuple):
    """Where and how a model is to run, as the command line says.

    Attributes:
        backends: Ids in order of preference; None for the default.
        options: Options of backends, by id.
        shape: Sizes by name.
        threads: CPU threads at most; None for all.
        isolate: Ids of backends that run in a process of their own; None for the default.
    """

    backends: list[str] | None
    options: dict[str, dict[str, Any]] | None
    shape: dict[str, tuple[int, ...]]
    threads: int | None
    isolate: list[str] | None


def placing_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add what says where and how a model runs, passed on as `placing`.

    That is ``--backends``, ``--option``, ``--shape``, ``--threads`` and ``--isolate``.
    """

    @functools.wraps(function)
    def collected(backends: Any, options: Any, shape: Any, threads: Any, isolate: Any, **others: Any) -> Any:
        return function(placing=Placing(backends, options, shape, threads, isolate), **others)

    for add in (isolate_option, threads_option, shape_option, backend_options_option, backends_option):
        collected = add(collected)
    return collected
