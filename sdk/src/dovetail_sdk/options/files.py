"""Files that commands read and write."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from ..standard_input import StandardInput

_Function = TypeVar("_Function", bound=Callable[..., Any])

STDOUT = STDIN = Path("-")
_TAKEN = "dovetail_sdk.standard_input"
"""Where a context holds the parameter that takes standard input."""


def in_folder(context: click.Context, parameter: click.Parameter, value: Path | None) -> Path | None:
    """Refuse, before anything runs, an output file in a folder that is missing or not writable."""
    if value is not None and not value.parent.is_dir():
        raise click.BadParameter(f"{str(value)!r}: there is no folder {str(value.parent)!r}", context, parameter)
    if value is not None and not os.access(value.parent, os.W_OK | os.X_OK):
        raise click.BadParameter(f"{str(value)!r}: the folder {str(value.parent)!r} is not writable", context, parameter)
    return value


ModelFile = Path | StandardInput
"""What MODEL is."""


def model_or_demo(context: click.Context, parameter: click.Parameter, value: Path | None) -> ModelFile | None:
    """Take ``digits``, where no such file lies, for the model of the demo, ``-`` for a stream."""
    if value is None:
        return None
    if value == STDIN:
        return _standard_input(context, parameter)
    return file_or_demo(value)


def file_or_demo(value: Path) -> Path:
    """Take ``digits``, where no such file lies, for the model of the demo."""
    if value != Path("digits") or value.is_file():
        return value
    from ..bundled import demo_model

    return demo_model()


def _standard_input(context: click.Context, parameter: click.Parameter) -> StandardInput:
    if sys.stdin is None:
        raise click.BadParameter("standard input is closed, so no model comes from it", context, parameter)
    if sys.stdin.isatty():
        raise click.BadParameter(
            "standard input is a terminal, and a model comes from a pipe or a file: ... < model.onnx", context, parameter
        )
    if context.meta.setdefault(_TAKEN, parameter) is not parameter:
        raise click.BadParameter("standard input holds one model, which another argument takes", context, parameter)
    return StandardInput()


def model_argument(function: _Function) -> _Function:
    """Add the argument MODEL: a file, ``-``, or ``digits`` for the model of the demo."""
    return click.argument("model", type=click.Path(path_type=Path), callback=model_or_demo)(function)


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
        return [rest.pop(0) if rest and (rest[0] == "-" or rest[0].endswith(".json")) else "-"]


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


paths_option = click.option(
    "--path",
    "paths",
    multiple=True,
    type=click.Path(),
    help="Search this folder for backends too, absolute; also DOVETAIL_BACKEND_PATH. May be repeated.",
)
"""Add `--path`."""
