"""Boxes from what a detector says of its anchors."""

from __future__ import annotations

import math
from collections.abc import Sequence

from flatbuffers import flexbuffers

from dovetail import DType
from dovetail.graph.layer import OutputSlot
from dovetail.ground.host_exceptions import is_of_host
from dovetail.ground.records import NamedTuple
from dovetail.layers import (
    BinaryOperation,
    BroadcastTo,
    Cast,
    Comparison,
    ComparisonOperation,
    Concat,
    ElementwiseBinary,
    ElementwiseUnary,
    ExpandDims,
    Gather,
    Pad,
    Permute,
    Reduce,
    ReduceFunction,
    Reshape,
    StridedSlice,
    TopK,
    UnaryOperation,
    Where,
)

from ..call import Call
from ..registry import custom_operator
from ..suppression import suppressed
from ..unsupported import Unsupported

_DEFAULT_PER_CLASS = 100


class _Options(NamedTuple):
    """Options, by the names that files give them.

    Attributes:
        max_detections: Boxes wanted.
        max_classes_per_detection: Classes told of each of them.
        detections_per_class: Boxes wanted of a class, where each class has its own.
        use_regular_nms: Choose in each class; else by the best class of each anchor.
        nms_score_threshold: Least score.
        nms_iou_threshold: Overlap beyond which the worse of two boxes is struck off.
        num_classes: Classes without that of the background.
        scales: What y, x, h and w are divided by.
    """

    max_detections: int
    max_classes_per_detection: int
    detections_per_class: int
    use_regular_nms: bool
    nms_score_threshold: float
    nms_iou_threshold: float
    num_classes: int
    scales: tuple[float, float, float, float]


@custom_operator("TFLite_Detection_PostProcess")
def post_process(call: Call) -> Sequence[OutputSlot]:
    """Translate the choice of boxes: boxes, classes, scores and their number."""
    options = _read(call)
    anchors = call.size_of(call.input(0), 1) if call.rank_of(call.input(0)) == 3 else None
    if not anchors:
        raise Unsupported("the number of anchors is not known before the open sizes are fixed")
    corners = _corners(call, options)
    scores = _scores(call, options, anchors)
    choose = _by_class if options.use_regular_nms else _by_anchor
    chosen, classes, best = choose(call, options, corners, scores, anchors)
    return _results(call, options, corners, chosen, classes, best)


def _read(call: Call) -> _Options:
    try:
        values = flexbuffers.GetRoot(call.custom_options).AsMap
        names = {key.AsKey for key in values.Keys}
        options = _Options(
            values["max_detections"].AsInt,
            values["max_classes_per_detection"].AsInt,
            values["detections_per_class"].AsInt if "detections_per_class" in names else _DEFAULT_PER_CLASS,
            "use_regular_nms" in names and values["use_regular_nms"].AsBool,
            values["nms_score_threshold"].AsFloat,
            values["nms_iou_threshold"].AsFloat,
            values["num_classes"].AsInt,
            tuple(values[f"{name}_scale"].AsFloat for name in "yxhw"),
        )
    except Exception as error:
        if is_of_host(error):
            raise
        raise call.malformed(f"has options that cannot be read: {type(error).__name__}: {error}") from error
    counts = (options.max_detections, options.max_classes_per_detection, options.detections_per_class, options.num_classes)
    if min(counts) < 1 or not 0 < options.nms_iou_threshold <= 1:
        raise call.malformed(f"has counts {counts} and an overlap of {options.nms_iou_threshold}")
    if not all(math.isfinite(scale) and scale for scale in options.scales) or math.isnan(options.nms_score_threshold):
        raise call.malformed(f"has scales {options.scales} and a threshold of {options.nms_score_threshold}")
    return options


# -- what the inputs say ---------------------------------------------------------------------------


def _corners(call: Call, options: _Options) -> list[OutputSlot]:
    """Return the least y, least x, greatest y and greatest x of every anchor's box, [N, 1] each."""
    sizes, anchors = (_columns(call, index, part) for index, part in ((0, "offset"), (2, "anchor")))
    near, far = [], []
    for axis, name in enumerate("yx"):
        shift = _scaled(call, sizes[axis], options.scales[axis], f"{name}_shift")
        center = _combined(call, BinaryOperation.MUL, shift, anchors[2 + axis], f"{name}_moved")
        center = _combined(call, BinaryOperation.ADD, center, anchors[axis], f"{name}_center")
        growth = _scaled(call, sizes[2 + axis], options.scales[2 + axis], f"{name}_growth")
        growth = call.add(ElementwiseUnary(operation=UnaryOperation.EXP), growth, part=f"{name}_factor")
        length = _combined(call, BinaryOperation.MUL, growth, anchors[2 + axis], f"{name}_length")
        half = _scaled(call, length, 2.0, f"{name}_half")
        center, half = (call.add(Cast(dtype=DType.FLOAT32), one, part=f"{name}_rounded") for one in (center, half))
        near.append(_combined(call, BinaryOperation.SUB, center, half, f"{name}_least"))
        far.append(_combined(call, BinaryOperation.ADD, center, half, f"{name}_greatest"))
    return [*near, *far]


def _columns(call: Call, index: int, part: str) -> list[OutputSlot]:
    """Return y, x, h and w of an input as float64, [N, 1] each."""
    x = call.real(call.input(index))
    wide = call.add(Cast(dtype=DType.FLOAT64), x, part=part)
    cut = [StridedSlice(begin=(column,), end=(column + 1,), axes=(-1,)) for column in range(4)]
    columns = [call.add(descriptor, wide, part=f"{part}{column}") for column, descriptor in enumerate(cut)]
    return [call.add(Reshape(shape=(-1, 1)), column, part=f"{part}_column") for column in columns]


def _scores(call: Call, options: _Options, anchors: int) -> OutputSlot:
    """Return the scores of the classes without the background, [N, K]."""
    x = call.real(call.input(1))
    given = call.size_of(x, 2) if call.rank_of(x) == 3 else None
    background = (given or 0) - options.num_classes
    if background not in (0, 1):
        raise call.malformed(f"has scores of {given} classes for {options.num_classes}")
    table = call.add(Reshape(shape=(anchors, given or 0)), x, part="table")
    classes = StridedSlice(begin=(background,), end=(background + options.num_classes,), axes=(1,))
    return call.add(classes, table, part="scores")


# -- the choice ------------------------------------------------------------------------------------

_Chosen = tuple[OutputSlot, OutputSlot, OutputSlot]
"""Anchors [D], classes and scores [D, C] of the boxes; the score of none is minus infinity."""


def _by_anchor(call: Call, options: _Options, corners: list[OutputSlot], scores: OutputSlot, anchors: int) -> _Chosen:
    """Choose by the best class of each anchor, and tell some classes of each."""
    told = options.max_classes_per_detection
    if told > options.num_classes:
        raise Unsupported(f"{told} classes are wanted of each box, of {options.num_classes}")
    best = call.add(Reduce(function=ReduceFunction.MAX, axes=(1,), keep_dims=True), scores, part="best")
    rounds = min(options.max_detections, anchors)
    chosen, values = suppressed(call, corners, best, rounds, options.nms_score_threshold, options.nms_iou_threshold)
    chosen = call.add(Reshape(shape=(-1,)), chosen, part="anchors")
    of_chosen = call.add(Gather(axis=0), scores, chosen, part="their_scores")
    layer = call.network.add(TopK(k=told, axis=1), of_chosen, name=call.label("their_classes"))
    found = call.add(Where(), _is_there(call, values), layer.outputs[0], values, part="told")
    return chosen, layer.outputs[1], found


def _by_class(call: Call, options: _Options, corners: list[OutputSlot], scores: OutputSlot, anchors: int) -> _Chosen:
    """Choose in each class, then the best of all."""
    rounds = min(options.detections_per_class, options.max_detections, anchors)
    chosen, values = suppressed(call, corners, scores, rounds, options.nms_score_threshold, options.nms_iou_threshold)
    rows = [
        call.add(Reshape(shape=(-1,)), call.add(Permute(permutation=(1, 0)), one, part=part), part=f"{part}_row")
        for one, part in ((chosen, "anchors_by_class"), (values, "scores_by_class"))
    ]
    count = min(options.max_detections, rounds * options.num_classes)
    layer = call.network.add(TopK(k=count), rows[1], name=call.label("best"))
    best, places = layer.outputs
    chosen = call.add(Gather(axis=0), rows[0], places, part="anchors")
    classes = _combined(call, BinaryOperation.DIV, places, call.scalar(rounds, places, "rounds"), "classes")
    column = Reshape(shape=(-1, 1))
    return chosen, call.add(column, classes, part="class_column"), call.add(column, best, part="best_column")


# -- the results -----------------------------------------------------------------------------------


def _results(
    call: Call, options: _Options, corners: list[OutputSlot], chosen: OutputSlot, classes: OutputSlot, best: OutputSlot
) -> list[OutputSlot]:
    """Return the boxes, classes, scores and their number; zeros stand for what there is none of."""
    told = call.size_of(best, 1) or 0
    there = _is_there(call, best)
    boxes = call.add(Gather(axis=0), call.add(Concat(axis=1), *corners, part="boxes"), chosen, part="chosen_boxes")
    boxes = call.add(ExpandDims(axes=(1,)), boxes, part="single_boxes")
    boxes = call.add(BroadcastTo(shape=(1, told, 4)), boxes, part="repeated_boxes")
    numbers = call.add(Cast(dtype=DType.FLOAT32), classes, part="class_numbers")
    shown = call.add(ExpandDims(axes=(2,)), there, part="shown")
    zero = call.scalar(0.0, best, "zero")
    missing = (options.max_detections - (call.size_of(best, 0) or 0)) * told
    found = []
    for output, (value, mask) in enumerate(((boxes, shown), (numbers, there), (best, there))):
        kept = call.add(Where(), mask, value, zero, part=f"kept{output}")
        last = (4,) if output == 0 else ()
        row = call.add(Reshape(shape=(1, -1, *last)), kept, part=f"row{output}")
        ends = (0, missing, *(0 for _ in last))
        found.append(call.add(Pad(before=(0,) * len(ends), after=ends), row, output=output))
    first = call.add(StridedSlice(begin=(0,), end=(1,), axes=(1,)), there, part="first")
    ones = call.add(Cast(dtype=DType.FLOAT32), first, part="ones")
    total = call.add(Reduce(function=ReduceFunction.SUM, axes=(0,)), ones, output=3)
    return [*found, total]


def _is_there(call: Call, scores: OutputSlot) -> OutputSlot:
    nothing = call.scalar(-math.inf, scores, "nothing")
    return call.add(Comparison(operation=ComparisonOperation.GREATER), scores, nothing, part="there")


def _scaled(call: Call, x: OutputSlot, by: float, part: str) -> OutputSlot:
    return _combined(call, BinaryOperation.DIV, x, call.scalar(by, x, f"{part}_divisor"), part)


def _combined(call: Call, operation: BinaryOperation, a: OutputSlot, b: OutputSlot, part: str) -> OutputSlot:
    return call.add(ElementwiseBinary(operation=operation), a, b, part=part)
