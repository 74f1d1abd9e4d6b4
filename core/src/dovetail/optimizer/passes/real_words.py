"""Compute products of 16-bit words as real numbers where a preferred backend takes these alone."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from ...graph.descriptor import Array, Constant
from ...graph.element_types import DType
from ...graph.graph import Graph
from ...graph.layer import Layer, OutputSlot
from ...graph.tensor import Quantization
from ...layers import (
    ActivationFunction,
    Convolution2d,
    DepthwiseConvolution2d,
    Dequantize,
    FullyConnected,
    MatMul,
    Quantize,
    TransposeConvolution2d,
)
from ..annotation import Home
from ..rewriting import derived_constant, prune
from .base import Pass

_Filtering = Convolution2d | DepthwiseConvolution2d | FullyConnected | TransposeConvolution2d


class RealWords(Pass):
    """Turn products of quantized int16 into Dequantize -> float layer -> Quantize.

    This is done where it moves the product to a backend that stands earlier in the preference.

    Words are made floats as they are, and the weights are multiplied by the very factor of 15 bits
    that turns integer sums into results (TensorFlow Lite, MultiplyByQuantizedMultiplier of 64 bits;
    a double of fully connected layers): products are exact in float32, and results differ from
    those of integers only where the rounding of sums in float32 takes them over a tie.

    Args:
        home: Place of the backend that would run a layer in the order of preference; None: nobody
            would.
    """

    name: ClassVar[str] = "real_words"

    def __init__(self, home: Home) -> None:
        self.home = home

    def run(self, graph: Graph) -> int:
        return sum(self._convert(graph, layer) for layer in graph.topological_order() if _multiplies_words(layer))

    def _convert(self, graph: Graph, layer: Layer) -> bool:
        place = self.home(layer)
        if place == 0:
            return False
        made = _real(graph, layer)
        if made is None:
            return False
        homes = [self.home(one) for one in made if not isinstance(one.descriptor, Constant)]
        if any(home is None or (place is not None and home >= place) for home in homes):
            prune(graph, made[::-1])
            return False
        name, last = layer.name, made[-1]
        graph.redirect(layer.output, last.output)
        prune(graph, [layer])
        graph.rename(last, name)
        return True


def _multiplies_words(layer: Layer) -> bool:
    if not isinstance(layer.descriptor, _Filtering | MatMul):
        return False
    source, result = layer.inputs[0].info, layer.output.known_info
    if source is None or source.dtype is not DType.INT16:
        return False
    return source.quantization is not None and result.quantization is not None


def _real(graph: Graph, layer: Layer) -> list[Layer] | None:
    """Add the layers that compute the same in floats; the last is a `Quantize`.

    Returns None, and adds nothing, where weights are not constant or leave the range of floats.
    """
    result, source = layer.output.known_info.quantization, layer.inputs[0].source
    mine = None if source is None else source.known_info.quantization
    descriptor = _in_steps(layer.descriptor, result)
    factors = _factors(layer)
    if source is None or mine is None or result is None or descriptor is None or factors is None:
        return None
    constants = _constants(layer, factors)
    if constants is None:
        return None
    name, made = layer.name, list[Layer]()

    def add(kind: Any, slot: OutputSlot, part: str, quantization: Quantization | None = None) -> OutputSlot:
        made.append(graph.add(kind, slot, name=f"{name}.{part}", quantization=quantization, sources_of=layer.sources))
        return made[-1].output

    operands = [add(Dequantize(quantization=Quantization.per_tensor(1.0, mine.zero_point[0])), source, "reals")]
    for index, value in enumerate(constants, 1):
        if value is None:
            other = layer.inputs[index].source
            assert other is not None  # it is connected, and no constant
            zero = other.known_info.quantization
            scheme = Quantization.per_tensor(float(factors[0]), 0 if zero is None else zero.zero_point[0])
            operands.append(add(Dequantize(quantization=scheme), other, "others"))
        else:
            operands.append(derived_constant(graph, value, layer, f"{name}.{('weights', 'bias')[index - 1]}"))
            made.append(operands[-1].layer)
    made.append(graph.add(descriptor, *operands, name=f"{name}.real", sources_of=layer.sources))
    steps = Quantization.per_tensor(1.0, result.zero_point[0])
    add(Quantize(dtype=DType.INT16, quantization=steps), made[-1].output, "words", result)
    return made


def _in_steps(descriptor: Any, result: Quantization | None) -> Any:
    """Return the layer whose results are counted in steps; None if its activation cannot be."""
    function = getattr(descriptor, "activation", None)
    if function in (None, ActivationFunction.RELU) or result is None:
        return descriptor
    if function is not ActivationFunction.BOUNDED_RELU:
        return None
    bounds = (float(np.float32(bound / result.scale[0])) for bound in (descriptor.activation_alpha, descriptor.activation_beta))
    alpha, beta = (one if math.isinf(one) else math.copysign(math.floor(abs(one) + 0.5), one) for one in bounds)
    return replace(descriptor, activation_alpha=alpha, activation_beta=beta)


def _factors(layer: Layer) -> Array | None:
    """Return by what integer sums are multiplied: one factor, or one for each filter."""
    ours, theirs, result = layer.inputs[0].info, layer.inputs[1].info, layer.output.known_info.quantization
    if ours is None or theirs is None or ours.quantization is None or theirs.quantization is None or result is None:
        return None
    single = isinstance(layer.descriptor, MatMul)
    a, b = np.float64(ours.quantization.scale[0]), np.asarray(theirs.quantization.scale, np.float64)
    products = (a.astype(np.float32) * b.astype(np.float32)).astype(np.float64) if single else a * b
    with np.errstate(over="ignore"):
        factors = products / result.scale[0]
        fractions, exponents = np.frexp(factors)
    bias = layer.inputs[2].info if len(layer.inputs) > 2 else None
    if not isinstance(layer.descriptor, FullyConnected):  # whose factors are no fixed point
        multipliers = np.floor(fractions * 2.0**31 + 0.5)
        if bias is None or bias.dtype is not DType.INT32:  # sums of 32 bits have all of the multiplier
            multipliers = np.where(multipliers < 0x7FFF0000, np.floor((multipliers + 2.0**15) / 2.0**16), 0x7FFF) * 2.0**16
        factors = np.ldexp(multipliers, exponents - 31)
    tiny, most = np.finfo(np.float32).tiny, np.finfo(np.float32).max
    return factors if bool(np.all((factors > tiny) & (factors < most))) else None


def _constants(layer: Layer, factors: Array) -> list[Array | None] | None:
    """Return weights and bias as floats; None stands for weights that are no constant."""
    weights, info = layer.constant(1), layer.inputs[1].info
    assert info is not None
    scheme = info.quantization
    if scheme is None or (weights is None and not isinstance(layer.descriptor, MatMul)):
        return None
    if weights is None:
        return [None]
    column = [1] * weights.ndim
    if scheme.axis is not None:
        column[scheme.axis] = -1
    zeros, laid = np.asarray(scheme.zero_point, np.float64).reshape(column), factors.reshape(column)
    found: list[Array | None] = [((weights - zeros) * laid).astype(np.float32)]
    if len(layer.inputs) > 2 and layer.inputs[2].source is not None:
        bias = layer.constant(2)
        if bias is None:
            return None
        found.append((bias * factors).astype(np.float32))
    return found if all(np.isfinite(value).all() for value in found if value is not None) else None
