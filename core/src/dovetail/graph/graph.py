"""The graph: layers joined by slots."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, Self

import numpy.typing as npt

from ..ground.errors import DovetailError, ErrorCode, GraphError
from ..ground.limits import under_way, watched
from ..ground.unique_names import UniqueNames
from .descriptor import Constant, Descriptor, Input, Output
from .element_types import DType
from .held_arrays import bytes_read, held_array
from .inference import infer_outputs
from .kind_errors import raise_named
from .late_array import LateArray
from .layer import InputSlot, Layer, OutputSlot
from .layer_checks import check_arity, check_descriptor, check_output_count
from .slot_operators import GraphReference
from .state import State
from .tensor import Dimension, Quantization, TensorInfo
from .topology import producers_first

_DEFERRED = (ErrorCode.SHAPE_MISMATCH, ErrorCode.ATTRIBUTE_INVALID)
"""What sizes and values may do wrong; see `Graph.deferring`."""
_GIVEN = (Input, Constant)
"""What has its info without any inputs."""


class Graph:
    """Layers and how they are joined; `Network` adds a builder method per kind.

    Attributes:
        name: Its name.
        made_in: Token of the load in which it was made (`Budget.token`); None: outside of any.
        states: What it remembers from one run to the next, by name.
        rewired: How often it was changed other than by adding layers, at least.
    """

    states: Mapping[str, State] = {}
    _metadata: Mapping[str, str] = {}

    def __init__(self, name: str = "network") -> None:
        self.name = name
        load = under_way()
        self.made_in = None if load is None else load.token
        self._layers: dict[str, Layer] = {}
        self._next_id = 0
        # What was worked out since the last edit: each pass asks, most change nothing.
        self._inputs: tuple[Layer, ...] | None = None
        self._outputs: tuple[Layer, ...] | None = None
        self._order: tuple[Layer, ...] | None = None
        self._positions: dict[Layer, int] | None = None
        self._names = UniqueNames(self._layers)
        self._is_renamed = False
        self._deferring = False
        self.rewired = 0
        self._reference = GraphReference()
        self._reference.lead_to(self)

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state)
        if self._reference.graph is None:  # else this is a shallow copy, whose layers are another's
            self._reference.lead_to(self)

    # -- reading -----------------------------------------------------------------------------------

    @property
    def metadata(self) -> Mapping[str, str]:
        """What the model file says of itself, as text by name; read-only, and replaced as a whole.

        Each parser says in its README what it reads. Nothing is computed by it.

        Raises:
            GraphError: What is assigned is no mapping of text to text (`ATTRIBUTE_INVALID`).
            LimitError: It takes more memory than the load under way may (`LIMIT_EXCEEDED`).
        """
        from .metadata import ReadOnlyMetadata  # not by every process: kept plans bring it along

        return ReadOnlyMetadata(self._metadata)

    @metadata.setter
    def metadata(self, given: Mapping[str, str]) -> None:
        from .metadata import held_metadata  # not by every process: kept plans bring it along

        self._metadata = held_metadata(given)

    @property
    def layers(self) -> tuple[Layer, ...]:
        """All layers, in order of creation."""
        return tuple(self._in_order().values())

    @property
    def inputs(self) -> tuple[Layer, ...]:
        """Input layers, in order of creation."""
        if self._inputs is None:
            self._inputs = tuple([layer for layer in self._in_order().values() if isinstance(layer.descriptor, Input)])
        return self._inputs

    @property
    def outputs(self) -> tuple[Layer, ...]:
        """Output layers, in order of creation."""
        if self._outputs is None:
            self._outputs = tuple([layer for layer in self._in_order().values() if isinstance(layer.descriptor, Output)])
        return self._outputs

    def newest(self, count: int) -> list[Layer]:
        """Layers that were added last, the last one first."""
        return list(islice(reversed(self._in_order().values()), count))

    def __len__(self) -> int:
        return len(self._layers)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}: {len(self)} layers>"

    def __iter__(self) -> Iterator[Layer]:
        return watched(self.layers)

    def __contains__(self, name: object) -> bool:
        return name in self._layers

    def layer(self, name: str) -> Layer:
        """Return the layer of this name.

        Raises:
            GraphError: There is none.
        """
        try:
            return self._layers[name]
        except KeyError:
            raise GraphError(f"network {self.name!r} has no layer {name!r}", hint="see network.layers") from None

    def topological_order(self) -> list[Layer]:
        """Layers so that producers come before consumers; ties in order of creation.

        Raises:
            GraphError: There is a cycle (`GRAPH_CYCLE`); the message spells it out.
        """
        if self._order is None:
            self._order, self._positions = tuple(producers_first(self.name, self._in_order())), None
        return list(self._order)

    def positions(self) -> Mapping[Layer, int]:
        """Return each layer's place in the topological order, sorted anew after an edit."""
        positions = self._positions
        if positions is None or self._order is None:
            positions = self._positions = {one: number for number, one in enumerate(self.topological_order())}
        return positions

    def bytes_of_constants(self, *, in_memory: bool = False) -> int:
        """Return the bytes that the constants read; those that several read count once.

        Args:
            in_memory: Leave out what is still in a file.
        """
        found = [layer.descriptor for layer in self._layers.values() if isinstance(layer.descriptor, Constant)]
        unread = [] if in_memory else [one.nbytes for one in dict.fromkeys(found) if one.unread is not None]
        return bytes_read([one.value for one in found if one.unread is None]) + sum(unread)

    # -- building ----------------------------------------------------------------------------------

    def unique_name(self, preferred: str) -> str:
        """Return `preferred`, or `preferred_2`, `preferred_3`, ... if it is taken."""
        return self._names.like(preferred)

    def _in_order(self) -> dict[str, Layer]:
        """All layers by name, in order of creation.

        One with a new name is put back in its place when it matters.
        """
        if self._is_renamed:
            members = sorted(self._layers.items(), key=_by_id)
            self._layers.clear()
            self._layers.update(members)
            self._is_renamed = False
        return self._layers

    def _edited(self) -> None:
        self._inputs = self._outputs = self._order = None

    def add(
        self,
        descriptor: Descriptor,
        *sources: OutputSlot | npt.ArrayLike | None,
        name: str | None = None,
        quantization: Quantization | None = None,
        sources_of: Sequence[str] | None = None,
    ) -> Layer:
        """Add a layer and infer its outputs as far as its inputs are known.

        Args:
            descriptor: Kind and attributes.
            sources: Output slots to read, None for an optional input left out; an array becomes a
                constant.
            name: Wanted name, made unique by a suffix; default from the kind.
            quantization: Quantization of the (first) output, where the kind does not imply it.
            sources_of: Names of the original layers that this one stands for; default its own name.

        Raises:
            GraphError: Inputs are missing, too many, or do not fit.
            LimitError: It would be a layer too many for the load under way, or that took too long.
        """
        self._check_room()
        check_descriptor(descriptor)
        check_output_count(descriptor)
        label = self.unique_name(name or descriptor.kind.rsplit(".", 1)[-1].lower())
        while sources and sources[-1] is None:
            sources = sources[:-1]
        check_arity(label, descriptor, sources)
        slots = [self._as_slot(source, label, index) for index, source in enumerate(sources)]
        layer = Layer(
            self._next_id, label, descriptor, len(slots), tuple(sources_of) if sources_of else (label,), self._reference
        )
        for slot, source in zip(layer.inputs, slots, strict=True):
            if source is not None:
                source.add_reader(slot)
        self._order = None
        if quantization is not None:
            layer.outputs[0].quantization = quantization
        self._take_in(layer)
        return layer

    def _check_room(self) -> None:
        """Refuse a layer too many for the load under way, or one that comes too late."""
        budget = under_way()
        if budget is not None:
            budget.check_time()
            if len(self._layers) >= budget.limits.layers:
                budget.check_layers(len(self._layers) + 1, f"network {self.name!r}")

    def _take_in(self, layer: Layer) -> None:
        """Infer a new layer as far as its inputs are known, and make it one of the graph's."""
        try:
            self._infer_if_known(layer)
        except DovetailError as error:
            if not (self._deferring and error.code in _DEFERRED):
                for slot in layer.inputs:
                    self.disconnect(slot)
                raise
        self._next_id += 1
        self._layers[layer.name] = layer
        self._edited()

    @contextmanager
    def deferring(self) -> Iterator[None]:
        """Add layers in the block without infos where their inputs' shapes or values do not fit.

        The inputs then count as unknown yet.

        For what may never be computed, such as a branch: whoever needs them infers them again, and
        is refused then.
        """
        before, self._deferring = self._deferring, True
        try:
            yield
        finally:
            self._deferring = before

    def _as_slot(self, source: OutputSlot | npt.ArrayLike | None, label: str, index: int) -> OutputSlot | None:
        if source is None:
            return None
        if isinstance(source, OutputSlot):
            if self._layers.get(source.layer.name) is not source.layer:
                raise GraphError(
                    f"slot {source.name!r} belongs to another network than {self.name!r}",
                    hint="build both layers with the same network",
                )
            return source
        if isinstance(source, Layer):
            return source.output
        return self.constant(source, name=f"{label}.{index}")

    def operate(self, operation: str, *operands: OutputSlot | npt.ArrayLike) -> OutputSlot:
        """Add the layer of an operator of Python on slots, such as ``x + 1.0``.

        Raises:
            GraphError: It is no `Network`, which alone has builder methods.
        """
        raise GraphError(
            f"{self!r} has no builder methods, and so no operators on its slots",
            code=ErrorCode.GRAPH_INVALID,
            hint="make a dovetail.Network",
        )

    def input(
        self,
        name: str,
        shape: Sequence[Dimension],
        dtype: DType | npt.DTypeLike = DType.FLOAT32,
        quantization: Quantization | None = None,
    ) -> OutputSlot:
        """Add an input of the network; a string in `shape` is a symbolic dimension.

        Raises:
            GraphError: The name is taken.
        """
        self._refuse_taken(name)
        return self.add(Input(info=TensorInfo.of(shape, dtype, quantization)), name=name).output

    def output(self, source: OutputSlot, name: str | None = None) -> Layer:
        """Make a slot an output of the network.

        Raises:
            GraphError: The name is taken by another output.
        """
        label = name or self.unique_name(f"{source.name}_output" if source.name in self._layers else source.name)
        self._refuse_taken(label)
        return self.add(Output(), source, name=label)

    def constant(
        self,
        value: npt.ArrayLike | LateArray,
        name: str | None = None,
        *,
        dtype: DType | None = None,
        quantization: Quantization | None = None,
        copy: bool | None = None,
    ) -> OutputSlot:
        """Add a constant; Python numbers become float32 (floats) or int64 (integers).

        Args:
            value: The array, or anything NumPy makes an array of; a parser may give a `LateArray`.
            name: Wanted name, made unique by a suffix.
            dtype: Given where NumPy's dtype does not tell: bfloat16.
            quantization: How integers stand for real numbers.
            copy: None: copy an array that the caller could still write to and share one that is
                read-only. False: share it anyway, where it is contiguous; nobody may write to it
                from now on. True: always copy.

        Raises:
            GraphError: It is no array, or of another element type than dovetail has.
        """
        if isinstance(value, LateArray):
            descriptor = Constant.late(value)
        else:
            held, dtype = held_array(value, name or "constant", dtype, copy)
            descriptor = Constant(value=held, dtype=dtype if dtype is DType.BFLOAT16 else None)
        # Not by `add`, which has inputs to check: half of all layers are constants.
        self._check_room()
        label = self.unique_name(name or "constant")
        layer = Layer(self._next_id, label, descriptor, 0, (label,), self._reference)
        slot = layer.outputs[0]
        slot.quantization = quantization
        self._take_in(layer)
        return slot

    def _refuse_taken(self, name: str) -> None:
        if not isinstance(name, str) or not name:
            raise GraphError(f"{name!r} is not a name", hint="inputs and outputs are named by a non-empty string")
        if name in self._layers:
            raise GraphError(
                f"the name {name!r} is taken by layer {self._layers[name]!r}", hint="inputs and outputs need names of their own"
            )

    # -- editing -----------------------------------------------------------------------------------

    def connect(self, source: OutputSlot, target: InputSlot) -> None:
        """Join two slots.

        Raises:
            GraphError: The input slot already has a producer.
        """
        if target.source is not None:
            raise GraphError(
                f"input {target.name!r} of layer {target.layer.name!r} is already fed by {target.source.name!r}",
                hint="disconnect it first",
            )
        source.add_reader(target)
        self._order = None
        self.rewired += 1

    def disconnect(self, target: InputSlot) -> None:
        """Free an input slot; one that is free stays so."""
        if target.source is not None:
            target.source.remove_reader(target)
            self._order = None
            self.rewired += 1

    def append_input(self, layer: Layer, source: OutputSlot) -> None:
        """Give a layer one more input slot, such as a bias that it did not have, and connect it.

        Raises:
            GraphError: The kind takes no more inputs.
        """
        check_arity(layer.name, layer.descriptor, [*(slot.source for slot in layer.inputs), source])
        slot = InputSlot(layer, len(layer.inputs))
        layer.inputs.append(slot)
        self.connect(source, slot)

    def redirect(self, old: OutputSlot, new: OutputSlot) -> None:
        """Make every consumer of `old` read `new`."""
        readers = old.consumers.copy()
        old.consumers.clear()
        for reader in readers:
            new.add_reader(reader)
        self._order = None
        self.rewired += 1

    def remove(self, layer: Layer) -> None:
        """Remove a layer that nobody reads.

        Raises:
            GraphError: One of its outputs still has a consumer.
        """
        for slot in layer.outputs:
            if slot.consumers:
                raise GraphError(
                    f"layer {layer.name!r} cannot be removed: {slot.consumers[0].layer.name!r} reads it",
                    hint="redirect its consumers first",
                )
        for target in layer.inputs:
            self.disconnect(target)
        del self._layers[layer.name]
        self._names.freed(layer.name)
        self._edited()

    def discard(self, layer: Layer) -> None:
        """Remove a layer that nobody reads, nor looks at again; without slots it is freed at once.

        Layer and slots refer to each other; of what is only removed, the collector has to find out
        that nobody else does.

        Raises:
            GraphError: One of its outputs still has a consumer.
        """
        self.remove(layer)
        layer.inputs.clear()
        layer.outputs.clear()

    def rename(self, layer: Layer, name: str) -> None:
        """Rename a layer, uniquely by a suffix; its place in the order of creation stays."""
        if name == layer.name:
            return
        label = self.unique_name(name)
        del self._layers[layer.name]
        self._names.freed(layer.name)
        self._layers[label] = layer
        self._is_renamed = True
        layer.name = label

    def replace_descriptor(self, layer: Layer, descriptor: Descriptor, *, keep_inputs: int | None = None) -> None:
        """Give a layer another descriptor of the same number of outputs.

        Inputs from `keep_inputs` on are disconnected.
        """
        if descriptor.output_count != len(layer.outputs):
            raise GraphError(
                f"layer {layer.name!r}: {descriptor.kind} has {descriptor.output_count} outputs, not {len(layer.outputs)}"
            )
        check_descriptor(descriptor)
        layer.descriptor = descriptor
        self._edited()
        self.rewired += 1
        if keep_inputs is not None:
            for slot in layer.inputs[keep_inputs:]:
                self.disconnect(slot)
            del layer.inputs[keep_inputs:]

    # -- inference ---------------------------------------------------------------------------------

    def infer(self, layer: Layer) -> None:
        """Infer the outputs of one layer whose inputs are known, unless nothing changed since.

        Raises:
            GraphError: The inputs do not fit; the message names the layer.
            LimitError: An output has more elements than the load under way allows, or that took too
                long.
        """
        infer_outputs(layer)

    def _infer_if_known(self, layer: Layer) -> None:
        if isinstance(layer.descriptor, _GIVEN):
            self.infer(layer)
            return
        for slot in layer.inputs:
            source = slot.source
            if source is not None and (source.info is None or not source.info.is_concrete):
                return
        if not self.resolve(layer):
            return
        try:
            self.infer(layer)
        except GraphError as error:
            if error.code is not ErrorCode.VALUE_REQUIRED:  # else the optimizer knows once constants are folded
                raise

    def resolve(self, layer: Layer) -> bool:
        """Absorb what is known now into attributes; False if a value input is not constant yet."""
        descriptor = layer.descriptor
        if descriptor.value_inputs or type(descriptor).resolve is not Descriptor.resolve:
            wanted = [i for i in descriptor.value_inputs if i < len(layer.inputs) and layer.inputs[i].source is not None]
            values = layer.constants(descriptor.value_inputs)
            if any(values[i] is None for i in wanted):
                return False
            try:
                layer.descriptor = descriptor.resolve(layer.input_infos, values)
            except Exception as error:
                raise_named(error, layer, "resolve")
            for i in wanted:
                self.disconnect(layer.inputs[i])
        while layer.inputs and layer.inputs[-1].source is None:
            layer.inputs.pop()
        return True

    def validate(self) -> None:
        """Check the whole graph.

        Raises:
            GraphError: A cycle, a required input that nothing feeds, or no output at all.
        """
        self._order = None  # whoever handed over this graph may have joined its slots through another
        self.topological_order()
        for layer in self._in_order().values():
            check_arity(layer.name, layer.descriptor, [slot.source for slot in layer.inputs])
        if not self.outputs:
            raise GraphError(
                f"network {self.name!r} has no output",
                code=ErrorCode.GRAPH_DANGLING,
                hint="call network.output(slot, 'name')",
            )

    # -- copying -----------------------------------------------------------------------------------

    def copy(self) -> Self:
        """Copy layers, connections and states; descriptors and constants, immutable, are shared."""
        twin = type(self)(self.name)
        self.copy_into(twin)
        twin.states = self.states
        twin._metadata = self._metadata
        # Copied in topological order; the order of creation is that of the caller's inputs and
        # outputs.
        for number, layer in enumerate(self._in_order().values()):
            twin._layers[layer.name].id = number
        twin._is_renamed = True
        twin._edited()
        return twin

    def __copy__(self) -> Self:
        return self.copy()

    def copy_into(
        self, target: Graph, feeds: Mapping[OutputSlot, OutputSlot] | None = None, wanted: Callable[[Layer], bool] | None = None
    ) -> dict[OutputSlot, OutputSlot]:
        """Copy layers into `target`.

        Args:
            target: Where to.
            feeds: Slots of this graph that stand for slots which `target` already has.
            wanted: Which layers; default all.

        Returns:
            For each slot of this graph, its counterpart in `target`.
        """
        twins: dict[OutputSlot, OutputSlot] = dict(feeds or {})
        clones: dict[Layer, Layer] = {}
        order = self.topological_order()
        target._edited()
        for layer in watched(order):
            if wanted is not None and not wanted(layer):
                continue
            label = target.unique_name(layer.name)
            clone = Layer(target._next_id, label, layer.descriptor, len(layer.inputs), layer.sources, target._reference)
            target._next_id += 1
            target._layers[label] = clone
            for mine, theirs in zip(layer.inputs, clone.inputs, strict=True):
                if mine.source is not None:
                    twins[mine.source].add_reader(theirs)
            for old, new in zip(layer.outputs, clone.outputs, strict=True):
                new.info, new.quantization = old.info, old.quantization
                twins[old] = new
            clone.inferred = layer.inferred
            clones[layer] = clone
        for layer, clone in clones.items():  # readers in the order of the original: passes walk them, and decide alike
            for old, new in zip(layer.outputs, clone.outputs, strict=True):
                if len(new.consumers) > 1:
                    new.consumers = [clones[read.layer].inputs[read.index] for read in old.consumers if read.layer in clones]
                    for place, reader in enumerate(new.consumers):
                        reader.place = place
        return twins


def _by_id(entry: tuple[str, Layer]) -> int:
    return entry[1].id
