"""What a network can be turned into."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from dovetail import DType, Network
from dovetail.graph.descriptor import Constant
from dovetail.graph.layer import InputSlot, Layer, OutputSlot
from dovetail.layers import (
    Cast,
    Convolution2d,
    DepthwiseConvolution2d,
    Dequantize,
    FullyConnected,
    Gather,
    Gru,
    Lstm,
    MatMul,
    Rnn,
    TransposeConvolution2d,
)

from .ranges import rounded, weight_scales

_Filtering = Convolution2d | DepthwiseConvolution2d | TransposeConvolution2d
_Recurrent = Rnn | Gru | Lstm
_WithWeights = _Filtering | FullyConnected | MatMul | Gather | _Recurrent


class Scheme(StrEnum):
    """Element types of weights and of what flows between layers."""

    INT8 = "int8"
    """Integers of 8 bits: weights by filter, tensors asymmetric, bias in 32 bits."""
    INT16X8 = "int16x8"
    """Weights as `INT8` has them, tensors in 16 bits, symmetric."""
    FLOAT16 = "float16"
    """Weights stored in float16; everything is computed as before."""
    DYNAMIC = "dynamic"
    """Weights as `INT8` has them; tensors and biases are floats."""

    @property
    def is_integer(self) -> bool:
        """Whether tensors between layers are integers."""
        return self in (Scheme.INT8, Scheme.INT16X8)


def readers_of_weights(graph: Network, scheme: Scheme) -> dict[Layer, list[Layer]]:
    """Return the constants that are stored in fewer bits, each with the layers that read it.

    Args:
        graph: As `prepared` returns it.
        scheme: One that changes nothing but constants.
    """
    found = {}
    for layer in graph.layers:
        if isinstance(layer.descriptor, Constant) and layer.output.dtype is DType.FLOAT32 and layer.output.consumers:
            fits = _fits_float16(layer) if scheme is Scheme.FLOAT16 else _axis_of_scales(layer) is not None
            if fits:
                found[layer] = [reader.layer for reader in layer.output.consumers]
    return found


def _fits_float16(constant: Layer) -> bool:
    values = _values(constant)
    small = values.ndim > 0 and values.size > 1 and bool(np.abs(values).max() <= np.finfo(np.float16).max)
    return small and all(isinstance(reader.layer.descriptor, _WithWeights) for reader in constant.output.consumers)


def _axis_of_scales(constant: Layer) -> int | None:
    """Return the axis along which weights have scales; None for what is no weights to a reader."""
    values = _values(constant)
    if values.ndim < 2 or not values.size or not np.isfinite(values).all():
        return None
    axes = {_axis_of(reader, values.ndim) for reader in constant.output.consumers}
    return axes.pop() if len(axes) == 1 else None


def _axis_of(reader: InputSlot, rank: int) -> int | None:
    """Return the axis of weights whose slices are multiplied apart from each other."""
    descriptor, place = reader.layer.descriptor, reader.index
    if isinstance(descriptor, _Filtering | FullyConnected) and place == 1:
        return 0 if isinstance(descriptor, FullyConnected) else descriptor.filter_axis
    if isinstance(descriptor, _Recurrent) and place in (1, 2):
        return 0
    if isinstance(descriptor, Gather) and place == 0:
        return descriptor.axis % rank
    if isinstance(descriptor, MatMul):
        return rank - 1 - (descriptor.transpose_b if place == 1 else not descriptor.transpose_a)
    return None


def _values(constant: Layer) -> npt.NDArray[np.generic]:
    assert isinstance(constant.descriptor, Constant)  # callers look for these
    return constant.descriptor.value


def with_smaller_weights(
    graph: Network, scheme: Scheme, kept: frozenset[str], biases: Mapping[str, npt.NDArray[np.float64]] | None = None
) -> tuple[Network, dict[str, str]]:
    """Return a copy whose weights are stored in fewer bits, behind layers that make them float32.

    Args:
        graph: As `prepared` returns it.
        scheme: One that changes nothing but constants.
        kept: Layers whose constants stay as they are.
        biases: What is added to the bias of a layer whose weights are rounded, for each filter.

    Returns:
        The copy, and the tensors of layers that read such constants, each as its own counterpart.
    """
    copy, names = graph.copy(), dict[str, str]()
    for constant, readers in readers_of_weights(copy, scheme).items():
        if any(reader.name in kept for reader in readers):
            continue
        slots = list(constant.output.consumers)
        real = _in_float16(copy, constant) if scheme is Scheme.FLOAT16 else _in_int8(copy, constant)
        for slot in slots:
            copy.disconnect(slot)
            copy.connect(real, slot)
        copy.remove(constant)
        for slot in slots:
            if biases and slot.index == 1 and slot.layer.name in biases:
                _add_to_bias(copy, slot.layer, biases[slot.layer.name])
        names |= {slot.name: slot.name for reader in readers for slot in reader.outputs}
    return copy, names


def _add_to_bias(graph: Network, layer: Layer, difference: npt.NDArray[np.float64]) -> None:
    before = layer.constant(2) if len(layer.inputs) > 2 else None
    value = (difference if before is None else before + difference).astype(np.float32)
    bias = graph.constant(value, name=graph.unique_name(f"{layer.name}.bias"), copy=False)
    if len(layer.inputs) <= 2:
        graph.append_input(layer, bias)
        return
    if layer.inputs[2].source is not None:
        graph.disconnect(layer.inputs[2])
    graph.connect(bias, layer.inputs[2])


def _in_float16(graph: Network, constant: Layer) -> OutputSlot:
    stored = graph.constant(_values(constant).astype(np.float16), name=f"{constant.name}.float16", copy=False)
    return graph.add(Cast(dtype=DType.FLOAT32), stored, name=f"{constant.name}.float32").output


def _in_int8(graph: Network, constant: Layer) -> OutputSlot:
    values, axis = _values(constant), _axis_of_scales(constant)
    assert axis is not None  # `readers_of_weights` saw it
    scales = weight_scales(values, axis, np.zeros(values.shape[axis]))
    stored = graph.constant(rounded(values, scales, DType.INT8), name=f"{constant.name}.int8", copy=False)
    return graph.add(Dequantize(quantization=scales), stored, name=f"{constant.name}.dequantized").output
