"""DetectionPostProcess against examples worked by hand and against its definition in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

F32 = np.float32
# Two boxes of height and width 1 at (0, 0), of which the second is a little to the right and the
# third much to the left; two at (0, 10), and one alone at (0, 100).
ENCODED = [[0, 0, 0, 0], [0, 1, 0, 0], [0, -1, 0, 0], [0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0]]
SCORES = [[0.9, 0.8], [0.75, 0.72], [0.6, 0.5], [0.93, 0.95], [0.5, 0.4], [0.3, 0.2]]
ANCHORS = [[0.5, 0.5, 1, 1], [0.5, 0.5, 1, 1], [0.5, 0.5, 1, 1], [0.5, 10.5, 1, 1], [0.5, 10.5, 1, 1], [0.5, 100.5, 1, 1]]
FIRST, FAR, FARTHEST = [0, 0, 1, 1], [0, 10, 1, 11], [0, 100, 1, 101]
NOTHING = [0, 0, 0, 0]


@pytest.fixture
def detect(run_layer):
    """Run one layer; a batch of one is added and taken away."""

    def detect(encoded=ENCODED, scores=SCORES, anchors=ANCHORS, count=3, classes=2, **how):
        arrays = [np.asarray(encoded, F32)[None], np.asarray(scores, F32)[None], np.asarray(anchors, F32)]
        how = {"scales": (10, 10, 5, 5), **how}
        found = run_layer(lambda net, *slots: net.detection_post_process(*slots, count, classes, **how), *arrays)
        return [one[0] for one in found]

    return detect


@pytest.mark.parametrize("background", [False, True])
def test_each_box_for_its_best_class(detect, background):
    scores = [[9, *row] if background else row for row in SCORES]
    boxes, classes, values, count = detect(scores=scores)
    assert np.allclose(boxes, [FAR, FIRST, FARTHEST], atol=1e-6)
    assert classes.tolist() == [1, 0, 0]
    assert values.tolist() == [F32(0.95), F32(0.9), F32(0.3)]
    assert count == 3


def test_further_classes_of_a_box(detect):
    boxes, classes, values, count = detect(count=4, max_classes_per_detection=3)
    places = [FAR, FAR, NOTHING, FIRST, FIRST, NOTHING, FARTHEST, FARTHEST, NOTHING, NOTHING, NOTHING, NOTHING]
    assert np.allclose(boxes, places, atol=1e-6)
    assert classes.tolist() == [1, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0]
    assert np.allclose(values, [0.95, 0.93, 0, 0.9, 0.8, 0, 0.3, 0.2, 0, 0, 0, 0])
    assert count == 3


def test_each_class_for_itself(detect):
    boxes, classes, values, count = detect(regular=True)
    assert np.allclose(boxes, [FAR, FAR, FIRST], atol=1e-6)
    assert classes.tolist() == [1, 0, 0]
    assert np.allclose(values, [0.95, 0.93, 0.9])
    assert count == 3
    boxes, classes, values, count = detect(regular=True, count=5, detections_per_class=1)
    assert np.allclose(boxes, [FAR, FAR, NOTHING, NOTHING, NOTHING], atol=1e-6)
    assert classes.tolist() == [1, 0, 0, 0, 0]
    assert count == 2


def test_regularly_a_detection_takes_one_place(detect):
    boxes, classes, _, count = detect(regular=True, count=2, max_classes_per_detection=2)
    assert np.allclose(boxes, [FAR, FAR, NOTHING, NOTHING], atol=1e-6)
    assert classes.tolist() == [1, 0, 0, 0]
    assert count == 2


@pytest.mark.parametrize("regular", [False, True])
def test_the_threshold_of_scores_is_one_of_them(detect, regular):
    assert detect(count=9, score_threshold=0.9, regular=regular)[3] == (3 if regular else 2)
    assert detect(count=9, score_threshold=np.nextafter(F32(0.95), F32(1)), regular=regular)[3] == 0
    boxes, classes, values, count = detect(count=9, score_threshold=0.95, regular=regular)
    assert count == 1
    assert (classes[0], values[0]) == (1, F32(0.95))
    assert not boxes[1:].any()
    assert not values[1:].any()


def test_boxes_overlap_by_more_than_the_threshold(detect):
    """Two of the same size, of which one covers the lower half of the other and as much below."""
    encoded, scores = [[0, 0, 0, 0], [0.5, 0, 0, 0]], [[0.5], [0.25]]
    anchors = [[0, 0, 1, 1]] * 2
    overlap = F32(1) / F32(3)
    for threshold, count in ((np.nextafter(overlap, F32(0)), 1), (overlap, 2), (0, 1), (1, 2)):
        found = detect(encoded, scores, anchors, 2, 1, scales=(1, 1, 1, 1), iou_threshold=threshold)
        assert found[3] == count


@pytest.mark.parametrize("regular", [False, True])
def test_equal_scores_come_in_order(detect, regular):
    anchors = [[0, 10 * i, 1, 1] for i in range(40)]
    scores = np.tile([0.5, 0.5, 0.25], (40, 1))
    _, classes, values, _ = found = detect(np.zeros((40, 4)), scores, anchors, 100, 3, regular=regular)
    positions = found[0][:40, 1] + F32(0.5)
    assert positions.tolist() == [10 * i for i in range(40)]
    assert classes[:40].tolist() == [0] * 40
    if regular:
        assert classes[40:80].tolist() == [1] * 40
        assert values[:80].tolist() == [0.5] * 80
        assert values[80:].tolist() == [0.25] * 20
    several = detect(np.zeros((40, 4)), scores, anchors, 2, 3, max_classes_per_detection=3)
    assert several[1].tolist() == [0, 1, 2, 0, 1, 2]


@pytest.mark.parametrize("size", [(0, 1), (1, 0), (-1, 1), (-1, -1), (0, 0)])
def test_boxes_without_area_overlap_nothing(detect, size):
    found = detect(np.zeros((3, 4)), [[0.5], [0.5], [0.5]], [[0, 0, *size]] * 3, 3, 1, iou_threshold=0)
    assert found[3] == 3


def test_scores_that_are_no_numbers(detect):
    nan, inf = np.nan, np.inf
    scores = [[nan, nan], [nan, 0.2], [0.3, nan], [inf, nan], [-inf, nan], [-inf, 0.1]]
    anchors = [[0, 10 * i, 1, 1] for i in range(6)]
    boxes, classes, values, count = detect(np.zeros((6, 4)), scores, anchors, 6, 2, max_classes_per_detection=2)
    assert count == 4
    assert (boxes[:8:2, 1] + F32(0.5)).tolist() == [30, 20, 10, 50]
    assert classes[:8].tolist() == [0, 1, 0, 1, 1, 0, 1, 0]
    np.testing.assert_array_equal(values[:8], np.asarray([inf, nan, 0.3, nan, 0.2, nan, 0.1, -inf], F32))
    assert detect(np.zeros((6, 4)), scores, anchors, 6, 2, regular=True)[3] == 4
    assert detect(np.zeros((6, 4)), scores, anchors, 6, 2, score_threshold=-3e38)[3] == 4


def test_boxes_that_are_no_numbers_overlap_nothing(detect):
    encoded = [[np.nan, 0, 0, 0], [0, 0, np.nan, 0], [0, 0, 1e6, 0], [np.inf, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    boxes, _, _, count = detect(encoded, [[6], [5], [4], [3], [2], [1]], [[0, 0, 1, 1]] * 6, 6, 1, iou_threshold=0)
    assert count == 5
    half = F32(0.5)
    expected = [
        [np.nan, -half, np.nan, half],
        [np.nan, -half, np.nan, half],
        [-np.inf, -half, np.inf, half],
        [np.inf, -half, np.inf, half],
        [-half, -half, half, half],
        NOTHING,
    ]
    np.testing.assert_array_equal(boxes, np.asarray(expected, F32))


# -- any operands ----------------------------------------------------------------------------------


def corners_of(encoded, anchors, scales):
    code, anchor = encoded.astype(np.float64), anchors.astype(np.float64)
    center = (code[..., :2] / scales[:2] * anchor[..., 2:] + anchor[..., :2]).astype(F32)
    half = (0.5 * np.exp(code[..., 2:4] / scales[2:]) * anchor[..., 2:]).astype(F32)
    return np.concatenate([center - half, center + half], axis=-1)


def overlap_of(a, b):
    """The arithmetic of TensorFlow Lite's kernel, in float32."""
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (a, b)]
    if min(areas) <= 0:
        return F32(0)
    sides = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    both = max(sides[0], F32(0)) * max(sides[1], F32(0))
    return both / (areas[0] + areas[1] - both)


def chosen(corners, scores, most, least, threshold):
    order = [i for i in np.argsort(-scores, kind="stable") if scores[i] >= least]
    active = dict.fromkeys(order, True)
    taken = []
    for at, i in enumerate(order):
        if len(taken) == most:
            break
        if active[i]:
            taken.append(i)
            for j in order[at + 1 :]:
                if active[j] and overlap_of(corners[i], corners[j]) > threshold:
                    active[j] = False
    return taken


def expected(corners, scores, count, told, per_class, regular, least, threshold):
    places = count * told
    boxes, classes, values = np.zeros((places, 4), F32), np.zeros(places, F32), np.zeros(places, F32)
    if regular:
        found = [(i, c) for c in range(scores.shape[1]) for i in chosen(corners, scores[:, c], per_class, least, threshold)]
        found = sorted(found, key=lambda one: -scores[one])[:count]
        rows = list(enumerate(found))
    else:
        found = chosen(corners, scores.max(1), count, least, threshold)
        ranked = np.argsort(-scores, axis=1, kind="stable")[:, :told]
        rows = [(told * n + m, (i, c)) for n, i in enumerate(found) for m, c in enumerate(ranked[i])]
    for place, (i, c) in rows:
        boxes[place], classes[place], values[place] = corners[i], c, scores[i, c]
    return boxes, classes, values, F32(len(found))


@pytest.mark.parametrize("regular", [False, True])
@pytest.mark.parametrize("seed", range(30))
def test_any_operands(run_layer, seed, regular):
    rng = np.random.default_rng(seed)
    batch, boxes, classes = int(rng.integers(1, 4)), int(rng.choice([1, 2, 7, 60])), int(rng.choice([1, 2, 5]))
    background, told = int(rng.integers(0, 2)), int(rng.integers(1, 4))
    count, per_class = int(rng.choice([1, 3, 50])), int(rng.choice([1, 4, 100]))
    least, threshold = F32(rng.choice([-1, 0, 0.25, 0.5, 1])), F32(rng.choice([0, 0.3, 0.6, 1]))
    scales = rng.choice([1, 5, 10, -2], 4)
    encoded = rng.normal(0, 0.5, (batch, boxes, 4 + int(rng.integers(0, 3)))).astype(F32)
    scores = (rng.integers(0, 9, (batch, boxes, classes + background)) / 8).astype(F32)
    anchors = rng.uniform(0, 1, (boxes, 4)).astype(F32)
    how = {"max_classes_per_detection": told, "detections_per_class": per_class, "regular": regular, "scales": scales}
    found = run_layer(
        lambda net, *slots: net.detection_post_process(
            *slots, count, classes, score_threshold=least, iou_threshold=threshold, **how
        ),
        *(encoded, scores, anchors),
    )
    corners = corners_of(encoded, anchors, scales)
    for image in range(batch):
        wanted = expected(corners[image], scores[image, :, background:], count, told, per_class, regular, least, threshold)
        np.testing.assert_allclose(found[0][image], wanted[0], rtol=2**-22, atol=2**-22)
        for one, other in zip(found[1:], wanted[1:], strict=True):
            np.testing.assert_array_equal(one[image], other)


@pytest.mark.parametrize("regular", [False, True])
@pytest.mark.parametrize(("batch", "boxes"), [(0, 3), (2, 0), (0, 0)])
def test_nothing_to_detect(run_layer, batch, boxes, regular):
    arrays = [np.zeros(shape, F32) for shape in ((batch, boxes, 4), (batch, boxes, 2), (boxes, 4))]
    found = run_layer(lambda net, *slots: net.detection_post_process(*slots, 3, 2, regular=regular), *arrays)
    assert [one.shape for one in found] == [(batch, 3, 4), (batch, 3), (batch, 3), (batch,)]
    assert not any(one.any() for one in found)


@pytest.mark.parametrize("regular", [False, True])
def test_any_number_of_classes_of_no_box(run_layer, regular):
    """What it needs to work with follows from elements, not from sizes beside a size of 0."""
    classes = 2**31 - 1
    arrays = [np.zeros(shape, F32) for shape in ((1, 0, 4), (1, 0, classes), (0, 4))]
    found = run_layer(lambda net, *slots: net.detection_post_process(*slots, 3, classes, regular=regular), *arrays)
    assert found[3] == 0


@pytest.mark.parametrize("regular", [False, True])
@pytest.mark.parametrize("after", [0, 1, 2, 3, 4, 5])
def test_cancelled(run_layer, direct, regular, after):
    """At each of its steps: clearing, decoding, choosing."""
    boxes = 60_000
    arrays = [np.zeros((1, boxes, 4), F32), np.zeros((1, boxes, 1), F32), np.zeros((boxes, 4), F32)]
    with pytest.raises(direct.Cancelled):
        run_layer(
            lambda net, *slots: net.detection_post_process(*slots, boxes, 1, regular=regular), *arrays, cancel=after or True
        )
