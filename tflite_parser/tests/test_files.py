"""Files that are not what they should be: always a typed error, whatever the bytes."""

from __future__ import annotations

import io
import random
import struct
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tflite_making import Model, Tree, encoded

import dovetail
from dovetail import ErrorCode, LimitError, Limits, LoadTimeoutError, ModelError, Network
from dovetail.ground.limits import limited
from dovetail_tflite import TfliteParser, parse


def dense() -> Model:
    """Two layers, one of them quantized per channel, a signature and metadata."""
    rng = np.random.default_rng(3)
    model = Model("dense")
    graph = model.main
    x = graph.input("x", np.float32, (1, 4), signature=(-1, 4))
    w = graph.constant("w", rng.random((3, 4), np.float32))
    b = graph.constant("b", rng.random(3, np.float32))
    h = graph.tensor("h", np.float32, (1, 3), signature=(-1, 3))
    graph.operator("FULLY_CONNECTED", [x, w, b], [h], {"fused_activation_function": 1})
    q = graph.tensor("q", np.int8, (1, 3), quantization=(0.5, 3))
    graph.operator("QUANTIZE", [h], [q])
    y = graph.output(graph.tensor("y", np.float32, (1, 3)))
    graph.operator("DEQUANTIZE", [q], [y])
    model.signature("serving", {"x": x}, {"y": y})
    model.metadata("note", b"text")
    return model


def survives(data: bytes) -> bool:
    """Parse bytes; anything but a network or a typed error escapes."""
    try:
        network = parse(data)
    except ModelError:
        return False
    assert isinstance(network, Network)
    return True


def code_of(model: str | Path | bytes) -> ErrorCode:
    with pytest.raises(ModelError) as caught:
        parse(model)
    assert caught.value.hint
    return caught.value.code


def test_a_sound_model(tmp_path: Path) -> None:
    assert survives(dense().build())
    assert survives(dense().build_with_buffers_behind())
    path = tmp_path / "model.tflite"
    path.write_bytes(dense().build())
    network = TfliteParser().parse(path)
    assert network.files == (str(path),)
    assert len(network) == len(parse(bytearray(path.read_bytes()))) == len(parse(path))


def test_a_model_in_memory_is_found_as_tflite() -> None:
    content = dense().build()
    expected = len(parse(content))
    for given in (content, bytearray(content), memoryview(content), io.BytesIO(content)):
        assert len(dovetail.parse(given)) == expected
    assert not TfliteParser().takes(b"\x08\x07\x12\x04onnx")
    with pytest.raises(ModelError, match="MODEL_MALFORMED") as caught:
        dovetail.parse(content[: len(content) // 2])
    assert "is malformed: " in caught.value.message
    assert "BrokenFile" not in caught.value.message  # a class of the parser's, which says nothing to users


def test_a_missing_file(tmp_path: Path) -> None:
    assert code_of(tmp_path / "none.tflite") is ErrorCode.MODEL_NOT_FOUND
    assert code_of("a\0b.tflite") is ErrorCode.MODEL_NOT_FOUND


def test_a_folder(tmp_path: Path) -> None:
    assert code_of(tmp_path) is ErrorCode.MODEL_NOT_FOUND


def test_no_regular_file() -> None:
    assert code_of("/dev/zero") is ErrorCode.MODEL_NOT_FOUND


def test_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "empty.tflite").touch()
    assert code_of(tmp_path / "empty.tflite") is ErrorCode.MODEL_MALFORMED
    assert code_of(b"") is ErrorCode.MODEL_MALFORMED


@pytest.mark.parametrize(
    "data", [b"\0", b"not a model", b"PK\x03\x04" + bytes(100), b"\xff" * 64, b"TFL3" * 8, b"\4\0\0\0TFL3", b"\4\0\0\0TFL2" * 9]
)
def test_other_files(data: bytes) -> None:
    assert code_of(data) is ErrorCode.MODEL_MALFORMED


def test_another_identifier() -> None:
    with pytest.raises(ModelError, match=r"expected b'TFL3'"):
        parse(encoded(dense().tree, identifier=b"ABCD"))


@pytest.mark.parametrize("version", [0, 1, 2, 4, (1 << 32) - 1])
def test_another_version(version: int) -> None:
    with pytest.raises(ModelError, match=f"has version {version} of the schema"):
        parse(encoded(dense().tree | {"version": version}))


def test_no_subgraphs() -> None:
    with pytest.raises(ModelError, match="holds no subgraph"):
        parse(encoded(dense().tree | {"subgraphs": []}))


def test_no_outputs() -> None:
    model = dense()
    model.main.tree["outputs"] = []
    with pytest.raises(ModelError, match="has no outputs"):
        parse(model.build())


def test_truncated_anywhere() -> None:
    data = dense().build()
    whole = [length for length in range(len(data)) if survives(data[:length])]
    assert not whole or len(data) - whole[0] < 4, f"cut at {whole}, the model still parses"


def test_buffers_behind_that_are_cut_off() -> None:
    data = dense().build_with_buffers_behind()
    with pytest.raises(ModelError, match="the buffer of tensor 'b' has 12 bytes"):
        parse(data[:-21])


def test_random_bytes() -> None:
    rng = random.Random(11)
    for _ in range(500):
        assert not survives(struct.pack("<I", rng.randrange(64)) + b"TFL3" + rng.randbytes(rng.randrange(1, 200)))


def test_flipped_bytes() -> None:
    rng = random.Random(12)
    data = dense().build()
    survived = 0
    for _ in range(2000):
        changed = bytearray(data)
        for _ in range(rng.randrange(1, 4)):
            changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        survived += survives(bytes(changed))
    assert 0 < survived < 2000


# -- limits ----------------------------------------------------------------------------------------


def limit_of(limits: Limits, data: bytes) -> str:
    """Return which limit a model exceeds; with one more of it the model is read."""
    with pytest.raises(LimitError) as caught, limited(limits):
        parse(data)
    assert caught.value.code is ErrorCode.LIMIT_EXCEEDED
    return str(caught.value.details["limit"])


def test_memory_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(dense().build())
    with pytest.raises(LimitError) as caught:
        dovetail.parse(path, limits=Limits(memory=path.stat().st_size - 1))
    assert caught.value.details["limit"] == "memory"
    assert dovetail.parse(path, limits=Limits(memory=path.stat().st_size + 1000))


def test_memory_of_a_huge_file(tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    with path.open("wb") as file:
        file.truncate(1 << 32)  # which takes no space
    with pytest.raises(LimitError):
        dovetail.parse(path, limits=Limits(memory=1 << 30))


@pytest.mark.parametrize("kind", ["int4", "uint4", "int2", "bool"])
def test_memory_of_constants_that_are_widened(kind: str) -> None:
    model = dense()
    for number in range(20):
        model.main.output(model.main.tensor(f"c{number}", kind, (1000,), value=bytes(1000)))
    assert survives(model.build())
    assert limit_of(Limits(memory=15_000), model.build()) == "memory"


def test_layers() -> None:
    model = dense()
    size = len(model.main.tree["operators"]) + len(model.main.tree["inputs"]) + len(model.main.tree["outputs"])
    assert limit_of(Limits(layers=size - 1), model.build()) == "layers"
    with limited(Limits(layers=size + 10)):
        assert parse(model.build())


def test_layers_of_outputs() -> None:
    model = dense()
    model.main.tree["outputs"] *= 1000
    assert limit_of(Limits(layers=500), model.build()) == "layers"


def nested(depth: int) -> Model:
    """Subgraphs that call one another in a chain."""
    model = Model()
    graph = model.main
    for number in range(1, depth + 1):
        y = graph.tensor("y", np.float32, (2,))
        graph.operator("CALL", [graph.input("x", np.float32, (2,))], [graph.output(y)], {"subgraph": number})
        graph = model.subgraph(str(number))
    graph.output(graph.input("x", np.float32, (2,)))
    return model


def test_nesting() -> None:
    assert limit_of(Limits(nesting=5), nested(6).build()) == "nesting"
    with limited(Limits(nesting=6)):
        assert parse(nested(6).build())
    assert limit_of(Limits(), nested(1000).build()) == "nesting"


def test_subgraphs_that_double() -> None:
    """Each calls the next one twice."""
    model = nested(60)
    for graph in model.tree["subgraphs"][:-1]:
        graph["tensors"].append(graph["tensors"][1])
        graph["operators"].append(graph["operators"][0] | {"outputs": [2]})
    begin = time.process_time()
    with pytest.raises(ModelError, match="larger than its file"):
        parse(model.build())
    assert time.process_time() - begin < 10


def test_time() -> None:
    with pytest.raises(LoadTimeoutError), limited(Limits(seconds=1e-9)):
        parse(dense().build())


def test_a_loop_of_nothing_that_never_ends() -> None:
    """Neither its condition, which is always true, nor its body has an operator."""
    model = Model()
    graph = model.main
    x, y = graph.input("x", np.float32, (2,)), graph.tensor("y", np.float32, (2,))
    graph.operator("WHILE", [x], [graph.output(y)], {"cond_subgraph_index": 1, "body_subgraph_index": 2})
    condition, body = model.subgraph("condition"), model.subgraph("body")
    condition.input("x", np.float32, (2,))
    condition.output(condition.constant("always", np.array([True])))
    body.output(body.input("x", np.float32, (2,)))
    begin = time.process_time()
    with pytest.raises(ModelError, match="larger than its file"):
        parse(model.build())
    assert time.process_time() - begin < 30


def test_subgraphs_that_are_all_the_same() -> None:
    """Ten thousand times ten thousand operators, of which the model puts one in place."""
    model = nested(1)
    graph = model.tree["subgraphs"][1]
    graph["operators"] = [{"opcode_index": 0, "inputs": [], "outputs": []}] * 10_000
    model.tree["subgraphs"] += [graph] * 10_000
    begin = time.process_time()
    with pytest.raises(ModelError):
        parse(model.build())
    assert time.process_time() - begin < 10


def test_elements() -> None:
    model = Model()
    x = model.main.input("x", np.float32, (1000, 1000))
    model.main.output(x)
    assert limit_of(Limits(elements=999_999), model.build()) == "elements"
    with limited(Limits(elements=1_000_000)):
        assert parse(model.build())


# -- small files that ask for much -----------------------------------------------------------------


def repeated_names() -> Tree:
    """Inputs of one long name."""
    name = "n" * 8000
    tensor = {"shape": [1], "name": name}
    graph = {"tensors": [tensor] * 5000, "inputs": list(range(5000)), "outputs": [0], "operators": []}
    return {"version": 3, "subgraphs": [graph], "buffers": [{}]}


def repeated_codes() -> Tree:
    """A table of operators whose entries all are the same custom one of a long name."""
    code = {"deprecated_builtin_code": 32, "builtin_code": 32, "custom_code": "c" * 8000}
    return dense().tree | {"operator_codes": [code] * 20_000}


def repeated_operators() -> Tree:
    """Operators that all are the same one of many inputs."""
    tree = dense().tree
    operator = {"opcode_index": 0, "inputs": [0] * 5000, "outputs": []}
    return tree | {"subgraphs": [tree["subgraphs"][0] | {"operators": [operator] * 5000}]}


def repeated_options() -> Tree:
    """Operators with the same bytes of options."""
    tree = dense().tree
    operator = {"opcode_index": 0, "inputs": [0], "outputs": [], "custom_options": bytes(100_000)}
    codes = [{"deprecated_builtin_code": 32, "builtin_code": 32, "custom_code": "c"}]
    return tree | {"operator_codes": codes, "subgraphs": [tree["subgraphs"][0] | {"operators": [operator] * 5000}]}


def repeated_scales() -> Tree:
    """Inputs that share a quantization along an axis of ten thousand elements."""
    tensor = {
        "shape": [10_000], "type": 9,
        "quantization": {"scale": [0.5] * 10_000, "zero_point": [1] * 10_000},
    }  # fmt: skip
    graph = {"tensors": [tensor] * 5000, "inputs": list(range(5000)), "outputs": [0], "operators": []}
    return {"version": 3, "subgraphs": [graph], "buffers": [{}]}


def repeated_bits() -> Tree:
    """Outputs that are constants of one buffer, two bits an element."""
    tensor = {"shape": [400_000], "type": 19, "buffer": 1}
    graph = {"tensors": [tensor] * 5000, "inputs": [], "outputs": list(range(5000)), "operators": []}
    return {"version": 3, "subgraphs": [graph], "buffers": [{}, {"data": bytes(100_000)}]}


def repeated_sparsity() -> Tree:
    """A sparse tensor of 64 Mi elements, a thousand times."""
    levels = [{"format": 0, "dense_size": 1}, _compressed([0, 1], [5])]
    sparsity = {"traversal_order": [0, 1], "dim_metadata": levels}
    tensor = {"shape": [1, 1 << 26], "buffer": 1, "sparsity": sparsity}
    graph = {"tensors": [tensor] * 1000, "inputs": [], "outputs": list(range(1000)), "operators": []}
    return {"version": 3, "subgraphs": [graph], "buffers": [{}, {"data": bytes(4)}]}


def _compressed(segments: list[int], indices: list[int]) -> Tree:
    return {
        "format": 1, "array_segments_type": 1, "array_segments": ("Int32Vector", {"values": segments}),
        "array_indices_type": 1, "array_indices": ("Int32Vector", {"values": indices}),
    }  # fmt: skip


AMPLIFIED = [
    repeated_names, repeated_codes, repeated_operators, repeated_options, repeated_scales, repeated_bits,
    repeated_sparsity,
]  # fmt: skip


@pytest.mark.parametrize("make", AMPLIFIED)
def test_a_small_file_takes_little_time(make: Callable[[], Tree]) -> None:
    """Each would make objects of gigabytes; what refuses it does so early."""
    data = encoded(make())
    assert len(data) < 300_000
    begin = time.process_time()
    with pytest.raises(ModelError):
        parse(data)
    assert time.process_time() - begin < 5


@pytest.mark.slow
@pytest.mark.parametrize("make", AMPLIFIED)
def test_a_small_file_takes_little_memory(make: Callable[[], Tree]) -> None:
    data = encoded(make())
    tracemalloc.start()
    try:
        with pytest.raises(ModelError):
            parse(data)
        assert tracemalloc.get_traced_memory()[1] < 800 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("count", [2000, 20_000])
def test_many_outputs_of_one_tensor(count: int) -> None:
    model = dense()
    model.main.tree["outputs"] *= count
    begin = time.process_time()
    assert len(parse(model.build()).outputs) == count
    assert time.process_time() - begin < count / 1000


@pytest.mark.parametrize("name", ["t", ""])
def test_a_long_chain_of_one_name(name: str) -> None:
    model = Model()
    graph = model.main
    last = graph.input(name, np.float32, (1, 1, 1, 1))
    for _ in range(5000):
        now = graph.tensor(name, np.float32, (1, 1, 1, 1))
        graph.operator(
            "MAX_POOL_2D", [last], [now], dict.fromkeys(("stride_w", "stride_h", "filter_width", "filter_height"), 1)
        )
        last = now
    graph.output(last)
    data = model.build()
    begin = time.process_time()
    assert len(parse(data)) == 5002
    assert time.process_time() - begin < 10
