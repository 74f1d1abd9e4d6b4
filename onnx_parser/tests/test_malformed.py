"""Files that are not what they should be: always a typed error, whatever the bytes."""

from __future__ import annotations

import random
import tracemalloc
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from dovetail.errors import ErrorCode, LimitError, ModelError
from dovetail.limits import Limits, limited
from dovetail.network import Network
from dovetail_onnx import parse, translation


def small_model() -> onnx.ModelProto:
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[1,3,8,8] x) => (float[1,40] y)
    { c = Conv <pads = [1,1,1,1], strides = [2,2]> (x, w, b)  r = Relu(c)
      p = MaxPool <kernel_shape = [2,2], strides = [2,2]> (r)  f = Flatten(p)  y = Gemm <transB = 1> (f, v) }"""
    proto = onnx.parser.parse_model(text)
    rng = np.random.default_rng(7)
    for name, shape in (("w", (4, 3, 3, 3)), ("b", (4,)), ("v", (40, 16))):
        proto.graph.initializer.append(numpy_helper.from_array(rng.random(shape, np.float32), name))
    return proto


def survives(data: bytes) -> bool:
    """Parse bytes; anything but a network or a typed error escapes."""
    try:
        network = parse(data)
    except ModelError:
        return False
    assert isinstance(network, Network)
    return True


def code_of(model: str | Path | bytes | onnx.ModelProto) -> ErrorCode:
    with pytest.raises(ModelError) as caught:
        parse(model)
    assert caught.value.hint
    return caught.value.code


def test_a_missing_file(tmp_path: Path) -> None:
    assert code_of(tmp_path / "none.onnx") is ErrorCode.MODEL_NOT_FOUND
    assert code_of("a\0b.onnx") is ErrorCode.MODEL_NOT_FOUND


def test_a_folder(tmp_path: Path) -> None:
    assert code_of(tmp_path) is ErrorCode.MODEL_NOT_FOUND


def test_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "empty.onnx").touch()
    assert code_of(tmp_path / "empty.onnx") is ErrorCode.MODEL_MALFORMED
    assert code_of(b"") is ErrorCode.MODEL_MALFORMED


@pytest.mark.parametrize("data", [b"\0", b"not a model", b"PK\x03\x04" + bytes(100), b"\xff" * 64, b"TFL3" * 8])
def test_other_files(data: bytes) -> None:
    assert code_of(data) is ErrorCode.MODEL_MALFORMED


def test_truncated_anywhere() -> None:
    data = small_model().SerializeToString()
    assert survives(data)
    whole = [length for length in range(len(data)) if survives(data[:length])]
    assert not whole, f"cut at {whole}, the model still parses"


def test_random_bytes() -> None:
    rng = random.Random(11)
    for _ in range(2000):
        survives(rng.randbytes(rng.randrange(1, 200)))


def test_flipped_bytes() -> None:
    rng = random.Random(12)
    data = small_model().SerializeToString()
    # Most of the file is weights, where any byte is as good as another: the graph around them is what is bent here.
    head = len(data) - sum(len(tensor.raw_data) for tensor in small_model().graph.initializer)
    for _ in range(4000):
        bent = bytearray(data)
        for _ in range(rng.randrange(1, 4)):
            bent[rng.randrange(head)] = rng.randrange(256)
        survives(bytes(bent))


def with_nodes(*nodes: onnx.NodeProto, **kwargs: object) -> onnx.ModelProto:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 2]) for name in "xy"]
    return helper.make_model(
        helper.make_graph(list(nodes), "g", ends[:1], ends[1:]), opset_imports=[helper.make_opsetid("", 17)]
    )


@pytest.mark.parametrize(
    "nodes",
    [
        [helper.make_node("Relu", ["unknown"], ["y"])],
        [helper.make_node("Relu", ["x"], ["other"])],
        [helper.make_node("Relu", [], ["y"])],
        [helper.make_node("Relu", [""], ["y"])],
        [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Neg", ["x"], ["y"])],
        [helper.make_node("Relu", ["x"], ["x"])],
        [
            helper.make_node("Relu", ["b"], ["a"]),
            helper.make_node("Relu", ["a"], ["b"]),
            helper.make_node("Add", ["a", "b"], ["y"]),
        ],
        [helper.make_node("Concat", ["x", "x"], ["y"])],
        [helper.make_node("Concat", ["x", "x"], ["y"], axis="one")],
        [helper.make_node("Concat", ["x", "x"], ["y"], axis=7)],
        [helper.make_node("Transpose", ["x"], ["y"], perm=[0, 0])],
        [helper.make_node("Transpose", ["x"], ["y"], perm=[0, 2**40])],
        [helper.make_node("Softmax", ["x"], ["y"], axis=-9)],
        [helper.make_node("Conv", ["x", "x"], ["y"], strides=[0, 0])],
        [helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[-1, 2])],
        [helper.make_node("Constant", [], ["y"])],
        [helper.make_node("Einsum", ["x"], ["y"], equation="i!->")],
        [helper.make_node("Einsum", ["x", "x"], ["y"], equation="ij")],
        [helper.make_node("Split", ["x"], ["y"], axis=5)],
        [helper.make_node("If", ["x"], ["y"])],
        [helper.make_node("MatMul", ["x"], ["y"])],
    ],
)
def test_nodes_that_onnx_does_not_allow(nodes: list[onnx.NodeProto]) -> None:
    with pytest.raises(ModelError):
        parse(with_nodes(*nodes))


def test_a_function_that_calls_itself() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17, "own" : 1]> g (float[2] x) => (float[2] y) { y = own.f(x) }
    <domain: "own", opset_import: ["" : 17, "own" : 1]> f (a) => (b) { b = own.f(a) }"""
    assert code_of(onnx.parser.parse_model(text)) is ErrorCode.MODEL_MALFORMED


def test_functions_that_multiply(monkeypatch) -> None:
    monkeypatch.setattr(translation, "NODE_LIMIT", 1000)
    functions = [
        f"""<domain: "own", opset_import: ["" : 17, "own" : 1]>
        f{i} (a) => (c) {{ b = own.f{i + 1}(a)  c = own.f{i + 1}(b) }}"""
        for i in range(40)
    ]
    last = """<domain: "own", opset_import: ["" : 17]> f40 (a) => (b) { b = Relu(a) }"""
    head = """<ir_version: 8, opset_import: ["" : 17, "own" : 1]> g (float[2] x) => (float[2] y) { y = own.f0(x) }"""
    assert code_of(onnx.parser.parse_model("\n".join([head, *functions, last]))) is ErrorCode.MODEL_MALFORMED


def test_a_few_bytes_that_ask_for_a_huge_constant() -> None:
    text = """<ir_version: 8, opset_import: ["" : 18]> g (float[1,1099511627776,2] x) => (float[a,b,c] y)
    { y = GroupNormalization <num_groups = 2> (x, s, s) }"""
    proto = onnx.parser.parse_model(text)
    proto.graph.initializer.append(numpy_helper.from_array(np.ones(2, np.float32), "s"))
    assert code_of(proto) is ErrorCode.MODEL_UNSUPPORTED


@pytest.mark.parametrize(
    ("dims", "raw"),
    [([2, 2], bytes(15)), ([2, 2], bytes(17)), ([-1], b""), ([2**31, 2**31], bytes(4)), ([2**62, 2], bytes(4))],
)
def test_tensors_that_do_not_fit_their_shape(dims: list[int], raw: bytes) -> None:
    proto = with_nodes(helper.make_node("Add", ["x", "w"], ["y"]))
    proto.graph.initializer.append(TensorProto(name="w", data_type=TensorProto.FLOAT, dims=dims, raw_data=raw))
    assert code_of(proto) is ErrorCode.MODEL_MALFORMED


def test_names_that_are_not_text() -> None:
    data = small_model().SerializeToString().replace(b"Flatten", b"Fl\xfftten")
    assert code_of(data) in (ErrorCode.MODEL_MALFORMED, ErrorCode.MODEL_UNSUPPORTED)


def test_values_worked_out_while_parsing_are_bounded_together() -> None:
    text = '<ir_version: 8, opset_import: ["" : 21]> g (float[n] x) => (float[m] y) { '
    text += "".join(f"e{i} = Expand(one, shape) a{i} = Clip({f'a{i - 1}' if i else 'x'}, e{i}) " for i in range(60))
    text += "y = Relu(a59) }"
    proto = onnx.parser.parse_model(text)
    for name, value in (("one", np.ones(1, np.float32)), ("shape", np.array([1 << 20], np.int64))):
        proto.graph.initializer.append(numpy_helper.from_array(value, name))
    tracemalloc.start()
    try:
        parse(proto)
        assert tracemalloc.get_traced_memory()[1] < 60 << 20  # 60 values of 4 MiB
    finally:
        tracemalloc.stop()


def sparse(name: str, size: int) -> onnx.SparseTensorProto:
    values = numpy_helper.from_array(np.ones(1, np.float32), name)
    return onnx.SparseTensorProto(values=values, indices=numpy_helper.from_array(np.zeros(1, np.int64)), dims=[size])


def test_sparse_tensors_are_bounded_together() -> None:
    sums = (helper.make_node("ReduceSum", [f"w{i}"], ["y" if i == 19 else f"y{i}"], keepdims=0) for i in range(20))
    proto = with_nodes(*sums)
    proto.graph.sparse_initializer.extend(sparse(f"w{i}", 1 << 23) for i in range(20))  # together 640 MiB of float32
    with pytest.raises(ModelError, match="w8"):
        parse(proto)


def test_tensors_count_against_the_memory_of_a_load() -> None:
    data = small_model().SerializeToString()
    with limited(Limits(memory=100)), pytest.raises(LimitError) as caught:
        parse(data)
    assert caught.value.details["limit"] == "memory"
