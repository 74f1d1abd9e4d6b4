"""Tensors of a file: what they hold, judged by NumPy, and what is refused."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from tflite_making import Model, Tree

from dovetail import DType, ErrorCode, GraphError, ModelError, Quantization, UnsupportedModelError
from dovetail_tflite import parse
from dovetail_tflite.model_file import read_model
from dovetail_tflite.tensors import TYPES, Tensor, read_tensor


def tensor_of(model: Model, number: int = 0) -> Tensor:
    """Read a tensor of a model."""
    file = read_model(model.build())
    return read_tensor(file, file.subgraphs[0].tables("tensors")[number], number)


def one(*arguments: Any, **named: Any) -> Tensor:
    """Make and read a tensor."""
    model = Model()
    model.main.tensor("t", *arguments, **named)
    return tensor_of(model)


def value_of(*arguments: Any, **named: Any) -> npt.NDArray[Any]:
    value = one(*arguments, **named).value
    assert value is not None
    return value


def refused(model: Model) -> ModelError:
    """Parse a model that has the first tensor as its output."""
    model.main.tree["outputs"] = [0]
    with pytest.raises(ModelError) as caught:
        parse(model.build())
    return caught.value


def refusal(*arguments: Any, **named: Any) -> ModelError:
    model = Model()
    model.main.tensor("t", *arguments, **named)
    return refused(model)


# -- types and values ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype", ["float32", "float16", "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool"]
)
def test_values(dtype: str) -> None:
    value = (np.arange(12).reshape(3, 4) % 3).astype(dtype)
    found = one(dtype, (3, 4), value=value)
    assert found.dtype.numpy == value.dtype
    assert found.value is not None
    np.testing.assert_array_equal(found.value, value)
    assert not found.value.flags.writeable


def test_a_scalar() -> None:
    found = value_of("float32", (), value=np.float32(2.5))
    assert (found.shape, float(found)) == ((), 2.5)


def test_what_holds_no_element() -> None:
    found = one("float32", (0, 3), value=b"")
    assert (found.shape, found.value) == ((0, 3), None)


def test_booleans_of_any_byte() -> None:
    assert value_of("bool", (4,), value=b"\0\1\2\xff").tolist() == [False, True, True, True]


@pytest.mark.parametrize(("kind", "low", "high"), [("int4", -8, 7), ("int2", -2, 1), ("uint4", 0, 15)])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 16, 33])
def test_several_elements_of_a_byte(kind: str, low: int, high: int, count: int) -> None:
    values = np.random.default_rng(count).integers(low, high + 1, (count,))
    values[0] = low
    found = one(kind, (count,), value=values)
    assert found.dtype is (DType.UINT8 if kind == "uint4" else DType.INT8)
    assert found.value is not None
    assert found.value.tolist() == values.tolist()


def test_several_elements_of_a_byte_by_hand() -> None:
    assert value_of("int4", (3,), value=b"\x8f\x07").tolist() == [-1, -8, 7]
    assert value_of("uint4", (3,), value=b"\x8f\x07").tolist() == [15, 8, 7]
    assert value_of("int2", (5,), value=b"\xe4\x02").tolist() == [0, 1, -2, -1, -2]


@pytest.mark.parametrize(
    ("kind", "shape", "nbytes"), [("float32", (3,), 11), ("int4", (3,), 1), ("int2", (5,), 1), ("bool", (2,), 1)]
)
def test_too_few_bytes(kind: str, shape: tuple[int, ...], nbytes: int) -> None:
    error = refusal(kind, shape, value=bytes(nbytes))
    assert error.code is ErrorCode.MODEL_MALFORMED
    assert f"its buffer has {nbytes}" in error.message


def test_more_bytes_than_needed() -> None:
    assert value_of("uint8", (2,), value=b"\1\2\3").tolist() == [1, 2]


@pytest.mark.parametrize("name", sorted(set(TYPES) - {dtype.label for dtype in DType} - {"int4", "int2", "uint4"}))
def test_types_that_dovetail_lacks(name: str) -> None:
    error = refusal(TYPES.index(name), (1,), value=bytes(16))
    assert isinstance(error, UnsupportedModelError)
    assert f"is of type {name}" in error.message


@pytest.mark.parametrize("code", [len(TYPES), 127, -1, -128])
def test_types_that_nobody_has(code: int) -> None:
    error = refusal(code, (1,), value=bytes(16))
    assert isinstance(error, UnsupportedModelError)
    assert f"is of type number {code}" in error.message


def test_buffers_behind_the_tables() -> None:
    model = Model()
    expected = [np.arange(5, dtype=np.int32), np.arange(7, dtype=np.float32)]
    for place, value in enumerate(expected):
        model.main.constant(f"c{place}", value)
    file = read_model(model.build_with_buffers_behind())
    for place, value in enumerate(expected):
        found = read_tensor(file, file.subgraphs[0].tables("tensors")[place], place).value
        np.testing.assert_array_equal(found, value)


def test_a_buffer_behind_the_file() -> None:
    model = Model()
    model.main.tensor("t", "uint8", (4,), buffer=1)
    model.tree["buffers"].append({"offset": 1 << 62, "size": 1 << 62})
    assert f"has {1 << 62} bytes at byte {1 << 62}" in refused(model).message


def test_a_buffer_that_is_not_there() -> None:
    assert "there are 1 of Buffer, number 7 is meant" in refusal("uint8", (4,), buffer=7).message


def test_a_value_in_another_file() -> None:
    error = refusal("uint8", (4,), external_buffer=1)
    assert isinstance(error, UnsupportedModelError)
    assert "lies in another file" in error.message


def test_a_value_at_an_odd_place() -> None:
    """Buffers are aligned; one that is not is copied."""
    model = Model()
    model.main.constant("c", np.arange(3, dtype=np.float32))
    data = model.build()
    held = np.arange(3, dtype=np.float32).tobytes()
    begin = data.index(held)
    model.tree["buffers"][1] = {"offset": begin + 1, "size": 11}
    model.main.tree["tensors"][0]["shape"] = [2]
    found = tensor_of(model).value
    assert found is not None
    assert found.flags.aligned


# -- shapes ----------------------------------------------------------------------------------------


def test_open_sizes() -> None:
    assert one("float32", (1, 4), signature=(-1, 4)).shape == (-1, 4)
    assert one("float32", (1, 4), signature=(-1, -1)).shape == (-1, -1)
    assert one("float32", (2, 4)).shape == (2, 4)
    assert one("float32", (2, 4), signature=()).shape == (2, 4)
    assert one("float32", (2, -1)).shape == (2, -1)


def test_open_sizes_of_inputs_get_names_of_their_own() -> None:
    model = Model()
    for name in ("a", "a", "b"):
        model.main.output(model.main.input(name, "float32", (1, 4), signature=(-1, 4)))
    shapes = [spec.output.info.shape for spec in parse(model.build()).inputs]
    assert len({shape[0] for shape in shapes}) == 3
    assert all(isinstance(shape[0], str) and shape[1] == 4 for shape in shapes)


def test_negative_sizes() -> None:
    assert "has shape [-2, 3]" in refusal("float32", (-2, 3)).message


def test_a_constant_of_an_open_size() -> None:
    assert "is a constant of shape [-1]" in refusal("uint8", (1,), signature=(-1,), value=b"\1").message


def test_many_axes() -> None:
    assert isinstance(refusal("uint8", (1,) * 33, value=b"\1"), UnsupportedModelError)


@pytest.mark.parametrize("shape", [(1 << 30, 1 << 30), (0, (1 << 31) - 1, (1 << 31) - 1, (1 << 31) - 1), ((1 << 31) - 1,) * 32])
def test_enormous_shapes(shape: tuple[int, ...]) -> None:
    assert refusal("uint8", shape, value=b"\1").code in (ErrorCode.MODEL_MALFORMED, ErrorCode.GRAPH_INVALID)
    refusal("uint8", shape)


# -- quantization ----------------------------------------------------------------------------------


def test_quantization() -> None:
    assert one("int8", (2, 3), quantization=(0.5, 3)).quantization == Quantization((0.5,), (3,))
    per_axis = one("int8", (2, 3), quantization=([0.5, 1.0, 2.0], [0, 1, 2], 1)).quantization
    assert per_axis == Quantization((0.5, 1.0, 2.0), (0, 1, 2), 1)
    assert one("int8", (2,), quantization={"scale": [0.5]}).quantization == Quantization((0.5,), (0,))
    assert one("int8", (2,), quantization={"min": [0.0], "max": [1.0]}).quantization is None
    assert one("float32", (2,), quantization=(0.5, 3)).quantization is None
    shared = one("int8", (2,), quantization={"scale": [0.5, 1.0], "zero_point": [3]}).quantization
    assert shared == Quantization((0.5, 1.0), (3, 3), 0)


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf")])
def test_scales_that_are_none(scale: float) -> None:
    assert "scales that are not positive and finite" in refusal("int8", (2,), quantization=(scale, 0)).message
    assert one("int32", (2,), quantization=(scale, 0)).quantization is None


@pytest.mark.parametrize(
    ("quantization", "found"),
    [
        (([0.5, 1.0], [0, 0, 0], 0), "has 2 scales and 3 zero points"),
        (([0.5, 1.0], [0, 0], 1), "is quantized along axis 1"),
        (([0.5, 1.0], [0, 0], -1), "is quantized along axis -1"),
    ],
)
def test_quantization_that_does_not_fit(quantization: tuple[Any, ...], found: str) -> None:
    error = refusal("int8", (2,), quantization=quantization, value=bytes(2))
    assert error.code is ErrorCode.MODEL_MALFORMED
    assert found in error.message


def test_scales_for_other_elements() -> None:
    error = refusal("int8", (2,), quantization=([0.5, 1.0, 2.0], [0, 0, 0], 0), value=bytes(2))
    assert isinstance(error, GraphError)
    assert "3 scales for 2 elements" in error.message


@pytest.mark.parametrize(("kind", "found"), [(1, "custom"), (2, "blockwise"), (99, "kind 99 of")])
def test_quantization_of_other_kinds(kind: int, found: str) -> None:
    error = refusal("int8", (2,), quantization={"scale": [0.5], "details_type": kind})
    assert isinstance(error, UnsupportedModelError)
    assert f"has {found} quantization" in error.message


# -- sparse tensors --------------------------------------------------------------------------------


def sparse(
    dense: npt.NDArray[Any], order: list[int], blocks: dict[int, int], compressed: set[int]
) -> tuple[npt.NDArray[Any], Tree]:
    """Encode a tensor element by element: what a level stores follows from walking the tree.

    Args:
        dense: The tensor.
        order: Which axis each level goes along; axes of blocks follow those of the tensor.
        blocks: Sizes of blocks by axis.
        compressed: Levels that are compressed.
    """
    sizes = [size // blocks.get(axis, 1) for axis, size in enumerate(dense.shape)] + list(blocks.values())

    def at(index: dict[int, int]) -> Any:
        place = [index[axis] for axis in range(dense.ndim)]
        for number, (axis, size) in enumerate(blocks.items()):
            place[axis] = place[axis] * size + index[dense.ndim + number]
        return dense[tuple(place)]

    def has_any(index: dict[int, int]) -> bool:
        missing = [axis for axis in range(len(sizes)) if axis not in index]
        rest = itertools.product(*(range(sizes[axis]) for axis in missing))
        return any(at({**index, **dict(zip(missing, one, strict=True))}) != 0 for one in rest)

    levels: list[Tree] = []
    rows: list[dict[int, int]] = [{}]
    for place, axis in enumerate(order):
        below: list[dict[int, int]] = []
        segments, indices = [0], []
        for row in rows:
            for number in range(sizes[axis]):
                index = {**row, axis: number}
                if place in compressed and not has_any(index):
                    continue
                below.append(index)
                indices.append(number)
            segments.append(len(indices))
        rows = below
        levels.append(packed(segments, indices) if place in compressed else {"format": 0, "dense_size": sizes[axis]})
    tree = {"traversal_order": order, "block_map": list(blocks), "dim_metadata": levels}
    return np.array([at(row) for row in rows], dense.dtype), tree


def packed(segments: list[int], indices: list[int], of: tuple[int, str] = (1, "Int32Vector")) -> Tree:
    """Return a compressed level."""
    kind, table = of
    return {
        "format": 1, "array_segments_type": kind, "array_segments": (table, {"values": segments}),
        "array_indices_type": kind, "array_indices": (table, {"values": indices}),
    }  # fmt: skip


def drawn(shape: tuple[int, ...], dtype: str, share: float) -> npt.NDArray[Any]:
    rng = np.random.default_rng(len(shape))
    return (rng.integers(1, 100, shape) * (rng.random(shape) < share)).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "int8", "float16"])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.4, 1.0])
@pytest.mark.parametrize(
    ("shape", "order", "blocks", "compressed"),
    [
        ((6,), [0], {}, {0}),
        ((4, 6), [0, 1], {}, {1}),
        ((4, 6), [0, 1], {}, {0, 1}),
        ((4, 6), [1, 0], {}, {1}),
        ((4, 6), [0, 1], {}, set()),
        ((4, 6), [0, 1], {}, {0}),
        ((4, 6), [0, 1, 2, 3], {0: 2, 1: 3}, {1}),
        ((4, 6), [0, 1, 3, 2], {0: 2, 1: 3}, {1}),
        ((4, 6), [1, 0, 2], {1: 2}, {1}),
        ((4, 16), [0, 1, 2], {1: 16}, {1}),
        ((2, 4, 6), [2, 0, 1], {}, {1, 2}),
        ((2, 4, 2, 6), [0, 3, 1, 2, 4], {3: 3}, {1, 3}),
    ],
)
def test_sparse_tensors(
    shape: tuple[int, ...], order: list[int], blocks: dict[int, int], compressed: set[int], share: float, dtype: str
) -> None:
    dense = drawn(shape, dtype, share)
    stored, tree = sparse(dense, order, blocks, compressed)
    if not stored.size:
        stored = np.zeros(1, dtype)  # a buffer without bytes would mean that there is no value
    found = value_of(dtype, shape, value=stored, sparsity=tree)
    np.testing.assert_array_equal(found, dense)


@pytest.mark.parametrize("of", [(1, "Int32Vector"), (2, "Uint16Vector"), (3, "Uint8Vector")])
def test_indices_of_each_type(of: tuple[int, str]) -> None:
    tree = {"traversal_order": [0, 1], "dim_metadata": [{"dense_size": 2}, packed([0, 1, 3], [200, 0, 201], of)]}
    found = value_of("int8", (2, 202), value=b"\1\2\3", sparsity=tree)
    expected = np.zeros((2, 202), np.int8)
    expected[0, 200], expected[1, 0], expected[1, 201] = 1, 2, 3
    np.testing.assert_array_equal(found, expected)


def csr(**changed: Any) -> Tree:
    """Return the sparsity of a matrix [2, 3], with some fields changed."""
    level = packed(changed.pop("segments", [0, 1, 2]), changed.pop("indices", [2, 0])) | changed.pop("level", {})
    levels = [{"format": 0, "dense_size": changed.pop("rows", 2)}, level]
    return {"traversal_order": [0, 1], "dim_metadata": levels} | changed


def test_a_matrix_by_hand() -> None:
    assert value_of("int8", (2, 3), value=b"\5\6", sparsity=csr()).tolist() == [[0, 0, 5], [6, 0, 0]]


@pytest.mark.parametrize(
    "sparsity",
    [
        csr(traversal_order=[0]),
        csr(traversal_order=[0, 0]),
        csr(traversal_order=[0, 2]),
        csr(traversal_order=[-1, 0]),
        csr(traversal_order=[0, 1, 2]),
        csr(traversal_order=[], dim_metadata=[]),
        csr(block_map=[1]),
        csr(block_map=[-1], traversal_order=[0, 1, 2], dim_metadata=[{"dense_size": 2}] * 3),
        csr(block_map=[1, 1], traversal_order=[0, 1, 2, 3], dim_metadata=[{"dense_size": 1}] * 4),
        csr(block_map=[1], traversal_order=[0, 1, 2], dim_metadata=[{"dense_size": 2}] * 3),
        csr(block_map=[1], traversal_order=[0, 1, 2], dim_metadata=[{"dense_size": 0}] * 3),
        csr(block_map=[1], traversal_order=[0, 1, 2], dim_metadata=[{"dense_size": -3}] * 3),
        csr(block_map=[1], traversal_order=[0, 1, 2], dim_metadata=[packed([0, 1], [0])] * 3),
        csr(rows=3),
        csr(rows=-2),
        csr(rows=1 << 30),
        csr(segments=[]),
        csr(segments=[0]),
        csr(segments=[0, 2]),
        csr(segments=[1, 1, 2]),
        csr(segments=[0, 3, 2]),
        csr(segments=[0, 1, 3]),
        csr(segments=[0, 1, 2, 2]),
        csr(indices=[3, 0]),
        csr(indices=[-1, 0]),
        csr(indices=[0, 1, 2], segments=[0, 1, 3]),
        csr(level={"format": 7}),
        csr(level={"array_indices_type": 0}),
        csr(level={"array_indices_type": 9}),
        csr(level={"array_segments": None}),
        csr(dim_metadata=[{"dense_size": 2}, {"dense_size": 3}]),
    ],
)
def test_sparse_tensors_that_do_not_fit(sparsity: Tree) -> None:
    error = refusal("int8", (2, 3), value=b"\5\6", sparsity=sparsity)
    assert error.code is ErrorCode.MODEL_MALFORMED, error


def test_sparse_tensors_that_are_refused() -> None:
    assert isinstance(refusal("int4", (2, 3), value=b"\5\6", sparsity=csr()), UnsupportedModelError)
    levels = {"traversal_order": [0] * 33, "dim_metadata": [{"dense_size": 1}] * 33}
    assert isinstance(refusal("int8", (1,) * 32, value=b"\5", sparsity=levels), UnsupportedModelError)


def test_a_sparse_tensor_of_a_hundred_million_elements() -> None:
    tree = {"traversal_order": [0, 1], "dim_metadata": [{"dense_size": 1}, packed([0, 1], [5])]}
    error = refusal("int8", (1, 100_000_000), value=b"\5", sparsity=tree)
    assert isinstance(error, UnsupportedModelError)
