"""Decide which layers of a network compute with integers, and which tensors share a scale."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from dovetail.graph.descriptor import Constant, Input, Output
from dovetail.graph.element_types import DType
from dovetail.graph.graph import Graph
from dovetail.graph.layer import Layer, OutputSlot
from dovetail.layers import (
    Activation,
    ActivationFunction,
    BinaryOperation,
    Convolution2d,
    DepthwiseConvolution2d,
    ElementwiseBinary,
    FullyConnected,
    GlobalPooling,
    MatMul,
    Pad,
    Pooling2d,
    PoolingFunction,
)

Weighted = Convolution2d | DepthwiseConvolution2d | FullyConnected
_CLAMPS = (ActivationFunction.RELU, ActivationFunction.BOUNDED_RELU)


@dataclass(slots=True)
class Plan:
    """What is quantized, by names: it serves for any sizes of the network.

    Attributes:
        computing: Layers that compute with integers, each with the tensor that is their result:
            that of the clamp behind them, if there is one.
        moving: Layers that move integers.
        borders: Tensors that are computed as real numbers, and quantized for layers that read them.
        shared: For each tensor that has the scale of another one, that one.
        weighted: Those layers among the computing that have weights.
        inputs: Tensors that each computing layer reads, constants left out.
    """

    computing: dict[str, str] = field(default_factory=dict)
    moving: list[str] = field(default_factory=list)
    borders: list[str] = field(default_factory=list)
    shared: dict[str, str] = field(default_factory=dict)
    weighted: list[str] = field(default_factory=list)
    inputs: dict[str, list[str]] = field(default_factory=dict)

    @property
    def tensors(self) -> list[str]:
        """Names of all tensors that are quantized, each once."""
        return list(dict.fromkeys([*self.borders, *self.computing.values(), *self.shared, *self.shared.values()]))

    def leader(self, tensor: str) -> str:
        """Return the tensor whose scale this one has: itself, if it shares none."""
        while tensor in self.shared:
            tensor = self.shared[tensor]
        return tensor

    def share(self, tensor: str, other: str) -> None:
        """Give two tensors one scale."""
        first, second = self.leader(tensor), self.leader(other)
        if first != second:
            self.shared[first] = second


def planned(graph: Graph, kept: Collection[str] = (), *, moving: bool = True) -> Plan:
    """Choose the layers that the optimizer turns into layers on integers (`IntegerLayers`).

    These are convolutions, fully connected layers, products by a constant matrix, and additions and
    pooling of what is quantized already. Layers that only move or select elements pass integers on.

    Args:
        graph: As `prepared` returns it.
        kept: Names of layers that stay in float.
        moving: Whether layers may pass integers on: ONNX's do not all take 16 bits.
    """
    plan, quantized = Plan(), _Quantized()
    for layer in graph.topological_order():
        if layer.name in kept or isinstance(layer.descriptor, Input | Output | Constant) or not _is_float(layer):
            continue
        if isinstance(layer.descriptor, Weighted | MatMul):
            if _has_constant_weights(layer) and _fits_integers(layer):
                _compute(plan, quantized, layer, 1)
                plan.weighted.append(layer.name)
        elif _is_addition(layer.descriptor):
            if all(slot.source in quantized for slot in layer.inputs):
                _compute(plan, quantized, layer, 2)
        elif _is_average(layer.descriptor):
            if layer.inputs[0].source in quantized:
                _compute(plan, quantized, layer, 1)
                plan.share(layer.output.name, _name(layer.inputs[0].source))
        elif moving and _moves(layer, quantized):
            plan.moving.append(layer.name)
            quantized.update(layer.outputs)
            for slot in (*data_of(layer), *layer.outputs[1:]):
                plan.share(slot.name, layer.outputs[0].name)
    return plan


class _Quantized(set[OutputSlot | None]):
    """Slots that layers give as integers."""


def _compute(plan: Plan, quantized: _Quantized, layer: Layer, count: int) -> None:
    result = result_of(layer)
    plan.computing[layer.name] = result.name
    plan.inputs[layer.name] = [_name(slot.source) for slot in layer.inputs[:count]]
    for slot in layer.inputs[:count]:
        if slot.source not in quantized and _name(slot.source) not in plan.borders:
            plan.borders.append(_name(slot.source))
    quantized.add(result)


def _name(slot: OutputSlot | None) -> str:
    assert slot is not None  # required inputs are connected, as `Validate` saw
    return slot.name


def result_of(layer: Layer) -> OutputSlot:
    """Return the slot of the clamp that alone reads a layer, or the layer's own."""
    readers = layer.output.consumers
    if len(readers) == 1 and isinstance(layer.descriptor, Weighted | ElementwiseBinary):
        behind = readers[0].layer
        if isinstance(behind.descriptor, Activation) and behind.descriptor.function in _CLAMPS:
            return behind.output
    return layer.output


def data_of(layer: Layer) -> list[OutputSlot]:
    """Return the real numbers that a layer reads."""
    return [slot.source for slot in layer.inputs if slot.source is not None and slot.source.known_info.dtype.is_float]


def _is_float(layer: Layer) -> bool:
    infos = [slot.known_info for slot in layer.outputs]
    return bool(infos) and all(info.dtype is DType.FLOAT32 and info.quantization is None for info in infos)


def _has_constant_weights(layer: Layer) -> bool:
    source = layer.inputs[0].source
    weights = layer.constant(1)
    has_bias = len(layer.inputs) > 2 and layer.inputs[2].source is not None
    return (
        source is not None
        and not isinstance(source.layer.descriptor, Constant)
        and weights is not None
        and weights.size > 0
        and (not has_bias or layer.constant(2) is not None)
    )


def _fits_integers(layer: Layer) -> bool:
    """Tell whether a product is one that a fully connected layer could be."""
    if not isinstance(layer.descriptor, MatMul):
        return True
    weights, data = (layer.inputs[index].source for index in (1, 0))
    assert weights is not None  # both are required
    assert data is not None
    turns = layer.descriptor.transpose_a or layer.descriptor.transpose_b
    return weights.known_info.rank == 2 and data.known_info.rank >= 2 and not turns


def _is_addition(descriptor: object) -> bool:
    return (
        isinstance(descriptor, ElementwiseBinary)
        and descriptor.operation is BinaryOperation.ADD
        and descriptor.activation in (None, *_CLAMPS)
    )


def _is_average(descriptor: object) -> bool:
    if not isinstance(descriptor, Pooling2d | GlobalPooling) or descriptor.function is not PoolingFunction.AVERAGE:
        return False
    # Padding that counts as real zeros is beyond what integer pooling does.
    return not (isinstance(descriptor, Pooling2d) and descriptor.count_padding and any(descriptor.padding))


def _moves(layer: Layer, quantized: _Quantized) -> bool:
    data = data_of(layer)
    is_selection = layer.descriptor.selects_elements() and not isinstance(layer.descriptor, Pad)  # which fills with zeros
    return is_selection and bool(data) and all(slot in quantized for slot in data)
