"""Joints, parts and paddings that lie, scales that differ, and axes that are open."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from operator_models import Given, computed, constant, one_operator

from dovetail import ErrorCode, GraphError, ModelError, Quantization, UnsupportedModelError
from dovetail_tflite import parse

X = np.arange(12, dtype=np.float32).reshape(2, 6)
BYTES = np.arange(-6, 6, dtype=np.int8).reshape(2, 6)


@pytest.mark.parametrize(
    ("name", "given", "options", "count"),
    [
        ("CONCATENATION", [], {"axis": 0}, 1),
        ("CONCATENATION", [Given(X), Given(X)], {"axis": 2}, 1),
        ("CONCATENATION", [Given(X), Given(X)], {"axis": -3}, 1),
        ("CONCATENATION", [Given(X), Given(X[:, :3])], {"axis": 0}, 1),
        ("CONCATENATION", [Given(X), Given(X[0])], {"axis": 0}, 1),
        ("CONCATENATION", [Given(X), Given(BYTES)], {"axis": 0}, 1),
        ("CONCATENATION", [Given(X), Given(X)], {"axis": 0, "fused_activation_function": 1}, 1),
        ("CONCATENATION", [Given(X), Given(X)], None, 1),
        ("PACK", [Given(X), Given(X)], {"values_count": 3}, 1),
        ("PACK", [Given(X), Given(X[:, :3])], {"values_count": 2}, 1),
        ("PACK", [Given(X), Given(X)], {"values_count": 2, "axis": 3}, 1),
        ("PACK", [], {"values_count": 0}, 1),
        ("UNPACK", [Given(X)], {"num": 3, "axis": 1}, 3),
        ("UNPACK", [Given(X)], {"num": 6, "axis": 1}, 3),
        ("UNPACK", [Given(X)], {"num": 2, "axis": 2}, 2),
        ("UNPACK", [Given(X)], {"num": 2**31 - 1, "axis": 1}, 1),
        ("SPLIT", [constant(1), Given(X)], {"num_splits": 4}, 4),
        ("SPLIT", [constant(2), Given(X)], {"num_splits": 2}, 2),
        ("SPLIT", [constant(1), Given(X)], {"num_splits": 2}, 3),
        ("SPLIT", [constant([0, 1]), Given(X)], {"num_splits": 2}, 2),
        ("SPLIT_V", [Given(X), constant([-1, -1]), constant(1)], {"num_splits": 2}, 2),
        ("SPLIT_V", [Given(X), constant([4, 3]), constant(1)], {"num_splits": 2}, 2),
        ("SPLIT_V", [Given(X), constant([7, -1]), constant(1)], {"num_splits": 2}, 2),
        ("SPLIT_V", [Given(X), constant([8, -2]), constant(1)], {"num_splits": 2}, 2),
        ("SPLIT_V", [Given(X), constant([3, 3]), constant(1)], {"num_splits": 3}, 3),
        ("PAD", [Given(X), constant([[0, 0]])], None, 1),
        ("PAD", [Given(X), constant([0, 0, 0, 0])], None, 1),
        ("PAD", [Given(X), constant([[0, 0], [-1, 0]])], None, 1),
        ("PADV2", [Given(X), constant([[0, 0], [1, 0]]), constant([1, 2], np.float32)], None, 1),
        ("MIRROR_PAD", [Given(X), constant([[2, 0], [0, 0]])], {"mode": 0}, 1),
        ("MIRROR_PAD", [Given(X), constant([[3, 0], [0, 0]])], {"mode": 1}, 1),
    ],
)
def test_parts_that_do_not_fit_are_refused(name: str, given: list[Given], options: Any, count: int) -> None:
    with pytest.raises((GraphError, ModelError)) as caught:
        parse(one_operator(name, given, options, dtypes=[np.float32] * count))
    assert not isinstance(caught.value, UnsupportedModelError)
    assert caught.value.code in (
        *(ErrorCode.MODEL_MALFORMED, ErrorCode.ATTRIBUTE_INVALID, ErrorCode.SHAPE_MISMATCH, ErrorCode.DTYPE_MISMATCH),
    )


def test_a_way_to_mirror_that_is_not_there() -> None:
    with pytest.raises(UnsupportedModelError, match="mode is 2"):
        parse(one_operator("MIRROR_PAD", [Given(X), constant([[0, 0], [0, 0]])], {"mode": 2}))


def requantized(x: Any, theirs: tuple[float, int], ours: tuple[float, int], dtype: Any) -> Any:
    limits = np.iinfo(dtype)
    real = (x.astype(np.float64) - theirs[1]) * theirs[0]
    return np.clip(np.round(real / ours[0]) + ours[1], limits.min, limits.max)


@pytest.mark.parametrize(
    ("dtype", "first", "second", "result"),
    [
        (np.int8, (0.5, 3), (0.031, -7), (0.25, 10)),
        (np.uint8, (0.5, 3), (0.031, 128), (0.7, 99)),
        (np.int16, (0.5, 0), (0.031, 0), (0.002, 0)),
    ],
)
def test_integers_of_other_scales_are_brought_to_that_of_the_result(
    dtype: Any, first: tuple[float, int], second: tuple[float, int], result: tuple[float, int]
) -> None:
    a = np.array([[0, 1, 5, 100]], dtype)
    b = np.array([[2, 3, 7, 120]], dtype)
    given = [Given(a, quantization=first), Given(b, quantization=second)]
    y = computed("CONCATENATION", given, {"axis": 0}, dtypes=[dtype], quantizations=[result])[0]
    wanted = np.concatenate([requantized(a, first, result, dtype), requantized(b, second, result, dtype)])
    assert y.dtype == dtype
    assert np.abs(y - wanted).max() <= 1  # scales are float32, and so is a table's arithmetic


def test_integers_with_a_scale_are_not_joined_with_others() -> None:
    given = [Given(BYTES, quantization=(0.5, 0)), Given(BYTES)]
    with pytest.raises(ModelError, match="with a scale and without one") as caught:
        parse(one_operator("CONCATENATION", given, {"axis": 0}, dtypes=[np.int8], quantizations=[(0.5, 0)]))
    assert caught.value.code is ErrorCode.MODEL_MALFORMED


def test_zeros_around_quantized_integers_are_their_zero_point() -> None:
    given = [Given(BYTES, quantization=(0.5, 3)), constant([[1, 0], [0, 1]])]
    y = computed("PAD", given, dtypes=[np.int8], quantizations=[(0.5, 3)])[0]
    np.testing.assert_array_equal(y, np.pad(BYTES, [(1, 0), (0, 1)], constant_values=3))


def test_counts_and_value_of_a_padding_may_be_inputs() -> None:
    given = [Given(X), Given(np.array([[1, 2], [0, 3]], np.int64)), Given(np.array(2.5, np.float32))]
    wanted = np.pad(X, [(1, 2), (0, 3)], constant_values=2.5)
    np.testing.assert_array_equal(computed("PADV2", given)[0], wanted)


@pytest.mark.parametrize("sizes", [[-1, 2, 1], [2, -1, 1], [2, 1, -1], [6, -1, 0]])
@pytest.mark.parametrize("axis", [1, -1])
def test_one_part_is_what_the_others_leave_of_an_open_axis(sizes: list[int], axis: int) -> None:
    given = [Given(X, signature=(2, -1)), constant(sizes), constant(axis)]
    found = computed("SPLIT_V", given, {"num_splits": 3}, dtypes=[np.float32] * 3)
    filled = [6 - sum(sizes) - 1 if size == -1 else size for size in sizes]
    for part, wanted in zip(found, np.split(X, np.cumsum(filled)[:-1], axis=1), strict=True):
        np.testing.assert_array_equal(part, wanted)


def test_parts_that_are_more_than_an_open_axis_are_refused_when_it_is_known() -> None:
    given = [Given(X, signature=(2, -1)), constant([7, -1]), constant(1)]
    with pytest.raises(GraphError) as caught:
        computed("SPLIT_V", given, {"num_splits": 2}, dtypes=[np.float32] * 2)
    assert caught.value.code is ErrorCode.SHAPE_MISMATCH


@pytest.mark.parametrize(
    ("name", "given", "options"),
    [
        ("SPLIT", [constant(1), Given(BYTES, quantization=(0.5, 3))], {"num_splits": 2}),
        ("UNPACK", [Given(BYTES, quantization=(0.5, 3))], {"num": 2}),
    ],
)
def test_each_part_has_the_scale_that_the_file_states(name: str, given: list[Given], options: Any) -> None:
    stated = [(0.5, 3), (0.25, 1)]
    network = parse(one_operator(name, given, options, dtypes=[np.int8] * 2, quantizations=stated))
    found = [layer.inputs[0].source for layer in network.outputs]
    assert [slot and slot.known_info.quantization for slot in found] == [
        Quantization((scale,), (zero,)) for scale, zero in stated
    ]
