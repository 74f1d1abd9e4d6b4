"""The private kind of chains: elementwise layers of one shape, in one pass over memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from dovetail import DType, Layer, PrivateLayer
from dovetail.graph.descriptor import descriptor_class
from dovetail.graph.layer import OutputSlot

from ..kernels import Kernels, Work
from . import argument, function_of, input_info, overwritten
from .chains import Statement, chain


@descriptor_class
class Chain(PrivateLayer, kind="GpuAcc.Chain"):
    """Some functions of elements, each of operands and of what came before.

    Attributes:
        functions: Parameters and expression of each, in OpenCL C.
        arguments: What each is applied to: the number of an operand, or -1 - the number of a
            function.
        dtypes: Of each result.
        words: What it is, for people.
    """

    input_names: ClassVar[tuple[str, ...]] = ("operands",)
    functions: tuple[tuple[str, str], ...]
    arguments: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    words: str

    def in_words(self) -> str:
        return self.words

    @property
    def statements(self) -> tuple[Statement, ...]:
        """The functions, as kernels are given them."""
        return tuple(
            Statement(text, parameters, numbers, DType.of(dtype))
            for (parameters, text), numbers, dtype in zip(self.functions, self.arguments, self.dtypes, strict=True)
        )


def operands_of(group: Sequence[Layer]) -> list[OutputSlot]:
    """List what some layers read from outside, constants too."""
    made = {layer.output for layer in group}
    return list(
        dict.fromkeys(s.source for layer in group for s in layer.inputs if s.source is not None and s.source not in made)
    )


def chain_of(layers: Sequence[Layer], operands: Sequence[OutputSlot]) -> Chain:
    """Return a chain of layers, in order, that read some operands and one another."""
    number = {slot: at for at, slot in enumerate(operands)}
    functions, arguments, dtypes = [], [], []
    for at, layer in enumerate(layers):
        text, parameters = function_of(layer)
        functions.append((parameters, text))
        arguments.append(tuple(number[slot.source] for slot in layer.inputs if slot.source is not None))
        dtypes.append(str(layer.output.known_info.dtype))
        number[layer.output] = -1 - at
    return Chain(
        infos=(layers[-1].output.known_info,),
        functions=tuple(functions),
        arguments=tuple(arguments),
        dtypes=tuple(dtypes),
        words=" + ".join(_word(layer) for layer in layers),
    )


def _word(layer: Layer) -> str:
    descriptor = layer.descriptor
    word = getattr(descriptor, "operation", None) or getattr(descriptor, "function", None)
    activation = getattr(descriptor, "activation", None)
    name = str(word or layer.kind.rpartition(".")[-1].lower())
    return f"{name} + {activation}" if activation else name


def create(layer: Layer, kernels: Kernels) -> Work:
    """Return the work of a chain."""
    made = layer.descriptor
    assert isinstance(made, Chain)
    info = layer.output.known_info
    operands = [(argument(layer, index), input_info(layer, index)) for index in range(len(layer.inputs))]
    return Work((chain(kernels, made.statements, operands, info),), aliases=overwritten(layer))
