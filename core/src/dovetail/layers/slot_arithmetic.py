"""From an operator of Python on slots to the layer that computes it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from ..graph.element_types import DType
from ..graph.graph import Graph
from ..graph.layer import OutputSlot
from ..graph.symbolic_inference import SymbolicInference
from ..graph.tensor import Quantization
from ..ground.errors import ErrorCode, GraphError, shown_argument
from .elementwise import BinaryOperation, UnaryOperation, bfloat16_bits

_BINARY = {
    "+": BinaryOperation.ADD,
    "-": BinaryOperation.SUB,
    "*": BinaryOperation.MUL,
    "/": BinaryOperation.DIV,
    "**": BinaryOperation.POW,
}
_inferences: WeakKeyDictionary[Graph, tuple[int, SymbolicInference]] = WeakKeyDictionary()
"""What was worked out of element types, by network, with how often it had been rewired then."""


def operate(network: Any, operation: str, operands: Sequence[Any]) -> OutputSlot:
    """Add the layer of an operator; see `Network.operate`."""
    if len(operands) == 1 and operation == "-":
        if isinstance(operands[0], OutputSlot):
            _refuse_quantized(network, operands[0], operation)
        return network.unary(operands[0], UnaryOperation.NEG)  # type: ignore[no-any-return]  # it is a builder method
    if len(operands) != 2 or operation not in (*_BINARY, "@"):
        raise GraphError(
            f"there is no operator {operation!r} of {len(operands)} operand(s)",
            code=ErrorCode.ATTRIBUTE_INVALID,
            hint=f"there are {', '.join(_BINARY)} and @ of two, - of one",
        )
    left, right = operands
    slots = [one for one in operands if isinstance(one, OutputSlot)]
    if not slots:
        raise _refusal(f"{operation} of no slot", "one of the operands is a slot of the network")
    for one in slots:
        _refuse_quantized(network, one, operation)
    if operation == "@":
        return network.matmul(left, right)  # type: ignore[no-any-return]  # it is a builder method
    slot = left if isinstance(left, OutputSlot) else right
    if operation == "/" or (operation == "**" and not _is_count(right)):
        _refuse_rounding(network, slot, operation)
    left, right = (_constant(network, slot, one, operation) if _is_number(one) else one for one in (left, right))
    return network.binary(left, right, _BINARY[operation])  # type: ignore[no-any-return]  # it is a builder method


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(exponent: object) -> bool:
    """Tell whether integers to this power are integers; of a slot that is not known."""
    return isinstance(exponent, OutputSlot) or (isinstance(exponent, int) and exponent >= 0)


def _refuse_rounding(network: Graph, slot: OutputSlot, operation: str) -> None:
    dtype, _ = _type(network, slot)
    if dtype is not None and dtype.is_integer:
        builder = {"/": "division(a, b)", "**": "binary(a, b, 'pow')"}[operation]
        raise GraphError(
            f"{operation} of {slot.name!r}, which is {dtype}, would have to round",
            code=ErrorCode.DTYPE_MISMATCH,
            hint=f"network.{builder} truncates toward zero; network.cast(x, 'float32') makes it real numbers first",
        )


def _refuse_quantized(network: Graph, slot: OutputSlot, operation: str) -> None:
    if _type(network, slot)[1] is not None:
        raise _refusal(
            f"{operation} with {slot.name!r}, whose integers stand for other numbers",
            "network.dequantize(x, quantization) makes these of them; builder methods take the quantization of the result",
        )


def _constant(network: Graph, slot: OutputSlot, number: float, operation: str) -> OutputSlot:
    """Add a number as a constant of the slot's element type.

    Raises:
        GraphError: That type does not hold it, or is not known (`DTYPE_MISMATCH`).
    """
    dtype, _ = _type(network, slot)
    what = f"{shown_argument(number)} in {operation} with {slot.name!r}"
    if dtype is None:
        raise _refusal(f"{what}, whose element type is not known", "give an array of the type that it has")
    if dtype is DType.BOOL or not _fits(number, dtype):
        hint = "network.cast(x, 'int64') has a type that holds it, if one does"
        if isinstance(number, float):
            hint = f"network.cast(x, {'float32' if dtype.is_integer else 'float64'!r}) has a type that holds it, if one does"
        raise _refusal(f"{what} does not fit its element type {dtype}", hint)
    if dtype is DType.BFLOAT16:
        return network.constant(bfloat16_bits(np.asarray(number, np.float32)), dtype=dtype)
    return network.constant(np.asarray(number, dtype.numpy))


def _refusal(what: str, hint: str) -> GraphError:
    return GraphError(what, code=ErrorCode.DTYPE_MISMATCH, hint=hint)


def _fits(number: float, dtype: DType) -> bool:
    """Tell whether a type holds a number: real ones rounded, but neither to infinity nor to 0."""
    if dtype.is_integer:
        limits = np.iinfo(dtype.numpy)
        return isinstance(number, int) and int(limits.min) <= number <= int(limits.max)
    try:
        real = float(number)
    except OverflowError:
        return False
    with np.errstate(over="ignore", under="ignore"):
        if dtype is DType.BFLOAT16:
            bits = int(bfloat16_bits(np.asarray(real, np.float32)))
            held = float(np.asarray(bits << 16, np.uint32).view(np.float32))
        else:
            held = float(np.asarray(real, dtype.numpy))
    return math.isfinite(held) == math.isfinite(real) and (held == 0) == (real == 0)


def _type(network: Graph, slot: OutputSlot) -> tuple[DType | None, Quantization | None]:
    """Return element type and quantization of a slot, also of one whose sizes are open."""
    if slot.info is not None:
        return slot.info.dtype, slot.info.quantization
    rewired, inference = _inferences.get(network, (-1, None))
    if inference is None or rewired != network.rewired:
        inference = SymbolicInference()
        _inferences[network] = network.rewired, inference
    info = inference.info(slot)
    return (inference.dtype(slot), slot.quantization) if info is None else (info.dtype, info.quantization)
