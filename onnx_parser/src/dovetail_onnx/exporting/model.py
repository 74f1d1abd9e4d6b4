"""The model that an export is writing: named values with their element types, nodes, constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from dovetail.graph.descriptor import Constant
from dovetail.graph.element_types import DType
from dovetail.graph.layer import Layer, OutputSlot

from ..tensors import CODES
from .exported import OPSET, NodeOf, Value
from .unexportable import Unexportable

_NAMES = {
    "float": DType.FLOAT32,
    "double": DType.FLOAT64,
    **{dtype.label: dtype for dtype in DType if dtype not in (DType.FLOAT32, DType.FLOAT64)},
}
_BY_NAME = {f"tensor({name})": dtype for name, dtype in _NAMES.items()}


class Model:
    """Nodes in order, each value written by one of them.

    Attributes:
        nodes: What was written.
    """

    def __init__(self) -> None:
        self.nodes: list[NodeOf] = []
        self._constants: dict[str, Value] = {}
        self._types: dict[str, DType] = {}
        self._names: dict[OutputSlot, str] = {}
        self._taken: set[str] = set()

    # -- values ------------------------------------------------------------------------------------

    def add_input(self, slot: OutputSlot) -> None:
        """Make a slot outside of the part an input of the model."""
        self._names[slot] = self._typed(self._unique(slot.name), slot.dtype)

    def name_of(self, slot: OutputSlot) -> str:
        """Return the name of what a slot carries.

        A constant becomes an initializer, any other unknown slot an input.
        """
        if slot not in self._names:
            descriptor = slot.layer.descriptor
            if isinstance(descriptor, Constant):
                self._names[slot] = self.constant(descriptor.value, slot.dtype, slot.name)
            else:
                self.add_input(slot)
        return self._names[slot]

    def give(self, slot: OutputSlot, value: str) -> None:
        """Let a slot carry a value."""
        self._names[slot] = value

    def stand_in(self, layer: Layer) -> None:
        """Pretend that a layer was written, so that those behind it can be asked about."""
        for slot in layer.outputs:
            self.add_input(slot)

    def output_name(self, slot: OutputSlot) -> str:
        """Return the name of a value that a node computes for this slot alone."""
        value = self._names[slot]
        computed = any(value in node.outputs for node in self.nodes)
        shared = sum(1 for name in self._names.values() if name == value) > 1
        return value if computed and not shared else self.node("Identity", (value,), slot.name)[0]

    def constant(self, array: npt.NDArray[Any], dtype: DType, name: str) -> str:
        """Add a constant, whose array is kept as it is; return its name."""
        label = self._typed(self._unique(name), dtype)
        self._constants[label] = Value(array, dtype)
        return label

    def value_of(self, name: str) -> npt.NDArray[Any] | None:
        """Return the array of a constant, None of any other value."""
        value = self._constants.get(name)
        return None if value is None else value.array

    def used_constants(self) -> Mapping[str, Value]:
        """Return the constants that some node reads."""
        read = {name for node in self.nodes for name in node.inputs}
        return {name: value for name, value in self._constants.items() if name in read}

    def dtype_of(self, name: str) -> DType:
        """Return the element type of a value."""
        return self._types[name]

    # -- nodes -------------------------------------------------------------------------------------

    def node(
        self,
        operator: str,
        inputs: Sequence[str],
        label: str,
        *,
        outputs: int = 1,
        dtype: DType | None = None,
        **attributes: Any,
    ) -> list[str]:
        """Add a node; return the names of its outputs. An empty name is an input that is left out.

        Args:
            operator: Of ONNX's own domain.
            inputs: Names of values.
            label: What the node and its outputs are called after.
            outputs: How many.
            dtype: Element type of the first output, where it does not follow from the inputs'.
            attributes: Those at their default may be left out.

        Raises:
            Unexportable: The operator does not take these element types.
        """
        types = self._output_types(operator, inputs, outputs, dtype)
        names = [self._typed(self._unique(label if index == 0 else f"{label}:{index}"), one) for index, one in enumerate(types)]
        self.nodes.append(NodeOf(operator, names[0], tuple(inputs), tuple(names), attributes))
        return names

    def _output_types(self, operator: str, inputs: Sequence[str], outputs: int, dtype: DType | None) -> list[DType]:
        schema = onnx.defs.get_schema(operator, OPSET)
        allowed = _allowed_types(operator)
        bound: dict[str, DType] = {}
        for index, name in enumerate(inputs):
            if not name:
                continue
            parameter = schema.inputs[min(index, len(schema.inputs) - 1)].type_str
            found = self._types[name]
            if found not in allowed[parameter]:
                taken = ", ".join(one.label for one in DType if one in allowed[parameter])
                raise Unexportable(f"ONNX's {operator} takes {taken}, not {found}")
            other = bound.setdefault(parameter, found)
            if other is not found:
                raise Unexportable(f"ONNX's {operator} takes inputs of one type, not {other} beside {found}")
        made = []
        for index in range(outputs):
            parameter = schema.outputs[min(index, len(schema.outputs) - 1)].type_str
            known = dtype if index == 0 and dtype is not None else bound.get(parameter)
            if known is None and len(allowed[parameter]) == 1:
                (known,) = allowed[parameter]
            if known is None:
                raise AssertionError(f"the rule of {operator} must say the element type of its output")
            if known not in allowed[parameter]:
                raise Unexportable(f"ONNX's {operator} gives no {known}")
            made.append(known)
        return made

    def _typed(self, name: str, dtype: DType) -> str:
        self._types[name] = dtype
        return name

    def _unique(self, wanted: str) -> str:
        name, number = wanted, 1
        while name in self._taken:
            number += 1
            name = f"{wanted}_{number}"
        self._taken.add(name)
        return name


@cache
def _allowed_types(operator: str) -> dict[str, frozenset[DType]]:
    """Return the element types allowed for each type parameter of an operator.

    A plain type stands for itself.
    """
    schema = onnx.defs.get_schema(operator, OPSET)
    allowed = {
        constraint.type_param_str: frozenset(_BY_NAME[name] for name in constraint.allowed_type_strs if name in _BY_NAME)
        for constraint in schema.type_constraints
    }
    for slot in (*schema.inputs, *schema.outputs):
        if slot.type_str in _BY_NAME:
            allowed.setdefault(slot.type_str, frozenset([_BY_NAME[slot.type_str]]))
    return allowed


def code_of(dtype: DType) -> int:
    """Return ONNX's number of an element type."""
    return CODES[dtype]


def stored(values: npt.ArrayLike, dtype: DType) -> npt.NDArray[Any]:
    """Return numbers in the storage of an element type, rounded to nearest even."""
    if dtype is not DType.BFLOAT16:
        return np.asarray(values).astype(dtype.numpy)
    bits = np.asarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
