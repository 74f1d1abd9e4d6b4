"""Report what a model asks for in vain: raised where met, collected over the model, told once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from dovetail import UnsupportedModelError


class Unsupported(Exception):
    """One operator, attribute or type that dovetail does not have; never leaves the parser."""

    def __init__(self, reason: str, *, attribute: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.attribute = attribute


class Entry(TypedDict):
    """One row of `details["unsupported"]`."""

    op: str
    domain: str
    opset: int
    node: str
    reason: str
    attribute: str | None


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
        line = f"  {e['op']} ({e['domain'] or 'ai.onnx'} {e['opset']}), node {e['node']!r}: {e['reason']}"
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
        hint="export the model without these, or cut the graph before them",
        unsupported=list(entries),
    )
