"""Kinds that make detections of what an object detector predicts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from ..graph.descriptor import Descriptor, Infos, descriptor_class
from ..graph.element_types import DType
from ..graph.graph import Graph
from ..graph.layer import OutputSlot
from ..graph.size_rules import below, differ
from ..graph.tensor import TensorInfo
from .arguments import Operand, integer, number, sequence
from .shape_rules import attribute_error, present, require_dtype, require_positive, require_rank, shape_error

_LARGEST_FLOAT = 3.4028234663852886e38
"""Numbers beyond it are infinite in float32."""


@descriptor_class
class DetectionPostProcess(Descriptor, kind="dovetail.DetectionPostProcess"):
    """Boxes, classes and scores of the objects in an image, and how many there are.

    Inputs, all float32: encoded boxes [batch, boxes, 4 or more], of which the first four (y, x,
    height, width) count; scores [batch, boxes, classes], with one more in front if there is a
    background, which is no class; anchors [boxes, 4], as y and x of the center, height, width.

    A box has its center at ``y / y_scale * anchor height + anchor y`` and half a height of
    ``exp(h / h_scale) * anchor height / 2``, x and width alike; these are float64 rounded to
    float32.

    Candidates have a score that is not below the threshold; the best comes first. One is left out
    if its intersection with one that was taken is more than a part of their union (in float32; a
    box whose height and width are not both positive overlaps nothing).

    Fast: each box is one candidate, by the score of its best class. A detection tells this class
    and the next best ones, up to `max_classes_per_detection`, whatever their scores. Regular: each
    class has candidates of its own, and the best of all classes are told, one class each.

    Equal scores come in order of boxes; those of one box, and of several classes, in order of
    classes. A score that is NaN is below every number.

    Outputs, float32, with ``places = max_detections * max_classes_per_detection``: boxes
    [batch, places, 4] as top, left, bottom, right; classes [batch, places]; scores [batch, places];
    the number of detections [batch]. A detection takes `max_classes_per_detection` places if fast,
    one if regular. Places without a class hold zeros.

    TensorFlow Lite calls it TFLite_Detection_PostProcess.
    """

    input_names: ClassVar[tuple[str, ...]] = ("boxes", "scores", "anchors")
    required_inputs: ClassVar[int] = 3
    max_detections: int
    """How many detections there are at most."""
    num_classes: int
    """How many classes there are, without a background."""
    max_classes_per_detection: int = 1
    """How many classes of a box are told (fast)."""
    detections_per_class: int = 100
    """How many boxes are taken for a class at most (regular)."""
    regular: bool = False
    """Boxes are chosen for each class by itself (regular); else once for all classes (fast)."""
    score_threshold: float = 0.0
    """The lowest score of a candidate, rounded to float32."""
    iou_threshold: float = 0.5
    """Part of the union above which an overlap leaves the lower score out, rounded to float32."""
    scales: tuple[float, float, float, float] = (1.0, 1.0, 1.0, 1.0)
    """What y, x, height and width of a box are divided by."""

    @property
    def output_count(self) -> int:
        return 4

    @property
    def places(self) -> int:
        """How many classes and scores the result has room for."""
        return self.max_detections * self.max_classes_per_detection

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        boxes, scores, anchors = (present(inputs, at) for at in range(3))
        for info, name, rank in zip((boxes, scores, anchors), self.input_names, (3, 3, 2), strict=True):
            require_dtype(info, [DType.FLOAT32], name)
            require_rank(info, rank, name)
        self._check_counts()
        self._check_numbers()
        self._check_sizes(boxes, scores, anchors)
        batch = boxes.sizes[0]
        shapes = ((batch, self.places, 4), (batch, self.places), (batch, self.places), (batch,))
        return [TensorInfo(shape, DType.FLOAT32) for shape in shapes]

    def _check_counts(self) -> None:
        for name in ("max_detections", "num_classes", "max_classes_per_detection", "detections_per_class"):
            require_positive(name, getattr(self, name))
        require_positive("max_detections * max_classes_per_detection", self.places)

    def _check_numbers(self) -> None:
        if not abs(self.score_threshold) <= _LARGEST_FLOAT:
            raise attribute_error(f"score_threshold is {self.score_threshold!r}", "give a finite number")
        if not 0 <= self.iou_threshold <= 1:
            raise attribute_error(f"iou_threshold is {self.iou_threshold!r}", "give a part of the union, from 0 to 1")
        if len(self.scales) != 4 or not all(math.isfinite(scale) and scale for scale in self.scales):
            raise attribute_error(f"scales are {self.scales!r}", "give four finite numbers, none 0: of y, x, height, width")

    def _check_sizes(self, boxes: TensorInfo, scores: TensorInfo, anchors: TensorInfo) -> None:
        shapes = f"boxes {boxes.shape_text}, scores {scores.shape_text}, anchors {anchors.shape_text}"
        if differ(boxes.shape[0], scores.shape[0]):
            raise shape_error(f"{shapes} do not fit", "boxes and scores are of one batch")
        if differ(boxes.shape[1], scores.shape[1]) or differ(boxes.shape[1], anchors.shape[0]):
            raise shape_error(f"{shapes} do not fit", "each box has its scores and its anchor")
        if below(boxes.shape[2], 4) or differ(anchors.shape[1], 4):
            raise shape_error(f"{shapes} do not fit", "a box has four numbers or more, an anchor four")
        if below(scores.shape[2], self.num_classes) or below(self.num_classes + 1, scores.shape[2]):
            raise shape_error(
                f"scores {scores.shape_text} do not fit {self.num_classes} classes",
                "each box has a score for each class, and may have one for the background before them",
            )


class DetectionLayers(Graph):
    """Builder methods."""

    def detection_post_process(
        self,
        boxes: Operand,
        scores: Operand,
        anchors: Operand,
        max_detections: int,
        num_classes: int,
        *,
        max_classes_per_detection: int = 1,
        detections_per_class: int = 100,
        regular: bool = False,
        score_threshold: float = 0.0,
        iou_threshold: float = 0.5,
        scales: Sequence[float] = (1.0, 1.0, 1.0, 1.0),
        name: str | None = None,
    ) -> tuple[OutputSlot, OutputSlot, OutputSlot, OutputSlot]:
        """(boxes, classes, scores, count) of the objects that a detector found."""
        y, x, height, width = _four(scales)
        descriptor = DetectionPostProcess(
            max_detections=integer(max_detections, "max_detections"),
            num_classes=integer(num_classes, "num_classes"),
            max_classes_per_detection=integer(max_classes_per_detection, "max_classes_per_detection"),
            detections_per_class=integer(detections_per_class, "detections_per_class"),
            regular=bool(regular),
            score_threshold=number(score_threshold, "score_threshold"),
            iou_threshold=number(iou_threshold, "iou_threshold"),
            scales=(y, x, height, width),
        )
        found = self.add(descriptor, boxes, scores, anchors, name=name).outputs
        return found[0], found[1], found[2], found[3]


def _four(scales: Sequence[float]) -> tuple[float, ...]:
    values = tuple(number(scale, "scales") for scale in sequence(scales, "scales"))
    if len(values) != 4:
        raise attribute_error(f"scales are {scales!r}", "give four numbers: of y, x, height, width")
    return values
