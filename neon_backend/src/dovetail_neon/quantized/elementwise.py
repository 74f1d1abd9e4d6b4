"""Lower what treats every element of quantized tensors by itself: sums, products, tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from dovetail import DataLayout, DType, Layer, PrivateLayer, Quantization, TensorInfo
from dovetail.graph.layer import OutputSlot
from dovetail.layers import Activation, BinaryOperation, BroadcastTo, Concat, ElementwiseBinary, ElementwiseUnary, Prelu, Stack
from dovetail.quantized.fixed_point import Scaling, scaled, scaling_within
from dovetail.quantized.tables import Table, packed, requantizing, stored, table_of

from ..arrays import Chars, Octets
from ..fusion.lowering import Lowering
from ..geometry.layouts import Image, bytes_info
from .kinds import AddQuantized, ExtremeQuantized, MapQuantized, MultiplyQuantized, PreluQuantized
from .rows import define_rows, repeated, rows
from .support import LARGEST, clamp_range, product_of, scheme

Constants: TypeAlias = "Chars | Octets | None"
"""The second of two tensors, if it is constant."""
Combining: TypeAlias = "Callable[[TensorInfo, Constants], PrivateLayer]"
"""Makes the kind that combines two tensors, whose result has that info."""
_BESIDE = 1e-3 * LARGEST
_WHOLE = np.float32(12582912.0)
"""To this a float adds a whole number (requantization.h)."""


def lower_binary(lowering: Lowering, layer: Layer) -> bool:
    """Make a sum, a difference, a product or the greater or lesser of two, in bytes."""
    a, b = layer.inputs[0].source, layer.inputs[1].source
    if not isinstance(layer.descriptor, ElementwiseBinary) or a is None or b is None:
        return False
    if _lower_constant(lowering, layer, layer.descriptor.operation, (a, b)):
        return True
    order = (1, 0) if layer.constant(1) is None and layer.constant(0) is not None else (0, 1)
    _lower_two(lowering, layer, order, partial(_combining, layer, layer.descriptor.operation, (a, b), order))
    return True


def lower_prelu(lowering: Lowering, layer: Layer) -> bool:
    """Make a function with a slope for each element below zero, in bytes and fixed point."""
    x, slopes = layer.inputs[0].source, layer.inputs[1].source
    if not isinstance(layer.descriptor, Prelu) or x is None or slopes is None:
        return False
    # TensorFlow Lite forms its factors in float32.
    of_x, of_slopes, of_y = (np.float32(scheme(slot).scale[0]) for slot in (x, slopes, layer.output))
    with np.errstate(over="ignore"):
        factors = float(of_x / of_y), float(product_of(float(of_x), float(of_slopes)) / of_y)
    above, below = map(scaling_within, factors)
    zeros = scheme(x).zero_point[0], scheme(slopes).zero_point[0], scheme(layer.output).zero_point[0]
    constant = layer.constant(1)
    if constant is not None and constant.size == 1:
        table = _bent(layer.output.known_info.dtype, int(constant.reshape(-1)[0]), (above, below), zeros)
        _lower_table(lowering, layer, x, table, "PReLU")
        return True

    def kind(info: TensorInfo, constants: Constants) -> PreluQuantized:
        return PreluQuantized(infos=(info,), constants=constants, above=above, below=below, zeros=zeros)

    _lower_two(lowering, layer, (0, 1), kind)
    return True


def _lower_two(lowering: Lowering, layer: Layer, order: tuple[int, int], kind: Combining) -> None:
    """Bring two tensors to one layout of bytes, and combine them.

    Args:
        lowering: Of the part.
        layer: It has two inputs.
        order: Of these; a second one that is constant is kept in that layout.
        kind: Makes what combines them.
    """
    info = layer.output.known_info
    slots = [slot for slot in (layer.inputs[index].source for index in order) if slot is not None]
    whole = [slot for slot in slots if slot.known_info.sizes == info.sizes]
    layout = next(filter(None, map(lowering.byte_layout, whole)), None)
    image = Image(1, info.elements, 1, 1) if layout is None else Image.of(info, layout)
    constant, constants = layer.constant(order[1]), None
    if constant is not None:
        constants = repeated(constant, info, image, layout)
        del slots[1]
    operands = []
    for slot in slots:
        if layout is not None and slot in whole:
            operands.append(lowering.bytes(slot, layout))
        else:
            plain = _broadcast(lowering, slot, info, layer)
            operands.append(rows(lowering, plain, image, layer, channels_last=layout is not DataLayout.NCHW))
    made = lowering.emit(kind(bytes_info(image, info.dtype), constants), operands, [layer]).output
    if layout is None:
        define_rows(lowering, layer, made, image)
    else:
        lowering.define(layer.output, made, "bytes", layout)


def _broadcast(lowering: Lowering, slot: OutputSlot, info: TensorInfo, layer: Layer) -> OutputSlot:
    plain = lowering.plain(slot)
    if slot.known_info.sizes == info.sizes:
        return plain
    return lowering.emit(BroadcastTo(shape=info.sizes), [plain], [layer], name=f"{layer.name}.broadcast").output


def _factors(operation: BinaryOperation, a: OutputSlot, b: OutputSlot, output: OutputSlot) -> tuple[float, float]:
    """Return the factors of both operands of a sum or difference; of a product its own, twice."""
    of_a, of_b, scale = scheme(a).scale[0], scheme(b).scale[0], scheme(output).scale[0]
    if operation is BinaryOperation.MUL:
        return (min(of_a * of_b / scale, LARGEST),) * 2
    sign = -1.0 if operation is BinaryOperation.SUB else 1.0
    a_factor, b_factor = of_a / scale, of_b / scale
    shrink = max(a_factor, b_factor, LARGEST) / LARGEST
    # Which of two steps that both saturate is the greater stays as it is; beside one of 1e30, 255
    # of 1e27 do not matter.
    kept = (min(factor, max(factor / shrink, _BESIDE)) for factor in (a_factor, b_factor))
    return next(kept), sign * next(kept)


def _combining(
    layer: Layer,
    operation: BinaryOperation,
    operands: tuple[OutputSlot, OutputSlot],
    order: tuple[int, int],
    info: TensorInfo,
    constants: Constants,
) -> AddQuantized | MultiplyQuantized | ExtremeQuantized:
    if operation in (BinaryOperation.MAXIMUM, BinaryOperation.MINIMUM):
        return ExtremeQuantized(infos=(info,), constants=constants, greater=operation is BinaryOperation.MAXIMUM)
    factors = _factors(operation, *operands, layer.output)
    first, second, result = (scheme(slot).zero_point[0] for slot in (*(operands[index] for index in order), layer.output))
    zeros, bounds = (first, second, result), clamp_range(layer)
    if operation is BinaryOperation.MUL:
        return MultiplyQuantized(infos=(info,), constants=constants, factor=factors[0], zeros=zeros, bounds=bounds)
    factors = factors[order[0]], factors[order[1]]
    return AddQuantized(infos=(info,), constants=constants, factors=factors, zeros=zeros, bounds=bounds)


# --- tables ---------------------------------------------------------------------------------------


def _map(
    lowering: Lowering, layer: Layer, source: OutputSlot, table: Table, what: str, quantization: Quantization | None
) -> OutputSlot:
    """Look up each element of a tensor in whatever layout it has."""
    info = source.known_info
    if info.opaque is None:
        info = TensorInfo(info.shape, info.dtype, quantization)
    return lowering.emit(MapQuantized(infos=(info,), table=table.tobytes(), what=what), [source], [layer]).output


def _lower_table(lowering: Lowering, layer: Layer, slot: OutputSlot, table: Table, what: str) -> None:
    layout = lowering.byte_layout(slot)
    source = lowering.plain(slot) if layout is None else lowering.bytes(slot, layout)
    made = _map(lowering, layer, source, table, what, layer.output.known_info.quantization)
    if layout is None:
        lowering.define(layer.output, made)
    else:
        lowering.define(layer.output, made, "bytes", layout)


def lower_function(lowering: Lowering, layer: Layer) -> bool:
    """Make a function of one element a table."""
    source, descriptor = layer.inputs[0].source, layer.descriptor
    if source is None or not isinstance(descriptor, Activation | ElementwiseUnary):
        return False
    what = descriptor.function if isinstance(descriptor, Activation) else descriptor.operation
    table = table_of(descriptor, source.known_info, layer.output.known_info)
    _lower_table(lowering, layer, source, table, what.value)
    return True


def _lower_constant(
    lowering: Lowering, layer: Layer, operation: BinaryOperation, operands: tuple[OutputSlot, OutputSlot]
) -> bool:
    """Make a table of an operation with a constant of one element: what the kernels compute."""
    for index, slot in enumerate(operands):
        constant, info = layer.constant(1 - index), layer.output.known_info
        if constant is None or constant.size != 1 or slot.known_info.sizes != info.sizes:
            continue
        values = [stored(info.dtype), stored(info.dtype)]
        values[1 - index] = np.full(256, int(constant.reshape(-1)[0]), np.int64)
        _lower_table(lowering, layer, slot, _table_of_two(layer, operation, operands, values), operation.value)
        return True
    return False


def _table_of_two(
    layer: Layer, operation: BinaryOperation, operands: tuple[OutputSlot, OutputSlot], values: Sequence[Any]
) -> Table:
    dtype = layer.output.known_info.dtype
    if operation in (BinaryOperation.MAXIMUM, BinaryOperation.MINIMUM):
        return packed((np.maximum if operation is BinaryOperation.MAXIMUM else np.minimum)(*values), dtype)
    factors = [np.float32(factor) for factor in _factors(operation, *operands, layer.output)]
    a, b = (x.astype(np.float32) - np.float32(scheme(slot).zero_point[0]) for x, slot in zip(values, operands, strict=True))
    real = a * b * factors[0] if operation is BinaryOperation.MUL else a * factors[0] + b * factors[1]
    low, high = (np.float32(bound) + _WHOLE for bound in clamp_range(layer))
    rounded = np.clip(real + (_WHOLE + np.float32(scheme(layer.output).zero_point[0])), low, high)
    return packed(rounded - _WHOLE, dtype)


def _bent(dtype: DType, slope: int, factors: tuple[Scaling, Scaling], zeros: tuple[int, int, int]) -> Table:
    """Return what PReLU with one slope for all makes of each byte, as its kernel does."""
    x = stored(dtype) - zeros[0]
    above, below = (scaled(one, by) for one, by in zip((x, x * (slope - zeros[1])), factors, strict=True))
    return packed(np.where(x < 0, below, above) + zeros[2], dtype)


def lower_join(lowering: Lowering, layer: Layer) -> bool:
    """Bring parts of other quantizations to that of the result by tables, and join them."""
    if not isinstance(layer.descriptor, Concat | Stack):
        return False
    info, parts = layer.output.known_info, []
    for slot in (one.source for one in layer.inputs):
        if slot is None:
            return False
        part, theirs = lowering.plain(slot), info.quantization
        if theirs is not None and slot.known_info.quantization != theirs:
            table = requantizing(scheme(slot), theirs, info.dtype)
            part = _map(lowering, layer, part, table, "requantization", theirs)
        parts.append(part)
    joined = lowering.emit(layer.descriptor, parts, [layer]).output
    joined.quantization, joined.info = layer.output.quantization, layer.output.info
    lowering.define(layer.output, joined)
    return True
