"""References that reshape, repeat, join and pad, against examples of their specifications."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail import DataLayout
from dovetail.layers import PadMode
from dovetail_sdk.conformance.operators import concat, expand_dims, pad, permute, reshape, split, tile
from dovetail_sdk.conformance.references.pixels import depth_to_space, laid_out, space_to_depth


@pytest.mark.parametrize(
    ("how", "written", "meant"),
    [
        ("flat", (24,), (24,)),
        ("inferred", (-1,), (24,)),
        ("two", (2, -1), (2, 12)),
        ("zero copies", (0, -1), (2, 12)),
        ("merged", (2, 12), (2, 12)),
        ("backward", (4, 3, 2), (4, 3, 2)),
        ("ones", (1, 2, 3, 4, 1), (1, 2, 3, 4, 1)),
    ],
)
def test_reshape_targets(how, written, meant):
    assert reshape.target((2, 3, 4), how) == (written, meant)


def test_reshape_targets_that_make_no_sense():
    assert reshape.target((2, 3), "scalar") is None
    assert reshape.target((3,), "two") is None
    assert reshape.target((0, 3), "two") is None
    assert reshape.target((1, 1), "scalar") == ((), ())


@pytest.mark.parametrize(
    ("shape", "axes"), [((3, 4), (0, -1)), ((3, 4), (1,)), ((), (0, 1)), ((2,), (-1, -3)), ((3, 4, 5), (2, 0, 4))]
)
def test_expand_dims(shape, axes):
    assert expand_dims.expanded(shape, axes) == np.expand_dims(np.zeros(shape), axes).shape


def test_expand_dims_out_of_range():
    assert expand_dims.expanded((3,), (2,)) is None
    assert expand_dims.expanded((3,), (0, -3)) is None  # twice the same


def test_permute():
    x = np.arange(24).reshape(2, 3, 4)
    for order in ((2, 0, 1), (0, 2, 1), (1, 2, 0), (0, 1, 2)):
        assert np.array_equal(permute.permuted(x, order), x.transpose(order))


def test_tile():
    x = np.arange(6).reshape(1, 2, 3)
    for repeats in ((2, 1, 3), (1, 1, 1), (1, 0, 2)):
        assert np.array_equal(tile.tiled(x, repeats), np.tile(x, repeats))
    assert tile.repetitions(6, "twice") == (2, 2, 2, 2, 1, 1)
    assert tile.repetitions(2, "twice") == (2, 2)
    assert tile.repetitions(0, "once") == ()


def test_space_to_depth_of_tensorflow():
    x = np.arange(1, 13).reshape(1, 2, 2, 3)
    assert space_to_depth(x, 2).reshape(-1).tolist() == list(range(1, 13))
    x = np.asarray([[1, 2, 5, 6], [3, 4, 7, 8], [9, 10, 13, 14], [11, 12, 15, 16]]).reshape(1, 4, 4, 1)
    assert space_to_depth(x, 2).tolist() == [[[[1, 2, 3, 4], [5, 6, 7, 8]], [[9, 10, 11, 12], [13, 14, 15, 16]]]]


def test_depth_to_space_of_onnx():
    """The examples of both modes, which are NCHW."""
    channels = np.asarray([np.arange(6).reshape(2, 3) + 9 * c for c in range(8)])[None]
    nhwc = channels.transpose(0, 2, 3, 1)
    first = laid_out(depth_to_space(nhwc, 2, False), DataLayout.NCHW)
    rows = [[0, 18, 1, 19, 2, 20], [36, 54, 37, 55, 38, 56], [3, 21, 4, 22, 5, 23], [39, 57, 40, 58, 41, 59]]
    assert first[0, 0].tolist() == rows
    second = laid_out(depth_to_space(nhwc, 2, True), DataLayout.NCHW)
    rows = [[36, 45, 37, 46, 38, 47], [54, 63, 55, 64, 56, 65], [39, 48, 40, 49, 41, 50], [57, 66, 58, 67, 59, 68]]
    assert second[0, 1].tolist() == rows
    assert np.array_equal(space_to_depth(depth_to_space(nhwc, 2, False), 2), nhwc)


def test_split_sizes():
    assert split.part_sizes(7, 2, "equal") == [4, 3]  # ONNX, Split: num_outputs, the last chunk is smaller
    assert split.part_sizes(7, 4, "equal") == [2, 2, 2, 1]
    assert split.part_sizes(5, 4, "equal") == [2, 2, 1, 0]
    assert split.part_sizes(6, 3, "equal") == [2, 2, 2]
    assert split.part_sizes(0, 3, "equal") == [0, 0, 0]
    assert split.part_sizes(5, 3, "uneven") == [1, 1, 3]
    assert split.part_sizes(2, 3, "uneven") is None
    assert split.part_sizes(5, 3, "empty") == [0, 5, 0]


def test_concat_sizes():
    assert concat.part_sizes(3, 4, "growing") == [4, 5, 6]
    assert concat.part_sizes(3, 4, "one empty") == [4, 0, 4]


# -- padding ---------------------------------------------------------------------------------------

ABC = np.asarray([1, 2, 3])


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (PadMode.CONSTANT, [9, 9, 1, 2, 3, 9, 9]),
        (PadMode.EDGE, [1, 1, 1, 2, 3, 3, 3]),
        (PadMode.REFLECT, [3, 2, 1, 2, 3, 2, 1]),
        (PadMode.SYMMETRIC, [2, 1, 1, 2, 3, 3, 2]),
        (PadMode.WRAP, [2, 3, 1, 2, 3, 1, 2]),
    ],
)
def test_pad(mode, expected):
    assert pad.padded(ABC, (2,), (2,), mode, np.asarray(9)).tolist() == expected


def test_pad_with_wrap_of_onnx():
    x = np.asarray([[1.0, 1.2], [2.3, 3.4], [4.5, 5.7]])
    assert pad.padded(x, (2, 1), (1, 1), PadMode.WRAP, np.asarray(0.0)).tolist() == [
        [3.4, 2.3, 3.4, 2.3],
        [5.7, 4.5, 5.7, 4.5],
        [1.2, 1.0, 1.2, 1.0],
        [3.4, 2.3, 3.4, 2.3],
        [5.7, 4.5, 5.7, 4.5],
        [1.2, 1.0, 1.2, 1.0],
    ]


@pytest.mark.parametrize(
    ("before", "after", "expected"), [(-1, 0, [2, 3]), (-1, 2, [2, 3, 9, 9]), (1, -2, [9, 1]), (-2, -1, [])]
)
def test_negative_pads_remove(before, after, expected):
    assert pad.padded(ABC, (before,), (after,), PadMode.CONSTANT, np.asarray(9)).tolist() == expected


@pytest.mark.parametrize("mode", PadMode)
@pytest.mark.parametrize("pattern", pad._PATTERNS)
def test_pads_stay_within_what_a_mode_can_repeat(mode, pattern):
    for shape in ((2, 3, 4, 5), (1,), (), (1, 1, 2), (2, 0)):
        given = pad.counts(shape, pattern, mode)
        if given is None:
            continue
        limit = {PadMode.REFLECT: -1, PadMode.SYMMETRIC: 0, PadMode.WRAP: 0}.get(mode)
        assert len(given[0]) == len(given[1]) == len(shape)
        if limit is not None:
            assert all(max(b, a) <= max(size + limit, 0) for b, a, size in zip(*given, shape, strict=True))
