"""A layer and its slots: what a graph is made of.

An input slot has one producer; an output slot has any number of consumers and carries the
`TensorInfo` of what flows there.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container
from operator import attrgetter

from ..ground.errors import ErrorCode, GraphError
from ..ground.foreign_text import printable
from .descriptor import Array, Constant, Descriptor
from .element_types import DType
from .slot_operators import GraphReference, SlotOperators
from .tensor import Dimension, Quantization, TensorInfo

_FEW = 16
"""Readers of a slot among which one is found soonest by looking at all."""

_place = attrgetter("place")


class OutputSlot(SlotOperators):
    """Where a tensor is produced; what Python's operators do with it is in `SlotOperators`.

    Attributes:
        layer: The producer.
        index: Position among the producer's outputs.
        info: What flows here; None while it depends on symbolic dimensions.
        quantization: Set by the builder for layers whose result is quantized; part of `info`.
        consumers: The input slots that read it.
    """

    __slots__ = ("consumers", "index", "info", "layer", "quantization")

    def __init__(self, layer: Layer, index: int) -> None:
        self.layer = layer
        self.index = index
        self.info: TensorInfo | None = None
        self.quantization: Quantization | None = None
        self.consumers: list[InputSlot] = []

    @property
    def name(self) -> str:
        """The layer's name, with the index if the layer has several outputs."""
        return self.layer.name if len(self.layer.outputs) == 1 else f"{self.layer.name}:{self.index}"

    @property
    def known_info(self) -> TensorInfo:
        """The info.

        Raises:
            GraphError: It still depends on symbolic dimensions (`SHAPE_UNKNOWN`).
        """
        if self.info is None:
            raise GraphError(
                f"the shape of {self.name!r} is not known yet",
                code=ErrorCode.SHAPE_UNKNOWN,
                hint="fix the symbolic sizes of the inputs: give shapes={name: size} to dovetail.load or dovetail.optimize",
            )
        return self.info

    @property
    def shape(self) -> tuple[Dimension, ...]:
        """Shape of the tensor."""
        return self.known_info.shape

    @property
    def dtype(self) -> DType:
        """Element type of the tensor."""
        return self.known_info.dtype

    def add_reader(self, reader: InputSlot) -> None:
        """Join an input slot that reads nothing yet; it comes after all others."""
        readers = self.consumers
        reader.source = self
        reader.place = readers[-1].place + 1 if readers else 0
        readers.append(reader)

    def remove_reader(self, reader: InputSlot) -> None:
        """Free an input slot that reads this; the others keep their order.

        Readers are in the order of their places, so that each is found among thousands without
        looking at the others.
        """
        readers = self.consumers
        if readers[-1] is reader:
            readers.pop()
        elif len(readers) < _FEW:
            readers.remove(reader)
        else:
            at = bisect_left(readers, reader.place, key=_place)
            if at < len(readers) and readers[at] is reader:
                del readers[at]
            else:  # somebody set the list by hand
                readers.remove(reader)
        reader.source = None

    def __repr__(self) -> str:
        return printable(f"<{self.name}: {self.info if self.info else '?'}>")


class InputSlot:
    """Where a layer reads.

    Attributes:
        layer: The reader.
        index: Position among the reader's inputs.
        source: The slot that it reads; None while it is not connected.
        place: Greater than that of every reader which joined the source before.
    """

    __slots__ = ("index", "layer", "place", "source")

    def __init__(self, layer: Layer, index: int) -> None:
        self.layer = layer
        self.index = index
        self.place = 0
        self.source: OutputSlot | None = None

    @property
    def name(self) -> str:
        """The name that the kind gives this input."""
        names = self.layer.descriptor.input_names
        return names[self.index] if self.index < len(names) else f"{names[-1]}[{self.index - len(names) + 1}]"

    @property
    def info(self) -> TensorInfo | None:
        """Info of the producing slot."""
        return self.source.info if self.source else None

    def __repr__(self) -> str:
        return printable(f"<{self.layer.name}.{self.name} <- {self.source}>")


class Layer:
    """One node.

    Attributes:
        id: Unique within its graph, in order of creation.
        name: What the user calls it; unique within its graph.
        descriptor: Kind and attributes.
        inputs, outputs: Slots.
        sources: Names of the layers of the original network that this one stands for.
        inferred: The descriptor, infos of inputs and quantizations from which the infos of the
            outputs were inferred last, and these; see `inference.infer_outputs`.
        reference: Leads to the graph that it was added to; None: it stands alone.
    """

    __slots__ = ("descriptor", "id", "inferred", "inputs", "name", "outputs", "reference", "sources")

    def __init__(
        self,
        id: int,
        name: str,
        descriptor: Descriptor,
        n_inputs: int,
        sources: tuple[str, ...],
        reference: GraphReference | None = None,
    ) -> None:
        self.id = id
        self.name = name
        self.descriptor = descriptor
        self.sources = sources
        self.reference = reference
        self.inferred: tuple[object, ...] | None = None
        self.inputs = [InputSlot(self, i) for i in range(n_inputs)]
        self.outputs = [OutputSlot(self, i) for i in range(descriptor.output_count)]

    @property
    def kind(self) -> str:
        """The kind's namespaced name."""
        return self.descriptor.kind

    @property
    def output(self) -> OutputSlot:
        """The only output slot."""
        if len(self.outputs) != 1:
            raise GraphError(f"layer {self.name!r} ({self.kind}) has {len(self.outputs)} outputs, not one")
        return self.outputs[0]

    @property
    def input_infos(self) -> list[TensorInfo | None]:
        """Infos of the inputs, None where not connected."""
        return [None if slot.source is None else slot.source.info for slot in self.inputs]

    @property
    def output_infos(self) -> list[TensorInfo]:
        """Infos of the outputs."""
        return [slot.known_info for slot in self.outputs]

    def constant(self, index: int) -> Array | None:
        """Value of input `index` if a constant feeds it, else None."""
        if index >= len(self.inputs):
            return None
        source = self.inputs[index].source
        if source is None:
            return None
        descriptor = source.layer.descriptor
        return descriptor.value if isinstance(descriptor, Constant) else None

    def constants(self, wanted: Container[int] = ()) -> list[Array | None]:
        """Values of the inputs that constants feed, None for the others.

        Of values that are still in a file, only those at `wanted` are read; the others are None.
        """
        return [
            None if index not in wanted and self._is_unread(index) else self.constant(index)
            for index in range(len(self.inputs))
        ]

    def constants_to_evaluate(self) -> list[Array | None]:
        """Values of the inputs that constants feed, None for the others.

        Values that are still in a file are read if constants feed all inputs, else they are None:
        the layer is then left to the run whatever they are.
        """
        for slot in self.inputs:
            if slot.source is not None and not isinstance(slot.source.layer.descriptor, Constant):
                return self.constants()
        return self.constants(range(len(self.inputs)))

    def _is_unread(self, index: int) -> bool:
        source = self.inputs[index].source
        descriptor = None if source is None else source.layer.descriptor
        return isinstance(descriptor, Constant) and descriptor.unread is not None

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name!r}>"
