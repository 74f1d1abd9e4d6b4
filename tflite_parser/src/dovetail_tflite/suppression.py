"""Non-maximum suppression, out of kinds that every backend may have.

The best box is taken, those that overlap it are struck off, and so on for as many rounds as boxes
are wanted. All classes go through a round together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dovetail.graph.layer import OutputSlot
from dovetail.ground.limits import budget
from dovetail.layers import (
    Activation,
    ActivationFunction,
    ArgFunction,
    ArgMinMax,
    BinaryOperation,
    Comparison,
    ComparisonOperation,
    Concat,
    ElementwiseBinary,
    Gather,
    Reduce,
    ReduceFunction,
    Reshape,
    Where,
)

from .call import Call

_INNER = (BinaryOperation.MAXIMUM, BinaryOperation.MAXIMUM, BinaryOperation.MINIMUM, BinaryOperation.MINIMUM)
"""What makes the corners of an intersection."""
_LAYERS = 25
"""Of a round."""


def suppressed(
    call: Call, corners: Sequence[OutputSlot], scores: OutputSlot, rounds: int, least: float, overlap: float
) -> tuple[OutputSlot, OutputSlot]:
    """Choose boxes, the best first.

    Args:
        call: The operator.
        corners: Least y, least x, greatest y, greatest x of each box: [N, 1] each.
        scores: Of each box in each class, [N, K].
        rounds: How many are chosen in each class, R.
        least: Score of those that may be.
        overlap: Intersection over union beyond which a box is struck off for a better one.

    Returns:
        Their numbers and scores, both [R, K]; where there is none the score is minus infinity.
    """
    budget().take_layers(rounds * _LAYERS, f"the rounds of {call.label()!r}")
    count = call.size_of(scores, 0) or 0
    own = call.network.constant(np.arange(count, dtype=np.int64)[:, None], call.label("numbers"))
    gone = call.scalar(-math.inf, scores, "gone")
    enough = _compared(call, ComparisonOperation.GREATER_OR_EQUAL, scores, call.scalar(least, scores, "least"), "enough")
    left = call.add(Where(), enough, scores, gone, part="candidates")
    limit = call.scalar(overlap, scores, "overlap")
    columns = [*corners, _area(call, corners, "area")]
    rows = [call.add(Reshape(shape=(-1,)), column, part=f"row{index}") for index, column in enumerate(columns)]
    positions, values = [], []
    for turn in range(rounds):
        part = f"round{turn}"
        best = call.add(ArgMinMax(function=ArgFunction.MAX, axis=0), left, part=f"{part}/best")
        positions.append(call.add(Reshape(shape=(1, -1)), best, part=f"{part}/number"))
        values.append(call.add(Reduce(function=ReduceFunction.MAX, axes=(0,), keep_dims=True), left, part=f"{part}/score"))
        if turn == rounds - 1:
            break
        ratio = _overlap(call, columns, rows, positions[-1], part)
        struck = _compared(call, ComparisonOperation.GREATER, ratio, limit, f"{part}/struck")
        itself = _compared(call, ComparisonOperation.EQUAL, own, positions[-1], f"{part}/itself")
        out = _combined(call, BinaryOperation.LOGICAL_OR, struck, itself, f"{part}/out")
        left = call.add(Where(), out, gone, left, part=f"{part}/left")
    return call.add(Concat(axis=0), *positions, part="chosen"), call.add(Concat(axis=0), *values, part="chosen_scores")


def _overlap(
    call: Call, columns: Sequence[OutputSlot], rows: Sequence[OutputSlot], chosen: OutputSlot, part: str
) -> OutputSlot:
    """Return the intersection over the union of all boxes [N, 1] and those chosen [1, K].

    Columns and rows are the corners and areas of all boxes, [N, 1] and [N].
    """
    theirs = [call.add(Gather(axis=0), row, chosen, part=f"{part}/of{index}") for index, row in enumerate(rows)]
    inner = [
        _combined(call, operation, mine, other, f"{part}/inner{index}")
        for index, (operation, mine, other) in enumerate(zip(_INNER, columns[:4], theirs[:4], strict=True))
    ]
    shared = _area(call, inner, f"{part}/shared")
    both = _combined(call, BinaryOperation.ADD, columns[4], theirs[4], f"{part}/sum")
    union = _combined(call, BinaryOperation.SUB, both, shared, f"{part}/union")
    return _combined(call, BinaryOperation.DIV, shared, union, f"{part}/ratio")


def _area(call: Call, corners: Sequence[OutputSlot], part: str) -> OutputSlot:
    """Return the product of the sides; one that would be negative is zero."""
    sides = [
        call.add(
            Activation(function=ActivationFunction.RELU),
            _combined(call, BinaryOperation.SUB, corners[2 + index], corners[index], f"{part}_side{index}"),
            part=f"{part}_length{index}",
        )
        for index in range(2)
    ]
    return _combined(call, BinaryOperation.MUL, sides[0], sides[1], part)


def _combined(call: Call, operation: BinaryOperation, a: OutputSlot, b: OutputSlot, part: str) -> OutputSlot:
    return call.add(ElementwiseBinary(operation=operation), a, b, part=part)


def _compared(call: Call, operation: ComparisonOperation, a: OutputSlot, b: OutputSlot, part: str) -> OutputSlot:
    return call.add(Comparison(operation=operation), a, b, part=part)
