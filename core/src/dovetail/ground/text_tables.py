"""Tables of plain text that fit the columns they are given."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

from .cell_widths import cell_width, last_cells, padded
from .foreign_text import printable

UNLIMITED = 1 << 30
"""Columns of what nobody reads on a screen as it is printed."""
_GAP = "  "
_MIN_WIDTH = 12
"""Columns that a shortened cell has at least."""


def terminal_width() -> int:
    """Return the columns of the terminal that standard output is; of anything else `UNLIMITED`."""
    try:
        is_terminal = sys.stdout.isatty()
    except (AttributeError, ValueError):  # there is none, or it is closed
        is_terminal = False
    if not is_terminal:
        return UNLIMITED
    import shutil

    return shutil.get_terminal_size().columns


def shortened(text: str, width: int) -> str:
    """Return the end of a text that is too wide: names of one model differ there."""
    return text if cell_width(text) <= width else f"...{last_cells(text, max(width - 3, 1))}"


def wrapped(text: str, width: int, indent: int = 0) -> list[str]:
    """Break a text into lines at blanks alone; later lines are indented.

    A number and the word behind it stay together where a line has room for both. A word that is
    wider than a line has a line of its own, whole.
    """
    lines: list[str] = []
    line = ""
    for word in _words(printable(text), width - indent):
        room = width - (indent if lines else 0)
        if line and cell_width(line) + cell_width(word.rstrip()) > room:
            lines.append(line)
            line = word.lstrip()
        else:
            line += word if line or not lines else word.lstrip()
    lines.append(line)
    return [lines[0], *(" " * indent + later for later in lines[1:])]


def _words(text: str, room: int) -> list[str]:
    """Part a text into words, each with the blanks before it, that no line break may part."""
    words: list[str] = []
    for word in re.findall(r"\s*\S+", text):
        is_counted = bool(words) and re.fullmatch(r"\s*\(?\d+(?:\.\d+)?", words[-1]) is not None
        if is_counted and cell_width(f"{words[-1]}{word}".strip()) <= room:
            words[-1] += word
        else:
            words.append(word)
    return words


def text_table(
    rows: Sequence[Sequence[str]],
    width: int,
    *,
    wrap: Sequence[int] = (),
    right: Sequence[int] = (),
    notes: Sequence[Sequence[str]] = (),
) -> str:
    """Align columns.

    Args:
        rows: Cells, one per column; the first row has the headings.
        width: Columns of the terminal. What is too wide is shortened from the left, or wrapped.
        wrap: Indices of the columns whose cells are wrapped at blanks.
        right: Indices of the columns set flush right.
        notes: Lines below each row, indented.
    """
    rows = [tuple(map(printable, row)) for row in rows]
    widths = _fitted([max(cell_width(row[column]) for row in rows) for column in range(len(rows[0]))], width, wrap)
    lines = []
    for number, row in enumerate(rows):
        cells = [
            wrapped(cell, room) if column in wrap else [shortened(cell, room)]
            for column, (cell, room) in enumerate(zip(row, widths, strict=True))
        ]
        for level in range(max(map(len, cells))):
            texts = [cell[level] if level < len(cell) else "" for cell in cells]
            placed = [
                padded(text, room, right=column in right) for column, (text, room) in enumerate(zip(texts, widths, strict=True))
            ]
            lines.append(_GAP.join(placed).rstrip())
        for note in notes[number] if number < len(notes) else ():
            lines += [f"    {line}" for line in wrapped(note, width - 4, indent=2)]
    return "\n".join(lines)


def table_width(rows: Sequence[Sequence[str]]) -> int:
    """Return the columns that a table takes if nothing is shortened."""
    return sum(max(map(cell_width, column)) for column in zip(*rows, strict=True)) + len(_GAP) * (len(rows[0]) - 1)


def _fitted(widths: list[int], width: int, wrap: Sequence[int]) -> list[int]:
    """Take columns from the widest cells that may be narrower, one after the other."""
    excess = sum(widths) + len(_GAP) * (len(widths) - 1) - width
    while excess > 0:
        widest = max(range(len(widths)), key=lambda column: widths[column] - 8 * (column in wrap))
        if widths[widest] <= _MIN_WIDTH:
            break
        widths[widest] -= 1
        excess -= 1
    return widths
