"""DetectionPostProcess: the boxes that overlap no better one, with their classes and scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from dovetail import DType
from dovetail.graph.graph import Graph
from dovetail.graph.layer import OutputSlot
from dovetail.layers import DetectionPostProcess

from ..cases import EXACT, Array, Case, Feed, Operator, Parameters, Tolerance
from ..references.tolerances import accumulated

_Build: TypeAlias = "Callable[[Graph, Sequence[OutputSlot | None]], Sequence[OutputSlot]]"

_MARGIN = 1e-4
"""Overlaps are no closer to the threshold: rounding must not decide which boxes are taken."""
_ROUNDINGS = 8
"""Of a center or half a size computed in float32: four operations, an exponential of 2 units in the
last place, and the difference or sum of both."""


def centers_and_halves(encoded: Array, anchors: Array, scales: Sequence[float]) -> tuple[Array, Array]:
    """Return the centers of boxes and half their sizes, [..., (y, x)], in float64."""
    code, anchor, scale = encoded.astype(np.float64), anchors.astype(np.float64), np.asarray(scales, np.float64)
    centers = code[..., :2] / scale[:2] * anchor[..., 2:] + anchor[..., :2]
    halves = 0.5 * np.exp(code[..., 2:4] / scale[2:]) * anchor[..., 2:]
    return centers, halves


def overlaps(corners: Array) -> Array:
    """Return the intersection over union of all pairs of boxes [boxes, 4]; 0 without area."""
    low, high = corners[:, :2], corners[:, 2:]
    sizes = high - low
    areas = np.where((sizes > 0).all(1), sizes.prod(1), 0.0)
    shared = np.minimum(high[:, None], high[None]) - np.maximum(low[:, None], low[None])
    both = np.where((shared > 0).all(2), shared.prod(2), 0.0)
    union = areas[:, None] + areas[None] - both
    return np.where((areas[:, None] > 0) & (areas[None] > 0), both / np.where(union == 0, 1.0, union), 0.0)


def suppressed(scores: Array, overlap: Array, least: float, most: float, limit: int) -> list[int]:
    """Return the boxes of at least some score that no better one rules out, the best first."""
    order = sorted((box for box in range(len(scores)) if scores[box] >= least), key=lambda box: -scores[box])
    chosen: list[int] = []
    while order and len(chosen) < limit:
        best, *rest = order
        chosen.append(best)
        order = [box for box in rest if not overlap[best, box] > most]
    return chosen


def detections(descriptor: DetectionPostProcess, scores: Array, overlap: Array) -> list[list[tuple[int, int]]]:
    """Return what is detected in one image: a list of (box, class) for each detection.

    Args:
        descriptor: Thresholds and limits.
        scores: Of the classes alone, [boxes, classes].
        overlap: Of all pairs of boxes.
    """
    scores = np.where(np.isnan(scores), -np.inf, scores).astype(np.float64)
    least, most = float(np.float32(descriptor.score_threshold)), float(np.float32(descriptor.iou_threshold))
    if not descriptor.regular:
        best = scores.max(1) if len(scores) else scores[:, 0]
        order = np.argsort(-scores, axis=1, kind="stable")[:, : descriptor.max_classes_per_detection]
        boxes = suppressed(best, overlap, least, most, descriptor.max_detections)
        return [[(box, int(which)) for which in order[box]] for box in boxes]
    found = [
        (box, which)
        for which in range(scores.shape[1])
        for box in suppressed(scores[:, which], overlap, least, most, descriptor.detections_per_class)
    ]
    found.sort(key=lambda one: -scores[one])
    return [[one] for one in found[: descriptor.max_detections]]


def results(descriptor: DetectionPostProcess, corners: Array, scores: Array) -> tuple[Array, Array, Array, Array]:
    """Return all outputs, boxes in the precision of the corners.

    Args:
        descriptor: The layer.
        corners: Of boxes [batch, boxes, 4].
        scores: As the layer takes them, with a background or without.
    """
    batch, places = len(corners), descriptor.max_detections * descriptor.max_classes_per_detection
    boxes, counts = np.zeros((batch, places, 4)), np.zeros(batch, np.float32)
    classes, values = np.zeros((2, batch, places), np.float32)
    step = 1 if descriptor.regular else descriptor.max_classes_per_detection
    for image in range(batch):
        alone = scores[image, :, scores.shape[2] - descriptor.num_classes :]
        found = detections(descriptor, alone, overlaps(corners[image]))
        counts[image] = len(found)
        for number, several in enumerate(found):
            for place, (box, which) in enumerate(several, number * step):
                boxes[image, place], classes[image, place], values[image, place] = corners[image, box], which, alone[box, which]
    return boxes, classes, values, counts


def _operands(parameters: Parameters, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    batch, boxes, how = parameters["batch"], parameters["boxes"], parameters["values"]
    scales = np.resize(parameters["scales"], parameters["numbers"])
    encoded = rng.normal(0, 0.1, (batch, boxes, parameters["numbers"])) * scales
    scores = rng.uniform(0, 1, (batch, boxes, parameters["classes"] + parameters["background"]))
    crowd = rng.uniform(0, 1, (4, 2))[rng.integers(0, 4, boxes)]  # around few places, so that boxes overlap
    anchors = np.concatenate([crowd + rng.uniform(0, 0.1, (boxes, 2)), rng.uniform(0.4, 0.5, (boxes, 2))], axis=1)
    if how == "equal":  # scores, and some boxes
        scores = np.round(scores * 4) / 4
        encoded[:, 1::2] = encoded[:, : boxes - 1 : 2][:, : boxes // 2]
        anchors[1::2] = anchors[: boxes - 1 : 2][: boxes // 2]
    elif how == "flat":  # without area, or inside out
        anchors[::3, 2] = 0
        anchors[1::3, 3] *= -1
    elif how == "special":
        scores[:, ::2, -1] = np.nan
        scores[:, 1::3, 0] = np.inf
        encoded[:, ::4, 2] = 800 * parameters["scales"][2]  # of infinite height
        encoded[:, 3::5, 1] = np.nan
    return encoded.astype(np.float32), scores.astype(np.float32), anchors.astype(np.float32)


def _are_apart(corners: Array, threshold: float) -> bool:
    """Tell whether the overlaps of all boxes are known to be above or below a threshold."""
    for image in corners:
        found = overlaps(image)[np.triu_indices(len(image), 1)]
        low, high = image[:, None, :2], image[None, :, 2:]
        edges = np.abs(high - low)[~np.eye(len(image), dtype=bool)]
        if threshold == 0 and (edges < _MARGIN).any():
            return False
        if threshold > 0 and (np.abs(found - threshold) < _MARGIN).any():
            return False
    return True


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    descriptor = DetectionPostProcess(
        num_classes=parameters["classes"],
        **{name: parameters[name] for name in _ATTRIBUTES},
    )
    for _ in range(20):
        encoded, scores, anchors = _operands(parameters, rng)
        with np.errstate(all="ignore"):
            parts = centers_and_halves(encoded, anchors, descriptor.scales)
            centers, halves = (part.astype(np.float32).astype(np.float64) for part in parts)
            corners = np.concatenate([centers - halves, centers + halves], axis=2)
            if not _are_apart(corners, descriptor.iou_threshold):
                continue
            expected = results(descriptor, corners, scores)
        arguments = np.abs(encoded[..., 2:4] / np.asarray(descriptor.scales[2:]))
        tolerance = _tolerance(centers, halves * (1 + arguments), anchors)
        constant = parameters["constant"]
        feeds = (Feed(encoded), Feed(scores), Feed(anchors, constant=constant))
        return Case(_building(descriptor), feeds, expected, (tolerance, EXACT, EXACT, EXACT))
    return None


def _tolerance(centers: Array, halves: Array, anchors: Array) -> Tolerance:
    magnitudes = np.abs(centers) + np.abs(halves) + np.abs(anchors[:, :2])
    largest = magnitudes[np.isfinite(magnitudes)].max(initial=0.0)
    return accumulated(DType.FLOAT32, _ROUNDINGS, float(largest), what="a corner, as center and half a size")


def _building(descriptor: DetectionPostProcess) -> _Build:
    def build(graph: Graph, slots: Sequence[OutputSlot | None]) -> Sequence[OutputSlot]:
        return graph.add(descriptor, *slots).outputs

    return build


_ATTRIBUTES = (
    *("max_detections", "max_classes_per_detection", "detections_per_class"),
    *("regular", "score_threshold", "iou_threshold", "scales"),
)

OPERATOR = Operator(
    kind="dovetail.DetectionPostProcess",
    dtypes=(DType.FLOAT32,),
    parameters={
        "boxes": (12, 0, 1, 3, 33),
        "batch": (1, 2, 0),
        "numbers": (4, 5, 7),
        "classes": (3, 1, 2, 9),
        "background": (True, False),
        "max_detections": (5, 1, 2, 40),
        "max_classes_per_detection": (1, 2, 3, 4),
        "detections_per_class": (100, 1, 3),
        "regular": (False, True),
        "score_threshold": (0.25, -1.0, 0.0, 0.3, 1.0, 2.0),
        "iou_threshold": (0.5, 0.0, 0.1, 1.0),
        "scales": ((1.0, 1.0, 1.0, 1.0), (10.0, 5.0, 4.0, 2.5), (-1.0, 2.0, -3.0, 1.0)),
        "values": ("plain", "equal", "flat", "special"),
        "constant": (False, True),
    },
    make=_make,
    quantities={
        "boxes.0": "batch",
        "scores.0": "batch",
        "boxes.1": "boxes",
        "scores.1": "boxes",
        "anchors.0": "boxes",
        "boxes.2": "numbers",
        "num_classes": "classes",
    },
    together=[
        *({"regular": True, "values": values, "max_detections": 20} for values in ("plain", "equal", "flat", "special")),
        *({"max_classes_per_detection": 2, "values": values} for values in ("equal", "flat", "special")),
        {"max_classes_per_detection": 3, "classes": 2, "background": False},
        {"max_classes_per_detection": 3, "regular": True, "boxes": 33, "batch": 2},
        {"regular": True, "detections_per_class": 2, "max_detections": 40, "values": "equal"},
        {"regular": True, "boxes": 0},
        {"regular": True, "score_threshold": 2.0},
        {"regular": True, "max_detections": 1, "classes": 9},
        {"batch": 2, "numbers": 6, "background": False, "values": "equal"},
        {"iou_threshold": 1.0, "values": "flat", "regular": True},
        {"boxes": 33, "max_detections": 40, "iou_threshold": 0.1, "scales": (10.0, 10.0, 5.0, 5.0)},
    ],
)
