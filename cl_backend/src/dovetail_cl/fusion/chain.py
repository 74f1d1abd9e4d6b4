"""Chains: elementwise layers of one shape, computed in one pass over memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy.typing as npt

from dovetail import DType, Layer, Network, PrivateLayer, SubgraphView
from dovetail.graph.descriptor import Constant, Input, descriptor_class
from dovetail.graph.layer import OutputSlot

from ..elementwise import argument, function_of, input_info, overwritten
from ..elementwise.chains import Statement, chain
from ..kernels import Kernels, Work


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


def joined(network: Network, part: SubgraphView, slots: Sequence[OutputSlot]) -> list[OutputSlot | npt.NDArray[Any]]:
    """Add inputs for a part to a network that replaces it; returns what some slots are there."""
    fed = {slot: network.add(Input(info=slot.known_info), name=f"in {at}").output for at, slot in enumerate(part.inputs)}
    return [fed[slot] if slot in fed else _value(slot.layer) for slot in slots]


def _value(layer: Layer) -> npt.NDArray[Any]:
    assert isinstance(layer.descriptor, Constant)
    return layer.descriptor.value


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
