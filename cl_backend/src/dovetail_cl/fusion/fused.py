"""Layers whose kernels finish each element of the result: what a chain behind them computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from dovetail import DType, Layer, Network, PrivateLayer
from dovetail.graph.descriptor import Descriptor, Input, descriptor_class
from dovetail.graph.layer import OutputSlot

from ..elementwise import input_info
from ..elementwise.chain_layer import Chain
from ..elementwise.epilogue import epilogue_of, operand_of, way_of
from ..families import family_name, family_of
from ..kernels import Kernels, Work

_FLOATS = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)
_READ = (*_FLOATS, DType.BOOL)


@descriptor_class
class Fused(PrivateLayer, kind="GpuAcc.Fused"):
    """A layer and the chain behind it.

    Its inputs are those of the layer, and the operands of the chain from the second on: the first
    is the result of the layer.

    Attributes:
        producer: The layer.
        inputs: How many it has.
        chain: What is made of its result.
    """

    input_names: ClassVar[tuple[str, ...]] = ("inputs and operands",)
    producer: Descriptor
    inputs: int
    chain: Chain

    def in_words(self) -> str:
        return f"{self.producer.kind.rpartition('.')[-1]} + {self.chain.words}"


def producer_of(group: Sequence[Layer], operands: Sequence[OutputSlot], may_join: Callable[[Layer], bool]) -> Layer | None:
    """Return the layer whose kernel can compute a chain behind it; None if there is none.

    Args:
        group: The layers of the chain, the last one first.
        operands: What they read.
        may_join: Whether a layer may be it.
    """
    if not can_finish(group, operands):
        return None
    result, members = group[0].output.known_info, set(group)
    for slot in operands:
        layer, info = slot.layer, slot.known_info
        if not may_join(layer) or (info.sizes, info.dtype) != (result.sizes, result.dtype) or not result.elements:
            continue
        if {consumer.layer for consumer in slot.consumers} - members or any(one.source is None for one in layer.inputs):
            continue
        axis = _axis(layer)
        others = [other.known_info.sizes for other in operands if other is not slot]
        if axis is not None and all(way_of(sizes, result.sizes, axis) for sizes in others):
            return layer
    return None


def can_finish(group: Sequence[Layer], operands: Sequence[OutputSlot]) -> bool:
    """Return whether an epilogue can compute a chain: it makes floats of floats and of truth."""
    are_read = all(slot.known_info.dtype in _READ for slot in operands)
    return are_read and all(layer.output.known_info.dtype in _FLOATS for layer in group)


def _axis(layer: Layer) -> int | None:
    """Return along which axis the epilogue of a layer has lines; None: it can have no epilogue."""
    axis = getattr(family_of(layer), "epilogue_axis", None) if family_name(layer) else None
    return axis(layer) if axis is not None else None


def create(layer: Layer, kernels: Kernels) -> Work:
    """Return the work of a layer and of the chain behind it."""
    made = layer.descriptor
    assert isinstance(made, Fused)
    producer = _producer(layer, made)
    family = family_of(producer)
    sizes, axis = layer.output.known_info.sizes, family.epilogue_axis(producer)
    operands = []
    for index in range(made.inputs, len(layer.inputs)):
        way = way_of(input_info(layer, index).sizes, sizes, axis)
        assert way is not None
        operands.append(operand_of(layer, index, way))
    work: Work = family.create(producer, kernels, epilogue_of(operands, made.chain.statements))
    return work


def _producer(layer: Layer, made: Fused) -> Layer:
    """Return the layer that was fused, in a network of its own."""
    network = Network("producer")
    sources: list[Any] = []
    for index in range(made.inputs):
        constant = layer.constant(index)
        sources.append(network.add(Input(info=input_info(layer, index))).output if constant is None else constant)
    return network.add(made.producer, *sources)
