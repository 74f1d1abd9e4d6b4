"""How much a model becomes once its subgraphs stand in the place of their operators.

Subgraphs that call subgraphs that call subgraphs double with each level: some hundred bytes stand
for any number of operators.
"""

from __future__ import annotations

from functools import cached_property

from .flatbuffer import Table
from .malformed import malformed
from .model_file import ModelFile

_FREE_WORK = 1 << 16
"""Operators and tensors that they name, which any model may become; an operator has some four."""
_LEAST = 4
"""Bytes of a file that an operator or tensor takes, at least."""
_WORK_PER_STORED = 64
"""How many more for each that the file holds: one subgraph may be most of it, and used as often."""


class Expansion:
    """Counts what the subgraphs become.

    Args:
        file: The model.
    """

    def __init__(self, file: ModelFile) -> None:
        self._file = file
        self._work = 0
        self._of: dict[int, int] = {}

    def count(self, index: int) -> None:
        """Count a subgraph that is about to be translated in the place of an operator.

        Raises:
            ModelError: They are many times what the file holds.
        """
        self._work += self._of_subgraph(index)
        if self._work > self._allowed:
            raise malformed(
                f"{self._file.origin} becomes many times larger than its file when its subgraphs are put in place: "
                f"{self._work} operators and their tensors, and {self._allowed} are allowed for a file of its size",
                hint="its subgraphs call each other over and over; convert it without composites",
            )

    @cached_property
    def _allowed(self) -> int:
        stored, most = 0, len(self._file.source.data) // _LEAST
        for index in range(len(self._file.subgraphs)):
            stored += self._of_subgraph(index)
            if stored >= most:  # entries that lead to the same subgraph are no more of it
                break
        return _FREE_WORK + _WORK_PER_STORED * min(stored, most)

    def _of_subgraph(self, index: int) -> int:
        if index not in self._of:
            subgraph = self._file.subgraphs[index]
            operators = subgraph.tables("operators")
            self._of[index] = _work_of(subgraph) + sum(_work_of(operators[place]) for place in range(len(operators)))
        return self._of[index]


def _work_of(table: Table) -> int:
    """Return the work of an operator alone, or of a subgraph: even an empty one is some."""
    return 1 + len(table.vector("inputs")) + len(table.vector("outputs"))
