"""Positions that are out of range, masks, and slices whose ends or sizes are known late."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from operator_models import Given, computed, constant, one_operator

from dovetail import ErrorCode, GraphError, ModelError, RunError, UnsupportedModelError
from dovetail_tflite import parse

X = np.arange(60, dtype=np.float32).reshape(3, 4, 5)


def cut(begin: Any, end: Any, stride: Any) -> list[Given]:
    return [Given(X), constant(begin), constant(end), constant(stride)]


@pytest.mark.parametrize(
    ("name", "given", "options"),
    [
        ("STRIDED_SLICE", cut([0], [1], [0]), {}),
        ("STRIDED_SLICE", cut([0], [1], [-1]), {"shrink_axis_mask": 1}),
        ("STRIDED_SLICE", cut([3], [4], [1]), {"shrink_axis_mask": 1}),
        ("STRIDED_SLICE", cut([-4], [4], [1]), {"shrink_axis_mask": 1}),
        ("STRIDED_SLICE", cut([0] * 4, [1] * 4, [1] * 4), {}),
        ("STRIDED_SLICE", cut([0] * 4, [1] * 4, [1] * 4), {"shrink_axis_mask": -1}),
        ("STRIDED_SLICE", cut([0, 0], [1], [1]), {}),
        ("STRIDED_SLICE", cut([0, 0], [1, 1], [1]), {}),
        ("STRIDED_SLICE", cut([0] * 3, [1] * 3, [1] * 3), {"ellipsis_mask": 5}),
        ("STRIDED_SLICE", cut([0] * 33, [1] * 33, [1] * 33), {"new_axis_mask": -1}),
        ("STRIDED_SLICE", cut([0], [1], [1]), None),
        ("SLICE", [Given(X), constant([0, 0, 0]), constant([1, 1, 6])], None),
        ("SLICE", [Given(X), constant([0, 0, 6]), constant([1, 1, -1])], None),
        ("SLICE", [Given(X), constant([0, 0, -1]), constant([1, 1, 1])], None),
        ("SLICE", [Given(X), constant([0, 0, 0]), constant([1, 1, -2])], None),
        ("SLICE", [Given(X), constant([0, 0]), constant([1, 1])], None),
        ("SLICE", [Given(X), constant([0, 0, -1]), Given(np.ones(3, np.int32))], None),
        ("SLICE", [Given(X), Given(np.zeros(2, np.int32)), constant([1, 1])], None),
        ("SLICE", [Given(X), constant([2**31 - 1] * 3), constant([2**31 - 1] * 3)], None),
        ("GATHER", [Given(X), constant([0, -1])], {"axis": 0}),
        ("GATHER", [Given(X), constant([0])], {"axis": 3}),
        ("GATHER", [Given(X), constant([0])], {"axis": -4}),
        ("GATHER", [Given(X), constant([[0]])], {"axis": 1, "batch_dims": 2}),
        ("GATHER", [Given(X), constant([[0], [0]])], {"axis": 1, "batch_dims": 1}),
        ("GATHER", [Given(X), constant([[0]])], {"axis": 1, "batch_dims": -3}),
        ("GATHER", [Given(X), constant([0], np.float32)], {"axis": 0}),
        ("GATHER_ND", [Given(X), constant([[0, 0, 0, 0]])], None),
        ("GATHER_ND", [Given(X), constant([[0, -1]])], None),
        ("GATHER_ND", [Given(X), constant(0)], None),
        ("SCATTER_ND", [constant([[-1]]), Given(X[:1]), constant([3, 4, 5])], None),
        ("SCATTER_ND", [constant([[0]]), Given(X[:1]), constant([3, 4, 6])], None),
        ("SCATTER_ND", [constant([[0]]), Given(X[:1]), constant([3, -4, 5])], None),
        ("SEGMENT_SUM", [Given(X), constant([1, 1, 2])], None),
        ("SEGMENT_SUM", [Given(X), constant([0, 2, 2])], None),
        ("SEGMENT_SUM", [Given(X), constant([0, 1, 0])], None),
        ("SEGMENT_SUM", [Given(X), constant([0, 0])], None),
        ("REVERSE_V2", [Given(X), constant([3])], None),
        ("REVERSE_V2", [Given(X), constant([0, -3])], None),
        ("REVERSE_SEQUENCE", [Given(X), constant([1, 1, 1])], {"seq_dim": 0, "batch_dim": 0}),
        ("REVERSE_SEQUENCE", [Given(X), constant([1, 1, 1])], {"seq_dim": -1, "batch_dim": 0}),
        ("REVERSE_SEQUENCE", [Given(X), constant([1, 1, 1])], {"seq_dim": 1, "batch_dim": 3}),
        ("REVERSE_SEQUENCE", [Given(X), constant([1, 1])], {"seq_dim": 1, "batch_dim": 0}),
        ("DYNAMIC_UPDATE_SLICE", [Given(X), Given(X[0]), constant([0, 0])], None),
        ("DYNAMIC_UPDATE_SLICE", [Given(X[:, :2]), Given(X), constant([0, 0, 0])], None),
        ("DYNAMIC_UPDATE_SLICE", [Given(X), Given(X), constant([0, 0])], None),
    ],
)
def test_positions_that_do_not_fit_are_refused(name: str, given: list[Given], options: Any) -> None:
    with pytest.raises((GraphError, ModelError)) as caught:
        parse(one_operator(name, given, options))
    assert not isinstance(caught.value, UnsupportedModelError)
    assert caught.value.code in (
        *(ErrorCode.MODEL_MALFORMED, ErrorCode.ATTRIBUTE_INVALID, ErrorCode.SHAPE_MISMATCH, ErrorCode.DTYPE_MISMATCH),
    )


@pytest.mark.parametrize(
    ("name", "given", "options"),
    [
        ("GATHER", [Given(X), Given(np.array([3], np.int32))], {"axis": 0}),
        ("GATHER_ND", [Given(X), Given(np.array([[0, 4]], np.int32))], None),
        ("SCATTER_ND", [Given(np.array([[3]], np.int32)), Given(X[:1]), constant([3, 4, 5])], None),
        ("EMBEDDING_LOOKUP", [Given(np.array([3], np.int32)), Given(X)], None),
        ("REVERSE_SEQUENCE", [Given(X), Given(np.array([1, 5, 1], np.int32))], {"seq_dim": 1, "batch_dim": 0}),
    ],
)
def test_positions_of_a_run_that_do_not_fit_fail_it(name: str, given: list[Given], options: Any) -> None:
    with pytest.raises(RunError) as caught:
        computed(name, given, options)
    assert caught.value.code is ErrorCode.STEP_FAILED


def masks_of(index: tuple[Any, ...]) -> tuple[list[list[int]], dict[str, int]]:
    """Write an index of NumPy as begins, ends, strides and masks."""
    entries, masks = [], dict.fromkeys(("begin", "end", "ellipsis", "new_axis", "shrink_axis"), 0)
    for entry, one in enumerate(index):
        bit = 1 << entry
        if one is None or one is Ellipsis:
            masks["new_axis" if one is None else "ellipsis"] |= bit
            entries.append([7, 8, 1])
        elif isinstance(one, int):
            masks["shrink_axis"] |= bit
            entries.append([one, 100, 1])
        else:
            masks["begin"] |= bit * (one.start is None)
            masks["end"] |= bit * (one.stop is None)
            entries.append([2 if one.start is None else one.start, 1 if one.stop is None else one.stop, one.step or 1])
    columns = [list(column) for column in zip(*entries, strict=True)]
    return columns, {f"{name}_mask": mask for name, mask in masks.items()}


INDICES = [
    np.s_[1:, ::2, -1],
    np.s_[..., 1:3],
    np.s_[-1, ..., None, ::-2],
    np.s_[None, 1, None, :, 3:1:-1],
    np.s_[2, 3, 4],
    np.s_[-3:2, -100:100],
    np.s_[2:0:-1, :, None],
    np.s_[None, ...],
    np.s_[0, None, ..., -2, None],
]


@pytest.mark.parametrize("index", INDICES, ids=str)
@pytest.mark.parametrize("is_constant", [True, False])
@pytest.mark.parametrize("signature", [None, (-1, -1, -1)])
def test_masks(index: tuple[Any, ...], is_constant: bool, signature: Any) -> None:
    (begin, end, stride), masks = masks_of(index)
    ends = [Given(np.array(one, np.int32), constant=is_constant) for one in (begin, end)]
    y = computed("STRIDED_SLICE", [Given(X, signature=signature), *ends, constant(stride)], masks)[0]
    np.testing.assert_array_equal(y, X[index])


def test_a_masked_begin_wins_over_that_of_a_single_position() -> None:
    for is_constant in (True, False):
        begin = Given(np.array([2], np.int32), constant=is_constant)
        masks = {"begin_mask": 1, "shrink_axis_mask": 1}
        y = computed("STRIDED_SLICE", [Given(X), begin, constant([3]), constant([1])], masks)[0]
        np.testing.assert_array_equal(y, X[0])


@pytest.mark.parametrize("is_constant", [True, False])
@pytest.mark.parametrize(("begin", "count", "wanted"), [(1, 2, X[1:3]), (-2, 2, X[1:3]), (-3, 1, X[:1]), (-1, 1, X[2:])])
def test_an_end_that_counts_from_the_begin(is_constant: bool, begin: int, count: int, wanted: Any) -> None:
    ends = [Given(np.array([one], np.int32), constant=is_constant) for one in (begin, count)]
    y = computed("STRIDED_SLICE", [Given(X), *ends, constant([1])], {"offset": True}, version=8)[0]
    np.testing.assert_array_equal(y, wanted)


@pytest.mark.parametrize("is_constant", [True, False])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_a_slice_of_an_open_tensor(is_constant: bool, dtype: Any) -> None:
    ends = [Given(np.array(one, dtype), constant=is_constant) for one in ([1, 0, 2], [2, -1, 2])]
    y = computed("SLICE", [Given(X, signature=(-1, -1, -1)), *ends])[0]
    np.testing.assert_array_equal(y, X[1:3, :, 2:4])


def test_updates_to_one_place_are_added() -> None:
    places = constant([[1], [1], [0]])
    y = computed("SCATTER_ND", [places, Given(X), constant([4, 4, 5])])[0]
    np.testing.assert_array_equal(y, [X[2], X[0] + X[1], X[0] * 0, X[0] * 0])


def test_truth_values_in_one_place() -> None:
    given = [constant([[1], [1], [0], [2]]), Given(np.array([True, False, False, True])), constant([4])]
    y = computed("SCATTER_ND", given, dtypes=[np.bool_])[0]
    assert y.tolist() == [False, True, True, False]


def test_quantized_updates_are_put_but_not_added() -> None:
    updates = Given(np.array([5, -7], np.int8), quantization=(0.5, 3))
    stated: dict[str, Any] = {"dtypes": [np.int8], "quantizations": [(0.5, 3)]}
    y = computed("SCATTER_ND", [constant([[2], [0]]), updates, constant([4])], **stated)[0]
    assert y.tolist() == [-7, 0, 5, 0]  # TensorFlow Lite begins with integers of zero
    with pytest.raises(UnsupportedModelError, match="add quantized numbers"):
        parse(one_operator("SCATTER_ND", [constant([[2], [2]]), updates, constant([4])], **stated))


def test_segments_are_constants() -> None:
    with pytest.raises(UnsupportedModelError, match="segment is not a constant"):
        parse(one_operator("SEGMENT_SUM", [Given(X), Given(np.array([0, 0, 1], np.int32))]))


def test_segments_of_nothing() -> None:
    y = computed("SEGMENT_SUM", [Given(np.zeros((0, 4), np.float32)), constant(np.zeros(0))])[0]
    assert y.shape == (0, 4)


@pytest.mark.parametrize("begin", [[-5, 1, 2], [9, 9, 9], [1, 2, 2**31 - 1], [-(2**31), 0, 0]])
def test_a_box_is_moved_inside(begin: list[int]) -> None:
    box = -X[:2, :1, 1:4]
    wanted = X.copy()
    place = [min(max(b, 0), a - c) for b, a, c in zip(begin, X.shape, box.shape, strict=True)]
    wanted[tuple(slice(p, p + c) for p, c in zip(place, box.shape, strict=True))] = box
    y = computed("DYNAMIC_UPDATE_SLICE", [Given(X), Given(box), Given(np.array(begin, np.int32))])[0]
    np.testing.assert_array_equal(y, wanted)


def test_a_box_of_nothing_and_one_of_all() -> None:
    begin = Given(np.array([1, 1, 1], np.int32))
    np.testing.assert_array_equal(computed("DYNAMIC_UPDATE_SLICE", [Given(X), Given(X[:0]), begin])[0], X)
    np.testing.assert_array_equal(computed("DYNAMIC_UPDATE_SLICE", [Given(X), Given(-X), begin])[0], -X)


def test_rows_of_a_table_with_a_scale_each() -> None:
    table = np.array([[1, -2], [3, 4], [5, 6]], np.int8)
    scales = [0.5, 0.25, 2.0]
    given = [Given(np.array([2, 0], np.int32)), constant(table, np.int8, (scales, [0, 0, 0], 0))]
    y = computed("EMBEDDING_LOOKUP", given, version=4)[0]
    np.testing.assert_allclose(y, (table * np.array(scales)[:, None])[[2, 0]])


@pytest.mark.parametrize("time", [0, 1])
def test_sequences_of_an_open_length(time: int) -> None:
    lengths = np.array([0, 2, 3, 1][: X.shape[1 - time]], np.int64)
    given = [Given(X, signature=(-1, -1, 5)), Given(lengths)]
    y = computed("REVERSE_SEQUENCE", given, {"seq_dim": time, "batch_dim": 1 - time})[0]
    wanted = np.moveaxis(X.copy(), 1 - time, 0)
    for row, length in zip(wanted, lengths, strict=True):
        row[:length] = row[:length][::-1].copy()
    np.testing.assert_array_equal(y, np.moveaxis(wanted, 0, 1 - time))
