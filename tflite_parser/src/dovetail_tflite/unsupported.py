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


def report(entries: Sequence[Entry], origin: str) -> UnsupportedModelError:
    """Build the one error that lists everything."""
    lines = (f"{e['op']} (version {e['version']}), {e['node']!r}: {e['reason']}" for e in entries)
    return UnsupportedModelError.listing(
        origin, entries, lines, hint="convert the model without these, or cut the graph before them"
    )
