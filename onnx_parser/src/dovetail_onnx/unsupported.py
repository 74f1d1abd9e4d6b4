"""Report what a model asks for in vain: raised where met, collected over the model, told once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from dovetail import UnsupportedModelError


class Unsupported(Exception):
    """One operator, attribute or type that dovetail does not have; never leaves the parser.

    Args:
        reason: Why, as a sentence without its end.
        attribute: The attribute to blame.
    """

    def __init__(self, reason: str, *, attribute: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.attribute = attribute


class Untranslated(Unsupported):
    """An operator that nobody translates."""


class Entry(TypedDict):
    """One row of `details["unsupported"]`."""

    op: str
    domain: str
    opset: int
    node: str
    reason: str
    attribute: str | None


def report(entries: Sequence[Entry], origin: str, untranslated: tuple[str, str] | None = None) -> UnsupportedModelError:
    """Build the one error that lists everything.

    Args:
        entries: All of it.
        origin: The file.
        untranslated: Domain and name of an operator that nobody translates, if one is among them.
    """
    lines = (f"{e['op']} ({e['domain'] or 'ai.onnx'} {e['opset']}), node {e['node']!r}: {e['reason']}" for e in entries)
    hint = "export the model without these, or cut the graph before them"
    if untranslated is not None:
        domain, op = (name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}..." for name in untranslated)
        hint += (
            f"; or register a function that turns such a node into layers: @dovetail_onnx.operator({domain!r}, {op!r}), "
            "as docs/your_own_operator.md shows"
        )
    return UnsupportedModelError.listing(origin, entries, lines, hint=hint)


_LONGEST_NAME = 80
