"""Options that several commands share, and how their texts are read."""

from __future__ import annotations

import functools
import logging
import math
import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

if TYPE_CHECKING:
    from dovetail import Limits, Network

_Function = TypeVar("_Function", bound=Callable[..., Any])

Shapes = Mapping[str, tuple[int, ...]]

STDOUT = Path("-")

logger = logging.getLogger("dovetail.sdk")


def shape_of(text: str) -> tuple[str, tuple[int, ...]]:
    """Read ``x=1,3,224,224``, ``x=1x3x224x224`` or ``N=1`` as a name and sizes.

    Raises:
        click.BadParameter: It is not written so.
    """
    name, _, sizes = text.rpartition("=")
    if not name or not re.fullmatch(r"\d+([,x]\d+)*", sizes, re.ASCII):
        raise click.BadParameter(f"{text!r} is not a shape; write name=1,3,224,224, or N=1 for a symbolic size")
    return name, tuple(int(size) for size in re.split("[,x]", sizes))


class FiniteRange(click.FloatRange):
    """A number in a range, which infinity and NaN are not, though each compares as it likes."""

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        """Read a number; raises `click.BadParameter`."""
        number = super().convert(value, parameter, context)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", parameter, context)
        return number


def numbers_of(text: str | tuple[float, ...]) -> tuple[float, ...]:
    """Read ``0.5`` or ``123.7,116.3,103.5`` as numbers.

    Raises:
        click.BadParameter: It is not written so.
    """
    if isinstance(text, tuple):  # the default
        return text
    try:
        numbers = tuple(float(number) for number in text.split(","))
    except ValueError:
        numbers = ()
    if not numbers or not all(map(math.isfinite, numbers)):
        raise click.BadParameter(f"{text!r} is neither a number nor numbers separated by commas")
    return numbers


def in_folder(context: click.Context, parameter: click.Parameter, value: Path | None) -> Path | None:
    """Refuse, before anything runs, an output file in a folder that is missing or not writable."""
    if value is not None and not value.parent.is_dir():
        raise click.BadParameter(f"{str(value)!r}: there is no folder {str(value.parent)!r}", context, parameter)
    if value is not None and not os.access(value.parent, os.W_OK | os.X_OK):
        raise click.BadParameter(f"{str(value)!r}: the folder {str(value.parent)!r} is not writable", context, parameter)
    return value


def _split_backends(context: click.Context, parameter: click.Parameter, value: Sequence[str]) -> list[str] | None:
    from dovetail import BackendError
    from dovetail.contract.backend_id import BackendRequest

    names = [name.strip() for text in value for name in text.split(",") if name.strip()]
    try:
        for name in names:
            BackendRequest.parse(name)
    except BackendError as error:
        raise click.BadParameter(f"{error.message}; {error.hint}", context, parameter) from None
    return names or None


def _collect_shapes(context: click.Context, parameter: click.Parameter, value: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    return dict(value)


def model_or_demo(context: click.Context, parameter: click.Parameter, value: Path) -> Path:
    """Take ``digits``, where no such file lies, for the model of the demo."""
    if value != Path("digits") or value.is_file():
        return value
    from .bundled import demo_model

    return demo_model()


def model_argument(function: _Function) -> _Function:
    """Add the argument MODEL: a file, or ``digits`` for the model of the demo."""
    return click.argument("model", type=click.Path(path_type=Path), callback=model_or_demo)(function)


def _complete_ids(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """List the ids of backends that the last of a list may become; none is imported."""
    from dovetail.discovery.registry import default_registry

    before, comma, last = incomplete.rpartition(",")
    given = set(before.split(","))
    ids = sorted({row.id for row in default_registry().rows() if row.id is not None} - given)
    return [f"{before}{comma}{id}" for id in ids if id.lower().startswith(last.lower())]


def _repeatable(*flags: str, **settings: Any) -> Callable[[_Function], _Function]:
    """Return what adds an option that may be given several times."""
    return click.option(*flags, multiple=True, **settings)


backends_option = _repeatable(
    "-b",
    "--backends",
    metavar="ID[,ID...]",
    callback=_split_backends,
    shell_complete=_complete_ids,
    help="Backends by preference; 'Id?' may be absent, 'Id:1' is device 1 of Id. Default: the installed CPU backends.",
)
"""Add ``--backends``: a list of ids, or None."""


against_option = _repeatable(
    "--against",
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


backend_options_option = _repeatable(
    "--option",
    "options",
    metavar="ID.NAME=VALUE",
    callback=_collect_options,
    help="Option of a backend, such as AcmeNpu.latency_us=500. Repeatable.",
)
"""Add ``--option``, passed on as `options`: options of backends by id, or None."""


def _collect_ids(context: click.Context, parameter: click.Parameter, value: Sequence[str]) -> list[str] | None:
    return [name.strip() for text in value for name in text.split(",") if name.strip()] if value else None


isolate_option = _repeatable(
    "--isolate",
    metavar="ID[,ID...]",
    callback=_collect_ids,
    shell_complete=_complete_ids,
    help="Backends that run in a process of their own; '' for none. Default: those whose manifest asks for it.",
)
"""Add ``--isolate``: a list of ids, or None."""


shape_option = _repeatable(
    "--shape",
    type=shape_of,
    metavar="NAME=SIZES",
    callback=_collect_shapes,
    help="Shape of an input (x=1,3,224,224) or a symbolic size (N=8). Repeatable. Default for what stays open: 1.",
)
"""Add ``--shape``, passed on as `shape`: sizes by name."""


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


def json_option(function: _Function) -> _Function:
    """Add ``--json``, passed on as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")(function)


def of_suffix(suffix: str) -> Callable[[click.Context, click.Parameter, Path | None], Path | None]:
    """Return what refuses an output file that is called otherwise, such as a model."""

    def check(context: click.Context, parameter: click.Parameter, value: Path | None) -> Path | None:
        in_folder(context, parameter, value)
        if value is not None and value.suffix.lower() != suffix:
            raise click.BadParameter(f"{str(value)!r}: the name of the file must end in {suffix}", context, parameter)
        return value

    return check


def html_option(function: _Function) -> _Function:
    """Add ``--html``, passed on as `page`."""
    return click.option(
        "--html",
        "page",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE.html",
        callback=of_suffix(".html"),
        help="Also write a page with a picture of the network: one file, which needs no network access.",
    )(function)


_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def _collect_limits(context: click.Context, parameter: click.Parameter, value: Sequence[str]) -> Limits | None:
    from dovetail import Limits, OptionError

    given: dict[str, Any] = {}
    for text in value:
        found = re.fullmatch(r"(memory|elements|layers|nesting)=(\d+)([kmg]?)|(seconds)=(\d+(?:\.\d*)?)", text, re.ASCII | re.I)
        if found is None:
            raise click.BadParameter(f"{text!r} is no limit; write memory=2G, elements=, layers=, nesting= or seconds=5")
        name, count, unit, seconds, time = found.groups()
        given |= {seconds.lower(): float(time)} if seconds else {name.lower(): int(count) * _UNITS[unit.lower()]}
    try:
        return Limits(**given) if given else None
    except OptionError as error:
        raise click.BadParameter(f"{error.message}; {error.hint}", context, parameter) from None


limits_option = _repeatable(
    "--limit",
    "limits",
    metavar="NAME=NUMBER",
    callback=_collect_limits,
    help="What loading may take: memory=2G, elements=, layers=, nesting=, seconds=5. Repeatable.",
)
"""Add ``--limit``, passed on as `limits`: what loading may take, or None."""


def shapes_for(network: Network, shape: Shapes) -> dict[str, Any]:
    """Tell whole shapes of inputs from symbolic sizes, as `dovetail.optimize` wants them.

    Raises:
        click.UsageError: A name is neither an input nor a symbolic size of the network.
    """
    inputs = {layer.name: layer.output.shape for layer in network.inputs}
    symbols = {size for sizes in inputs.values() for size in sizes if isinstance(size, str)}
    result: dict[str, Any] = {}
    for name, sizes in shape.items():
        if name in inputs:
            result[name] = sizes
        elif name in symbols and len(sizes) == 1:
            result[name] = sizes[0]
        else:
            known = f"inputs {', '.join(inputs) or 'none'}; symbolic sizes {', '.join(sorted(symbols)) or 'none'}"
            raise click.UsageError(f"--shape {name}=...: the network has no such input or symbolic size ({known})")
    return result


def one_for_open_sizes(network: Network, shapes: Mapping[str, Any]) -> dict[str, int]:
    """Take 1 for each symbolic size that `shapes` leave open, and tell so."""
    from .summary import open_symbols

    assumed = dict.fromkeys(open_symbols(network, shapes), 1)
    tell_assumed(assumed)
    return assumed


def tell_assumed(assumed: Mapping[str, int]) -> None:
    """Print on standard error which sizes open symbols took, if any, and how to choose others."""
    if assumed:
        sizes = ", ".join(f"{symbol} = {size}" for symbol, size in assumed.items())
        other = " ".join(f"--shape {shlex.quote(f'{symbol}=8')}" for symbol in assumed)
        logger.info(
            "note: %s %s open: taking %s; %s for %s",
            ", ".join(assumed),
            "is" if len(assumed) == 1 else "are",
            sizes,
            other,
            "another size" if len(assumed) == 1 else "other sizes",
        )


class JsonToFile(click.Command):
    """A command whose ``--json`` may be followed by a file or by nothing.

    click gives an option a fixed number of values; "-" is put in where none stands behind this one.
    """

    def parse_args(self, context: click.Context, arguments: list[str]) -> list[str]:
        """Rewrite the arguments, then read them."""
        rewritten: list[str] = []
        rest = list(arguments)
        while rest:
            word = rest.pop(0)
            rewritten.append(word)
            if word == "--":
                break
            rewritten += self.values_of(word, rest)
        return super().parse_args(context, rewritten + rest)

    def values_of(self, option: str, rest: list[str]) -> list[str]:
        """Take what belongs to an option from the words behind it, as click wants it."""
        if option != "--json":
            return []
        return [rest.pop(0) if rest and rest[0].endswith(".json") else "-"]


def json_file_option(function: _Function) -> _Function:
    """Add ``--json`` with or without a file, passed on as `json_file` for `JsonToFile`.

    The file "-" is standard output.
    """
    return click.option(
        "--json",
        "json_file",
        type=click.Path(dir_okay=False, path_type=Path, allow_dash=True),
        metavar="[FILE.json]",
        callback=lambda context, parameter, value: value if value == STDOUT else in_folder(context, parameter, value),
        help="Print JSON instead of tables, or write it to a file as well.",
    )(function)


paths_option = _repeatable(
    "--path",
    "paths",
    type=click.Path(),
    help="Search this folder for backends too, absolute; also DOVETAIL_BACKEND_PATH. May be repeated.",
)
"""Add `--path`."""
