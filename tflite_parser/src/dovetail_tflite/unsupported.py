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


class Untranslated(Unsupported):
    """An operator that nobody translates."""


class NotTranslated(Exception):
    """A subgraph has what dovetail does not have, which is noted; never leaves the parser."""


class Entry(TypedDict):
    """One row of `details["unsupported"]`."""

    op: str
    version: int
    node: str
    reason: str


def report(entries: Sequence[Entry], origin: str, untranslated: tuple[str, bool] | None = None) -> UnsupportedModelError:
    """Build the one error that lists everything.

    Args:
        entries: All of it.
        origin: The file.
        untranslated: Name of an operator that nobody translates, if one is among them, and whether
            it is a custom one.
    """
    lines = (f"{e['op']} (version {e['version']}), {e['node']!r}: {e['reason']}" for e in entries)
    hint = "convert the model without these, or cut the graph before them"
    if untranslated is not None:
        name, is_custom = untranslated
        shown = name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}..."
        hint += (
            "; or register a function that turns such an operator into layers: "
            f"@dovetail_tflite.{'custom' if is_custom else 'builtin'}_operator({shown!r}), as docs/your_own_operator.md shows"
        )
    return UnsupportedModelError.listing(origin, entries, lines, hint=hint)


_LONGEST_NAME = 80
