"""Lay out what came of each of many files, a line for each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from dovetail.ground.cell_widths import cell_width, padded
from dovetail.ground.foreign_text import printable

from .many_runs import Outcome


class Lines:
    """Lays out a line for each file.

    Args:
        files: All files.
        kind: What the scores are; empty without classes.
        width: Columns that a line may have.
    """

    def __init__(self, files: Sequence[Path], kind: str, width: int) -> None:
        folders = {path.parent for path in files}
        self._names = {path: printable(path.name if len(folders) == 1 else str(path)) for path in files}
        self._kind = kind
        self._room = width
        self._wide = min(max(len("file"), *map(cell_width, self._names.values())), max(16, width // 3))

    @property
    def heading(self) -> str:
        """The line above the others."""
        return self._line("file", self._kind, "class") if self._kind else ""

    def of(self, outcome: Outcome) -> list[str]:
        """Return the line of a file; several if several classes or outputs are to be shown."""
        from .rendering import broken, shortened

        name = padded(shortened(self._names[outcome.path], self._wide), self._wide)
        if outcome.error:
            return broken(f"{name}  failed: {outcome.error}", self._wide + 2)
        if outcome.detections is not None:
            found = ", ".join(f"{one.label} {one.score:.2f}" for one in outcome.detections) or "nothing"
            lines = [self._cut(f"{name}  {found}")]
        else:
            lines = self._of_answers(outcome, name) or [f"{name}  {outcome.seconds * 1e3:.3g} ms"]
        return [*lines, *(self._cut(f"{' ' * self._wide}  {note}") for note in outcome.notes)]

    def _of_answers(self, outcome: Outcome, name: str) -> list[str]:
        several = len(outcome.answers) > 1
        lines: list[str] = []
        for answers in outcome.answers:
            for row in answers.rows:
                for answer in row:
                    label = "no class" if math.isnan(answer.score) else answer.label or f"class {answer.number}"
                    shown = f"{answers.output}: {label}" if several else label
                    lines.append(self._line("" if lines else name, f"{answer.score:.4g}", shown))
        return lines

    def _line(self, name: str, score: str, label: str) -> str:
        return self._cut(f"{padded(name, self._wide)}  {score:>{max(10, len(self._kind))}}  {label}")

    def _cut(self, line: str) -> str:
        from .rendering import cut

        return cut(line.rstrip(), self._room)
