"""What a network can be turned into."""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from dovetail import DType, Network
from dovetail.graph.descriptor import Constant
from dovetail.graph.layer import Layer
from dovetail.layers import (
    Cast,
    Convolution2d,
    DepthwiseConvolution2d,
    FullyConnected,
    Gather,
    Gru,
    Lstm,
    MatMul,
    Rnn,
    TransposeConvolution2d,
)

_WithWeights = (
    Convolution2d | DepthwiseConvolution2d | TransposeConvolution2d | FullyConnected | MatMul | Gather | Rnn | Gru | Lstm
)


class Scheme(StrEnum):
    """Element types of weights and of what flows between layers."""

    INT8 = "int8"
    """Integers of 8 bits: weights by filter, tensors asymmetric, bias in 32 bits."""
    INT16X8 = "int16x8"
    """Weights as `INT8` has them, tensors in 16 bits, symmetric."""
    FLOAT16 = "float16"
    """Weights stored in float16; everything is computed as before."""

    @property
    def is_integer(self) -> bool:
        """Whether tensors between layers are integers."""
        return self is not Scheme.FLOAT16


def readers_of_weights(graph: Network) -> dict[Layer, list[Layer]]:
    """Return the constants that float16 holds, each with the layers that read it."""
    found = {}
    for layer in graph.layers:
        if isinstance(layer.descriptor, Constant) and layer.output.dtype is DType.FLOAT32 and _fits_float16(layer.descriptor):
            found[layer] = [reader.layer for reader in layer.output.consumers]
    return {one: readers for one, readers in found.items() if readers and all(map(_has_weights, readers))}


def _has_weights(layer: Layer) -> bool:
    return isinstance(layer.descriptor, _WithWeights)


def _fits_float16(constant: Constant) -> bool:
    values = constant.value
    return values.ndim > 0 and values.size > 1 and bool(np.abs(values).max() <= np.finfo(np.float16).max)


def with_float16_weights(graph: Network, kept: frozenset[str]) -> tuple[Network, dict[str, str]]:
    """Return a copy whose constants are stored in float16, with a cast behind each.

    Args:
        graph: As `prepared` returns it.
        kept: Layers whose constants stay as they are.

    Returns:
        The copy, and the tensors of layers that read such constants, each as its own counterpart.
    """
    copy, names = graph.copy(), dict[str, str]()
    for constant, readers in readers_of_weights(copy).items():
        if any(reader.name in kept for reader in readers):
            continue
        assert isinstance(constant.descriptor, Constant)  # it is among these
        slots = list(constant.output.consumers)
        stored = copy.constant(constant.descriptor.value.astype(np.float16), name=f"{constant.name}.float16", copy=False)
        real = copy.add(Cast(dtype=DType.FLOAT32), stored, name=f"{constant.name}.float32")
        for slot in slots:
            copy.disconnect(slot)
            copy.connect(real.output, slot)
        copy.remove(constant)
        names |= {slot.name: slot.name for reader in readers for slot in reader.outputs}
    return copy, names
