"""Have layers of constants computed that the core cannot evaluate itself.

The optimizer knows neither who computes them nor how: whoever starts a compilation hands in an
evaluator.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from time import monotonic
from typing import Protocol

from ..graph.descriptor import Array, Constant, Descriptor, Input, Output, Values
from ..graph.graph import Graph
from ..graph.layer import Layer
from ..ground.pieces import in_order
from ..ground.records import NamedTuple
from .core_kinds import Debug, MemoryCopy
from .folding import FoldingBudget
from .reports import ConstantsReport, LeftReport

HOUSE = "dovetail."
"""Namespace of the kinds of which it is known that they have no state and no effect.

What somebody else's kind does nobody promises: a run may draw random numbers, or count.
"""
FOLDED_MACS = 1 << 30
"""Multiply-accumulates that one layer may take: some seconds of a plain loop.

A file of some bytes may ask for any number, and a run that does them fast has been paid for once.
"""
PATIENCE = 30.0
"""Seconds that the layers of constants of one compilation may take, all together.

How long a layer takes depends on who computes it: no measure of its work is right for all. A load
without a deadline must end nevertheless; what it leaves to the runs their callers may bound.
"""
_MAX_FAILURES = 3
"""After so many an evaluator's backend is not asked again: each may have cost a process."""
_NEVER = (Input, Output, Debug, MemoryCopy)


class Evaluation(NamedTuple):
    """What became of a layer that was to be computed.

    Attributes:
        arrays: Its outputs, in order; None if nobody computed them.
        by: Who did: name and version.
        reasons: What those said that did not, in sentences.
        failed: Names of those that failed rather than refused.
    """

    arrays: Sequence[Array] | None = None
    by: str = ""
    reasons: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


class ConstantEvaluator(Protocol):
    """Computes layers while a network is optimized."""

    def evaluate(self, layer: Layer, barred: Collection[str], seconds: float) -> Evaluation:
        """Compute a layer, all of whose connected inputs are constants.

        The layer must not be changed. Only what the host or the limits of the load raise may leave
        it: whatever goes wrong with a backend is a reason.

        Args:
            layer: Its infos are known and concrete.
            barred: Names, as in `Evaluation.failed`, that are not to be asked.
            seconds: How long it may take; what takes longer failed.
        """
        ...


class ConstantLayers:
    """Layers of constants in one compilation: what was computed, by whom, and what was left.

    Args:
        evaluator: Computes them.
        folding: How much they may add to the graph, together with what the core evaluates.
    """

    def __init__(self, evaluator: ConstantEvaluator, folding: FoldingBudget) -> None:
        self._evaluator = evaluator
        self._folding = folding
        self._computed: dict[str, list[str]] = {}
        self._left: dict[str, tuple[tuple[str, ...], str]] = {}
        self._failures: dict[str, int] = {}
        self._seconds = PATIENCE  # that are left
        self._behind: dict[str, str] = {}  # inputs whose values are given, by the names of layers that they reach

    def begin(self, graph: Graph, given: Iterable[str]) -> None:
        """Note what depends on inputs whose values are given, before these become constants.

        A run may have brought them, and it chose the backends that are to compute its results.

        Args:
            graph: As it was made.
            given: Names of those inputs.
        """
        names = set(given)
        for source in [layer for layer in graph.inputs if layer.name in names] if names else ():
            waiting, seen = [source], {source}
            while waiting:
                for reader in (slot.layer for output in waiting.pop().outputs for slot in output.consumers):
                    if reader not in seen:
                        seen.add(reader)
                        waiting.append(reader)
                        self._behind |= dict.fromkeys(reader.sources, source.name)

    def evaluate(self, layer: Layer, values: Values) -> list[Array] | None:
        """Return the outputs of a layer of constants, contiguous; None if a run is to compute it.

        Args:
            layer: Its infos are known and concrete.
            values: Of its inputs, None where one is not connected.

        Raises:
            LimitError: The load takes too long, or too much memory.
        """
        descriptor = layer.descriptor
        if isinstance(descriptor, _NEVER) or descriptor.kind == "dovetail.Conditional":
            return None
        self._left.pop(layer.name, None)
        reason = self._objection(layer, values)
        if reason:
            self._left[layer.name] = layer.sources, reason
            return None
        barred = [name for name, count in self._failures.items() if count >= _MAX_FAILURES]
        began = monotonic()
        try:
            found = self._evaluator.evaluate(layer, barred, self._seconds)
        finally:
            self._seconds -= monotonic() - began
        for name in found.failed:
            self._failures[name] = self._failures.get(name, 0) + 1
        if found.arrays is None:
            self._left[layer.name] = layer.sources, "; ".join(found.reasons)
            return None
        self._computed.setdefault(found.by, []).append(layer.name)
        return [in_order(array) for array in found.arrays]

    def reports(self) -> tuple[ConstantsReport, ...]:
        """Tell who computed which layers."""
        return tuple(ConstantsReport(by, tuple(names)) for by, names in self._computed.items())

    def left(self, order: Iterable[Layer]) -> tuple[LeftReport, ...]:
        """Tell of the layers of constants that runs compute, of those that something stands for."""
        if not self._left:
            return ()
        several = {id(layer.sources): layer.sources for layer in order if not isinstance(layer.descriptor, Constant)}
        standing = {name for sources in several.values() for name in sources}
        return tuple(LeftReport(name, why) for name, (sources, why) in self._left.items() if not standing.isdisjoint(sources))

    @property
    def failed(self) -> bool:
        """Whether a layer was left because something failed or was late.

        That may go well another time.
        """
        return bool(self._failures) or self._seconds <= 0

    def _objection(self, layer: Layer, values: Values) -> str:
        """Say why nobody is asked to compute a layer; empty if somebody is."""
        if not layer.kind.startswith(HOUSE):
            return f"nobody promises that {layer.kind} computes the same each time"
        if self._seconds <= 0:
            return f"the constants before it took {PATIENCE:g} s, and a load waits no longer for them"
        behind = next((self._behind[name] for name in layer.sources if name in self._behind), None)
        if behind is not None:
            return f"it depends on the value that is given for the input {behind!r}"
        if not self._folding.allows(layer, values):
            return "its result is larger than what folding may add to a network"
        descriptor = layer.descriptor
        if type(descriptor).macs is not Descriptor.macs:
            macs = descriptor.macs(layer.input_infos, layer.output_infos)
            if macs > FOLDED_MACS:
                return f"it takes {macs} multiply-accumulates, and at most {FOLDED_MACS} are done for a constant"
        return ""
