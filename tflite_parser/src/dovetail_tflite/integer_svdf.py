"""SVDF of bytes, with a state of words, in plain integers (reference_ops::EvalIntegerSVDF)."""

from __future__ import annotations

from dovetail import DType
from dovetail.graph.layer import OutputSlot
from dovetail.layers import BinaryOperation, Cast, Concat, MatMul, Reduce, ReduceFunction, Reshape, StridedSlice

from .call import Call
from .fixed_point import combined, limited, multiplier_of, raised, scaled, within

_TYPES = (DType.INT8, DType.INT8, DType.INT16)
"""Of the input, and of the weights of features and of steps."""
_STATE = 4


def is_of_integers(call: Call) -> bool:
    """Tell whether TensorFlow Lite computes it in integers."""
    slots = [call.input(index) for index in (0, 1, 2, _STATE)]
    schemes = [*map(call.quantization_of, slots), call.outputs[0].quantization]
    bias, results = call.optional(3), call.outputs[0].dtype is DType.INT8
    if tuple(map(call.dtype_of, slots)) != (*_TYPES, DType.INT16) or not results:
        return False
    known = all(one is not None and one.axis is None for one in schemes)
    return known and (bias is None or call.dtype_of(bias) is DType.INT32)


def add_svdf(call: Call, rank: int, filters: int, steps: int) -> OutputSlot:
    """Add layers of integers; their activation is the range of the result.

    Args:
        call: The operator.
        rank: Filters of each unit.
        filters: Their number.
        steps: That the state holds of each.
    """
    x, features, times, bias = call.input(0), call.input(1), call.input(2), call.optional(3)
    mine, theirs = call.quantization_of(x), call.outputs[0].quantization
    assert mine is not None
    assert theirs is not None  # `is_of_integers` saw both
    first, second = _multipliers(call)
    centered = raised(call, _whole(call, x, "input"), -mine.zero_point[0], "centered")
    found = call.add(MatMul(transpose_b=True), centered, _whole(call, features, "weights"), part="features")
    found = scaled(call, _wide(call, found, "features_wide"), *first, "features_scaled")
    newest = call.add(Reshape(shape=(-1, filters, 1)), _word(call, found), part="newest_step")
    held = call.add(Reshape(shape=(-1, filters, steps)), call.input(_STATE), part="held")
    older = call.add(StridedSlice(begin=(1,), end=(steps,), axes=(2,)), held, part="older")
    held = call.add(Concat(axis=2), older, newest, part="latest")
    call.write(_STATE, call.add(Reshape(shape=(-1, filters * steps)), held, part="next_state"))
    weighed = combined(call, BinaryOperation.MUL, _whole(call, held, "latest"), _whole(call, times, "times"), "weighed")
    grouped = call.add(Reshape(shape=(-1, filters // rank, rank * steps)), weighed, part="grouped")
    total = call.add(Reduce(function=ReduceFunction.SUM, axes=(2,), keep_dims=False), grouped, part="total")
    if bias is not None:
        total = combined(call, BinaryOperation.ADD, total, _whole(call, bias, "bias"), "biased")
    return limited(call, scaled(call, _wide(call, total, "wide"), *second, "scaled", theirs.zero_point[0]), DType.INT8)


def _multipliers(call: Call) -> list[tuple[int, int]]:
    """Return what sums over features, and sums over steps, are multiplied by."""
    schemes = [call.quantization_of(call.input(index)) for index in (0, 1, 2, _STATE)]
    x, features, times, state = (1.0 if one is None else one.scale[0] for one in schemes)
    result = call.outputs[0].quantization
    ratios = (x * features / state, state * times / (1.0 if result is None else result.scale[0]))
    return [multiplier_of(ratio) for ratio in ratios]


def _whole(call: Call, slot: OutputSlot, part: str) -> OutputSlot:
    """Return plain integers of 32 bits, whose sums wrap as those of TensorFlow Lite."""
    return call.add(Cast(dtype=DType.INT32), slot, part=f"{part}_whole")


def _wide(call: Call, slot: OutputSlot, part: str) -> OutputSlot:
    return call.add(Cast(dtype=DType.INT64), slot, part=part)


def _word(call: Call, found: OutputSlot) -> OutputSlot:
    """Return what features gave as words, which mean what those of the state do."""
    meaning, part = call.quantization_of(call.input(_STATE)), "newest"
    x = within(call, found, DType.INT16, part)
    return call.network.add(Cast(dtype=DType.INT16), x, name=call.label(part), quantization=meaning).output
