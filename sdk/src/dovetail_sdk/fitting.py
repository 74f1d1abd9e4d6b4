"""Fit tables into the width of a terminal, without breaking a word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dovetail.ground.foreign_text import printable

from .rendering import room, shortened, table

if TYPE_CHECKING:
    from rich.text import Text

_GAP = 3
"""Blanks between two columns of `rendering.table`."""
_EDGES = 2
"""Blanks left and right of it."""
_FLOOR = 12
"""Width down to which cells are shortened once no column can be left out any more."""


@dataclass(frozen=True)
class Column:
    """A column.

    Attributes:
        heading: What stands above it, and the key of its cells.
        right: Whether it is set flush right.
        least: The width down to which its cells may be shortened before columns are left out; None:
            they are not.
        leaves: In which turn it is left out where the width does not suffice; None: it never is.
    """

    heading: str
    right: bool = False
    least: int | None = None
    leaves: int | None = None


def fitted_table(columns: Sequence[Column], rows: Sequence[Mapping[str, str | Text]], width: int | None = None) -> Any:
    """Build a table that is at most so wide, if that can be.

    Columns whose cells are all empty are left out. Then those that may be shortened are, the widest
    first, then columns are left out, one after the other, and at last cells are shortened further.

    Args:
        columns: In their order.
        rows: Cells by heading.
        width: In characters; default that of standard output.
    """
    chosen, cells = fitted(columns, rows, room() if width is None else width)
    right = [column.heading for column in chosen if column.right]
    return table([column.heading for column in chosen], cells, right=right)


def fitted(
    columns: Sequence[Column], rows: Sequence[Mapping[str, str | Text]], width: int
) -> tuple[list[Column], list[tuple[str | Text, ...]]]:
    """Return the columns that there is room for, and the cells of each row."""
    chosen = [column for column in columns if any(row[column.heading] for row in rows) or column.least is not None]
    while True:
        widths = {c.heading: max([len(c.heading), *(_width_of(row[c.heading]) for row in rows)]) for c in chosen}
        space = width - _EDGES - _GAP * (len(chosen) - 1)
        leaving = [column for column in chosen if column.leaves is not None]
        if _shorten(widths, space, {c.heading: c.least for c in chosen if c.least is not None}) or not leaving:
            break
        chosen.remove(min(leaving, key=lambda column: column.leaves or 0))
    _shorten(widths, space, {c.heading: min(c.least, _FLOOR) for c in chosen if c.least is not None})
    return chosen, [tuple(_within(row[c.heading], widths[c.heading]) for c in chosen) for row in rows]


def _within(cell: str | Text, width: int) -> str | Text:
    return cell if _width_of(cell) <= width else shortened(printable(str(cell)), width)


def _width_of(cell: str | Text) -> int:
    """Return the columns that a cell takes as `rendering.table` shows it."""
    from rich.cells import cell_len

    return cell_len(printable(cell) if isinstance(cell, str) else cell.plain)


def _shorten(widths: dict[str, int], room: int, least: Mapping[str, int]) -> bool:
    """Make columns narrower, the widest first, until all fit; tell whether they do."""
    while sum(widths.values()) > room:
        able = [heading for heading, minimum in least.items() if widths[heading] > max(minimum, len(heading))]
        if not able:
            return False
        widths[max(able, key=lambda heading: widths[heading])] -= 1
    return True
