"""Shapes that lie, shapes that are open, and what LiteRT's models do not show of them."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from operator_models import Given, computed, constant, one_operator, results_of
from tflite_making import Model

import dovetail
from dovetail import ErrorCode, GraphError, ModelError, UnsupportedModelError
from dovetail_tflite import parse

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
IMAGE = np.arange(2 * 4 * 6 * 3, dtype=np.float32).reshape(2, 4, 6, 3)


@pytest.mark.parametrize(
    ("name", "given", "options"),
    [
        ("RESHAPE", [Given(X), constant([-1, -1])], None),
        ("RESHAPE", [Given(X), constant([-2, 12])], None),
        ("RESHAPE", [Given(X), constant([5, -1])], None),
        ("RESHAPE", [Given(X), constant([2**31 - 1, 2**31 - 1])], None),
        ("RESHAPE", [Given(X), constant([0, -1])], None),
        ("RESHAPE", [Given(X)], None),
        ("SQUEEZE", [Given(X)], {"squeeze_dims": [0]}),
        ("SQUEEZE", [Given(X)], {"squeeze_dims": [3]}),
        ("SQUEEZE", [Given(X)], {"squeeze_dims": [-4]}),
        ("EXPAND_DIMS", [Given(X), constant(4)], None),
        ("EXPAND_DIMS", [Given(X), constant([0, 1])], None),
        ("EXPAND_DIMS", [Given(X), constant(-(2**31))], None),
        ("TRANSPOSE", [Given(X), constant([0, 1, 1])], None),
        ("TRANSPOSE", [Given(X), constant([0, 1, 3])], None),
        ("TRANSPOSE", [Given(X), constant([1, 0])], None),
        ("BROADCAST_TO", [Given(X), constant([3, 4])], None),
        ("BROADCAST_TO", [Given(X), constant([2, 3, 1])], None),
        ("BROADCAST_TO", [Given(X), constant([-1, 2, 3, 4])], None),
        ("BROADCAST_ARGS", [constant([2, 3]), constant([3, 2])], None),
        ("BROADCAST_ARGS", [constant([[2]]), constant([3])], None),
        ("TILE", [Given(X), constant([1, -1, 1])], None),
        ("TILE", [Given(X), constant([1, 1])], None),
        ("SPACE_TO_DEPTH", [Given(IMAGE)], {"block_size": 0}),
        ("SPACE_TO_DEPTH", [Given(IMAGE)], {"block_size": 4}),
        ("SPACE_TO_DEPTH", [Given(X)], {"block_size": 1}),
        ("DEPTH_TO_SPACE", [Given(IMAGE)], {"block_size": -2}),
        ("DEPTH_TO_SPACE", [Given(IMAGE)], {"block_size": 2}),
        ("SPACE_TO_BATCH_ND", [Given(IMAGE), constant([0, 2]), constant([[0, 0], [0, 0]])], None),
        ("SPACE_TO_BATCH_ND", [Given(IMAGE), constant([3, 2]), constant([[0, 0], [0, 0]])], None),
        ("SPACE_TO_BATCH_ND", [Given(IMAGE), constant([2, 2]), constant([[0, -2], [0, 0]])], None),
        ("SPACE_TO_BATCH_ND", [Given(IMAGE), constant([2, 2]), constant([[0, 0]])], None),
        ("SPACE_TO_BATCH_ND", [Given(IMAGE), constant([1] * 4), constant([[0, 0]] * 4)], None),
        ("BATCH_TO_SPACE_ND", [Given(IMAGE), constant([3, 1]), constant([[0, 0], [0, 0]])], None),
        ("BATCH_TO_SPACE_ND", [Given(IMAGE), constant([2, 1]), constant([[5, 4], [0, 0]])], None),
        ("BATCH_TO_SPACE_ND", [Given(IMAGE), constant([2, 1]), constant([[-1, 0], [0, 0]])], None),
    ],
)
def test_shapes_that_lie_are_refused(name: str, given: list[Given], options: Any) -> None:
    version = 2 if name == "BROADCAST_TO" else 1
    dtype = np.int32 if name == "BROADCAST_ARGS" else np.float32
    with pytest.raises((GraphError, ModelError)) as caught:
        parse(one_operator(name, given, options, version=version, dtypes=[dtype]))
    assert caught.value.code in (ErrorCode.MODEL_MALFORMED, ErrorCode.ATTRIBUTE_INVALID, ErrorCode.SHAPE_MISMATCH)


def test_a_permutation_that_is_not_constant_is_not_there() -> None:
    file = one_operator("TRANSPOSE", [Given(X), Given(np.array([2, 1, 0], np.int32))])
    with pytest.raises(UnsupportedModelError, match="permutation is not a constant"):
        parse(file)


@pytest.mark.parametrize("dtype", [np.float32, np.int8])
def test_sizes_are_given_as_integers_alone(dtype: Any) -> None:
    with pytest.raises(ModelError, match="gives sizes as") as caught:
        parse(one_operator("SHAPE", [Given(X)], {"out_type": 0}, dtypes=[dtype]))
    assert caught.value.code is ErrorCode.MODEL_MALFORMED


@pytest.mark.parametrize(
    ("shape", "wanted", "found"),
    [((2, 0, 3), (0, -1), (0, 6)), ((0,), (5, 0, -1), (5, 0, 0)), ((0, 4), (-1, 4), (0, 4)), ((1,), (), ())],
)
def test_shapes_of_tensors_without_elements(shape: Any, wanted: Any, found: Any) -> None:
    """Where both have a size of zero, -1 is what the other sizes leave, as in LiteRT."""
    y = computed("RESHAPE", [Given(np.zeros(shape, np.float32)), constant(wanted)])[0]
    assert y.shape == found


def test_an_option_of_one_zero_is_the_shape_of_a_scalar() -> None:
    assert computed("RESHAPE", [Given(np.ones((1, 1), np.float32))], {"new_shape": [0]})[0].shape == ()


def test_an_axis_may_be_named_twice() -> None:
    x = X.reshape(1, 24)
    assert computed("SQUEEZE", [Given(x)], {"squeeze_dims": [0, -2]})[0].shape == (24,)


def blocks_by_hand(x: Any, block: Any, pads: Any) -> Any:
    """What TensorFlow says SPACE_TO_BATCH_ND is, element by element."""
    padded = np.pad(x, [(0, 0), *pads, (0, 0)])
    (bh, bw), (n, h, w, c) = block, padded.shape
    made = np.empty((bh * bw * n, h // bh, w // bw, c), x.dtype)
    for dy, dx, image, i, j in product(range(bh), range(bw), range(n), range(h // bh), range(w // bw)):
        made[(dy * bw + dx) * n + image, i, j] = padded[image, i * bh + dy, j * bw + dx]
    return made


@pytest.mark.parametrize("signature", [None, (-1, 4, 6, 3), (2, -1, 6, 3), (-1, -1, -1, -1)])
def test_blocks_of_images_whose_sizes_are_open(signature: Any) -> None:
    block, pads = (2, 3), [[1, 3], [0, 3]]
    sides = [constant(block), constant(pads)]
    y = computed("SPACE_TO_BATCH_ND", [Given(IMAGE, signature=signature), *sides])[0]
    np.testing.assert_array_equal(y, blocks_by_hand(IMAGE, block, pads))
    signature = None if signature is None else tuple(-1 if a < 0 else b for a, b in zip(signature, y.shape, strict=True))
    back = computed("BATCH_TO_SPACE_ND", [Given(y, signature=signature), *sides])[0]
    np.testing.assert_array_equal(back, IMAGE)


def flattened_by_its_own_shape() -> bytes:
    """A model as converters write it: the first size of a tensor, and -1, are its new shape."""
    model = Model()
    graph = model.main
    x = graph.input("x", np.float32, (1, 3, 4), signature=(-1, 3, 4))
    sizes, first = graph.tensor("sizes", np.int32, (3,)), graph.tensor("first", np.int32, ())
    shape, y = graph.tensor("shape", np.int32, (2,)), graph.output(graph.tensor("y", np.float32, (1, 12)))
    zero, one = graph.constant("zero", np.array([0], np.int32)), graph.constant("one", np.array([1], np.int32))
    rest = graph.constant("rest", np.array(-1, np.int32))
    graph.operator("SHAPE", [x], [sizes], {"out_type": 2})
    graph.operator("STRIDED_SLICE", [sizes, zero, one, one], [first], {"shrink_axis_mask": 1})
    graph.operator("PACK", [first, rest], [shape], {"values_count": 2})
    graph.operator("RESHAPE", [x, shape], [y])
    return model.build()


@pytest.mark.parametrize("batch", [1, 5])
def test_a_shape_that_follows_from_an_open_one(batch: int) -> None:
    x = np.arange(12 * batch, dtype=np.float32).reshape(batch, 3, 4)
    np.testing.assert_array_equal(results_of(flattened_by_its_own_shape(), [x])[0], x.reshape(batch, 12))


def test_a_shape_that_follows_from_an_open_one_is_known_before_it_is_fixed() -> None:
    with dovetail.load(parse(flattened_by_its_own_shape()), backends=["CpuRef"]) as net:
        assert [info.shape for info in net.outputs] == [("x_dim0", 12)]
