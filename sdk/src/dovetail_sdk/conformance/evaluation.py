"""What a graph must compute, in NumPy and float64, with a bound on an honest backend's error.

Nothing here knows how dovetail optimizes or runs a graph. Each value carries a running error
analysis (Higham, Accuracy and Stability of Numerical Algorithms, chapter 3): `worst` is what the
roundings of all layers before can add up to, `typical` what they add up to if they are independent.
Quantized tensors are followed in real numbers, unrounded: each layer that requantizes may be one
step off, whatever its rounding mode.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dovetail import Constant, DataLayout, DType, Layer, Quantization, TensorInfo
from dovetail.contract.promises import Deviation
from dovetail.graph.descriptor import Input, Output
from dovetail.graph.graph import Graph
from dovetail.graph.layer import OutputSlot

from .cases import Array
from .comparing import widened

ROUNDOFF = {DType.FLOAT64: 2.0**-53, DType.FLOAT32: 2.0**-24, DType.FLOAT16: 2.0**-11}
"""Half the distance of neighbouring numbers, relative."""
_TINY = {DType.FLOAT64: 1e-300, DType.FLOAT32: 1e-37, DType.FLOAT16: 1e-7}
_REQUANTIZED = 1.0
"""Steps by which requantizing may be off: half to round, half where a kernel rounds twice."""
_REQUANTIZED_TYPICAL = 0.3
"""The same as a deviation: a rounding error is uniform, 1 / sqrt(12)."""
_TRANSCENDENTAL = 32.0
"""Units of roundoff granted to tanh and sigmoid."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A tensor as it should be.

    Attributes:
        value: float64; of a quantized tensor, the quantized numbers before rounding.
        worst: Greatest error that roundings can add up to, per element.
        typical: The deviation if they are independent, per element.
    """

    value: Array
    worst: Array
    typical: Array

    @classmethod
    def exact(cls, value: Array) -> Estimate:
        """Take a tensor that is fed or constant."""
        known = np.asarray(value, np.float64)
        return cls(known, np.zeros_like(known), np.zeros_like(known))

    def each(self, move: Callable[[Array], Array]) -> Estimate:
        """Move elements about."""
        return Estimate(move(self.value), move(self.worst), move(self.typical))


def evaluate(
    graph: Graph, feeds: Mapping[str, Array], deviations: Callable[[Layer], Sequence[Deviation]] = lambda layer: ()
) -> dict[str, Estimate]:
    """Return what each output of a graph must be.

    Args:
        graph: Of the kinds in `KINDS`; every info concrete, or independent of the sizes of the
            feeds.
        feeds: By name of the input.
        deviations: Returns those that the backend declares for a layer: bounds have room for them.
    """
    known: dict[OutputSlot, Estimate] = {}
    results = {}
    for layer in graph.topological_order():
        descriptor = layer.descriptor
        if isinstance(descriptor, Input):
            known[layer.output] = Estimate.exact(feeds[layer.name])
        elif isinstance(descriptor, Constant):
            known[layer.output] = Estimate.exact(descriptor.value)
        elif isinstance(descriptor, Output):
            source = layer.inputs[0].source
            assert source is not None
            results[layer.name] = known[source]
        else:
            operands = [None if slot.source is None else known[slot.source] for slot in layer.inputs]
            computed = [_with_room(one, deviations(layer)) for one in compute(layer, operands)]
            known.update(zip(layer.outputs, computed, strict=True))
    return results


def _with_room(one: Estimate, deviations: Sequence[Deviation]) -> Estimate:
    """Widen the bounds by what is declared; nothing bounds what NaN may become."""
    for deviation in deviations:
        room = deviation.absolute + deviation.relative * np.abs(one.value)
        if deviation.nonfinite:
            room = np.where(np.isfinite(one.value), room, np.inf)
        one = Estimate(one.value, one.worst + room, np.hypot(one.typical, room))
    return one


def compute(layer: Layer, operands: Sequence[Estimate | None]) -> list[Estimate]:
    """Return what a layer makes of its operands.

    Raises:
        KeyError: There is no evaluation of its kind.
    """
    quantizations = [None if slot.source is None else _quantization(slot.source) for slot in layer.inputs]
    dtype = layer.output_infos[0].dtype
    roundoff = ROUNDOFF.get(dtype, 2.0**-31)  # quantized sums are exact in int32; their scaling has 31 bits
    reals = [
        None if one is None else _real(one, quantization) for one, quantization in zip(operands, quantizations, strict=True)
    ]
    with np.errstate(all="ignore"):  # NaN and infinities are fed on purpose
        results = KINDS[layer.kind](layer, reals, roundoff)
    moved = layer.kind in _MOVES
    return [
        _stored(result, slot.known_info, quantizations[0], moved=moved)
        for slot, result in zip(layer.outputs, results, strict=True)
    ]


def _quantization(slot: OutputSlot) -> Quantization | None:
    return slot.known_info.quantization


def _column(values: Sequence[float], rank: int, axis: int | None) -> Array:
    shape = [1] * rank
    if axis is not None:
        shape[axis] = -1
    return np.asarray(values, np.float64).reshape(shape if axis is not None else ())


def _real(one: Estimate, quantization: Quantization | None) -> Estimate:
    if quantization is None:
        return one
    scale = _column(quantization.scale, one.value.ndim, quantization.axis)
    zero = _column(quantization.zero_point, one.value.ndim, quantization.axis)
    return Estimate((one.value - zero) * scale, one.worst * scale, one.typical * scale)


def _stored(result: Estimate, info: TensorInfo, before: Quantization | None, *, moved: bool) -> Estimate:
    quantization = info.quantization
    if quantization is None:
        floor = _TINY.get(info.dtype, 0.0)
        return Estimate(result.value, result.worst + floor, result.typical + floor)
    scale, zero = quantization.scale[0], quantization.zero_point[0]
    low, high = (-128, 127) if info.dtype is DType.INT8 else (0, 255)
    step, spread = (1e-6, 0.0) if moved and quantization == before else (_REQUANTIZED, _REQUANTIZED_TYPICAL)
    return Estimate(
        np.clip(result.value / scale + zero, low, high),
        result.worst / scale + step,
        np.hypot(result.typical / scale, spread),
    )


# -- kinds -----------------------------------------------------------------------------------------

_Operands = Sequence[Estimate | None]


def _present(one: Estimate | None) -> Estimate:
    assert one is not None
    return one


def _linear(product: Callable[[Array, Array], Array], x: Estimate, weights: Array, terms: int, roundoff: float) -> Estimate:
    """A sum of products with known weights."""
    magnitude = product(np.abs(x.value), np.abs(weights))
    return Estimate(
        product(x.value, weights),
        product(x.worst, np.abs(weights)) + (terms + 2) * roundoff * magnitude,
        np.sqrt(product(x.typical**2, weights**2) + (roundoff * magnitude) ** 2),
    )


def _with_bias(y: Estimate, bias: Array | None, roundoff: float) -> Estimate:
    if bias is None:
        return y
    own = roundoff * (np.abs(y.value) + np.abs(bias))
    return Estimate(y.value + bias, y.worst + 2 * own, np.hypot(y.typical, own))


def _bias(layer: Layer, operands: _Operands) -> Array | None:
    """Bias in real numbers; an int32 bias without a quantization is scaled as the products are."""
    if len(operands) < 3 or operands[2] is None:
        return None
    source = layer.inputs[2].source
    assert source is not None
    if _quantization(source) is not None or source.known_info.dtype.is_float:
        return operands[2].value
    inputs = [_quantization(slot.source) for slot in layer.inputs[:2] if slot.source is not None]
    scales = [np.asarray(one.scale) for one in inputs if one is not None]
    return np.asarray(operands[2].value * math.prod(scales))


def _fully_connected(layer: Layer, operands: _Operands, roundoff: float) -> list[Estimate]:
    weights = _present(operands[1]).value
    y = _linear(lambda a, w: a @ w.T, _present(operands[0]), weights, weights.shape[1], roundoff)
    return [_with_bias(y, _bias(layer, operands), roundoff)]


def _images(layout: DataLayout) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
    """To NCHW and back."""
    if layout is DataLayout.NCHW:
        return (lambda a: a), (lambda a: a)
    return (lambda a: a.transpose(0, 3, 1, 2)), (lambda a: a.transpose(0, 2, 3, 1))


def _windows(x: Array, size: Sequence[int], d: Any) -> list[list[Array]]:
    """Return what each tap of a window meets, [N, C, rows, columns], by the tap's place."""
    rows = (x.shape[2] - d.dilation[0] * (size[0] - 1) - 1) // d.stride[0] + 1
    columns = (x.shape[3] - d.dilation[1] * (size[1] - 1) - 1) // d.stride[1] + 1

    def tap(i: int, j: int) -> Array:
        top, left = i * d.dilation[0], j * d.dilation[1]
        bottom, right = top + (rows - 1) * d.stride[0] + 1, left + (columns - 1) * d.stride[1] + 1
        return x[:, :, top : bottom : d.stride[0], left : right : d.stride[1]]

    return [[tap(i, j) for j in range(size[1])] for i in range(size[0])]


def _correlate(x: Array, weights: Array, d: Any, groups: int) -> Array:
    """x [N, C, H, W], weights [O, C / groups, h, w]."""
    top, left, bottom, right = d.padding
    taps = _windows(np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right))), weights.shape[2:], d)
    share, each = weights.shape[1], weights.shape[0] // groups
    parts = []
    for g in range(groups):
        inputs, filters = slice(g * share, (g + 1) * share), slice(g * each, (g + 1) * each)
        parts.append(
            sum(
                np.einsum("nchw,oc->nohw", tap[:, inputs], weights[filters, :, i, j])
                for i, row in enumerate(taps)
                for j, tap in enumerate(row)
            )
        )
    return np.concatenate(parts, 1)


def _convolution(layer: Layer, operands: _Operands, roundoff: float) -> list[Estimate]:
    d: Any = layer.descriptor
    there, back = _images(d.layout)
    depthwise = layer.kind == "dovetail.DepthwiseConvolution2d"
    x, weights = _present(operands[0]).each(there), _present(operands[1]).value
    if not depthwise:
        weights = there(weights)
    elif d.layout is DataLayout.NHWC:  # [1, h, w, C * multiplier]
        weights = weights.transpose(3, 0, 1, 2)
    groups = x.value.shape[1] if depthwise else d.groups
    y = _linear(lambda a, w: _correlate(a, w, d, groups), x, weights, math.prod(weights.shape[1:]), roundoff)
    bias = _bias(layer, operands)
    return [_with_bias(y, None if bias is None else bias[:, None, None], roundoff).each(back)]


def _pooling(layer: Layer, operands: _Operands, roundoff: float) -> list[Estimate]:
    d: Any = layer.descriptor
    there, back = _images(d.layout)
    x = _present(operands[0]).each(there)
    assert not any(d.padding)

    def stacked(a: Array) -> Array:
        return np.stack([tap for row in _windows(a, d.size, d) for tap in row])

    return [_pooled(d.function, x.each(stacked), 0, math.prod(d.size), roundoff).each(back)]


def _pooled(function: str, x: Estimate, axis: int | tuple[int, ...], count: int, roundoff: float) -> Estimate:
    if function == "max":
        return Estimate(x.value.max(axis), x.worst.max(axis), x.typical.max(axis))
    own = roundoff * np.abs(x.value).mean(axis)
    typical = np.sqrt((x.typical**2).mean(axis) / count)
    return Estimate(x.value.mean(axis), x.worst.mean(axis) + (count + 2) * own, np.hypot(typical, own))


def _global_pooling(layer: Layer, operands: _Operands, roundoff: float) -> list[Estimate]:
    d: Any = layer.descriptor
    x = _present(operands[0])
    axes = tuple(axis % x.value.ndim for axis in d.layout.spatial_axes(x.value.ndim))
    y = _pooled(d.function, x, axes, math.prod(x.value.shape[axis] for axis in axes), roundoff)
    return [y.each(lambda a: np.expand_dims(a, axes))]


_ACTIVATIONS: dict[str, tuple[Callable[[Array, float, float], Array], float, float]] = {
    "relu": (lambda x, a, b: np.maximum(x, 0), 1.0, 0.0),
    "bounded_relu": (lambda x, a, b: np.minimum(a, np.maximum(b, x)), 1.0, 0.0),
    "leaky_relu": (lambda x, a, b: np.where(x >= 0, x, a * x), 1.0, 2.0),
    "tanh": (lambda x, a, b: np.tanh(x), 1.0, _TRANSCENDENTAL),
    "sigmoid": (lambda x, a, b: (1 + np.tanh(x / 2)) / 2, 0.25, _TRANSCENDENTAL),
}
"""By function: the function, how far it can stretch a difference, its own units of roundoff."""


def _activation(layer: Layer, operands: _Operands, roundoff: float) -> list[Estimate]:
    d: Any = layer.descriptor
    function, slope, units = _ACTIVATIONS[d.function]
    x = _present(operands[0])
    y = function(x.value, d.alpha, d.beta)
    own = units * roundoff * np.abs(y)
    return [Estimate(y, slope * x.worst + own, np.hypot(slope * x.typical, own))]


def _softmax(layer: Layer, operands: _Operands, roundoff: float) -> list[Estimate]:
    """Divide exp(beta * x) by its sum, or take the logarithm; differences count at most twice."""
    d: Any = layer.descriptor
    x = _present(operands[0])
    shifted = d.beta * (x.value - x.value.max(d.axis, keepdims=True))
    total = np.exp(shifted).sum(d.axis, keepdims=True)
    stretch = 2 * abs(d.beta) * x.worst.max(d.axis, keepdims=True)
    spread = 2 * abs(d.beta) * x.typical.max(d.axis, keepdims=True)
    if d.log:
        y, size = shifted - np.log(total), np.ones_like(shifted)
    else:
        y = size = np.exp(shifted) / total
    # The exponent is rounded before exp() makes a relative error of it.
    own = (_TRANSCENDENTAL + x.value.shape[d.axis] + 2 * np.abs(shifted)) * roundoff * np.maximum(np.abs(y), size)
    return [Estimate(y, stretch * size + own, np.hypot(spread * size, own))]


def _binary(layer: Layer, operands: _Operands, roundoff: float) -> list[Estimate]:
    d: Any = layer.descriptor
    a, b = _present(operands[0]), _present(operands[1])
    if d.operation == "mul":
        y = a.value * b.value
        worst = np.abs(a.value) * b.worst + np.abs(b.value) * a.worst + a.worst * b.worst
        typical = np.abs(a.value) * b.typical + np.abs(b.value) * a.typical
    else:
        y = _OPERATIONS[d.operation](a.value, b.value)
        worst, typical = a.worst + b.worst, a.typical + b.typical  # what is joined often comes from one tensor
    own = roundoff * np.abs(y)
    return [Estimate(y, worst + 2 * own, np.hypot(typical, own))]


_OPERATIONS: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "maximum": np.maximum,
    "minimum": np.minimum,
}


def _concat(layer: Layer, operands: _Operands, roundoff: float) -> list[Estimate]:
    d: Any = layer.descriptor
    parts = [_present(one) for one in operands]
    return [
        Estimate(
            np.concatenate([p.value for p in parts], d.axis),
            np.concatenate([p.worst for p in parts], d.axis),
            np.concatenate([p.typical for p in parts], d.axis),
        )
    ]


def _split(layer: Layer, operands: _Operands, roundoff: float) -> list[Estimate]:
    d: Any = layer.descriptor
    parts, x = len(layer.outputs), _present(operands[0])
    return [x.each(lambda a, i=i: np.split(a, parts, d.axis)[i]) for i in range(parts)]  # type: ignore[misc]  # i is bound early


def _reshape(layer: Layer, operands: _Operands, roundoff: float) -> list[Estimate]:
    shape = layer.output.known_info.sizes
    return [_present(operands[0]).each(lambda a: a.reshape(shape))]


def _permute(layer: Layer, operands: _Operands, roundoff: float) -> list[Estimate]:
    d: Any = layer.descriptor
    x = _present(operands[0])
    return [x.each(lambda a: a.transpose(d.order(a.ndim)))]


KINDS: dict[str, Callable[[Layer, _Operands, float], list[Estimate]]] = {
    "dovetail.Activation": _activation,
    "dovetail.Concat": _concat,
    "dovetail.Convolution2d": _convolution,
    "dovetail.DepthwiseConvolution2d": _convolution,
    "dovetail.ElementwiseBinary": _binary,
    "dovetail.FullyConnected": _fully_connected,
    "dovetail.GlobalPooling": _global_pooling,
    "dovetail.Permute": _permute,
    "dovetail.Pooling2d": _pooling,
    "dovetail.Reshape": _reshape,
    "dovetail.Softmax": _softmax,
    "dovetail.Split": _split,
}
_MOVES = frozenset({"dovetail.Concat", "dovetail.Permute", "dovetail.Reshape", "dovetail.Split"})


# -- judging ---------------------------------------------------------------------------------------

_SAFETY = 2.0
"""Bounds are of first order: what they leave out is far below this factor."""
_SPREAD = {True: 8.0, False: 16.0}
"""How many times the typical error a whole tensor may have; quantized or not.

The error of a tensor is a root of the mean of squares. Floats have more room: a kernel may sum in
any order, and by algorithms that round more, such as Winograd's."""


def complaint(found: Array, expected: Estimate, info: TensorInfo) -> str:
    """Say what is wrong with a result, or nothing."""
    if found.shape != expected.value.shape:
        return f"has shape {list(found.shape)}, expected {list(expected.value.shape)}"
    got = widened(found)
    with np.errstate(invalid="ignore"):
        error = np.abs(got - expected.value)
    error[~np.isfinite(got)] = np.inf
    if got.size == 0:
        return ""
    over = error - _SAFETY * expected.worst
    at = np.unravel_index(int(np.argmax(over)), over.shape)
    if over[at] > 0:
        return (
            f"element {[int(i) for i in at]} is {got[at]:.9g}, expected {expected.value[at]:.9g}; "
            f"{int((over > 0).sum())} of {got.size} elements are further off than {_SAFETY:g} times what rounding explains "
            f"({expected.worst[at]:.2g} here)"
        )
    # After a few layers the worst case is far off; the spread is not.
    is_quantized = info.quantization is not None
    spread = math.sqrt((error**2).mean())
    allowed = _SPREAD[is_quantized] * math.sqrt((expected.typical**2).mean()) + (0.5 if is_quantized else 0.0)
    if spread > allowed:
        return f"is {spread:.3g} off on average (root of the mean of squares), rounding explains {allowed:.3g}"
    return ""
