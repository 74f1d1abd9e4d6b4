"""The reference of DetectionPostProcess, by hand; its cases tell wrong rules from right ones."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail import DType
from dovetail.layers import DetectionPostProcess
from dovetail_sdk.conformance.comparing import mismatch
from dovetail_sdk.conformance.operators import detection_post_process as module
from dovetail_sdk.conformance.operators.detection_post_process import (
    OPERATOR,
    centers_and_halves,
    detections,
    overlaps,
    results,
)
from dovetail_sdk.conformance.variants import variants


def test_centers_and_halves():
    encoded = np.asarray([[[1.0, 2.0, np.log(2.0) * 5, 0.0, 99.0]]])
    centers, halves = centers_and_halves(encoded, np.asarray([[10.0, 20.0, 3.0, 4.0]]), (2, 4, 5, 5))
    assert centers.tolist() == [[[11.5, 22.0]]]
    assert halves.tolist() == [[[3.0, 2.0]]]


def test_overlaps():
    boxes = np.asarray([[0.0, 0, 2, 2], [0, 1, 2, 3], [2, 0, 4, 2], [0, 0, 0, 2], [2, 2, 0, 0]])
    wanted = np.zeros((5, 5))
    wanted[range(3), range(3)] = 1
    wanted[0, 1] = wanted[1, 0] = 2 / 6
    assert np.allclose(overlaps(boxes), wanted)


APART = np.zeros((3, 3))
SCORES = np.asarray([[0.5, 0.75], [0.75, 0.25], [np.nan, np.nan]])


def detector(**attributes):
    return DetectionPostProcess(max_detections=4, num_classes=2, **attributes)


def test_detections():
    assert detections(detector(), SCORES, APART) == [[(0, 1)], [(1, 0)]]
    assert detections(detector(max_classes_per_detection=2), SCORES, APART) == [[(0, 1), (0, 0)], [(1, 0), (1, 1)]]
    assert detections(detector(regular=True), SCORES, APART) == [[(1, 0)], [(0, 1)], [(0, 0)], [(1, 1)]]
    assert detections(detector(regular=True, detections_per_class=1), SCORES, APART) == [[(1, 0)], [(0, 1)]]
    assert detections(detector(score_threshold=0.75), SCORES, np.ones((3, 3))) == [[(0, 1)]]
    assert detections(detector(score_threshold=0.75, iou_threshold=1.0), SCORES, np.ones((3, 3))) == [[(0, 1)], [(1, 0)]]


def test_results():
    corners = np.arange(8.0).reshape(1, 2, 4)
    scores = np.asarray([[[9.0, 0.5], [9.0, 0.75]]])
    descriptor = DetectionPostProcess(max_detections=2, num_classes=1, max_classes_per_detection=2)
    boxes, classes, values, counts = results(descriptor, corners, scores)
    assert boxes.tolist() == [[[4, 5, 6, 7], [0] * 4, [0, 1, 2, 3], [0] * 4]]
    assert (classes.tolist(), values.tolist(), counts.tolist()) == ([[0] * 4], [[0.75, 0, 0.5, 0]], [2])


def made():
    drawn = {
        one.label: OPERATOR.make(one.parameters, DType.FLOAT32, np.random.default_rng(2))
        for one in variants(OPERATOR, DType.FLOAT32, ())
    }
    return {label: case for label, case in drawn.items() if case is not None}


def later_first(scores, overlap, least, most, limit):
    flipped = right_suppressed(scores[::-1], overlap[::-1, ::-1], least, most, limit)
    return [len(scores) - 1 - box for box in flipped]


right_suppressed, right_overlaps, right_detections = module.suppressed, module.overlaps, module.detections
MUTANTS = {
    "equal scores backwards": ("suppressed", later_first),
    "above the threshold": ("suppressed", lambda s, o, least, most, n: right_suppressed(s, o, np.nextafter(least, 9), most, n)),
    "nothing suppressed": ("suppressed", lambda s, o, least, most, n: right_suppressed(s, 0 * o, least, most, n)),
    "one too few": ("suppressed", lambda s, o, least, most, n: right_suppressed(s, o, least, most, n - 1)),
    "half the threshold": ("suppressed", lambda s, o, least, most, n: right_suppressed(s, o, least, most / 2, n)),
    "intersection over the smaller": ("overlaps", lambda c: right_overlaps(c) * 1.6),
    "one class each": ("detections", lambda d, s, o: [several[:1] for several in right_detections(d, s, o)]),
    "NaN above all": ("detections", lambda d, s, o: right_detections(d, np.where(np.isnan(s), 9, s), o)),
    "boxes as they come": ("detections", lambda d, s, o: sorted(right_detections(d, s, o))),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_cases_tell_wrong_rules(monkeypatch, name):
    right = made()
    monkeypatch.setattr(module, *MUTANTS[name])
    wrong = made()
    differing = [
        label
        for label in right.keys() & wrong.keys()
        for place in range(4)
        if mismatch(
            wrong[label].expected[place].astype(np.float32),
            right[label].expected[place],
            right[label].tolerances[place],
            DType.FLOAT32,
        )
    ]
    assert differing


def test_most_parameters_make_a_case():
    labels = {one.label for one in variants(OPERATOR, DType.FLOAT32, ())}
    assert len(made()) > 0.9 * len(labels)
