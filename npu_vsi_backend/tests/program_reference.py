"""What programs compute, in NumPy: exact integers, and the floats of each engine spelled out.

Written from the formulas that README.md states, apart from the code that it judges: nothing is cut
into pieces, tables are not used, sums are in 64 bits.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from dovetail_npu_vsi import program as p
from dovetail_npu_vsi.chips import Chip
from dovetail_npu_vsi.engines import multiplies_by_shader

Integers = npt.NDArray[np.int64]
f32 = np.float32


def evaluate(program: p.Program, chip: Chip, inputs: list[Any]) -> list[npt.NDArray[np.uint8]]:
    """Return the outputs of a program."""
    values: dict[int, Integers] = {
        number: np.asarray(array, np.int64) for number, array in zip(program.inputs, inputs, strict=True)
    }
    for operation in program.operations:
        read = [values[number] for number in operation.inputs]
        tensors = [program.tensors[number] for number in (*operation.inputs, operation.output)]
        evaluator = _EVALUATORS[type(operation)]
        if isinstance(operation, p.Binary) and _adds_results(operation, program):
            evaluator = _sum_of_products
        result = evaluator(operation, chip, tensors, *read)
        values[operation.output] = np.asarray(result, np.int64).reshape(tensors[-1].shape)
    return [values[number].astype(np.uint8) for number in program.outputs]


def scaled(sums: Integers, ratio: np.float32, fraction_bits: int) -> list[int]:
    """Sums times a ratio of a truncated mantissa, rounded to nearest even, in Python's integers."""
    fraction, exponent = math.frexp(float(ratio))
    mantissa = math.floor(fraction * 2 ** (fraction_bits + 1))
    shift = fraction_bits + 1 - exponent
    return [_half_even(int(one) * mantissa, shift) for one in np.ravel(sums)]


def _half_even(value: int, shift: int) -> int:
    if shift <= 0:
        return value << -shift
    whole, rest = value >> shift, value & ((1 << shift) - 1)
    return whole + (2 * rest > 1 << shift or (2 * rest == 1 << shift and whole & 1))


def tensor_float(values: Any) -> Any:
    """15 bits of fraction, ties to even."""
    fraction, exponent = np.frexp(np.asarray(values, np.float64))
    return np.ldexp(np.rint(fraction * 2.0**16), exponent - 16)


def _products(operation: Any, chip: Chip, tensors: Any, sums: Integers) -> Integers:
    """Finish sums [N, O, ...] of a layer with weights, in integers."""
    made = np.empty(sums.shape, np.int64)
    for channel, ratio in enumerate(_ratios(operation, tensors)):
        of_one = (sums[:, channel] + int(operation.weights.bias[channel])).astype(np.int32).astype(np.int64)
        finished = np.reshape(scaled(of_one, ratio, chip.fraction_bits), of_one.shape)
        made[:, channel] = np.clip(finished + tensors[-1].zero_point, operation.low, operation.high)
    return made


def _by_shader(operation: Any, tensors: Any, sums: Any) -> Integers:
    """Finish float sums [N, O, ...]: a product and a sum, each rounded, then to an integer."""
    made = np.empty(sums.shape, np.int64)
    for channel, ratio in enumerate(_ratios(operation, tensors)):
        finished = sums[:, channel].astype(f32) * ratio + f32(tensors[-1].zero_point)
        made[:, channel] = np.clip(np.rint(finished), operation.low, operation.high)
    return made


def _ratios(operation: Any, tensors: Any) -> list[np.float32]:
    x, y = tensors[0], tensors[-1]
    scales = np.broadcast_to(np.asarray(operation.weights.scale, f32), len(operation.weights.values))
    return [f32(f32(f32(x.scale) * scale) / f32(y.scale)) for scale in scales]


def _multiplied(operation: Any, chip: Chip, tensors: Any, taps: Any) -> Integers:
    """Sum and finish what taps(o) yields of a filter.

    That is, in order: the chunk of the shader, elements less their zero point [N, ...], the weight.
    """
    bias, zero_point = operation.weights.bias.astype(np.int64), tensors[0].zero_point
    program = p.Program("one", tuple(tensors), (replace(operation, inputs=(0,), output=1),), (0,), (1,))
    if not multiplies_by_shader(program.operations[0], program, chip):
        return _products(operation, chip, tensors, np.stack([sum(x * w for _, x, w in taps(o)) for o in range(len(bias))], 1))
    if not operation.weights.is_per_channel:
        sums = np.stack([sum(x * w for _, x, w in taps(o)) + bias[o] for o in range(len(bias))], 1)
        return _by_shader(operation, tensors, sums)
    return _by_shader(
        operation, tensors, np.stack([_float_sum(operation, bias[o], zero_point, list(taps(o))) for o in range(len(bias))], 1)
    )


def _float_sum(operation: Any, bias: Any, zero_point: int, taps: Any) -> Any:
    """Sum the products of each chunk exactly, and these in a float."""
    shift = zero_point * sum(w for _, _, w in taps)
    if isinstance(operation, p.FullyConnected) or _way_of_depthwise(operation) == "rows":
        start, lift = f32(bias), 0
    elif _way_of_depthwise(operation) == "3x3":
        start, lift = f32(-shift) + f32(bias), zero_point
    else:
        start, lift = f32(bias - shift), zero_point
    total = np.full(taps[0][1].shape, start, f32)
    for _, chunk in itertools.groupby(taps, key=operator.itemgetter(0)):
        total = total + np.asarray(sum((x + lift) * w for _, x, w in chunk)).astype(f32)
    return total


def _way_of_depthwise(operation: Any) -> str:
    """How the shader sums a depthwise convolution: in rows, at once, or as one of all channels."""
    if isinstance(operation, p.FullyConnected) or not operation.is_depthwise or len(set(operation.stride)) > 1:
        return ""
    is_bordered = any(operation.padding) and len(set(operation.padding)) == 1
    is_small = operation.weights.values.shape[2:] == (3, 3) and operation.dilation == (1, 1) and max(operation.stride) <= 2
    return "3x3" if is_small and not is_bordered else "rows"


def _convolution(operation: p.Convolution, chip: Chip, tensors: Any, x: Integers) -> Integers:
    weights = operation.weights
    zeros = np.reshape(np.broadcast_to(weights.zero_point, len(weights.values)), (-1, 1, 1, 1))
    filters = weights.values.astype(np.int64) - zeros
    top, left, bottom, right = operation.padding
    image = np.pad(x - tensors[0].zero_point, ((0, 0), (0, 0), (top, bottom), (left, right)))
    (height, width), (down, across) = filters.shape[2:], operation.dilation
    rows = (image.shape[2] - (height - 1) * down - 1) // operation.stride[0] + 1
    columns = (image.shape[3] - (width - 1) * across - 1) // operation.stride[1] + 1
    per_group, depth = len(filters) // operation.groups, filters.shape[1]
    reads_all = operation.groups > 1 and (len(set(operation.stride)) > 1 or (not operation.is_depthwise and len(x) > 1))

    def taps(o: int) -> Iterator[Any]:
        group = o // per_group
        first = group * depth if reads_all else 0
        for channel, i, j in np.ndindex(depth, height, width):
            # Zeros stand between weights where there is a dilation.
            row = (first + channel) * ((height - 1) * down + 1) + i * down
            chunk: Any = (row * ((width - 1) * across + 1) + j * across) // 16
            if _way_of_depthwise(operation) == "rows":
                chunk = (i, j * across // 5)
            seen = image[
                :,
                group * depth + channel,
                i * down : i * down + (rows - 1) * operation.stride[0] + 1 : operation.stride[0],
                j * across : j * across + (columns - 1) * operation.stride[1] + 1 : operation.stride[1],
            ]
            yield chunk, seen, filters[o, channel, i, j]

    return _multiplied(operation, chip, tensors, taps)


def _fully_connected(operation: p.FullyConnected, chip: Chip, tensors: Any, x: Integers) -> Integers:
    zeros = np.reshape(np.broadcast_to(operation.weights.zero_point, len(operation.weights.values)), (-1, 1))
    weights, centered = operation.weights.values.astype(np.int64) - zeros, x - tensors[0].zero_point

    def taps(o: int) -> Iterator[Any]:
        return ((k // 32, centered[:, k], weights[o, k]) for k in range(weights.shape[1]))

    return _multiplied(operation, chip, tensors, taps)


def _windows(operation: p.Pooling, x: Integers) -> Any:
    """Yield (row, column, elements of each window inside of the image [N, C, count])."""
    top, left, bottom, right = operation.padding
    for y in range(-top, x.shape[2] + bottom, operation.stride[0]):
        for z in range(-left, x.shape[3] + right, operation.stride[1]):
            rows = slice(max(y, 0), max(min(y + operation.size[0], x.shape[2]), 0))
            columns = slice(max(z, 0), max(min(z + operation.size[1], x.shape[3]), 0))
            yield (
                (y + top) // operation.stride[0],
                (z + left) // operation.stride[1],
                x[:, :, rows, columns].reshape(*x.shape[:2], -1),
            )


def _pooling(operation: p.Pooling, chip: Chip, tensors: Any, x: Integers) -> Integers:
    source, target = tensors
    made = np.zeros(target.shape, np.int64)
    taps = operation.size[0] * operation.size[1]
    for row, column, elements in _windows(operation, x):
        if row >= target.shape[2] or column >= target.shape[3]:
            continue
        if operation.function == "max":
            made[:, :, row, column] = elements.max(axis=2)
            continue
        sums = (elements - source.zero_point).sum(axis=2)
        if (
            operation.stride[0] == operation.stride[1] <= 2
            and max(operation.size) <= 15
            and (operation.count_padding or not any(operation.padding))
        ):
            ratio = f32(f32(f32(source.scale) * f32(1.0 / (255 * taps))) / f32(target.scale))
            mean = np.reshape(scaled(255 * sums, ratio, chip.fraction_bits), sums.shape) + target.zero_point
        else:
            count = taps if operation.count_padding else elements.shape[2]
            mean = sums * (float(f32(source.scale)) / float(f32(target.scale))) / count + target.zero_point
            truncates = (operation.size, operation.stride, operation.padding) == ((3, 3), (1, 1), (1, 1, 1, 1))
            mean = np.floor(mean + 1e-9) if truncates else np.rint(mean)
        made[:, :, row, column] = np.clip(mean, operation.low, operation.high)
    return made


def _binary(operation: p.Binary, chip: Chip, tensors: Any, a: Integers, b: Integers) -> Integers:
    first, second, y = tensors
    left, right = a - first.zero_point, b - second.zero_point
    if operation.function == "multiply":
        factor = f32(f32(f32(first.scale) * f32(second.scale)) * f32(f32(1) / f32(y.scale)))
        rest = f32(f32(f32(f32(first.zero_point) * factor) * f32(second.zero_point)) + f32(y.zero_point))
        real = (a * b - a * second.zero_point - b * first.zero_point).astype(f32) * factor + rest
    else:
        reciprocal = f32(1) / f32(y.scale)
        summand = right.astype(f32) * f32(f32(second.scale) * reciprocal)
        one = left.astype(f32) * f32(f32(first.scale) * reciprocal) + f32(y.zero_point)
        real = one - summand if operation.function == "subtract" else one + summand
    return np.clip(np.rint(real), operation.low, operation.high).astype(np.int64)


def _adds_results(operation: p.Binary, program: p.Program) -> bool:
    """A sum of two tensors of one shape and similar scales, neither of which is an input."""
    known = set(program.inputs)
    for other in program.operations:
        if isinstance(other, p.Reshape) and other.inputs[0] in known:
            known.add(other.output)
    a, b = (program.tensors[number] for number in operation.inputs)
    smaller, larger = sorted((a.scale, b.scale))
    alike = a.shape == b.shape and larger / smaller < (2 if larger > 1 else 20)
    return operation.function != "multiply" and alike and not known & set(operation.inputs)


def _sum_of_products(operation: p.Binary, chip: Chip, tensors: Any, a: Integers, b: Integers) -> Integers:
    """Bytes stand for 1 and the ratio of the scales; both tensors are read with one zero point."""
    first, second, y = tensors
    sign = -1 if operation.function == "subtract" else 1
    ratio = f32(f32(second.scale) / f32(first.scale))
    scale = f32((f32(1) + ratio if sign < 0 else max(f32(1), ratio)) / f32(255))
    zero = min(round(float(ratio) / float(scale)), 255) if sign < 0 else 0
    weights = [min(max(round(real / float(scale)) + zero, 0), 255) - zero for real in (1.0, sign * float(ratio))]
    shift = f32(f32(sign * (first.zero_point - second.zero_point)) * f32(second.scale))
    bias = round(float(shift / f32(f32(first.scale) * scale)))
    sums = weights[0] * (a - first.zero_point) + weights[1] * (b - first.zero_point) + bias
    factor = f32(f32(f32(first.scale) * scale) / f32(y.scale))
    made = np.reshape(scaled(sums, factor, chip.fraction_bits), sums.shape) + y.zero_point
    return np.clip(made, operation.low, operation.high)


def _softmax(operation: p.Softmax, chip: Chip, tensors: Any, x: Integers) -> Integers:
    source, target = tensors
    power = np.exp((x - x.max(operation.axis, keepdims=True)) * np.float64(f32(source.scale)) * np.float64(f32(operation.beta)))
    share = power / power.sum(operation.axis, keepdims=True)
    return np.clip(np.rint(share / np.float64(f32(target.scale)) + target.zero_point), 0, 255).astype(np.int64)


def _table(operation: p.Function, chip: Chip, tensors: Any, x: Integers) -> Integers:
    """Between integers whose first bits, as floats, are all that the table is asked by."""
    source, target = tensors
    reciprocal = tensor_float(float(f32(1) / f32(target.scale)))
    if operation.function == "leaky_relu":
        ratio = tensor_float(float(f32(f32(source.scale) / f32(target.scale))))
        alpha = tensor_float(float(f32(operation.alpha)))
        results = [ratio * (tensor_float(one * alpha) if one < 0 else one) for one in np.arange(256.0) - source.zero_point]
    else:
        results = [reciprocal * _between(operation, source, one - source.zero_point) for one in range(256)]
    made = np.rint(tensor_float(tensor_float(np.array(results)) + target.zero_point))
    return np.clip(made, 0, 255).astype(np.int64)[x]


def _between(operation: p.Function, source: Any, distance: int) -> float:
    step = 1
    while abs(distance) // step >= (64 if operation.function == "tanh" else 32):
        step *= 2
    sign = -1 if distance < 0 else 1
    first = abs(distance) // step * step
    share = (abs(distance) - first) / step
    knots = [float(tensor_float(_real(operation, sign * knot * float(f32(source.scale))))) for knot in (first, first + step)]
    if share == 0:
        return knots[0]
    return float(tensor_float(tensor_float(knots[0] * (1 - share)) + tensor_float(knots[1] * share)))


def _real(operation: p.Function, x: float) -> float:
    sigmoid = 1 / (1 + math.exp(-x)) if x > -700 else 0.0
    return {
        "sigmoid": sigmoid,
        "tanh": math.tanh(x),
        "swish": x * sigmoid,
        "hard_swish": float(f32(f32(f32(x) * f32(min(max(f32(x) + f32(3), f32(0)), f32(6)))) / f32(6))),
        "hard_sigmoid": min(max(operation.alpha * x + operation.beta, 0), 1),
    }[operation.function]


def _reshape(operation: p.Reshape, chip: Chip, tensors: Any, x: Integers) -> Integers:
    return x


def _permute(operation: p.Permute, chip: Chip, tensors: Any, x: Integers) -> Integers:
    return x.transpose(operation.order)


def _pad(operation: p.Pad, chip: Chip, tensors: Any, x: Integers) -> Integers:
    return np.pad(x, tuple(zip(operation.before, operation.after, strict=True)), constant_values=operation.value)


def _requantized(x: Integers, source: Any, target: Any) -> Integers:
    ratio = tensor_float(float(f32(f32(source.scale) / f32(target.scale))))
    real = tensor_float(tensor_float((x - source.zero_point) * ratio) + target.zero_point)
    return np.clip(np.rint(real), 0, 255).astype(np.int64)


def _requantize(operation: p.Requantize, chip: Chip, tensors: Any, x: Integers) -> Integers:
    return np.clip(_requantized(x, *tensors), operation.low, operation.high)


def _concat(operation: p.Concat, chip: Chip, tensors: Any, *parts: Integers) -> Integers:
    same = [(one.scale, one.zero_point) == (tensors[-1].scale, tensors[-1].zero_point) for one in tensors[:-1]]
    made = [
        part if is_same else _requantized(part, tensor, tensors[-1])
        for part, is_same, tensor in zip(parts, same, tensors, strict=False)
    ]
    return np.concatenate(made, operation.axis)


def _resize(operation: p.Resize, chip: Chip, tensors: Any, x: Integers) -> Integers:
    return _nearest(operation, tensors, x) if operation.mode == "nearest" else _bilinear(operation, tensors, x)


def _bilinear(operation: p.Resize, tensors: Any, x: Integers) -> Integers:
    """Fractions, whose sum alone is rounded."""
    made = x.astype(object)
    for axis in (2, 3):
        size, wanted = x.shape[axis], tensors[1].shape[axis]
        half = Fraction(1, 2) if operation.half_pixel else Fraction(0)
        places = [
            min(max((at + half) * Fraction(size, wanted) - half, Fraction(0)), Fraction(size - 1)) for at in range(wanted)
        ]
        first = [int(place) for place in places]
        rest = np.array([place - one for place, one in zip(places, first, strict=True)], object)
        rest = rest.reshape(-1, *(1,) * (3 - axis))
        second = [min(one + 1, size - 1) for one in first]
        made = made.take(first, axis) * (1 - rest) + made.take(second, axis) * rest
    return np.array([round(one) for one in made.flat], np.int64).reshape(made.shape)


def _nearest(operation: p.Resize, tensors: Any, x: Integers) -> Integers:
    """Each axis for itself; a product of floats, in which nothing but the sum is rounded twice."""
    for axis in (2, 3):
        size, wanted = x.shape[axis], tensors[1].shape[axis]
        corners = 1 if operation.align_corners and wanted > 1 else 0
        step = f32(size - corners) / f32(wanted - corners)
        half, up = (f32(0.5) if added else f32(0) for added in (operation.half_pixel, operation.align_corners))
        places = [int(f32(f32(f32(f32(at) + half) * step) + up)) for at in range(wanted)]
        x = np.take(x, [min(place, size - 1) for place in places], axis)
    return x


_EVALUATORS: dict[type, Any] = {
    p.Convolution: _convolution,
    p.FullyConnected: _fully_connected,
    p.Pooling: _pooling,
    p.Binary: _binary,
    p.Softmax: _softmax,
    p.Function: _table,
    p.Reshape: _reshape,
    p.Permute: _permute,
    p.Pad: _pad,
    p.Requantize: _requantize,
    p.Concat: _concat,
    p.Resize: _resize,
}
