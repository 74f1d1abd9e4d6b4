"""Take the branches that conditions name, and compute both where only the run knows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...graph.descriptor import Constant, Descriptor, Input
from ...graph.element_types import DType
from ...graph.graph import Graph
from ...graph.layer import InputSlot, Layer, OutputSlot
from ...ground.errors import DovetailError, ErrorCode, GraphError, LoadTimeoutError
from ...ground.limits import budget
from ...ground.records import NamedTuple
from ...layers import Conditional, Gather, Reshape, Where
from ..rewriting import bypass, inputs_behind, prune, reconnect, value_required

_MAX_SWITCHES = 3
"""Single bools for each of whose values a plan is made.

At most two to the power of this many plans are kept.
"""
_MAX_REASON = 200
"""Characters of what is wrong with a branch that the error of a run which takes it repeats."""

Advance = Callable[[Graph, Layer], bool]
"""Resolves, infers and folds one layer whose inputs are done; True if that changed the graph."""


class Branches:
    """Work a graph out from its results to its inputs, never looking at branches not taken.

    What leads to a branch alone may be wrong for sizes or values with which the other one is taken.

    Args:
        graph: The graph, which is changed.
        advance: What is done with each layer that is needed.
        both: Take both branches wherever they are alike, even where the value of an input is to
            decide.
    """

    def __init__(self, graph: Graph, advance: Advance, *, both: bool = False) -> None:
        self._graph = graph
        self._advance = advance
        self._both = both
        self._done: set[Layer] = set()
        self._open: dict[Layer, None] = {}
        self._failing: dict[Layer, tuple[int, str]] = {}
        self._switches: dict[Layer, frozenset[str] | None] = {}

    def settle(self) -> int:
        """Do it all; returns the number of changes.

        Raises:
            GraphError: As `InferAndFold`. `VALUE_REQUIRED` also where the value of inputs decides
                between branches, and these differ or one of them fails, or where these are single
                bools: then only the branch that is taken is planned. Where nothing that is known
                before the run decides, only a run that takes a branch that fails does so.
        """
        changes = sum(self._demand(layer) for layer in self._graph.outputs)
        for layer in reversed(self._graph.topological_order()):
            if layer not in self._done and not isinstance(layer.descriptor, Input):
                self._graph.remove(layer)  # which leads to no result, or to a branch that is not taken
                changes += 1
        for layer in self._graph.inputs:  # those that nobody reads any more included
            self._advance(self._graph, layer)
        return changes + compute_both(self._graph, [layer for layer in self._open if _is_in(self._graph, layer)])

    def _demand(self, wanted: Layer) -> int:
        """Bring a layer up, with all that it needs.

        There is no recursion, since a network may be a thousand layers deep.
        """
        changes, stack, load = 0, [wanted], budget()
        while stack:
            layer = stack[-1]
            if layer in self._done or not _is_in(self._graph, layer):
                stack.pop()
                continue
            load.check_time()
            try:
                pending = self._decide(layer) if isinstance(layer.descriptor, Conditional) else self._missing(layer)
                if pending:
                    stack += pending
                elif _is_in(self._graph, layer):
                    changes += self._finish(layer)
                else:
                    changes += 1
            except DovetailError as error:
                decided = self._decided_by_inputs(error, stack)
                if decided is not None:
                    raise self._value_required(decided, error) from error
                if not self._leave_to_the_run(error, stack):
                    raise
        return changes

    def _finish(self, layer: Layer) -> bool:
        """Advance a layer whose inputs are done."""
        self._switches[layer] = self._switches_behind(layer)
        changed = self._advance(self._graph, layer)
        if self._open and _is_in(self._graph, layer):
            self._check_memory(layer)
        self._done.add(layer)
        return changed

    def _check_memory(self, layer: Layer) -> None:
        """Refuse results that no run could hold, before they are planned.

        They may belong to the branch that is not taken.
        """
        for slot in layer.outputs:
            if slot.info is not None:
                budget().check_memory(slot.info.nbytes, f"tensor {slot.name!r}")

    def _switches_behind(self, layer: Layer) -> frozenset[str] | None:
        """Name the inputs on which a layer depends, if these are few single bools; else None."""
        if isinstance(layer.descriptor, Input):
            info = layer.output.known_info
            return frozenset({layer.name}) if info.dtype is DType.BOOL and info.elements == 1 else None
        found: frozenset[str] = frozenset()
        for slot in layer.inputs:
            behind = frozenset() if slot.source is None else self._switches[slot.source.layer]
            if behind is None or len(behind | found) > _MAX_SWITCHES:
                return None
            found |= behind
        return found

    def _missing(self, layer: Layer, first: int = 0, last: int | None = None) -> list[Layer]:
        sources = [slot.source.layer for slot in layer.inputs[first:last] if slot.source is not None]
        return [source for source in sources if source not in self._done]

    def _decide(self, layer: Layer) -> list[Layer]:
        """Replace a conditional by the branch taken, or return what must be brought up first."""
        pending = self._missing(layer, 0, 1)
        if pending:
            return pending
        condition, slot = layer.constant(0), layer.inputs[0].source
        if condition is not None and condition.size == 1:
            taken, other = (1, 2) if condition.reshape(-1)[0] else (2, 1)
            left = layer.inputs[other].source
            _feed_alone(self._graph, layer, taken)
            bypass(self._graph, layer)
            prune(self._graph, [None if left is None else left.layer])
            return []
        self._open[layer] = None
        if layer in self._failing:
            return self._missing(layer, 1) or self._guard(layer)
        if slot is not None and self._switches[slot.layer] and not self._both and _deciding(layer):
            raise self._value_required(layer)
        pending = self._missing(layer, 1, 2) or self._missing(layer, 2)
        if not pending and layer.inputs[1].info != layer.inputs[2].info:
            raise self._differing(layer)
        return pending

    def _decided_by_inputs(self, error: DovetailError, stack: list[Layer]) -> Layer | None:
        """Return the outermost conditional that needs what is wrong.

        It counts only if the value of inputs may take its other branch.
        """
        if isinstance(error, LoadTimeoutError) or (error.code is ErrorCode.VALUE_REQUIRED and error.details.get("inputs")):
            return None
        return next((layer for layer in stack if self._is_open(layer) and _deciding(layer)), None)

    def _is_open(self, layer: Layer) -> bool:
        return layer in self._open and layer not in self._done

    def _leave_to_the_run(self, error: DovetailError, stack: list[Layer]) -> bool:
        """Cut off a branch with an error where only the run knows whether it is taken.

        Returns:
            False if there is none, or if it is no fault of the network.
        """
        if isinstance(error, LoadTimeoutError) or error.code in (ErrorCode.VALUE_REQUIRED, ErrorCode.SHAPE_UNKNOWN):
            return False
        for position in reversed(range(len(stack))):
            layer = stack[position]
            if not self._is_open(layer) or layer in self._failing or self._missing(layer, 0, 1):
                continue
            branch = 1 if self._missing(layer, 1, 2) else 2
            left = layer.inputs[branch].source
            if left is None or left.layer in self._done:
                return False
            self._failing[layer] = branch, error.message
            del stack[position + 1 :]
            self._graph.disconnect(layer.inputs[branch])
            prune(self._graph, [left.layer])
            return True
        return False

    def _guard(self, layer: Layer) -> list[Layer]:
        """Replace a conditional by its sound branch, guarded against the other one.

        In front stands a position that is out of range when the other branch is taken.
        """
        branch, reason = self._failing[layer]
        condition, sound = layer.inputs[0].source, layer.inputs[3 - branch].source
        assert condition is not None  # both are required, and done
        assert sound is not None
        graph, sources = self._graph, layer.sources
        made = [graph.add(Reshape(shape=()), condition, name=f"{layer.name}.condition", sources_of=sources)]
        taken = (np.int64(1), np.int64(0)) if branch == 1 else (np.int64(0), np.int64(1))
        made.append(graph.add(Where(), made[0].output, *taken, name=f"{layer.name}.taken", sources_of=sources))
        name = f"{layer.name}, branch {layer.descriptor.input_names[branch]!r} cannot run: {reason[:_MAX_REASON]}"
        made.append(graph.add(Gather(), np.zeros(1, np.bool_), made[1].output, name=name, sources_of=sources))
        readers = list(layer.output.consumers)
        for reader in readers:
            graph.disconnect(reader)
        graph.remove(layer)
        chosen = graph.add(Where(), made[-1].output, sound, sound, name=layer.name, sources_of=sources)
        for reader in readers:
            graph.connect(chosen.output, reader)
        for one in (*made, chosen):
            for source in self._missing(one):  # the constants among its inputs
                self._finish(source)
            self._finish(one)
        return []

    def _differing(self, layer: Layer) -> GraphError:
        then, other = layer.inputs[1].info, layer.inputs[2].info
        return GraphError(
            f"layer {layer.name!r} ({layer.kind}) has branches that give {then} and {other}, and its condition is computed by "
            "what the core does not evaluate",
            code=ErrorCode.SHAPE_UNKNOWN,
            hint="export the model with branches whose results are alike, or with one of them alone",
            layer=layer.name,
        )

    def _value_required(self, layer: Layer, error: DovetailError | None = None) -> GraphError:
        inputs = _deciding(layer)
        why = "" if error is None else f"; both cannot be computed: {error.message}"
        text = (
            f"which branch layer {layer.name!r} ({layer.kind}) takes depends on the value of the graph input "
            f"{', '.join(map(repr, inputs))}{why}"
        )
        return value_required(text, inputs, layer)


def _deciding(layer: Layer) -> list[str]:
    """Name the graph inputs on which the condition of a conditional depends."""
    condition = layer.inputs[0].source
    return [] if condition is None or not _can_be_known(condition) else inputs_behind([condition])


def _can_be_known(slot: OutputSlot) -> bool:
    """Say whether the core computes a slot once the inputs behind it are known."""
    seen: set[Layer] = set()
    waiting = [slot.layer]
    while waiting:
        layer = waiting.pop()
        if layer in seen or isinstance(layer.descriptor, Input | Constant):
            continue
        if type(layer.descriptor).evaluate is Descriptor.evaluate and not isinstance(layer.descriptor, Conditional):
            return False
        seen.add(layer)
        waiting.extend(slot.source.layer for slot in layer.inputs if slot.source is not None)
    return True


def _is_in(graph: Graph, layer: Layer) -> bool:
    return layer.name in graph and graph.layer(layer.name) is layer


def _feed_alone(graph: Graph, layer: Layer, index: int) -> None:
    """Make the first input of a layer read what another one reads, and free all others."""
    source = layer.inputs[index].source
    for slot in layer.inputs:
        graph.disconnect(slot)
    if source is not None:
        graph.connect(source, layer.inputs[0])


class _Side(NamedTuple):
    """One branch of all conditionals of one condition: 1 where it holds, else 2."""

    condition: OutputSlot
    branch: int


def compute_both(graph: Graph, conditionals: list[Layer]) -> int:
    """Turn conditionals whose branches are alike into a choice between the results.

    What is read by one branch alone is run although the other may be the one that is taken, and
    must not fail then: inputs that could make it fail, such as positions out of range, become 0
    meanwhile.
    """
    scalars: dict[OutputSlot, OutputSlot] = {}
    for side, layers in _alone(conditionals).items():
        for layer in layers:
            values = [layer.constant(index) for index in range(len(layer.inputs))]
            for index in layer.descriptor.checked_inputs(layer.input_infos, values):
                _shield(graph, layer.inputs[index], side, scalars)
    for layer in conditionals:
        condition, then, other = (slot.source for slot in layer.inputs)
        if condition is None or then is None or other is None:
            continue
        scalar, readers = _scalar(graph, condition, scalars), list(layer.output.consumers)
        for reader in readers:
            graph.disconnect(reader)
        graph.remove(layer)
        chosen = graph.add(Where(), scalar, then, other, name=layer.name, sources_of=layer.sources)
        for reader in readers:
            graph.connect(chosen.output, reader)
    return len(conditionals)


def _shield(graph: Graph, target: InputSlot, side: _Side, scalars: dict[OutputSlot, OutputSlot]) -> None:
    """Let an input be zeros while the other branch is taken."""
    source = target.source
    if source is None:
        return
    zero = np.zeros((), source.known_info.dtype.numpy)
    choice = (source, zero) if side.branch == 1 else (zero, source)
    layer = target.layer
    shield = graph.add(
        Where(), _scalar(graph, side.condition, scalars), *choice, name=f"{layer.name}.shield", sources_of=layer.sources
    )
    reconnect(graph, target, shield.output)


def _scalar(graph: Graph, condition: OutputSlot, scalars: dict[OutputSlot, OutputSlot]) -> OutputSlot:
    """Return a condition of rank 0, which changes no shape that it is broadcast to."""
    if condition not in scalars:
        plain = condition.known_info.rank == 0
        scalars[condition] = (
            condition if plain else graph.add(Reshape(shape=()), condition, name=f"{condition.name}.scalar").output
        )
    return scalars[condition]


def _alone(conditionals: list[Layer]) -> dict[_Side, list[Layer]]:
    """Return the layers that are read by one branch alone, by branch."""
    entries: dict[_Side, list[InputSlot]] = {}
    for layer in conditionals:
        condition = layer.inputs[0].source
        for slot in layer.inputs[1:]:
            if condition is not None:
                entries.setdefault(_Side(condition, slot.index), []).append(slot)
    found = {}
    for side, waiting in entries.items():
        others: dict[Layer, int] = {}
        layers, counted = [], set(waiting)
        while waiting:
            source = waiting.pop().source
            if source is None:
                continue
            layer = source.layer
            others[layer] = others.get(layer, sum(len(slot.consumers) for slot in layer.outputs)) - 1
            if others[layer] == 0:
                layers.append(layer)
                # One conditional in the branch of another may have the same condition: its edge is
                # there already.
                fresh = [slot for slot in layer.inputs if slot not in counted]
                counted.update(fresh)
                waiting += fresh
        found[side] = layers
    return found
