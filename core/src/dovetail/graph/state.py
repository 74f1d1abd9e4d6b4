"""What a network remembers from one run to the next."""

from __future__ import annotations

from ..ground.records import Record
from .descriptor import Array


class State(Record, frozen=True):
    """A tensor that a run reads as the run before left it.

    In the graph it is an input and an output; whoever runs the network joins them.

    Attributes:
        name: Of the input.
        output: Name of the output that has the next value.
        initial: What the first run reads; None: zeros, which are zero points of integers that stand
            for real numbers.
    """

    name: str
    output: str
    initial: Array | None = None
