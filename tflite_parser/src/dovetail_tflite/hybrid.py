"""Round floats as TensorFlow Lite does before it multiplies them by quantized weights.

Its "hybrid" kernels quantize each row or image to int8, by a scale of its own, and multiply
integers. What is rounded here are the floats: their products are the same real numbers.
"""

from __future__ import annotations

import numpy as np

from dovetail.graph.layer import OutputSlot
from dovetail.layers import BinaryOperation, Reduce, ReduceFunction, UnaryOperation

from .call import Call
from .elementwise_parts import applied, combined

_LEAST_SCALE = float(np.finfo(np.float32).tiny)
"""Of rows of zeros, which any scale but zero leaves what they are."""


def rounded(call: Call, x: OutputSlot, weights: OutputSlot, axes: tuple[int, ...], *, asymmetric: bool) -> OutputSlot:
    """Round a slot if it is of floats and the weights are quantized.

    Args:
        call: The operator.
        x: What is multiplied.
        weights: By which.
        axes: Along which elements share a scale.
        asymmetric: Use 256 steps from the least to the greatest element, else 255 around zero.
    """
    if not call.dtype_of(x).is_float or not call.dtype_of(weights).is_integer or call.quantization_of(weights) is None:
        return x
    return _around_any(call, x, axes) if asymmetric else _around_zero(call, x, axes)


def _around_zero(call: Call, x: OutputSlot, axes: tuple[int, ...]) -> OutputSlot:
    largest = _extreme(call, applied(call, UnaryOperation.ABS, x, "input_sizes"), ReduceFunction.MAX, axes)
    scale = _scale(call, largest, 127.0)
    steps = applied(call, UnaryOperation.ROUND, combined(call, BinaryOperation.DIV, x, scale, "input_steps"), "input_rounded")
    return combined(call, BinaryOperation.MUL, steps, scale, "input")


def _around_any(call: Call, x: OutputSlot, axes: tuple[int, ...]) -> OutputSlot:
    zero = call.scalar(0.0, x, "input_zero")
    most = combined(call, BinaryOperation.MAXIMUM, _extreme(call, x, ReduceFunction.MAX, axes), zero, "input_most")
    least = combined(call, BinaryOperation.MINIMUM, _extreme(call, x, ReduceFunction.MIN, axes), zero, "input_least")
    scale = _scale(call, combined(call, BinaryOperation.SUB, most, least, "input_range"), 255.0)
    low, high = call.scalar(-128.0, x, "input_low"), call.scalar(127.0, x, "input_high")
    place = combined(
        call, BinaryOperation.SUB, low, combined(call, BinaryOperation.DIV, least, scale, "input_depth"), "input_place"
    )
    origin = applied(call, UnaryOperation.ROUND, place, "input_origin")
    steps = combined(call, BinaryOperation.DIV, x, scale, "input_steps")
    steps = combined(call, BinaryOperation.ADD, steps, origin, "input_shifted")
    steps = applied(call, UnaryOperation.ROUND, steps, "input_rounded")
    steps = combined(call, BinaryOperation.MAXIMUM, steps, low, "input_not_below")
    steps = combined(call, BinaryOperation.MINIMUM, steps, high, "input_not_above")
    steps = combined(call, BinaryOperation.SUB, steps, origin, "input_centered")
    return combined(call, BinaryOperation.MUL, steps, scale, "input")


def _scale(call: Call, span: OutputSlot, steps: float) -> OutputSlot:
    scale = combined(call, BinaryOperation.DIV, span, call.scalar(steps, span, "input_span"), "input_step")
    return combined(call, BinaryOperation.MAXIMUM, scale, call.scalar(_LEAST_SCALE, span, "input_tiny"), "input_scale")


def _extreme(call: Call, x: OutputSlot, function: ReduceFunction, axes: tuple[int, ...]) -> OutputSlot:
    return call.add(Reduce(function=function, axes=axes, keep_dims=True), x, part=f"input_{function}")
