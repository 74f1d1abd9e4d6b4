"""What is known of slots before sizes are fixed.

That is element types, shapes whose sizes are expressions, and small values.

The kinds themselves infer it: `Descriptor.resolve`, `infer` and `evaluate` take expressions for
sizes, and arrays of them (of dtype object) for values such as the target of a reshape. Nobody says
twice what a kind does, and a kind from outside takes part. One that cannot answer for symbols may
raise anything: then its shape is unknown, and so is what follows from it.

Nothing is written to the graph: `OutputSlot.info` is what holds for sizes that are fixed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ..ground.errors import GraphError
from ..ground.host_exceptions import is_of_host
from ..ground.limits import budget
from ..ground.records import NamedTuple
from .descriptor import Constant, Descriptor, Input, Values, evaluated
from .element_types import DType
from .expressions import Expression, symbol, unknown_integer, unknown_size
from .graph import Graph
from .layer import Layer, OutputSlot
from .size_rules import are_symbolic, equal
from .tensor import TensorInfo
from .topology import cycle_error

_Array: TypeAlias = npt.NDArray[Any]

_FOLD_LIMIT = 1 << 20
"""Most elements of a value that is worked out; larger ones are the optimizer's business."""
_KEPT_LIMIT = 1 << 22
"""Most elements of all such values together.

Each is remembered, and a file of some bytes may ask for any number of them.
"""
_SHAPE_LIKE = 64
"""Elements that a shape, a list of axes or a scale may have; these are worked out in any case."""
_TRIED_RANKS = range(7)
"""Ranks with which a kind is asked what it infers of an input of unknown rank.

Also the lengths of a shape of unknown length.
"""


class Known(NamedTuple):
    """What is known of a slot.

    Attributes:
        dtype: None: nothing is known.
        info: Its sizes are numbers or expressions; None: not even the rank is known.
    """

    dtype: DType | None = None
    info: TensorInfo | None = None


_NOTHING = Known()


class SymbolicInference:
    """Answers about the slots of a graph, remembered, so that a chain is walked once.

    What is asked after the graph was changed may be answered by what it was before: make a new one
    then.

    Whatever is asked of a slot in or behind a cycle raises `GraphError` (`GRAPH_CYCLE`).
    """

    def __init__(self) -> None:
        self._known: dict[OutputSlot, Known] = {}
        self._resolved: dict[Layer, Descriptor] = {}
        self._values: dict[OutputSlot, _Array | None] = {}
        self._declared: dict[OutputSlot, int] = {}
        self._kept = 0

    def declare_rank(self, slot: OutputSlot, rank: int) -> None:
        """Note a rank that is stated elsewhere, for where it does not follow from the layers."""
        self._declared[slot] = rank

    def dtype(self, slot: OutputSlot) -> DType | None:
        """Return the element type, or None where a kind from outside does not tell."""
        return slot.info.dtype if slot.info is not None else self._of(slot).dtype

    def info(self, slot: OutputSlot) -> TensorInfo | None:
        """Return the info, with numbers or expressions as sizes; None if the rank is unknown."""
        return self._of(slot).info

    def rank(self, slot: OutputSlot) -> int | None:
        """Return the rank, or None."""
        info = slot.info or self._of(slot).info
        return None if info is None else info.rank

    def size(self, slot: OutputSlot, axis: int) -> int | None:
        """Return the size of one axis if it is a number, or None."""
        info = slot.info or self._of(slot).info
        if info is None or not -info.rank <= axis < info.rank:
            return None
        size = info.shape[axis]
        return size if isinstance(size, int) else None

    def value(self, slot: OutputSlot) -> _Array | None:
        """Return the value if neither inputs nor symbols decide it, or None.

        bfloat16 shows as its bits.
        """
        if isinstance(slot.layer.descriptor, Constant):
            return slot.layer.descriptor.value
        self._work_out(slot, wants_value=True)
        value = self._values[slot]
        return None if value is None or value.dtype == object else value

    # -- the order of work -------------------------------------------------------------------------

    def _of(self, slot: OutputSlot) -> Known:
        if slot not in self._known:
            self._work_out(slot, wants_value=False)
        return self._known[slot]

    def _work_out(self, slot: OutputSlot, *, wants_value: bool) -> None:
        """Work out one slot, with what that needs first.

        There is no recursion, since a network may be a thousand layers deep.
        """
        stack: list[tuple[OutputSlot, bool]] = [(slot, wants_value)]
        begun: dict[tuple[OutputSlot, bool], None] = {}  # each needs the next: all are on the stack
        load = budget()
        while stack:
            current, is_value = stack[-1]
            if current in (self._values if is_value else self._known):
                begun.pop(stack.pop(), None)
                continue
            load.check_time()
            pending = self._pending(current, is_value=is_value)
            if pending:
                begun[stack[-1]] = None
                for one in pending:
                    if one in begun:
                        raise _cycle([current for current, _ in begun], one[0])
                stack += pending
            elif is_value:
                self._find_values(current.layer)
            else:
                self._find_infos(current.layer)

    def _pending(self, slot: OutputSlot, *, is_value: bool) -> list[tuple[OutputSlot, bool]]:
        layer = slot.layer
        descriptor = layer.descriptor
        needed: list[tuple[OutputSlot, bool]] = []
        if is_value:
            needed.append((slot, False))
            if self._may_have_value(slot):
                needed += [(source, True) for source in _sources(layer)]
        elif slot.info is None:
            for source in _sources(layer):
                if isinstance(source.layer.descriptor, Constant) and source.info is not None:
                    self._known[source] = Known(source.info.dtype, source.info)
                else:
                    needed.append((source, False))
            needed += [(source, True) for source in _sources(layer, descriptor.value_inputs)]
        return [(one, wanted) for one, wanted in needed if one not in (self._values if wanted else self._known)]

    def _may_have_value(self, slot: OutputSlot) -> bool:
        """Say whether it is worth while to look at what a layer reads.

        Most layers compute what only a run knows.
        """
        descriptor = slot.layer.descriptor
        if isinstance(descriptor, Input | Constant) or type(descriptor).evaluate is Descriptor.evaluate:
            return False
        if slot not in self._known:
            return False  # asked again when it is
        info = self._known[slot].info
        return info is not None and info.is_concrete and info.elements <= _FOLD_LIMIT

    # -- infos -------------------------------------------------------------------------------------

    def _find_infos(self, layer: Layer) -> None:
        found = self._inferred(layer)
        for slot, known in zip(layer.outputs, found, strict=True):
            declared = self._declared.get(slot)
            if known.info is None and known.dtype is not None and declared is not None:
                known = Known(known.dtype, TensorInfo(_unknown_sizes(declared), known.dtype, slot.quantization))
            self._known[slot] = known

    def _inferred(self, layer: Layer) -> list[Known]:
        if all(slot.info is not None for slot in layer.outputs):
            return [Known(slot.dtype, _symbolic(slot.known_info)) for slot in layer.outputs]
        inputs = [_NOTHING if slot.source is None else self._known[slot.source] for slot in layer.inputs]
        values = [
            None if _is_unread(slot.source) and index not in layer.descriptor.value_inputs else self._value_read(layer, index)
            for index, slot in enumerate(layer.inputs)
        ]
        open_inputs = [
            index for index, slot in enumerate(layer.inputs) if slot.source is not None and inputs[index].info is None
        ]
        open_values = [
            index
            for index in layer.descriptor.value_inputs
            if index < len(layer.inputs) and layer.inputs[index].source is not None and values[index] is None
        ]
        if not open_inputs and not open_values:
            infos = self._infos_with(layer, [known.info for known in inputs], values)
            if infos is not None:
                return [Known(info.dtype, info) for info in infos]
            return self._types_alone(layer, inputs)
        return self._common(layer, inputs, values, open_inputs, open_values)

    def _value_read(self, layer: Layer, index: int) -> _Array | None:
        """Return the value of an input.

        One that shapes the result, but is not known, becomes as many unknown integers.
        """
        source = layer.inputs[index].source
        if source is None:
            return None
        if isinstance(source.layer.descriptor, Constant):
            return source.layer.descriptor.value
        value = self._values.get(source)
        if value is not None or index not in layer.descriptor.value_inputs:
            return value
        info = self._known[source].info
        if info is None or info.rank > 1 or not info.is_concrete or info.elements > _SHAPE_LIKE:
            return None
        return _unknown_integers(info.sizes)

    def _infos_with(self, layer: Layer, infos: Sequence[TensorInfo | None], values: Values) -> list[TensorInfo] | None:
        """Ask the kind; None if it has no answer, for these sizes at least."""
        try:
            resolved = layer.descriptor.resolve(infos, values)
            kept = [slot.source is not None and i not in layer.descriptor.value_inputs for i, slot in enumerate(layer.inputs)]
            count = max((i + 1 for i, is_kept in enumerate(kept) if is_kept), default=0)
            read = [info if is_kept else None for info, is_kept in zip(infos, kept, strict=True)]
            found = [
                info if slot.quantization is None else info.with_quantization(slot.quantization)
                for slot, info in zip(layer.outputs, resolved.infer(read[:count]), strict=True)
            ]
            for info in found:
                info.check()
                if not all(isinstance(size, int | Expression) for size in info.shape):
                    return None
        except Exception as error:
            if is_of_host(error):
                raise
            return None  # What is wrong shows, with its layer, where the graph itself infers.
        self._resolved[layer] = resolved
        return found

    def _types_alone(self, layer: Layer, inputs: Sequence[Known]) -> list[Known]:
        """Return what is left where a kind has no answer.

        That is the element type of one of its inputs, in which it computes.
        """
        side, index = layer.descriptor.dtype_of
        if side != "input" or index >= len(inputs):
            index = 0
        dtype = inputs[index].dtype if inputs else None
        return [Known(dtype)] * len(layer.outputs)

    def _common(
        self,
        layer: Layer,
        inputs: Sequence[Known],
        values: Values,
        open_inputs: Sequence[int],
        open_values: Sequence[int],
    ) -> list[Known]:
        """Ask the kind for each rank of the inputs and each length of a value.

        Return what all answers share.
        """
        answers = []
        for tried in _TRIED_RANKS:
            infos = [known.info for known in inputs]
            given = list(values)
            for index in open_inputs:
                dtype = inputs[index].dtype
                if dtype is None:
                    return self._types_alone(layer, inputs)
                infos[index] = TensorInfo(_unknown_sizes(tried), dtype)
            for index in open_values:
                given[index] = _unknown_integers((tried,))
            answer = self._infos_with(layer, infos, given)
            if answer is not None:
                answers.append(answer)
        self._resolved.pop(layer, None)
        if not answers:
            return self._types_alone(layer, inputs)
        # Inputs of unknown rank were tried with one rank for all of them, so that only types are
        # common for sure.
        is_sure = len(open_inputs) + len(open_values) == 1
        return [_shared([answer[index] for answer in answers], is_sure=is_sure) for index in range(len(layer.outputs))]

    # -- values ------------------------------------------------------------------------------------

    def _find_values(self, layer: Layer) -> None:
        descriptor = layer.descriptor
        if isinstance(descriptor, Constant):
            arrays: Sequence[_Array] | None = [descriptor.value] if descriptor.unread is None else None
        else:
            arrays = self._evaluated(layer) if all(map(self._may_have_value, layer.outputs)) else None
        for index, slot in enumerate(layer.outputs):
            self._values[slot] = _unknown_value(self._known[slot].info) if arrays is None else arrays[index]

    def _evaluated(self, layer: Layer) -> Sequence[_Array] | None:
        outputs = [self._known[slot].info for slot in layer.outputs]
        infos = [None if slot.source is None else self._known[slot.source].info for slot in layer.inputs]
        unread = {index for index, slot in enumerate(layer.inputs) if _is_unread(slot.source)}
        values = [None if index in unread else self._value_read(layer, index) for index in range(len(layer.inputs))]
        if unread and not any(
            slot.source is not None and values[index] is None and index not in unread for index, slot in enumerate(layer.inputs)
        ):  # else it takes a run to evaluate the layer, whatever they are
            values = [self._value_read(layer, index) for index in range(len(layer.inputs))]
        is_symbolic = any(value is not None and value.dtype == object for value in values)
        elements = max(info.elements for info in outputs if info is not None) if outputs else 0
        if elements > (_SHAPE_LIKE if is_symbolic else min(_FOLD_LIMIT, max(_KEPT_LIMIT - self._kept, _SHAPE_LIKE))):
            return None
        if any(slot.source is not None and info is None for slot, info in zip(layer.inputs, infos, strict=True)):
            return None
        try:
            resolved = self._resolved.get(layer) or layer.descriptor.resolve(infos, values)
            arrays = evaluated(resolved, infos, values, outputs)
        except Exception as error:
            if is_of_host(error):
                raise
            return None
        if arrays is None or [array.shape for array in arrays] != [info.shape for info in outputs if info is not None]:
            return None
        self._kept += elements
        return [_plain(array, info) for array, info in zip(arrays, outputs, strict=True)]


def _cycle(path: Sequence[OutputSlot], again: OutputSlot) -> GraphError:
    """Build the error for a slot that needs itself, by those that each need the next."""
    layers = [slot.layer for slot in path]
    layers = [*layers[layers.index(again.layer) :], again.layer]
    reference = again.layer.reference
    graph = None if reference is None else reference.graph
    cycle = [
        layer for index, layer in enumerate(layers) if not index or index == len(layers) - 1 or layer is not layers[index - 1]
    ]
    return cycle_error("network" if graph is None else graph.name, cycle)


def output_infos(network: Graph) -> dict[str, TensorInfo | None]:
    """Return the info of each output in terms of symbols, None where not even its rank is known."""
    inference = SymbolicInference()
    sources = {layer.name: layer.inputs[0].source if layer.inputs else None for layer in network.outputs}
    return {name: None if source is None else source.info or inference.info(source) for name, source in sources.items()}


def _is_unread(slot: OutputSlot | None) -> bool:
    """Say whether a slot is that of a constant whose value is still in a file."""
    descriptor = None if slot is None else slot.layer.descriptor
    return isinstance(descriptor, Constant) and descriptor.unread is not None


def _sources(layer: Layer, indices: Iterable[int] | None = None) -> list[OutputSlot]:
    wanted = range(len(layer.inputs)) if indices is None else [index for index in indices if index < len(layer.inputs)]
    return [source for index in wanted if (source := layer.inputs[index].source) is not None]


def _symbolic(info: TensorInfo) -> TensorInfo:
    """Return the same with expressions in the place of names."""
    if info.is_concrete:
        return info
    return info._replace(shape=tuple([symbol(size) if isinstance(size, str) else size for size in info.shape]))


def _unknown_sizes(count: int) -> tuple[Any, ...]:
    return tuple([unknown_size() for _ in range(count)])


def _unknown_integers(shape: Sequence[int]) -> _Array:
    made = np.empty(math.prod(shape), object)
    made[:] = [unknown_integer() for _ in range(made.size)]
    return made.reshape(shape)


def _unknown_value(info: TensorInfo | None) -> _Array | None:
    """Return as many unknown integers as a shape or some axes hold; others may be known."""
    if info is None or info.rank > 1 or not info.dtype.is_integer or not info.is_concrete or info.elements > _SHAPE_LIKE:
        return None
    return _unknown_integers(info.sizes)


def _plain(array: _Array, info: TensorInfo | None) -> _Array:
    """Return numbers as NumPy keeps them, where no element depends on a symbol."""
    if array.dtype != object or info is None or are_symbolic(array.flat):
        return array
    return array.astype(info.dtype.numpy)


def _shared(answers: Sequence[TensorInfo], *, is_sure: bool) -> Known:
    dtypes = {info.dtype for info in answers}
    if len(dtypes) != 1:
        return _NOTHING
    dtype = dtypes.pop()
    if not is_sure or len({info.rank for info in answers}) != 1:
        return Known(dtype)
    sizes = [
        one[0] if all(equal(one[0], other) for other in one) else unknown_size()
        for one in zip(*[info.shape for info in answers], strict=True)
    ]
    return Known(dtype, TensorInfo(tuple(sizes), dtype))
