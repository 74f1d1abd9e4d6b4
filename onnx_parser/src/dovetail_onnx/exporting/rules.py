"""How a layer is said: the table of rules, and what a rule works with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dovetail.graph.descriptor import Descriptor
from dovetail.graph.element_types import DType
from dovetail.graph.layer import Layer
from dovetail.graph.tensor import DataLayout, Quantization, TensorInfo

from .model import Model, code_of, stored
from .quantized import dequantized, parameters, quantized, reads_real_numbers
from .unexportable import Unexportable

Rule: TypeAlias = Callable[["Saying"], "str | Sequence[str]"]
_RULES: dict[type[Descriptor], Rule] = {}


def says(*kinds: type[Descriptor]) -> Callable[[Rule], Rule]:
    """Enter a function as the rule of some kinds."""

    def enter(rule: Rule) -> Rule:
        for kind in kinds:
            _RULES[kind] = rule
        return rule

    return enter


def say(model: Model, layer: Layer) -> None:
    """Write the nodes of a layer.

    Raises:
        Unexportable: ONNX has no words for it.
    """
    rule = _RULES.get(type(layer.descriptor))
    if rule is None:
        raise Unexportable(f"there is no operator for the kind {layer.kind}")
    saying = Saying(model, layer)
    made = rule(saying)
    values = [made] if isinstance(made, str) else list(made)
    for slot, value in zip(layer.outputs, values, strict=True):
        given = quantized(model, value, slot.known_info, layer.name) if saying.is_real else value
        if model.dtype_of(given) is not slot.dtype:
            raise Unexportable(f"its result is {slot.dtype}, where ONNX gives {model.dtype_of(given)}")
        model.give(slot, given)


class Saying:
    """A layer and the model that it is written into.

    Attributes:
        layer: Which.
        descriptor: Its attributes, the values of constant inputs included.
        is_real: It computes with quantized integers: what a rule sees are the real numbers that
            they stand for.
    """

    def __init__(self, model: Model, layer: Layer) -> None:
        self.layer = layer
        self._model = model
        values = [layer.constant(index) for index in range(len(layer.inputs))]
        self.descriptor: Any = layer.descriptor.resolve(layer.input_infos, values)
        self.is_real = reads_real_numbers(layer)

    # -- what the layer is -------------------------------------------------------------------------

    def info(self, index: int = 0) -> TensorInfo:
        """Info of an input, as the rule sees it."""
        info = self.layer.inputs[index].info
        assert info is not None
        return info._replace(dtype=DType.FLOAT32, quantization=None) if self.is_real and info.quantization else info

    @property
    def result(self) -> TensorInfo:
        """Info of the first output, as the rule sees it."""
        info = self.layer.outputs[0].known_info
        return info._replace(dtype=DType.FLOAT32, quantization=None) if self.is_real and info.quantization else info

    @property
    def dtype(self) -> DType:
        """Element type of the first input, as the rule sees it."""
        return self.info().dtype

    def has(self, index: int) -> bool:
        """Tell whether an input is connected."""
        return index < len(self.layer.inputs) and self.layer.inputs[index].source is not None

    def input(self, index: int = 0) -> str:
        """Return the name of an input's value; empty if it is not connected."""
        if not self.has(index):
            return ""
        source = self.layer.inputs[index].source
        assert source is not None
        value = self._model.name_of(source)
        return dequantized(self._model, value, self.layer, index) if self.is_real else value

    def permuted_input(self, index: int, order: Sequence[int]) -> str:
        """Return the name of an input's value with its axes reordered.

        Integers are reordered before they become real numbers: onnxruntime's optimizer makes models
        that it then refuses of products that read DequantizeLinear through a Transpose.
        """
        source = self.layer.inputs[index].source
        if not self.is_real or source is None:
            return self.permuted(self.input(index), order)
        value = self.permuted(self._model.name_of(source), order)
        return dequantized(self._model, value, self.layer, index, order)

    @property
    def inputs(self) -> list[str]:
        """Names of all inputs' values."""
        return [self.input(index) for index in range(len(self.layer.inputs))]

    # -- what is written ---------------------------------------------------------------------------

    def op(self, operator: str, *inputs: str, outputs: int = 1, dtype: DType | None = None, **attributes: Any) -> str:
        """Add a node with one output; return its name.

        Raises:
            Unexportable: It does not take these element types, or an attribute needs more than the
                32 bits of ONNX's floats.
        """
        return self.ops(operator, *inputs, outputs=outputs, dtype=dtype, **attributes)[0]

    def ops(self, operator: str, *inputs: str, outputs: int, dtype: DType | None = None, **attributes: Any) -> list[str]:
        """Add a node; return the names of its outputs."""
        kept = {name: value for name, value in attributes.items() if value is not None}
        for name, value in kept.items():
            if type(value) is float and self.dtype is DType.FLOAT64 and float(np.float32(value)) != value:
                raise Unexportable(f"{name} is {value!r}, of which ONNX keeps 32 bits: too few for float64")
        last = max((number for number, name in enumerate(inputs, 1) if name), default=0)
        return self._model.node(operator, inputs[:last], self.layer.name, outputs=outputs, dtype=dtype, **kept)

    def scalar(self, value: float | int | bool, dtype: DType | None = None) -> str:
        """Add a constant without axes, by default of the first input's element type."""
        return self.constant(value, self.dtype if dtype is None else dtype)

    def constant(self, values: npt.ArrayLike, dtype: DType) -> str:
        """Add a constant of these numbers."""
        return self._model.constant(stored(values, dtype), dtype, f"{self.layer.name}.constant")

    def integers(self, values: Sequence[int]) -> str:
        """Add a constant of axes, sizes or positions: one axis of int64."""
        return self.constant(np.asarray(values, np.int64).reshape(-1), DType.INT64)

    def quantization(self, given: Quantization, dtype: DType) -> tuple[str, str]:
        """Add scale and zero point of a quantization to an element type."""
        return parameters(self._model, given, dtype, self.layer.name)

    def value_of(self, index: int) -> npt.NDArray[Any] | None:
        """Return the array of an input that is constant, else None."""
        return self.layer.constant(index)

    def dtype_of(self, value: str) -> DType:
        """Return the element type of a value."""
        return self._model.dtype_of(value)

    def cast(self, value: str, dtype: DType) -> str:
        """Convert a value unless it is of that element type."""
        return value if self.dtype_of(value) is dtype else self.op("Cast", value, dtype=dtype, to=code_of(dtype))

    def permuted(self, value: str, order: Sequence[int]) -> str:
        """Reorder axes."""
        return value if list(order) == list(range(len(order))) else self.op("Transpose", value, perm=list(order))

    def channels_first(self, rank: int) -> str:
        """Return the name of the first input, an image, in ONNX's order of axes."""
        last = self.descriptor.layout is DataLayout.NHWC
        return self.permuted_input(0, (0, rank - 1, *range(1, rank - 1))) if last and rank > 2 else self.input()

    def channels_back(self, value: str, rank: int) -> str:
        """Bring an image from ONNX's order of axes into the layer's."""
        last = self.descriptor.layout is DataLayout.NHWC
        return self.permuted(value, (0, *range(2, rank), 1)) if last and rank > 2 else value
