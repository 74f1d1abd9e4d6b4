"""How much folding may add to a graph: a file of some bytes may ask for constants of any size."""

from __future__ import annotations

import weakref
from collections.abc import Sequence

from ..graph.descriptor import Array, Values
from ..graph.graph import Graph
from ..graph.held_arrays import owner_of
from ..graph.layer import Layer
from ..ground.limits import Budget, budget

FOLDED_BYTES = 1 << 25
"""What folding may add to any graph: masks and position tables of usual networks take some MiB."""
FOLDED_FACTOR = 4
"""What it may add besides, for each byte of constants that the graph has.

Reasons to add: int8 becomes float32, weights are transposed.
"""
_WORK_FACTOR = 64
"""Bytes that folding may read and write, for each that it may add.

Reading one constant a million times adds little.
"""
_MIN_ITEM = 4
"""Bytes counted for an element at least: what is worked out between is wider than one byte."""


class FoldingBudget:
    """What folding has added to one graph, and still may.

    Memory counts from the fold that made it until the last view of it is gone, whichever layers
    hold these.
    """

    def __init__(self) -> None:
        self._allowance: int | None = None
        self._held = 0
        self._work = 0
        self._made: dict[int, weakref.ref[Array]] = {}

    def begin(self, graph: Graph) -> None:
        """Note the constants that a graph has, unless this graph's are noted already."""
        if self._allowance is None:
            self._allowance = FOLDED_BYTES + FOLDED_FACTOR * graph.bytes_of_constants()

    def allows(self, layer: Layer, values: Values) -> bool:
        """Say whether a layer with known output shapes may be evaluated; else the run does it."""
        assert self._allowance is not None  # begin was called
        made = sum(info.elements * max(info.dtype.itemsize, _MIN_ITEM) for info in layer.output_infos)
        work = self._work + made + sum(value.nbytes for value in values if value is not None)
        return self._held + made <= self._allowance and work <= _WORK_FACTOR * self._allowance and budget().affords_memory(made)

    def count(self, what: str, made: Sequence[Array], values: Values) -> None:
        """Count the results of a fold.

        Raises:
            LimitError: The load may not take so much memory.
        """
        load = budget()
        read = [value for value in values if value is not None]
        self._work += sum(array.nbytes for array in (*read, *made))
        known = {id(owner_of(array)) for array in read}
        for owner in {id(owner): owner for owner in map(owner_of, made)}.values():
            if id(owner) not in known:
                load.take_memory(owner.nbytes, what)
                self._hold(owner, load)

    def _hold(self, owner: Array, load: Budget) -> None:
        number, nbytes = id(owner), owner.nbytes
        self._held += nbytes

        def gone(_: weakref.ref[Array]) -> None:
            del self._made[number]
            self._held -= nbytes
            load.give_memory(nbytes)

        self._made[number] = weakref.ref(owner, gone)
