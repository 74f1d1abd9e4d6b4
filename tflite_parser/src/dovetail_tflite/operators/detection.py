"""What object detectors end with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dovetail.graph.layer import OutputSlot
from dovetail.layers import DetectionPostProcess

from ..call import Call
from ..registry import operator


@operator("custom:TFLite_Detection_PostProcess")
def detection_post_process(call: Call) -> Sequence[OutputSlot]:
    """Translate the choice among the boxes of a detector, on real numbers whatever is given."""
    if len(call.inputs) != 3:
        raise call.malformed(f"has {len(call.inputs)} inputs, expected boxes, scores and anchors")
    options = _Options(call)
    overlap = options.real("nms_iou_threshold")
    if not 0 < overlap <= 1:
        raise call.malformed(f"has an nms_iou_threshold of {overlap}, expected more than 0 and at most 1")
    descriptor = DetectionPostProcess(
        max_detections=options.integer("max_detections"),
        num_classes=options.integer("num_classes"),
        max_classes_per_detection=options.integer("max_classes_per_detection"),
        detections_per_class=options.integer("detections_per_class", 100),
        regular=options.integer("use_regular_nms") != 0,
        score_threshold=options.real("nms_score_threshold"),
        iou_threshold=overlap,
        scales=(options.real("y_scale"), options.real("x_scale"), options.real("h_scale"), options.real("w_scale")),
    )
    inputs = [call.real(slot) for slot in call.all_inputs()]
    return call.network.add(descriptor, *inputs, name=call.label()).outputs


class _Options:
    """The options of a custom operator; what is left out is 0, if nothing else is said."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._values = call.custom_numbers()

    def real(self, name: str) -> float:
        """Return a number, rounded to float32 as TensorFlow Lite does."""
        with np.errstate(over="ignore"):
            return float(np.float32(self._number(name, 0)))

    def integer(self, name: str, default: int = 0) -> int:
        """Return an integer."""
        value = self._number(name, default)
        if value != value // 1:
            raise self._call.malformed(f"has a {name} of {value}, expected an integer")
        return int(value)

    def _number(self, name: str, default: int) -> int | float:
        value = self._values.get(name, default)
        if value is None:
            raise self._call.malformed(f"has a {name} that is no number")
        return value
