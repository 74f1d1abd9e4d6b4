"""What a pass is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from ...graph.graph import Graph


class Pass(ABC):
    """One rewriting of a graph, which keeps every info right.

    It holds settings, never state between runs.

    Class attributes:
        name: Name in the placement report.
    """

    name: ClassVar[str]

    @abstractmethod
    def run(self, graph: Graph) -> int:
        """Rewrite the graph in place and return the number of changes.

        What was replaced leaves the graph.
        """
