"""Insert the layers that quantize and dequantize."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dovetail import DType, Network, Quantization
from dovetail.graph.layer import InputSlot, Layer, OutputSlot
from dovetail.graph.tensor import DataLayout
from dovetail.layers import (
    Activation,
    DepthwiseConvolution2d,
    Dequantize,
    ElementwiseBinary,
    MatMul,
    Quantize,
    TransposeConvolution2d,
)
from dovetail.optimizer.passes import DropUnused

from .planning import Plan, Weighted, data_of
from .ranges import rounded, weight_scales

BIAS_STEPS = 2.0**30
"""A bias takes fewer steps: half of 32 bits, so that sums have room beside it."""

Biases = Mapping[str, npt.NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class Numbers:
    """What integers stand for.

    Attributes:
        dtype: Of the tensors between layers.
        tensors: Quantization of each tensor of the plan.
        biases: What is added to the bias of a layer with weights, for each filter.
    """

    dtype: DType
    tensors: Mapping[str, Quantization]
    biases: Biases


def rewritten(graph: Network, plan: Plan, numbers: Numbers) -> tuple[Network, dict[str, str]]:
    """Return a copy that computes with integers, written with `Quantize` and `Dequantize`.

    Args:
        graph: As `prepared` returns it.
        plan: What is quantized.
        numbers: How.

    Returns:
        The copy, and for each tensor of the plan the name of the one that holds it after rounding,
        as real numbers.
    """
    copy = graph.copy()
    rewriting = _Rewriting(copy, plan, numbers)
    rewriting.run()
    return copy, rewriting.names


def finished(graph: Network) -> Network:
    """Make a rewritten network what is written to a file.

    What only the report reads goes. Tensors of one name are alike in both models: a layer that took
    in a batch normalization gives what that gave, and gets its name; an activation that is part of
    a layer, which ONNX has no word for, becomes one of its own and takes the layer's name.
    """
    DropUnused().run(graph)
    for layer in graph.layers:
        last = layer.sources[-1] if layer.sources else layer.name
        if isinstance(layer.descriptor, Weighted) and last not in graph:
            graph.rename(layer, last)
        if getattr(layer.descriptor, "activation", None) is not None:
            _part_activation(graph, layer)
    return graph


def _part_activation(graph: Network, layer: Layer) -> None:
    name, descriptor, readers = layer.name, layer.descriptor, list(layer.output.consumers)
    if not isinstance(descriptor, Weighted | ElementwiseBinary | TransposeConvolution2d) or descriptor.activation is None:
        return
    clamp = Activation(function=descriptor.activation, alpha=descriptor.activation_alpha, beta=descriptor.activation_beta)
    graph.rename(layer, f"{name}.linear")
    plain = replace(descriptor, activation=None, activation_alpha=0.0, activation_beta=0.0)
    graph.replace_descriptor(layer, plain)
    made = graph.add(clamp, layer.output, name=name, sources_of=layer.sources)
    for reader in readers:
        graph.disconnect(reader)
        graph.connect(made.output, reader)


class _Rewriting:
    def __init__(self, graph: Network, plan: Plan, numbers: Numbers) -> None:
        self.graph = graph
        self.plan = plan
        self.numbers = numbers
        self.names: dict[str, str] = {}
        self._integers: dict[OutputSlot, OutputSlot] = {}
        self._slots = {slot.name: slot for layer in graph.layers for slot in layer.outputs}

    def run(self) -> None:
        plan = self.plan
        borders, results = set(plan.borders), set(plan.computing.values())
        readers = {self._slots[name]: list(self._slots[name].consumers) for name in borders}
        moving = set(plan.moving)
        for layer in self.graph.topological_order():
            name = layer.name
            if name in plan.weighted:
                self._quantize_weights(layer)
            if name in moving:
                self._move(layer)
            for slot in layer.outputs:
                if slot.name in results:
                    self._quantize(slot, list(slot.consumers))
                elif slot.name in borders:
                    inner = [reader for reader in readers[slot] if reader.layer.name in plan.computing]
                    self._quantize(slot, inner)

    def _quantize(self, slot: OutputSlot, readers: list[InputSlot]) -> None:
        meaning = self._meaning(slot.name)
        sources = slot.layer.sources
        quantized = self.graph.add(
            Quantize(dtype=self.numbers.dtype, quantization=meaning), slot, name=f"{slot.name}.quantized", sources_of=sources
        )
        self._integers[slot] = quantized.output
        self._dequantize(slot.name, f"{slot.name}.dequantized", quantized.output, readers)

    def _dequantize(self, tensor: str, name: str, integers: OutputSlot, readers: list[InputSlot]) -> None:
        meaning = self._meaning(tensor)
        real = self.graph.add(Dequantize(quantization=meaning), integers, name=name, sources_of=integers.layer.sources)
        self.names[tensor] = real.output.name
        self._integers[real.output] = integers
        for reader in readers:
            self.graph.disconnect(reader)
            self.graph.connect(real.output, reader)

    def _move(self, layer: Layer) -> None:
        """Let a layer pass on integers; what they stand for gets its name."""
        for source in data_of(layer):
            for reader in [slot for slot in layer.inputs if slot.source is source]:
                self.graph.disconnect(reader)
                self.graph.connect(self._integers[source], reader)
        names = [slot.name for slot in layer.outputs]
        self.graph.rename(layer, f"{layer.name}.integers")
        self.graph.infer(layer)
        for name, slot in zip(names, layer.outputs, strict=True):
            self._dequantize(name, name, slot, list(slot.consumers))

    def _meaning(self, tensor: str) -> Quantization:
        return self.numbers.tensors[self.plan.leader(tensor)]

    def _quantize_weights(self, layer: Layer) -> None:
        """Store weights in 8 bits, and the bias in steps of the products."""
        (tensor,) = self.plan.inputs[layer.name]
        step = self._meaning(tensor).scale[0]
        weights, axis = real_weights(layer), filter_axis(layer)
        filters = weights.shape[axis]
        bias = layer.constant(2) if len(layer.inputs) > 2 else None
        real = np.zeros(filters) if bias is None else bias.astype(np.float64)
        real = real + self.numbers.biases.get(layer.name, 0.0)
        scales = scales_of_weights(weights, axis, real, step)
        integers = rounded(weights, scales, DType.INT8)
        self._feed(layer, 1, integers, scales)
        if bias is None and not real.any():
            return
        steps = Quantization.per_axis([step * scale for scale in scales.scale], axis=0)
        self._feed(layer, 2, rounded(real, steps, DType.INT32), steps)

    def _feed(self, layer: Layer, index: int, integers: npt.NDArray[np.generic], meaning: Quantization) -> None:
        what = ("weights", "bias")[index - 1]
        if index < len(layer.inputs):
            before = layer.inputs[index].source
            self.graph.disconnect(layer.inputs[index])
            if before is not None and not before.consumers:  # its name is free then
                self.graph.remove(before.layer)
        stored = self.graph.constant(integers, name=f"{layer.name}.{what}", copy=False)
        dequantize = Dequantize(quantization=meaning)
        real = self.graph.add(dequantize, stored, name=f"{layer.name}.{what}.dequantized", sources_of=layer.sources)
        if index < len(layer.inputs):
            self.graph.connect(real.output, layer.inputs[index])
        else:
            self.graph.append_input(layer, real.output)


def real_weights(layer: Layer) -> npt.NDArray[np.float32]:
    """Return the weights of a layer that has them, as `planned` saw."""
    weights = layer.constant(1)
    assert weights is not None
    return weights


def filter_axis(layer: Layer) -> int:
    """Return the axis of the weights that counts the filters."""
    descriptor = layer.descriptor
    if isinstance(descriptor, MatMul):
        return 1
    last = isinstance(descriptor, DepthwiseConvolution2d) and descriptor.layout is DataLayout.NHWC
    return 3 if last else 0


def has_room_for_bias(layer: Layer) -> bool:
    """Tell whether a layer with weights takes a bias; a product of matrices has none."""
    return not isinstance(layer.descriptor, MatMul)


def scales_of_weights(weights: npt.NDArray[np.float32], axis: int, bias: npt.NDArray[np.float64], step: float) -> Quantization:
    """Return scales by which the weights fit 8 bits and the bias 32.

    Args:
        weights: Of a layer.
        axis: What counts its filters.
        bias: For each filter.
        step: Scale of what the layer reads.
    """
    return weight_scales(weights, axis, np.abs(bias) / (BIAS_STEPS * step))
