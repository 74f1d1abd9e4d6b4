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


def report(entries: Sequence[Entry], origin: str) -> UnsupportedModelError:
    """Build the one error that lists everything."""
    lines = (f"{e['op']} ({e['domain'] or 'ai.onnx'} {e['opset']}), node {e['node']!r}: {e['reason']}" for e in entries)
    return UnsupportedModelError.listing(
        origin, entries, lines, hint="export the model without these, or cut the graph before them"
    )
