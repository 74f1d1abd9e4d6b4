"""The `dovetail` command: finds its subcommands, reports errors as sentences.

Exit codes: 0 success, 1 something went wrong, 2 the command line is wrong, 130 interrupted.
"""

from __future__ import annotations

import errno
import logging
import os
import pkgutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click

from . import commands

REPORTING = "doctor"
"""The command that goes on where the configuration is wrong: it reports that itself."""


class CommandFolder(click.Group):
    """A group of the modules of `dovetail_sdk.commands`, each imported when it is asked for.

    `new_backend` is the command `new-backend`.
    """

    def make_context(self, *arguments: Any, **named: Any) -> click.Context:
        """Read the words before the command; what is wrong with them is told as all errors are."""
        _open_closed_streams()
        with _broken_errors():
            return super().make_context(*arguments, **named)

    def list_commands(self, context: click.Context) -> list[str]:
        return sorted(module.name.replace("_", "-") for module in pkgutil.iter_modules(commands.__path__))

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in self.list_commands(context):
            return None
        command: click.Command = import_module(f"{commands.__name__}.{name.replace('-', '_')}").command
        return command

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(context)
        if arguments and not arguments[0].startswith("-") and arguments[0] not in known:
            from dovetail.ground.close_names import STRICT, close_names

            close = close_names(arguments[0], known, count=1, cutoff=STRICT)
            hint = f"did you mean {close[0]!r}?" if close else f"the commands are {', '.join(known)}"
            context.fail(f"there is no command {arguments[0]!r}; {hint}")
        if arguments and not context.resilient_parsing and not {"-h", "--help"} & {*arguments}:
            from .configuration import defaults

            try:
                context.default_map = {arguments[0]: defaults(self, context, arguments[0])}
            except click.UsageError:
                if arguments[0] != REPORTING:
                    raise
        return super().resolve_command(context, arguments)

    def invoke(self, context: click.Context) -> Any:
        """Run the command; whatever it raises becomes a sentence and an exit code.

        `--debug` asks for the traceback instead.
        """
        try:
            with _broken_errors():
                return super().invoke(context)
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            context.exit(130)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            broken_pipe = isinstance(error, OSError) and error.errno == errno.EPIPE
            if context.params["debug"] or broken_pipe:  # click ends quietly when the reader of a pipe has gone
                raise
            from .rendering import print_error

            command = self.get_command(context, context.invoked_subcommand or "")
            print_error(error, {flag for one in command.params for flag in one.opts} if command is not None else ())
            context.exit(1)


IN_OTHER_WORDS = {"placement.explain()": "`dovetail explain`"}
"""What the core's log names that is a command here."""


def _open_closed_streams() -> None:
    """Write to nowhere what would go to a stream that was closed before this process began.

    The first files that it opens would else have the numbers of the streams, and get what others
    print.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  # until the process ends


@contextmanager
def _broken_errors() -> Iterator[None]:
    """Break what click says of the errors that pass, on a terminal, between words."""
    try:
        yield
    except click.ClickException as error:
        if sys.stderr.isatty() and "format_message" not in vars(error):
            from .rendering import broken

            heading = "Error: "  # which click puts before it
            text = "\n".join(broken(heading + error.format_message(), stream=sys.stderr))
            vars(error)["format_message"] = lambda: text.removeprefix(heading)
        raise


class EchoHandler(logging.Handler):
    """Write the log to standard error as it is at the moment, so that tests can catch it."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the text, in words of the command line."""
        text = super().format(record)
        for call, command in IN_OTHER_WORDS.items():
            text = text.replace(call, command)
        return text

    def emit(self, record: logging.LogRecord) -> None:
        text = self.format(record)
        if record.exc_info is None and sys.stderr.isatty():  # a traceback's lines stay as they are
            from .rendering import broken

            text = "\n".join(broken(text, stream=sys.stderr))
        sys.stderr.write(f"{text}\n")  # not click.echo, which writes into a spinner that is being drawn


@click.command(cls=CommandFolder, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.option("--debug", is_flag=True, envvar="DOVETAIL_DEBUG", help="Show tracebacks (also DOVETAIL_DEBUG=1).")
@click.option("--quiet", is_flag=True, help="Show warnings and errors only, besides the results.")
@click.version_option(package_name="dovetail-sdk", prog_name="dovetail")
def main(debug: bool, quiet: bool) -> None:
    """Show, place, run and measure neural networks on pluggable backends."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # names in a model may hold what the terminal's encoding does not have
            stream.reconfigure(errors="backslashreplace")
    logger = logging.getLogger("dovetail")
    if not any(isinstance(handler, EchoHandler) for handler in logger.handlers):
        logger.addHandler(EchoHandler())
    logger.setLevel(logging.DEBUG if debug else logging.WARNING if quiet else logging.INFO)
