"""The command line: options, folders of models, what is printed, the exit code."""

from __future__ import annotations

import json
import logging
import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from dovetail import DovetailError
from dovetail_sdk.options import (
    STDOUT,
    JsonToFile,
    backend_options_option,
    backends_option,
    file_or_demo,
    json_file_option,
    shape_option,
)
from dovetail_sdk.rendering import print_error, progress, show
from dovetail_sdk.tuning.interference import usable_cpus

from . import tables
from .measuring import Settings
from .peers import PEERS, Peer
from .results import Report
from .run import measure


class Beside(JsonToFile):
    """A command whose ``--threads`` takes several numbers, and whose errors are sentences."""

    def parse_args(self, context: click.Context, arguments: list[str]) -> list[str]:
        """Read the arguments, and keep them in `meta` as given."""
        context.meta["versus.arguments"] = list(arguments)
        return super().parse_args(context, arguments)

    def values_of(self, option: str, rest: list[str]) -> list[str]:
        """Join the numbers of threads, which click would take for models."""
        if option != "--threads":
            return super().values_of(option, rest)
        numbers = []
        while rest and re.fullmatch(r"[\d,]+", rest[0], re.ASCII):
            numbers.append(rest.pop(0))
        return [",".join(numbers)] if numbers else []

    def invoke(self, context: click.Context) -> Any:
        """Run the command; what goes wrong becomes a sentence and an exit code."""
        logger = logging.getLogger("dovetail")
        logger.setLevel(logging.INFO)
        handler = logging.StreamHandler(sys.stderr)
        logger.addHandler(handler)
        try:
            return super().invoke(context)
        except DovetailError as error:
            print_error(error)
            context.exit(1)
        finally:
            logger.removeHandler(handler)


def _models(context: click.Context, parameter: click.Parameter, value: Sequence[Path]) -> list[Path]:
    """Put the models of a folder in its place; without any model, take that of the demo."""
    paths = [found for path in value for found in (sorted(path.glob("*.onnx")) if path.is_dir() else [path])]
    return [file_or_demo(path) for path in paths or [Path("digits")]]


def _peers(context: click.Context, parameter: click.Parameter, value: Sequence[str]) -> list[Peer]:
    names = list(dict.fromkeys(name.strip() for text in value for name in text.split(",") if name.strip()))
    unknown = [name for name in names if name not in PEERS]
    if unknown:
        raise click.BadParameter(f"there is no runtime {unknown[0]!r} to compare with; choose from {', '.join(PEERS)}")
    return [PEERS[name] for name in names]


def _thread_counts(context: click.Context, parameter: click.Parameter, value: Sequence[str]) -> list[int]:
    texts = [text for one in value for text in one.split(",") if text]
    if not all(text.isascii() and text.isdigit() and int(text) for text in texts):
        raise click.BadParameter(f"{','.join(texts)!r} are no numbers of threads; write 2, or several: 1 2", context, parameter)
    return list(dict.fromkeys(map(int, texts)))


def _seconds(name: str, default: float, help: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add an option of seconds above 0."""
    above = click.FloatRange(min=0, min_open=True)
    return click.option(name, type=above, default=default, show_default=True, metavar="SECONDS", help=help)


def _count(name: str, least: int, default: int, help: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add an option that counts."""
    return click.option(name, type=click.IntRange(min=least), default=default, show_default=True, help=help)


@click.command(cls=Beside, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.argument("models", metavar="[MODEL...]", nargs=-1, type=click.Path(path_type=Path), callback=_models)
@backends_option
@backend_options_option
@shape_option
@click.option(
    "--threads",
    multiple=True,
    metavar="N...",
    callback=_thread_counts,
    help="CPU threads at most; several are compared. Default: all.",
)
@_seconds("--timeout", 120.0, "Give up a runtime that does not answer for so long.")
@click.option(
    "--versus",
    "peers",
    multiple=True,
    metavar="NAME[,NAME...]",
    default=["onnxruntime,openvino,litert"],
    show_default=True,
    callback=_peers,
    help="Measure these beside dovetail, alternating: onnxruntime, openvino (in float32), openvino-bf16, litert (needs a "
    ".tflite beside the model), dovetail-tflite (dovetail on that), tinygrad (on an OpenCL device), CpuAcc (dovetail on it). "
    "An empty text: dovetail alone.",
)
@click.option("--peer-python", metavar="PATH", help="Interpreter that has these installed. Default: the one of dovetail.")
@_count("--rounds", 1, 10, "Turns of each.")
@_seconds("--block", 0.2, "Length of a turn.")
@_count("--repeats", 0, 30, "Turns measured again, per model and number of threads, because other processes took CPU time.")
@_count("--starts", 1, 3, "Processes of each in which loading and the first run are timed.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print the tables in Markdown.")
@json_file_option
@click.pass_context
def command(
    context: click.Context,
    models: list[Path],
    backends: list[str] | None,
    options: dict[str, dict[str, Any]] | None,
    shape: dict[str, tuple[int, ...]],
    threads: list[int],
    timeout: float,
    peers: list[Peer],
    peer_python: str | None,
    rounds: int,
    block: float,
    repeats: int,
    starts: int,
    as_markdown: bool,
    json_file: Path | None,
) -> None:
    """Measure models, or folders of them, on dovetail and beside other runtimes.

    Without any, the model of the demo is measured.

    Each runtime runs in a process of its own, alternating, and answers are compared first. Inputs,
    and outputs to compare with, are read from the file beside MODEL that has its name with the
    suffix .npz, if it is there; else inputs are random.
    """
    counts = threads or [len(usable_cpus())]
    settings = Settings(rounds=rounds, block_seconds=block, repeats=repeats, starts=starts, patience_seconds=timeout)
    with progress("measuring", len(models) * len(counts) * rounds * (len(peers) + 1)) as step:
        report = measure(
            models,
            peers,
            counts,
            settings,
            command=shlex.join(["python3", "dev.py", "bench", "models", *context.meta["versus.arguments"]]),
            python=peer_python,
            dovetail_options={"backends": backends, "options": options},
            shape=shape,
            after=lambda report: _write(report.as_dict(), json_file),
            step=step,
        )
    _show(report, as_markdown, json_file)
    if not report.is_clean:
        context.exit(1)


def _write(document: Mapping[str, Any], file: Path | None) -> None:
    if file is not None and file != STDOUT:
        file.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def _show(report: Report, as_markdown: bool, json_file: Path | None) -> None:
    if json_file == STDOUT:
        click.echo(json.dumps(report.as_dict(), indent=2))
    elif as_markdown:
        click.echo(tables.markdown(report))
    else:
        click.echo("\n".join(tables.heading(report)) + "\n")
        show(*(grid.for_terminal() for grid in tables.grids(report)))
        click.echo("\n".join([*tables.explanation(report), *tables.remarks(report)]))
