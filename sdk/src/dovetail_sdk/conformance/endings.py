"""How a check ends other than by passing, and what a run tells while it goes on."""

from __future__ import annotations

from typing import Any, TypeAlias

Event: TypeAlias = dict[str, Any]
"""What happened in a check, as plain data that child processes send line by line.

There are "step", "note", "count", "case" and "end"."""


class ConformanceFailure(Exception):
    """The backend does not conform; the text says what was found and what was expected.

    Args:
        text: A sentence, or several lines.
        facts: The numbers behind it, by name, for the machine-readable report.
    """

    def __init__(self, text: str, **facts: Any) -> None:
        super().__init__(text)
        self.text = text
        self.facts = facts


class NotApplicable(Exception):
    """The backend promises nothing that this check could look at; the text says what is missing."""


class BudgetExhausted(Exception):
    """The time of the whole run is over; the text says which part of the check was not run."""
