"""TFLite_Detection_PostProcess against a greedy choice in NumPy, and hostile options."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from flatbuffers import flexbuffers
from one_operator import Array
from tflite_making import Model

import dovetail
from dovetail import DovetailError, ModelError
from dovetail_tflite import parse

OPTIONS = {
    "max_detections": 6,
    "max_classes_per_detection": 1,
    "detections_per_class": 4,
    "use_regular_nms": False,
    "nms_score_threshold": 0.3,
    "nms_iou_threshold": 0.5,
    "num_classes": 3,
    "y_scale": 10.0,
    "x_scale": 10.0,
    "h_scale": 5.0,
    "w_scale": 5.0,
}
ANCHORS = 40


def packed(options: dict[str, Any]) -> bytes:
    """Return options as a FlexBuffer."""
    builder = flexbuffers.Builder()
    with builder.Map():
        for name, value in options.items():
            if isinstance(value, bool):
                builder.Bool(name, value)
            elif isinstance(value, int):
                builder.Int(name, value)
            else:
                builder.Float(name, value)
    return bytes(builder.Finish())


def made(options: bytes, shapes: tuple[tuple[int, ...], ...] = ((1, ANCHORS, 4), (1, ANCHORS, 4), (ANCHORS, 4))) -> bytes:
    """Return a model of the operator alone."""
    model = Model()
    graph = model.main
    inputs = [graph.input(f"in{place}", np.float32, shape) for place, shape in enumerate(shapes)]
    outputs = [graph.output(graph.tensor(f"out{place}", np.float32, ())) for place in range(4)]
    graph.operator("custom:TFLite_Detection_PostProcess", inputs, outputs, custom_options=options)
    return model.build()


def inputs(seed: int) -> list[Array]:
    """Return boxes that overlap, scores of a background and three classes, and anchors."""
    rng = np.random.default_rng(seed)
    anchors = np.column_stack([rng.uniform(0.2, 0.8, (ANCHORS, 2)), rng.uniform(0.2, 0.5, (ANCHORS, 2))])
    boxes, scores = rng.uniform(-2, 2, (1, ANCHORS, 4)), rng.integers(0, 20, (1, ANCHORS, 4)) / 20  # some are the same
    return [array.astype(np.float32) for array in (boxes, scores, anchors)]


def decoded(boxes: Array, anchors: Array) -> Array:
    boxes, anchors = boxes[0].astype(np.float64), anchors.astype(np.float64)
    center = boxes[:, :2] / 10 * anchors[:, 2:] + anchors[:, :2]
    half = np.exp(boxes[:, 2:] / 5) * anchors[:, 2:] / 2
    return np.concatenate([center - half, center + half], 1)


def overlap(a: Array, b: Array) -> float:
    sides = np.maximum(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0)
    return float(sides.prod() / ((a[2:] - a[:2]).prod() + (b[2:] - b[:2]).prod() - sides.prod()))


def greedy(boxes: Array, scores: Array, most: int, least: float, limit: float) -> list[int]:
    chosen: list[int] = []
    for index in np.argsort(-scores, kind="stable").tolist():
        if scores[index] >= least and len(chosen) < most and all(overlap(boxes[index], boxes[one]) <= limit for one in chosen):
            chosen.append(index)
    return chosen


def expected(options: dict[str, Any], boxes: Array, scores: Array) -> list[tuple[int, int]]:
    """Return (anchor, class) of each detection, best first."""
    least, limit = options["nms_score_threshold"], options["nms_iou_threshold"]
    most, told = options["max_detections"], options["max_classes_per_detection"]
    if options["use_regular_nms"]:
        each = min(options["detections_per_class"], most)
        pairs = [(box, kind) for kind in range(scores.shape[1]) for box in greedy(boxes, scores[:, kind], each, least, limit)]
        return sorted(pairs, key=lambda pair: -scores[pair])[:most]
    chosen = greedy(boxes, scores.max(1), most, least, limit)
    return [(box, int(kind)) for box in chosen for kind in np.argsort(-scores[box], kind="stable")[:told]]


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"nms_iou_threshold": 1.0},
        {"max_classes_per_detection": 3},
        {"nms_score_threshold": 0.93},
        {"max_detections": 60, "nms_iou_threshold": 0.2},
        {"use_regular_nms": True},
        {"use_regular_nms": True, "max_detections": 20, "nms_score_threshold": 0.9},
        {"use_regular_nms": True, "detections_per_class": 2},
    ],
)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_detections(changed: dict[str, Any], seed: int) -> None:
    options, fed = OPTIONS | changed, inputs(seed)
    with dovetail.load(parse(made(packed(options))), backends=["CpuRef"]) as network:
        boxes, classes, scores, count = network.run({f"in{place}": one for place, one in enumerate(fed)}).values()
    corners, table = decoded(fed[0], fed[2]), fed[1][0, :, 1:]
    pairs = expected(options, corners, table)
    told = 1 if options["use_regular_nms"] else options["max_classes_per_detection"]
    rows = options["max_detections"] * told
    assert (boxes.shape, classes.shape, scores.shape, count.shape) == ((1, rows, 4), (1, rows), (1, rows), (1,))
    assert count.tolist() == [len(pairs) / told]
    assert classes[0, : len(pairs)].tolist() == [kind for _, kind in pairs]
    assert scores[0, : len(pairs)].tolist() == [table[pair] for pair in pairs]
    np.testing.assert_allclose(boxes[0, : len(pairs)], corners[[anchor for anchor, _ in pairs]], rtol=1e-5, atol=1e-6)
    assert not np.any(boxes[0, len(pairs) :])
    assert not np.any(scores[0, len(pairs) :])


@pytest.mark.parametrize(
    "changed",
    [
        {"max_detections": 0},
        {"max_detections": 2**40},
        {"max_classes_per_detection": -1},
        {"detections_per_class": 0, "use_regular_nms": True},
        {"num_classes": 2},
        {"num_classes": 2**31},
        {"nms_iou_threshold": 0.0},
        {"nms_iou_threshold": float("nan")},
        {"nms_score_threshold": float("nan")},
        {"y_scale": 0.0},
        {"w_scale": float("inf")},
    ],
)
def test_hostile_options(changed: dict[str, Any]) -> None:
    options = OPTIONS | changed
    if changed == {"max_detections": 2**40}:  # beyond the rounds that there are anchors for, only zeros
        options["max_classes_per_detection"] = 1
    with pytest.raises(DovetailError):
        dovetail.load(parse(made(packed(options))), backends=["CpuRef"])


def test_options_cut_off_or_changed() -> None:
    whole, rng = packed(OPTIONS), np.random.default_rng(4)
    for size in range(len(whole)):
        with pytest.raises(ModelError, match="TFLite_Detection_PostProcess"):
            parse(made(whole[size:] if size else b""))
    for _ in range(100):
        bent = bytearray(whole)
        bent[rng.integers(len(bent))] = rng.integers(256)
        try:
            parse(made(bytes(bent)))
        except DovetailError:
            continue  # else the change did not matter


@pytest.mark.parametrize(
    "shapes",
    [
        ((1, ANCHORS, 3), (1, ANCHORS, 4), (ANCHORS, 4)),
        ((1, ANCHORS, 4), (1, ANCHORS + 1, 4), (ANCHORS, 4)),
        ((1, ANCHORS, 4), (1, ANCHORS, 4), (ANCHORS - 1, 4)),
        ((ANCHORS, 4), (ANCHORS, 4), (ANCHORS, 4)),
    ],
)
def test_shapes_that_do_not_fit(shapes: tuple[tuple[int, ...], ...]) -> None:
    with pytest.raises(DovetailError):
        parse(made(packed(OPTIONS), shapes))
