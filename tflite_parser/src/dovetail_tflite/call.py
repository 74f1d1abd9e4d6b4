"""An operator as the translations see it: options, inputs, stated outputs, and ways to give up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

import numpy as np
import numpy.typing as npt

from dovetail import Descriptor, DType, ModelError, Network, Quantization
from dovetail.graph.layer import OutputSlot
from dovetail.graph.symbolic_inference import SymbolicInference
from dovetail.ground.foreign_text import printable
from dovetail.layers import Activation, ActivationFunction, AutoPadding, Dequantize, FusedActivation, Quantize, TieRounding

from .flatbuffer import BrokenFile, Table
from .malformed import malformed
from .unsupported import Unsupported

if TYPE_CHECKING:
    from dovetail.ground.making import Making

    from .tensors import Tensor


class Fused(TypedDict, total=False):
    """Arguments of a descriptor that can apply an activation to its result."""

    activation: ActivationFunction
    activation_alpha: float
    activation_beta: float


Inline: TypeAlias = "Callable[[int, Sequence[OutputSlot | None], str], list[OutputSlot]]"
"""Translate a subgraph with these inputs and this name, and return its results."""
Write: TypeAlias = "Callable[[int, OutputSlot], None]"
"""Write an input, by its number, that keeps its value."""
Intermediate: TypeAlias = "Callable[[int], Tensor | None]"
"""Return what the file says of a result inside of the operator, by its number."""

_ACTIVATIONS: dict[int, tuple[ActivationFunction, float, float]] = {
    1: (ActivationFunction.RELU, 0.0, 0.0),
    2: (ActivationFunction.BOUNDED_RELU, 1.0, -1.0),
    3: (ActivationFunction.BOUNDED_RELU, 6.0, 0.0),
    4: (ActivationFunction.TANH, 0.0, 0.0),
}
"""`ActivationFunctionType`: function, alpha, beta."""
BYTES = (DType.INT8, DType.UINT8)
"""Types whose arithmetic TensorFlow Lite defines in integers."""
_CLAMPS = (None, ActivationFunction.RELU, ActivationFunction.BOUNDED_RELU)
"""Fused activations that integers have."""
_PADDING = {0: AutoPadding.SAME_UPPER, 1: AutoPadding.EXPLICIT}
"""`Padding`: SAME and VALID."""


class Call:
    """One operator of a model.

    Attributes:
        op: Its name: that of the schema, or of a custom operator.
        version: Its version.
        name: What its layer is called: its first output.
        network: Where its layers go.
        custom_options: Bytes that a custom operator explains itself.
        inputs: Slots; None for an optional input left out.
        outputs: What the file says of its results.
    """

    def __init__(
        self,
        op: str,
        version: int,
        name: str,
        options: Table | None,
        custom_options: bytes,
        inputs: Sequence[OutputSlot | None],
        declared: Sequence[Tensor | None],
        outputs: Sequence[Tensor],
        network: Network,
        inference: SymbolicInference,
        inline: Inline,
        write: Write,
        intermediate: Intermediate,
        making: Making,
    ) -> None:
        self.op = op
        self.version = version
        self.name = name
        self.custom_options = custom_options
        self.inputs = inputs
        self.outputs = outputs
        self.network = network
        self._options = options
        self._declared = declared
        self._inference = inference
        self._inline = inline
        self._write = write
        self._intermediate = intermediate
        self._making = making

    def __repr__(self) -> str:
        return printable(f"<Call {self.name!r}: {self.op} {self.version}>")

    # -- names -------------------------------------------------------------------------------------

    def label(self, part: str = "") -> str:
        """Name the operator's layer, or a part of it where one operator becomes several layers."""
        return f"{self.name}/{part}" if part else self.name

    # -- inputs ------------------------------------------------------------------------------------

    def optional(self, index: int) -> OutputSlot | None:
        """Return input `index`, or None if it is left out."""
        return self.inputs[index] if index < len(self.inputs) else None

    def input(self, index: int) -> OutputSlot:
        """Return input `index`.

        Raises:
            ModelError: It is left out.
        """
        slot = self.optional(index)
        if slot is None:
            raise self.malformed(f"lacks its input {index}")
        return slot

    def all_inputs(self) -> list[OutputSlot]:
        """Return the inputs of an operator that takes any number, all of them there."""
        return [self.input(index) for index in range(len(self.inputs))]

    def is_open(self, index: int) -> bool:
        """Tell whether the file leaves a size of input `index` open."""
        tensor = self._declared[index] if index < len(self._declared) else None
        return tensor is not None and -1 in tensor.shape

    def dtype_of(self, slot: OutputSlot) -> DType:
        """Return the element type of a slot, known even while its sizes are not.

        Raises:
            Unsupported: A kind from outside does not tell before sizes are fixed.
        """
        dtype = self._inference.dtype(slot)
        if dtype is None:
            raise Unsupported(f"the element type of {slot.name!r} is not known before the open sizes are fixed")
        return dtype

    def rank_of(self, slot: OutputSlot) -> int:
        """Return the rank of a slot.

        Raises:
            Unsupported: It is not known while parsing.
        """
        rank = self._inference.rank(slot)
        if rank is None:
            raise Unsupported(f"the rank of {slot.name!r} is not known before the open sizes are fixed")
        return rank

    def size_of(self, slot: OutputSlot, axis: int) -> int | None:
        """Return the size of one axis of a slot if it is known."""
        return self._inference.size(slot, axis)

    def value_of(self, slot: OutputSlot) -> npt.NDArray[Any] | None:
        """Return the value of a slot if constants alone lead to it, or None."""
        return self._inference.value(slot)

    def constant(self, index: int) -> npt.NDArray[Any] | None:
        """Return the value of input `index` if constants alone lead to it, or None."""
        slot = self.optional(index)
        return None if slot is None else self._inference.value(slot)

    def integers(self, index: int) -> tuple[int, ...] | None:
        """Return a constant integer input as a tuple; None if it is left out or not constant."""
        value = self.constant(index)
        return None if value is None else tuple(int(one) for one in value.reshape(-1))

    def known_integers(self, index: int, what: str) -> tuple[int, ...]:
        """Return an integer input as a tuple.

        Raises:
            Unsupported: It is not constant.
        """
        found = self.integers(index)
        if found is None:
            raise Unsupported(f"{what} is not a constant")
        return found

    def quantization_of(self, slot: OutputSlot) -> Quantization | None:
        """Return how the integers of a slot stand for real numbers."""
        info = slot.info
        return slot.quantization if info is None else info.quantization

    def intermediate(self, index: int) -> Quantization:
        """Return how the integers of a result inside of the operator stand for real numbers.

        Raises:
            ModelError: The file does not say.
        """
        stated = self._intermediate(index)
        if stated is None or stated.quantization is None or stated.quantization.axis is not None:
            raise self.malformed(f"lacks the scale of its intermediate result {index}")
        return stated.quantization

    def are_bytes(self, *slots: OutputSlot) -> bool:
        """Tell whether slots and the result are quantized bytes, each with one scale."""
        stated = [(self.dtype_of(slot), self.quantization_of(slot)) for slot in slots]
        stated.append((self.outputs[0].dtype, self.outputs[0].quantization))
        return all(dtype in BYTES and how is not None and how.axis is None for dtype, how in stated)

    def share_quantization(self, *slots: OutputSlot) -> bool:
        """Tell whether the integers of slots and of the result stand for the same numbers."""
        return all(self.quantization_of(slot) == self.outputs[0].quantization for slot in slots)

    @staticmethod
    def is_fixed(descriptor: Descriptor) -> bool:
        """Tell whether integers have the activation of a layer: it only cuts off."""
        return not isinstance(descriptor, FusedActivation) or descriptor.activation in _CLAMPS

    # -- options -----------------------------------------------------------------------------------

    def has_options(self) -> bool:
        """Tell whether the file has options for it."""
        return self._options is not None

    def option(self, name: str) -> Any:
        """Return a number or bool of the options.

        Raises:
            ModelError: It has no options.
        """
        if self._options is None:
            raise self.malformed("has no options")
        return self._options.number(name)

    def option_vector(self, name: str) -> tuple[Any, ...]:
        """Return a vector of the options; empty if there is none, or there are no options."""
        return () if self._options is None else self._options.numbers(name)

    def pair(self, height: str, width: str) -> tuple[int, int]:
        """Return two options of an image, (height, width)."""
        return self.option(height), self.option(width)

    def auto_padding(self) -> AutoPadding:
        """Return the option `padding`."""
        found: AutoPadding = self.choice("padding", _PADDING)
        return found

    def choice(self, name: str, options: Mapping[int, Any]) -> Any:
        """Return what a number of the options stands for.

        Raises:
            Unsupported: It is none of these.
        """
        value = self.option(name)
        if value not in options:
            raise Unsupported(f"{name} is {value}")
        return options[value]

    def fused(self) -> Fused:
        """Return the activation that is applied to the result, as arguments of a descriptor."""
        code = self.option("fused_activation_function") if self.has_options() else 0
        if code == 0:
            return {}
        if code not in _ACTIVATIONS:
            raise Unsupported(f"fused activation {code} is not there")
        function, alpha, beta = _ACTIVATIONS[code]
        return {"activation": function, "activation_alpha": alpha, "activation_beta": beta}

    def custom_numbers(self) -> dict[str, int | float | None]:
        """Return the options of a custom operator, where they are a FlexBuffer map, as most are.

        A bool is 0 or 1; an entry that is neither number nor bool is None, a null is left out.

        Raises:
            ModelError: They are no such map.
        """
        from . import flexbuffer  # few models have such an operator

        try:
            return flexbuffer.numbers(self.custom_options)
        except BrokenFile as problem:
            raise self.malformed(f"has broken options: {problem}") from problem

    # -- building ----------------------------------------------------------------------------------

    def add(self, descriptor: Descriptor, *sources: OutputSlot | None, part: str = "", output: int = 0) -> OutputSlot:
        """Add a layer that computes on its inputs as they are.

        Its result has the quantization that the file states, unless it is only a part of the
        operator.

        Args:
            descriptor: Kind and attributes.
            sources: What it reads.
            part: Name of the part, where the operator becomes several layers.
            output: Which result of the operator it is.
        """
        quantization = None if part else self.outputs[output].quantization
        return self.network.add(descriptor, *sources, name=self.label(part), quantization=quantization).output

    def add_several(self, descriptor: Descriptor, *sources: OutputSlot | None) -> list[OutputSlot]:
        """Add a layer that gives all results of the operator, with the quantizations stated."""
        layer = self.network.add(descriptor, *sources, name=self.label())
        for slot, stated in zip(layer.outputs, self.outputs, strict=True):
            if stated.quantization is not None:
                slot.quantization = stated.quantization
        if all(slot.info is not None for slot in layer.outputs):
            self.network.infer(layer)
        return layer.outputs

    def write(self, index: int, value: OutputSlot) -> None:
        """Write an input that keeps its value, for whoever reads it from here on, and the next run.

        Raises:
            Unsupported: It is no variable tensor, or the operator stands in a subgraph.
        """
        self._write(index, value)

    def inlined(self, subgraph: int, sources: Sequence[OutputSlot | None], part: str = "") -> list[OutputSlot]:
        """Put a subgraph in the place of the operator, or of a part of it, and return its results.

        Args:
            subgraph: Its number.
            sources: Its inputs.
            part: Name of the part, where there are several.

        Raises:
            ModelError: There is no such subgraph, it takes or gives another number of tensors, or
                it would be nested in itself.
            NotTranslated: Something in it is not supported, and was reported.
        """
        return self._inline(subgraph, sources, self.label(part))

    def add_real(self, descriptor: Descriptor, *sources: OutputSlot | None, part: str = "", output: int = 0) -> OutputSlot:
        """Add a layer that computes on real numbers, whatever integers stand for them.

        Quantized inputs are dequantized and the result is quantized as the file states; what is not
        quantized is as by `add`.
        """
        real = [None if source is None else self.real(source) for source in sources]
        stated = self.outputs[output]
        if part or stated.quantization is None:
            return self.network.add(descriptor, *real, name=self.label(part)).output
        result = self.network.add(descriptor, *real, name=self.label("real")).output
        return self.quantized(result, output)

    def add_fixed(self, descriptor: Descriptor, *sources: OutputSlot) -> OutputSlot:
        """Add a layer that computes on quantized bytes in fixed point.

        Other quantized tensors, and activations that integers lack, are as by `add_real`.
        """
        build = self.add if self.is_fixed(descriptor) and self.are_bytes(*sources) else self.add_real
        return build(descriptor, *sources)

    def real(self, slot: OutputSlot) -> OutputSlot:
        """Return the real numbers that a slot stands for."""
        quantization = self.quantization_of(slot)
        if quantization is None or self.dtype_of(slot).is_float:
            return slot
        return self.network.add(Dequantize(quantization=quantization), slot, name=f"{slot.name}/real").output

    def quantized(
        self, slot: OutputSlot, output: int = 0, part: str = "", ties: TieRounding = TieRounding.TO_EVEN
    ) -> OutputSlot:
        """Quantize real numbers as the file states for a result."""
        stated = self.outputs[output]
        assert stated.quantization is not None
        descriptor = Quantize(dtype=stated.dtype, quantization=stated.quantization, rounding=ties)
        return self.network.add(descriptor, slot, name=self.label(part), quantization=stated.quantization).output

    def activated(self, slot: OutputSlot) -> OutputSlot:
        """Apply the fused activation of the options to a result whose kind has no room for it."""
        fused = self.fused()
        if not fused:
            return slot
        descriptor = Activation(function=fused["activation"], alpha=fused["activation_alpha"], beta=fused["activation_beta"])
        return self.applied(descriptor, slot, "activation")

    def applied(self, descriptor: Activation, slot: OutputSlot, part: str) -> OutputSlot:
        """Apply an activation to a slot whose quantization stays what it is."""
        quantization, dtype = self.quantization_of(slot), self.dtype_of(slot)
        if quantization is None or (dtype in BYTES and quantization.axis is None):
            return self.network.add(descriptor, slot, name=self.label(part), quantization=quantization).output
        real = self.network.add(descriptor, self.real(slot), name=self.label(f"{part}_real")).output
        back = Quantize(dtype=dtype, quantization=quantization)
        return self.network.add(back, real, name=self.label(part), quantization=quantization).output

    def scalar(self, value: float, like: OutputSlot, part: str) -> OutputSlot:
        """Add a constant scalar of the element type of another slot."""
        return self.network.constant(np.asarray(value, self.dtype_of(like).numpy), self.label(part))

    # -- giving up ---------------------------------------------------------------------------------

    def require_floats(self, *slots: OutputSlot) -> None:
        """Refuse integers where TensorFlow Lite has floats alone.

        Raises:
            ModelError: A slot is of another type.
        """
        for slot in slots:
            if not self.dtype_of(slot).is_float:
                raise self.malformed(f"reads {self.dtype_of(slot)}, expected floats")

    def check_affordable(self, count: int, what: str, itemsize: int = 8) -> None:
        """Refuse to make a constant of more elements than any real model needs.

        A file of a few bytes may ask for it.

        Raises:
            Unsupported: It is too large, with what was made for the model before.
            LimitError: The load may not take so much memory.
        """
        if not self._making.allows(count, f"{what} of {self.name!r}", itemsize=itemsize):
            raise Unsupported(f"{what} would have {count} elements")

    def malformed(self, found: str) -> ModelError:
        """Build the error for an operator that TensorFlow Lite does not allow."""
        what = f"operator {self.op} (version {self.version}) of {self.name!r} {found}"
        return malformed(what, hint="check that the conversion is complete", node=self.name, op=self.op)
