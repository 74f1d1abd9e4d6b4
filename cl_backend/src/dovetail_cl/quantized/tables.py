"""What a table of 256 bytes does to each element: activations, functions, other quantizations.

Tables hold what TensorFlow Lite's kernels give: in fixed point for ReLU and its like and for hard
swish, else the function of a real number, in float32, rounded half away from zero.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from dovetail import Layer, Quantization
from dovetail.graph.tensor import TensorInfo
from dovetail.layers import Activation, ActivationFunction, Concat, ElementwiseUnary, Stack

from ..driver.arguments import Argument, ConstantArray, Launch, Output
from ..elementwise import argument, in_place, input_info
from ..kernels import Alias, Kernels, Work
from ..walking import contiguous
from ..walking.copying import Side, copy
from .arithmetic import bounds_of, limits, scheme
from .fixed_point import high_half, power_of_two, scaled, scaling, shifted_half
from .functions import activated, unary

_RUNS = np.dtype([(name, np.uint32) for name in ("run", "from", "to", "start")])


def create(layer: Layer, kernels: Kernels) -> Work:
    """Return the work of a layer that looks up each element."""
    if isinstance(layer.descriptor, Concat | Stack):
        return _joined(layer, kernels)
    info, result = input_info(layer, 0), layer.output.known_info
    launch = _mapped(kernels, argument(layer, 0), _table(layer, info, result), 1, (info.elements,) * 3, 0)
    return Work((launch,), aliases=in_place(layer))


def _mapped(
    kernels: Kernels, source: Argument, table: npt.NDArray[np.uint8], runs: int, steps: tuple[int, int, int], start: int
) -> Launch:
    """Return the launch that looks up runs of bytes.

    Args:
        kernels: Of the device.
        source: Where they lie.
        table: What they become.
        runs: How many runs there are.
        steps: Bytes of a run, and between runs of the source and of the result.
        start: Bytes before the first run of the result.
    """
    given = np.zeros((), _RUNS)
    given["run"], given["from"], given["to"], given["start"] = *steps, start
    count = runs * steps[0]
    items, group = kernels.each(count)
    kernel = kernels.get("quantized/tables.cl", "look_up")
    return Launch(kernel, (source, ConstantArray(table), Output(), given, np.uint32(count)), items, group)


def _integers(info: TensorInfo) -> npt.NDArray[np.int64]:
    """Return the integer that each byte is, in the order of bytes."""
    return np.arange(256, dtype=np.uint8).view(info.dtype.numpy).astype(np.int64)


def _table(layer: Layer, info: TensorInfo, result: TensorInfo) -> npt.NDArray[np.uint8]:
    descriptor = layer.descriptor
    if isinstance(descriptor, ElementwiseUnary):
        return _rounded(unary(descriptor.operation, _reals(info)), result)
    assert isinstance(descriptor, Activation), "no other kind comes here"
    table = _in_fixed_point(descriptor, info, result)
    if table is not None:
        return table
    return _rounded(activated(descriptor.function, descriptor.alpha, descriptor.beta, _reals(info)), result)


def _reals(info: TensorInfo) -> npt.NDArray[np.float64]:
    """Return what each byte stands for, a float32, in the order of bytes."""
    given = scheme(info)
    with np.errstate(all="ignore"):
        reals = np.float32(given.scale[0]) * (_integers(info) - given.zero_point[0]).astype(np.float32)
    return reals.astype(np.float64)


def _rounded(reals: npt.NDArray[np.float64], result: TensorInfo) -> npt.NDArray[np.uint8]:
    """Return the bytes that stand for real numbers: halves away from zero, NaN the zero point."""
    with np.errstate(all="ignore"):
        made = _half_away(reals.astype(np.float32) * (np.float32(1.0) / np.float32(scheme(result).scale[0])))
    return _bytes(np.where(np.isnan(made), 0.0, made) + scheme(result).zero_point[0], limits(result.dtype))


def _half_away(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Round to the nearest integers, halves away from zero."""
    wide = values.astype(np.float64)
    return np.asarray(np.copysign(np.floor(np.abs(wide) + 0.5), wide))


def _in_fixed_point(descriptor: Activation, info: TensorInfo, result: TensorInfo) -> npt.NDArray[np.uint8] | None:
    """Return the table of a function that TensorFlow Lite computes so, if its factors fit."""
    function, alpha, beta = descriptor.function, descriptor.alpha, descriptor.beta
    if function is ActivationFunction.LEAKY_RELU:
        return _two_slopes(alpha, info, result, limits(result.dtype))
    if function in (ActivationFunction.RELU, ActivationFunction.BOUNDED_RELU):
        return _two_slopes(1.0, info, result, bounds_of(function, alpha, beta, result))
    if function is ActivationFunction.HARD_SWISH:
        return _hard_swish(info, result)
    return None


def _two_slopes(slope: float, info: TensorInfo, result: TensorInfo, bounds: tuple[int, int]) -> npt.NDArray[np.uint8] | None:
    """x where it is at least 0, else slope * x, clamped; None if a factor is too great, or a NaN.

    Source: TensorFlow Lite, reference_ops::QuantizeLeakyRelu and QuantizedReluX; factors are formed
    in float32.
    """
    mine, theirs = np.float32(scheme(info).scale[0]), np.float32(scheme(result).scale[0])
    with np.errstate(all="ignore"):
        ratios = mine / theirs, mine * np.float32(slope) / theirs
    if not all(abs(ratio) < 1 << 20 for ratio in ratios):
        return None
    x = _integers(info) - scheme(info).zero_point[0]
    above, below = (scaled(x, scaling(float(ratio))) for ratio in ratios)
    return _bytes(np.where(x >= 0, above, below) + scheme(result).zero_point[0], bounds)


def _hard_swish(info: TensorInfo, result: TensorInfo) -> npt.NDArray[np.uint8] | None:
    """x * max(0, min(1, x / 6 + 0.5)), in 16 bits.

    Source: TensorFlow Lite, reference_ops::HardSwish, which takes no output scale below 1/128 of
    the input's. Where the input's is so coarse that nothing but a ReLU is left, there is no table.
    """
    fine = np.float32(1 / 128) * np.float32(scheme(info).scale[0])
    output = scaling(float(fine / np.float32(scheme(result).scale[0])))
    gate = scaling(float(fine / (np.float32(3.0) / np.float32(32768.0))))
    if output.shift > 0 or gate.shift > 20:
        return None
    value = (_integers(info) - scheme(info).zero_point[0]) * 128
    # All shifts but one come before the product: what saturates here does so below.
    share = high_half(shifted_half(value, max(gate.shift - 1, 0)), gate.half, rounds=True)
    share = shifted_half(share, 1) if gate.shift > 0 else power_of_two(share, -gate.shift)
    share = (share + (1 << 15)) >> 1  # from [-1, 1) to [0, 1)
    value = high_half(share, high_half(value, output.half, rounds=True), rounds=False)
    return _bytes(power_of_two(value, -output.shift) + scheme(result).zero_point[0], limits(result.dtype))


def _bytes(values: npt.NDArray[Any], bounds: tuple[int, int]) -> npt.NDArray[np.uint8]:
    return np.asarray(np.clip(values, *bounds).astype(np.int64) & 0xFF, np.uint8)


def _other_meaning(mine: Quantization, result: TensorInfo) -> npt.NDArray[np.uint8]:
    """Return what each byte becomes under the quantization of the result.

    Source: TensorFlow Lite, reference_ops::ConcatenationWithScaling, in float32.
    """
    theirs = scheme(result)
    scale = np.float32(mine.scale[0]) * (np.float32(1.0) / np.float32(theirs.scale[0]))
    value = _integers(result).astype(np.float32) * scale + np.float32(-mine.zero_point[0]) * scale
    return _bytes(_half_away(value) + theirs.zero_point[0], limits(result.dtype))


def _joined(layer: Layer, kernels: Kernels) -> Work:
    """Return the work of a join of tensors, some of which have another quantization."""
    result, descriptor = layer.output.known_info, layer.descriptor
    assert isinstance(descriptor, Concat | Stack), "it was asked before"
    axis, whole = descriptor.axis % result.rank, contiguous(result.sizes)
    runs, step = math.prod(result.sizes[:axis]), math.prod(result.sizes[axis:])
    launches: list[Launch] = []
    aliases: list[Alias] = []
    start = 0
    for index in range(len(layer.inputs)):
        info = input_info(layer, index)
        count = 1 if isinstance(descriptor, Stack) else info.sizes[axis]
        sizes = (*result.sizes[:axis], count, *result.sizes[axis + 1 :])
        run = count * whole[axis]
        if info.quantization != result.quantization:
            table = _other_meaning(scheme(info), result)
            launches.append(_mapped(kernels, argument(layer, index), table, runs, (run, run, step), start))
        else:
            alias = Alias("part", 0, index, start) if runs == 1 and layer.constant(index) is None else None
            aliases += [alias] if alias else []
            source = Side(argument(layer, index), contiguous(sizes))
            launches.append(copy(kernels, 1, sizes, source, Side(Output(), whole, start), unless=alias))
        start += run
    return Work(tuple(launches), aliases=tuple(aliases))
