"""How things look on a terminal: tables, sizes, errors, progress."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, Literal

import click

from dovetail.ground.cell_widths import cell_width, first_cells, last_cells
from dovetail.ground.foreign_text import printable
from dovetail.ground.units import bytes_text as bytes_text
from dovetail.ground.units import count_text as count_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table
    from rich.text import Text

PIPE_WIDTH = 200
"""Columns of a table in a file or a pipe, where cut cells would lose what was asked for."""

NARROWEST = 12
"""Columns that long names are not made narrower than."""

_WHOLE = 36
"""Columns of a word that is never broken; a longer one may be, where there is no room."""

_PROSE = 28
"""Columns that are left to prose, which wraps between words, before names are shortened."""

_GAP = 3
"""Columns between two of a table."""

# The rule under the headings, in ASCII, and nothing else: eight rows of left, fill, divider and
# right, as rich wants them.
PIPE_BOX = "    \n    \n -- \n    \n    \n    \n    \n    \n"


def console(file: IO[str], width: int | None = None) -> Console:
    """Return a console that prints text as it is.

    Names and shapes may hold brackets, which rich would take for markup.
    """
    from rich.console import Console

    return Console(file=file, markup=False, highlight=False, emoji=False, width=width)


def show(*tables: Table) -> None:
    """Print tables on standard output.

    To a file or a pipe they go in ASCII, without blank lines around and blanks at line ends.
    """
    if sys.stdout.isatty():
        console(sys.stdout).print(*tables)
        return
    from rich.box import Box

    for one in tables:
        one.box = Box(PIPE_BOX, ascii=True)
        text = io.StringIO()
        console(text, PIPE_WIDTH).print(one)
        lines = [line.rstrip() for line in text.getvalue().splitlines()]
        click.echo("\n".join(lines).strip("\n") + "\n")


def say(text: str, indent: int = 2) -> None:
    """Print a sentence on standard output: on a terminal broken between words, as is elsewhere.

    Args:
        text: It, without styles.
        indent: Blanks before further lines.
    """
    for line in text.split("\n"):
        click.echo("\n".join(broken(line, indent)))


def remark(text: str, heading: str = "", colour: str = "", indent: int = 2) -> None:
    """Print a sentence on standard error: on a terminal broken between words.

    Args:
        text: It, without styles.
        heading: What stands before it, in bold.
        colour: Of the heading.
        indent: Blanks before further lines.
    """
    shown = "\n".join(broken(f"{heading} {text}" if heading else text, indent, sys.stderr))
    if heading and shown.startswith(heading):
        shown = click.style(heading, fg=colour or None, bold=True) + shown[len(heading) :]
    click.echo(shown, err=True)


def broken(text: str, indent: int = 2, stream: IO[str] | None = None) -> list[str]:
    """Break lines between words where a stream is a terminal that is too narrow for them.

    In a file or a pipe a line stays whole, for who searches it.

    Args:
        text: It, without styles.
        indent: Blanks before further lines.
        stream: Where it goes; standard output if left out.
    """
    stream = sys.stdout if stream is None else stream
    lines = text.split("\n")
    if not stream.isatty():
        return lines
    from dovetail.ground.text_tables import wrapped

    width = room(stream)
    return [part for line in lines for part in wrapped(line, width, indent)]


def room(stream: IO[str] | None = None) -> int:
    """Return the columns that a table may have on a stream; standard output if left out."""
    stream = sys.stdout if stream is None else stream
    return console(stream).width if stream.isatty() else PIPE_WIDTH


def fits(columns: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> bool:
    """Say whether a table has room without shortening anything."""
    return _width_of(_widths([columns, *rows])) <= room()


def _widths(lines: Iterable[Sequence[str | Text]]) -> list[int]:
    from rich.cells import cell_len

    return [max(map(cell_len, map(str, cells))) for cells in zip(*lines, strict=True)]


def _width_of(widths: Sequence[int]) -> int:
    return 2 + sum(widths) + _GAP * (len(widths) - 1)


def shortened(text: str, width: int) -> str:
    """Leave out the beginning of a name that has no room: names differ at their ends.

    Of names that converters joined by semicolons, that of the last operator of a fused layer stays,
    which they put first.
    """
    if cell_width(text) <= width:
        return text
    first, fused, _ = text.partition(";")
    if fused and width > NARROWEST:
        return f"{shortened(first, width - 4)};..."
    return f"...{last_cells(text, width - 3)}" if width >= 3 else "..."[: max(width, 0)]


def cut(text: str, width: int) -> str:
    """Leave out the end of a text that has no room."""
    if cell_width(text) <= width:
        return text
    return f"{first_cells(text, width - 3)}..." if width >= 3 else "..."[: max(width, 0)]


def table(
    columns: Iterable[str],
    rows: Iterable[Sequence[str | Text]],
    *,
    right: Iterable[str] = (),
    long: Iterable[str] = (),
    texts: Iterable[str] = (),
) -> Table:
    """Build a table.

    Args:
        columns: Headings.
        rows: Cells, one per column.
        right: Headings of the columns that are set flush right.
        long: Headings of the columns of names, which are shortened from the left where there is no
            room for all of them.
        texts: Headings of the columns of texts, which are cut at the right then.
    """
    from rich import box
    from rich.table import Table

    columns, numbers = list(columns), set(right)
    justified: list[Literal["left", "right"]] = ["right" if column in numbers else "left" for column in columns]
    lines = [tuple(columns), *(tuple(printable(cell) if isinstance(cell, str) else cell for cell in row) for row in rows)]
    shorten = {at: shortened for at, column in enumerate(columns) if column in set(long)}
    shorten |= {at: cut for at, column in enumerate(columns) if column in set(texts)}
    if shorten:
        lines = _narrowed(lines, shorten)
    result = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for at, (heading, justify) in enumerate(zip(lines[0], justified, strict=True)):
        cells = [str(line[at]) for line in lines]
        result.add_column(heading, justify=justify, overflow="fold", min_width=min(_longest_word(cells), _WHOLE))
    for line in lines[1:]:
        result.add_row(*line)
    return result


def _narrowed(
    lines: Sequence[Sequence[str | Text]], shorten: Mapping[int, Callable[[str, int], str]]
) -> list[tuple[str | Text, ...]]:
    """Shorten the texts of some columns, the widest first, until there is room.

    Args:
        lines: The headings and the rows.
        shorten: What shortens a text to a width, by number of the column.
    """
    widths = _widths(lines)
    for at in set(range(len(widths))) - shorten.keys():  # which wrap between words
        widths[at] = min(widths[at], max(_longest_word([str(line[at]) for line in lines]), _PROSE))
    while _width_of(widths) > room():
        widest = max(shorten, key=lambda at: widths[at])
        if widths[widest] <= NARROWEST:
            break
        widths[widest] -= 1
    return [
        tuple(shorten[at](str(cell), widths[at]) if at in shorten else cell for at, cell in enumerate(line)) for line in lines
    ]


def _longest_word(texts: Iterable[str]) -> int:
    from rich.cells import cell_len

    return max((cell_len(word) for text in texts for word in text.split()), default=0)


def styled(text: str, style: str) -> Text:
    """Return a cell in a style."""
    from rich.text import Text

    return Text(text, style=style)


def seconds_text(seconds: float) -> str:
    """Print a time: 12.3 us, 4.56 ms, 7.89 s."""
    for factor, unit in ((1e6, "us"), (1e3, "ms")):
        if seconds * factor < 1000:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds:.3g} s" if seconds < 100 else f"{seconds:.0f} s"


def print_error(error: BaseException, options: Container[str] = ("--shape",)) -> None:
    """Print an error on standard error: code, sentence, next step.

    Args:
        error: The error, whose hint is for who calls dovetail from Python.
        options: Those of the command, which a hint may name.
    """
    from dovetail import DovetailError

    if isinstance(error, DovetailError):
        from .command_hints import hint_for, message_for

        heading, message, hint = f"error [{error.code}]", message_for(error), hint_for(error, options)
    elif isinstance(error, OSError) and error.strerror:
        where = f": {error.filename}" if error.filename is not None else ""
        heading, message, hint = "error", f"{error.strerror}{where}", None
    elif isinstance(error, MemoryError):
        heading, message, hint = "error", "there is not enough memory", None
    else:
        heading, message = f"unexpected {type(error).__name__}", str(error)
        hint = "this is a defect; `dovetail --debug ...` shows where it happened"
    remark(message, heading, "red")
    if hint:
        remark(f"  -> {hint}", indent=5)


@contextmanager
def working(what: str) -> Iterator[Callable[[str, float, str], None]]:
    """Show on a terminal that something takes its time.

    It yields what to call with a backend, the fraction done and its text.
    """
    if not sys.stderr.isatty():
        yield lambda backend, fraction, doing: None
        return
    from rich.markup import escape

    with console(sys.stderr).status(what, spinner="line") as status:
        yield lambda backend, fraction, doing: status.update(escape(f"{what}: {backend} {fraction:.0%} {doing}"[:200]))


@contextmanager
def progress(what: str, total: int) -> Iterator[Any]:
    """Show a progress bar on a terminal; yields the function to call after each step."""
    if not sys.stderr.isatty():
        yield lambda: None
        return
    with _bar() as bar:
        task = bar.add_task(what, total=total)
        yield lambda: bar.advance(task)


@contextmanager
def lines_above_progress(what: str, total: int) -> Iterator[Callable[[str], None]]:
    """Show a progress bar on a terminal; yields the function that prints a line after each step.

    Lines go to standard output: above the bar, where that is a terminal, too.
    """
    if not sys.stderr.isatty():
        yield click.echo
        return
    with _bar() as bar:
        task = bar.add_task(what, total=total)

        def tell(line: str) -> None:
            if sys.stdout.isatty():
                bar.console.print(line, soft_wrap=True)
            else:
                click.echo(line)
            bar.advance(task)

        yield tell


def _bar() -> Progress:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    # Standard output may be a file, which the bar must not take over.
    return Progress(*columns, console=console(sys.stderr), transient=True, refresh_per_second=4, redirect_stdout=False)


@contextmanager
def meter(what: str) -> Iterator[Callable[[float], object]]:
    """Show a bar on a terminal; yields the function to call with the part that is done, 0 to 1.

    It is drawn in these calls alone, not by a thread that would disturb what is measured.
    """
    if not sys.stderr.isatty():
        yield lambda part: None
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn())
    with Progress(*columns, console=console(sys.stderr), transient=True, auto_refresh=False) as bar:
        task = bar.add_task(what, total=1.0)
        yield lambda part: bar.update(task, completed=part, refresh=True)
