"""Report what a model asks for in vain: raised where met, collected over the model, told once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from dovetail import UnsupportedModelError


class Unsupported(Exception):
    """One operator, option or type that dovetail does not have; never leaves the parser."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class NotTranslated(Exception):
    """A subgraph has what dovetail does not have, which is noted; never leaves the parser."""


class Entry(TypedDict):
    """One row of `details["unsupported"]`."""

    op: str
    version: int
    node: str
    reason: str


_MAX_LINES = 100
"""Things that the text of an error lists."""
_MAX_CHARACTERS = 10_000
"""Characters of all of them; names may be as long as a file wants."""
_LONGEST_LINE = 400


def report(entries: Sequence[Entry], origin: str) -> UnsupportedModelError:
    """Build the one error that lists everything."""
    lines: list[str] = []
    left = _MAX_CHARACTERS
    for e in entries[:_MAX_LINES]:
        line = f"  {e['op']} (version {e['version']}), {e['node']!r}: {e['reason']}"
        if len(line) > _LONGEST_LINE:
            line = f"{line[: _LONGEST_LINE - 3]}..."
        left -= len(line)
        if left < 0:
            break
        lines.append(line)
    if len(entries) > len(lines):
        lines.append(f"  and {len(entries) - len(lines)} more, all in details['unsupported']")
    count = f"{len(entries)} thing{'s' if len(entries) > 1 else ''}"
    return UnsupportedModelError(
        f"{origin} asks for {count} that dovetail does not have:\n" + "\n".join(lines),
        hint="convert the model without these, or cut the graph before them",
        unsupported=list(entries),
    )
