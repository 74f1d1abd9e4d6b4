"""A node as the translations see it: typed attributes, input slots, names, and ways to give up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dovetail import DType, ErrorCode, ModelError, Network
from dovetail.graph.layer import OutputSlot
from dovetail.graph.symbolic_inference import SymbolicInference
from dovetail.ground.foreign_text import printable

from .messages import AttributeProto, GraphProto, NodeProto
from .tensors import Tensor, dtype_of_code, read_sparse, read_tensor, scalar_of
from .unsupported import Unsupported

if TYPE_CHECKING:
    from dovetail.ground.making import Making

    from .external_data import ExternalData

_TYPES = AttributeProto.AttributeType


class Node:
    """One node of a model.

    Attributes:
        op: Operator.
        domain: Its domain; "" is ai.onnx.
        opset: Version of the domain's operator set.
        name: What the node is called, or its first output where it has no name.
        outputs: Names of its outputs; "" for one that nobody wants.
        network: Where its layers go.
    """

    def __init__(
        self,
        proto: NodeProto,
        opset: int,
        name: str,
        inputs: Sequence[OutputSlot | None],
        attributes: dict[str, AttributeProto],
        network: Network,
        inference: SymbolicInference,
        making: Making,
        external: ExternalData,
    ) -> None:
        self.op = proto.op_type
        self.domain = "" if proto.domain == "ai.onnx" else proto.domain
        self.opset = opset
        self.name = name
        self.outputs = list(proto.output)
        self.network = network
        self._inputs = list(inputs)
        self._attributes = attributes
        self._inference = inference
        self._making = making
        self._external = external
        self._read: set[str] = set()

    def __repr__(self) -> str:
        return printable(f"<Node {self.name!r}: {f'{self.domain}.' if self.domain else ''}{self.op} {self.opset}>")

    # -- names -------------------------------------------------------------------------------------

    def label(self, part: str = "") -> str:
        """Name the node's layer, or a part of it where one node becomes several layers."""
        return f"{self.name}/{part}" if part else self.name

    # -- inputs ------------------------------------------------------------------------------------

    @property
    def inputs(self) -> list[OutputSlot]:
        """All inputs of a variadic operator."""
        return [self.input(i) for i in range(len(self._inputs))]

    def optional(self, index: int) -> OutputSlot | None:
        """Return input `index`, or None if it is left out."""
        return self._inputs[index] if index < len(self._inputs) else None

    def input(self, index: int) -> OutputSlot:
        """Return input `index`.

        Raises:
            ModelError: It is left out.
        """
        slot = self.optional(index)
        if slot is None:
            raise self.malformed(f"lacks its input {index}")
        return slot

    def dtype(self, index: int = 0) -> DType:
        """Return the element type of input `index`."""
        return self.dtype_of(self.input(index))

    def dtype_of(self, slot: OutputSlot) -> DType:
        """Return the element type of a slot, known even while its sizes are not.

        Raises:
            Unsupported: A kind from outside does not tell before sizes are fixed.
        """
        dtype = self._inference.dtype(slot)
        if dtype is None:
            raise Unsupported(f"the element type of {slot.name!r} is not known before the symbolic dimensions are fixed")
        return dtype

    def rank_of(self, slot: OutputSlot) -> int | None:
        """Return the rank of a slot if it follows from what is known before sizes are."""
        return self._inference.rank(slot)

    def known_rank(self, slot: OutputSlot, why: str) -> int:
        """Return the rank of a slot.

        Raises:
            Unsupported: It is not known while parsing.
        """
        rank = self.rank_of(slot)
        if rank is None:
            raise Unsupported(f"{why}, and the rank of {slot.name!r} is not known before the symbolic dimensions are fixed")
        return rank

    def size_of(self, slot: OutputSlot, axis: int) -> int | None:
        """Return the size of one axis of a slot if it is known."""
        return self._inference.size(slot, axis)

    def constant(self, index: int) -> npt.NDArray[Any] | None:
        """Return the value of input `index` if constants alone lead to it, or None."""
        slot = self.optional(index)
        return None if slot is None else self._inference.value(slot)

    def value_of(self, slot: OutputSlot) -> npt.NDArray[Any] | None:
        """Return the value of a slot if constants alone lead to it, or None."""
        return self._inference.value(slot)

    def number(self, index: int) -> float | int | bool | None:
        """Return a constant scalar input as a Python number, or None if it is not one."""
        value = self.constant(index)
        if value is None or value.size != 1:
            return None
        if self.dtype(index) is DType.BFLOAT16:
            value = (value.astype(np.uint32) << 16).view(np.float32)
        number: float | int | bool = value.reshape(-1)[0].item()
        return number

    def integers_of(self, index: int) -> tuple[int, ...] | None:
        """Return a constant integer input as a tuple, or None if it is left out or not constant."""
        value = self.constant(index)
        return None if value is None else tuple(int(v) for v in value.reshape(-1))

    def axes_or_slot(self, attribute: str, index: int) -> tuple[int, ...] | OutputSlot | None:
        """Read what older operator sets have as an attribute and newer ones as an input."""
        if self.has(attribute):
            return self.integers(attribute)
        known = self.integers_of(index)
        return known if known is not None else self.optional(index)

    def scalar(self, value: float, like: OutputSlot, part: str) -> OutputSlot:
        """Add a constant scalar of the element type of another slot."""
        return self.scalar_typed(value, self.dtype_of(like), part)

    def scalar_typed(self, value: float, dtype: DType, part: str) -> OutputSlot:
        """Add a constant scalar."""
        return self.network.constant(scalar_of(value, dtype), self.label(part), dtype=dtype)

    # -- attributes --------------------------------------------------------------------------------

    def has(self, name: str) -> bool:
        """Tell whether an attribute is given."""
        return name in self._attributes

    def ignore(self, *names: str) -> None:
        """Note attributes that change nothing here."""
        self._read.update(names)

    def unread(self) -> list[str]:
        """List the attributes that nobody asked for."""
        return sorted(self._attributes.keys() - self._read)

    def _attribute(self, name: str, kind: AttributeProto.AttributeType) -> AttributeProto | None:
        self._read.add(name)
        found = self._attributes.get(name)
        if found is None:
            return None
        # Files of IR version 1 leave the type out.
        if found.type not in (kind, _TYPES.UNDEFINED):
            raise self.malformed(f"has attribute {name!r} of type {found.described()}, expected {kind.name}")
        return found

    def _required(self, name: str, value: Any) -> Any:
        if value is None:
            raise self.malformed(f"lacks its attribute {name!r}")
        return value

    def integer(self, name: str, default: int | None = None) -> int:
        """Return an integer attribute; without a default it is required."""
        found = self._attribute(name, _TYPES.INT)
        return int(self._required(name, default if found is None else found.i))

    def flag(self, name: str, default: bool = False) -> bool:
        """Return an integer attribute that means yes or no.

        Raises:
            ModelError: It is neither 0 nor 1: runtimes differ in what they take that for.
        """
        value = self.integer(name, int(default))
        if value not in (0, 1):
            raise self.malformed(f"has {name}={value}, expected 0 or 1")
        return value == 1

    def floating(self, name: str, default: float | None = None) -> float:
        """Return a float attribute; without a default it is required."""
        found = self._attribute(name, _TYPES.FLOAT)
        return float(self._required(name, default if found is None else found.f))

    def string(self, name: str, default: str | None = None) -> str:
        """Return a string attribute; without a default it is required."""
        found = self._attribute(name, _TYPES.STRING)
        return str(self._required(name, default if found is None else found.s.decode("utf-8", "replace")))

    def strings(self, name: str, default: Sequence[str]) -> tuple[str, ...]:
        """Return an attribute of strings."""
        found = self._attribute(name, _TYPES.STRINGS)
        return tuple(default) if found is None else tuple(text.decode("utf-8", "replace") for text in found.strings)

    def choice(self, name: str, default: str, options: Sequence[str]) -> str:
        """Return a string attribute that is one of these.

        Raises:
            Unsupported: It is another.
        """
        value = self.string(name, default)
        if value not in options:
            raise Unsupported(f"{name} is {value!r}; {', '.join(options)} are there", attribute=name)
        return value

    def integers(self, name: str, default: Sequence[int] | None = None) -> tuple[int, ...]:
        """Return an attribute of integers; without a default it is required."""
        found = self._attribute(name, _TYPES.INTS)
        return tuple(int(v) for v in self._required(name, default if found is None else found.ints))

    def floats(self, name: str, default: Sequence[float] | None = None) -> tuple[float, ...]:
        """Return an attribute of floats; without a default it is required."""
        found = self._attribute(name, _TYPES.FLOATS)
        return tuple(float(v) for v in self._required(name, default if found is None else found.floats))

    def tensor(self, name: str) -> Tensor | None:
        """Return a tensor attribute, or None."""
        found = self._attribute(name, _TYPES.TENSOR)
        return None if found is None else read_tensor(found.t, self._external)

    def sparse_tensor(self, name: str) -> Tensor | None:
        """Return a sparse tensor attribute filled in, or None."""
        found = self._attribute(name, _TYPES.SPARSE_TENSOR)
        return None if found is None else read_sparse(found.sparse_tensor, self._external, self._making)

    def graph(self, name: str) -> GraphProto:
        """Return a required attribute that is a graph."""
        found = self._attribute(name, _TYPES.GRAPH)
        proto: GraphProto = self._required(name, None if found is None else found.g)
        return proto

    def dtype_attribute(self, name: str, default: DType | None = None) -> DType:
        """Return an attribute that names an element type.

        Raises:
            Unsupported: Dovetail has no such type.
        """
        if not self.has(name) and default is not None:
            return default
        code = self.integer(name)
        try:
            return dtype_of_code(code, f"attribute {name!r}")
        except Unsupported as error:
            raise Unsupported(error.reason, attribute=name) from None

    # -- giving up ---------------------------------------------------------------------------------

    def wants(self, index: int) -> bool:
        """Tell whether output `index` is used."""
        return index < len(self.outputs) and self.outputs[index] != ""

    def check_affordable(self, count: int, what: str) -> None:
        """Refuse to make a constant of more elements than any real model needs.

        A file of a few bytes may ask for it.

        Raises:
            Unsupported: It is too large, with what was made for the model before.
            LimitError: The load may not take so much memory.
        """
        if not self._making.allows(count, f"{what} of node {self.name!r}"):
            raise Unsupported(f"{what} would have {count} elements")

    def malformed(self, found: str) -> ModelError:
        """Build the error for a node that ONNX does not allow."""
        return ModelError(
            f"node {self.name!r} ({self.op}, opset {self.opset}) {found}",
            code=ErrorCode.MODEL_MALFORMED,
            hint=f"see the specification of {self.op}",
            node=self.name,
            op=self.op,
        )
