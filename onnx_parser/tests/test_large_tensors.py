"""Test that a file gives the same network with large tensors cut out first or not."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import dovetail
from dovetail import ModelError
from dovetail.graph.graph import Graph
from dovetail_onnx import parse
from dovetail_onnx.large_tensors import OddEncodingError, read_apart

RNG = np.random.default_rng(7)
LARGE, SMALL = RNG.random((64, 64), np.float32), RNG.random((64,), np.float32)


def chain(**initializers: np.ndarray) -> onnx.ModelProto:
    """x + each initializer in turn."""
    names = ["x", *(f"sum{i}" for i in range(len(initializers) - 1)), "y"]
    nodes = [helper.make_node("Add", [names[i], name], [names[i + 1]]) for i, name in enumerate(initializers)]
    ends = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, [64, 64])] for name in ("x", "y")]
    tensors = [numpy_helper.from_array(value, name) for name, value in initializers.items()]
    graph = helper.make_graph(nodes, "chain", *ends, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def constants(network: Graph) -> dict[str, np.ndarray]:
    return {layer.name: layer.descriptor.value for layer in network if layer.kind == "dovetail.Constant"}  # type: ignore[attr-defined]


def sized(number: int, payload: bytes) -> bytes:
    """A field of protobuf, written as its specification says."""
    head, size = bytearray([number << 3 | 2]), len(payload)
    while size > 127:
        head.append(size & 127 | 128)
        size >>= 7
    return bytes([*head, size]) + payload


def test_large_tensors_are_cut_and_the_rest_is_left(tmp_path: Path) -> None:
    model, file = chain(a=SMALL, b=LARGE, c=LARGE + 1), tmp_path / "m.onnx"
    file.write_bytes(model.SerializeToString())
    rest, cut = read_apart(file)
    assert {place: array.tobytes() for place, array in cut.items()} == {1: LARGE.tobytes(), 2: (LARGE + 1).tobytes()}
    for place in cut:
        model.graph.initializer[place].ClearField("raw_data")
    assert rest == model.SerializeToString()
    found = constants(parse(file))
    assert {name: value.tolist() for name, value in found.items()} == {
        "a": SMALL.tolist(),
        "b": LARGE.tolist(),
        "c": (LARGE + 1).tolist(),
    }
    assert not any(value.flags.writeable for value in found.values())


def test_a_graph_in_two_parts_is_one(tmp_path: Path) -> None:
    """Protobuf joins the parts of a message that stands twice, counting its initializers on."""
    whole, file = chain(a=LARGE, b=SMALL, c=LARGE + 1, d=LARGE + 2), tmp_path / "m.onnx"
    second = onnx.GraphProto(initializer=whole.graph.initializer[2:]).SerializeToString()
    del whole.graph.initializer[2:]
    file.write_bytes(whole.SerializeToString() + sized(7, second))
    assert set(read_apart(file)[1]) == {0, 2, 3}
    found = constants(parse(file))
    np.testing.assert_array_equal(found["c"], LARGE + 1)
    np.testing.assert_array_equal(found["d"], LARGE + 2)


@pytest.mark.parametrize("last", [LARGE + 1, RNG.random((1, 64), np.float32)], ids=["large", "small"])
def test_of_two_tensors_with_one_name_the_last_counts(tmp_path: Path, last: np.ndarray) -> None:
    model, file = chain(a=LARGE), tmp_path / "m.onnx"
    model.graph.initializer.append(numpy_helper.from_array(last, "a"))
    file.write_bytes(model.SerializeToString())
    np.testing.assert_array_equal(constants(parse(file))["a"], last)


def test_bytes_that_stand_there_twice_are_left_to_protobuf(tmp_path: Path) -> None:
    model, file = chain(a=LARGE), tmp_path / "m.onnx"
    tensor = model.graph.initializer.pop().SerializeToString() + sized(9, (LARGE + 1).tobytes())
    graph = model.graph.SerializeToString() + sized(5, tensor)
    model.ClearField("graph")
    file.write_bytes(model.SerializeToString() + sized(7, graph))
    assert not read_apart(file)[1]
    np.testing.assert_array_equal(constants(parse(file))["a"], LARGE + 1)


@pytest.mark.parametrize("raw", [LARGE.tobytes()[:-4], LARGE.tobytes() + b"abcd", LARGE.tobytes()[:-1]])
def test_wrong_sizes_are_told_with_the_tensor(tmp_path: Path, raw: bytes) -> None:
    model, file = chain(a=LARGE), tmp_path / "m.onnx"
    model.graph.initializer[0].raw_data = raw
    file.write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match=rf"tensor 'a' has {len(raw)} bytes, but needs {LARGE.nbytes}"):
        parse(file)


def test_a_file_that_was_cut_short_says_the_same_as_its_bytes(tmp_path: Path) -> None:
    data, file = chain(a=LARGE, b=SMALL, c=LARGE).SerializeToString(), tmp_path / "m.onnx"
    for size in [*range(1, 60), *range(60, len(data), 997), len(data) - 1]:
        file.write_bytes(data[:size])
        told = []
        for source in (file, data[:size]):
            with pytest.raises(ModelError) as caught:
                parse(source)
            told.append(caught.value.message.replace(f"{str(file)!r}", "the model"))
        assert told[0] == told[1]


@pytest.mark.parametrize(
    "data", [b"", b"\x07", b"\x3a" + b"\xff" * 10, b"\x3a\x05\x2a\xff\x7f\x00\x00", b"\x3b\x3c", b"\x80"], ids=bytes.hex
)
def test_what_is_no_protobuf_is_left_to_it(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "m.onnx"
    file.write_bytes(data)
    with pytest.raises(OddEncodingError):
        read_apart(file)
    with pytest.raises(ModelError):
        parse(file)


def test_weights_are_held_once_while_a_file_is_read(tmp_path: Path) -> None:
    big, file = RNG.random((16, 64, 64), np.float32), tmp_path / "m.onnx"
    model = chain(**{f"w{i}": big for i in range(8)})
    file.write_bytes(model.SerializeToString())
    del model
    dovetail.parse(file)
    tracemalloc.start()
    try:
        network = dovetail.parse(file)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 8 * big.nbytes < peak < 1.2 * 8 * big.nbytes  # the file's bytes beside them would be twice as much
    assert len(constants(network)) == 8
