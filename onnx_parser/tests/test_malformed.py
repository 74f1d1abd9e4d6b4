"""Files that are not what they should be: always a typed error, whatever the bytes."""

from __future__ import annotations

import random
import tracemalloc
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from dovetail import ErrorCode, LimitError, Limits, ModelError, Network
from dovetail.ground.limits import limited
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
    # Most of the file is weights, where any byte is as good as another: the graph around them is
    # what is bent here.
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
        [helper.make_node("ReduceMax", ["x"], ["y"], keepdims=2)],
        [helper.make_node("CumSum", ["x", "x"], ["y"], reverse=-1)],
        [helper.make_node("MatMul", ["x"], ["y"])],
    ],
)
def test_nodes_that_onnx_does_not_allow(nodes: list[onnx.NodeProto]) -> None:
    with pytest.raises(ModelError):
        parse(with_nodes(*nodes))


def test_an_attribute_that_refers_to_a_function_around_no_node() -> None:
    proto = with_nodes(helper.make_node("Elu", ["x"], ["y"], alpha=2.0))
    proto.graph.node[0].attribute[0].ref_attr_name = "alpha"
    assert code_of(proto) is ErrorCode.MODEL_MALFORMED


def test_a_function_that_calls_itself() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17, "own" : 1]> g (float[2] x) => (float[2] y) { y = own.f(x) }
    <domain: "own", opset_import: ["" : 17, "own" : 1]> f (a) => (b) { b = own.f(a) }"""
    assert code_of(onnx.parser.parse_model(text)) is ErrorCode.MODEL_MALFORMED


def doubling(levels: int) -> onnx.ModelProto:
    functions = [
        f"""<domain: "own", opset_import: ["" : 17, "own" : 1]>
        f{i} (a) => (c) {{ b = own.f{i + 1}(a)  c = own.f{i + 1}(b) }}"""
        for i in range(levels)
    ]
    last = f"""<domain: "own", opset_import: ["" : 17]> f{levels} (a) => (b) {{ b = Relu(a) }}"""
    head = """<ir_version: 8, opset_import: ["" : 17, "own" : 1]> g (float[2] x) => (float[2] y) { y = own.f0(x) }"""
    return onnx.parser.parse_model("\n".join([head, *functions, last]))


@pytest.mark.parametrize("levels", [17, 40, 60])
def test_functions_that_multiply_are_refused_before_they_are_expanded(monkeypatch, levels: int) -> None:
    model = doubling(levels)  # which would become 2^levels nodes, of a millisecond each
    monkeypatch.setattr(translation._Translation, "_translate_nodes", None)
    with pytest.raises(ModelError, match="many times larger than its file") as caught:
        parse(model)
    assert caught.value.code is ErrorCode.MODEL_MALFORMED


def test_functions_may_be_called_some_thousand_times() -> None:
    assert len(parse(doubling(10))) == 1024 + 2


@pytest.mark.parametrize("limit", [{"layers": 1000}, {"nesting": 9}])
def test_functions_count_against_the_limits_of_a_load(limit: dict[str, int]) -> None:
    with limited(Limits(**limit)), pytest.raises(LimitError) as caught:
        parse(doubling(10))
    assert [caught.value.details["limit"]] == list(limit)


def branches(depth: int) -> onnx.NodeProto:
    node = helper.make_node("Identity", ["x"], ["inner"])
    for level in range(depth):
        inner = helper.make_graph([node], "b", [], [helper.make_empty_tensor_value_info(node.output[0])])
        node = helper.make_node("If", ["c"], [f"y{level}"], then_branch=inner, else_branch=inner)
    node.output[0] = "y"
    return node


def test_nested_branches_count_too() -> None:
    proto = with_nodes(branches(8))
    proto.graph.initializer.append(numpy_helper.from_array(np.array(True), "c"))
    assert isinstance(parse(proto), Network)
    with limited(Limits(nesting=7)), pytest.raises(LimitError) as caught:
        parse(proto)
    assert caught.value.details["limit"] == "nesting"


@pytest.mark.parametrize("joined", ["b{i} = Concat <axis = 0> (b{j}, b{j})", "b{i} = Cast <to = 7> (b{j})"])
def test_a_length_is_worked_out_once_for_each_tensor(joined: str) -> None:
    count = 60 if "Concat" in joined else 3000  # twice as much with each, or a Python frame
    text = '<ir_version: 8, opset_import: ["" : 21]> g (float[n] x, int64[m] b0) => (float[k] y) { '
    text += (
        " ".join(joined.format(i=i + 1, j=i) for i in range(count))
        + f' z = Reshape(x, b{count}) y = Einsum <equation = "...i->...i"> (z) }}'
    )
    with pytest.raises(ModelError) as caught:  # nobody knows its rank
        parse(onnx.parser.parse_model(text))
    assert caught.value.code is ErrorCode.MODEL_UNSUPPORTED


def test_long_names_are_not_repeated_with_each_node_of_a_function() -> None:
    body = " ".join(f"a{i + 1} = Relu(a{i})" for i in range(300))
    text = f"""<ir_version: 8, opset_import: ["" : 17, "own" : 1]> g (float[2] x) => (float[2] y) {{ y = own.f(x) }}
    <domain: "own", opset_import: ["" : 17]> f (a0) => (a300) {{ {body} }}"""
    proto = onnx.parser.parse_model(text)
    proto.graph.node[0].name = "n" * 100_000
    tracemalloc.start()
    try:
        network = parse(proto)
        assert tracemalloc.get_traced_memory()[1] < 10 << 20
    finally:
        tracemalloc.stop()
    assert len({layer.name for layer in network}) == 302
    assert max(len(layer.name) for layer in network) < 1000


def test_what_a_model_lacks_is_told_in_a_text_of_bounded_length() -> None:
    proto = with_nodes(*(helper.make_node("Nothing", ["x"], [f"y{i}" if i else "y"]) for i in range(3000)))
    with pytest.raises(ModelError, match="and 2900 more") as caught:
        parse(proto)
    assert len(caught.value.details["unsupported"]) == 3000


def test_declared_ranks_beyond_any_array_are_ignored() -> None:
    proto = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 21]> g (float[n] x, int64[m] s) => (float[k] y)
        { a = Reshape(x, s) y = Einsum <equation = "...i->...i"> (a) }"""
    )
    proto.graph.value_info.append(helper.make_tensor_value_info("a", TensorProto.FLOAT, [1] * 100_000))
    assert code_of(proto) is ErrorCode.MODEL_UNSUPPORTED


def test_types_that_cannot_be_read_count_where_they_are_needed() -> None:
    needed = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 21]> g (float[n] x, int64[m] s) => (float[k] y)
        { a = Reshape(x, s) y = Einsum <equation = "...i->...i"> (a) }"""
    )
    for proto, fails in ((needed, True), (small_model(), False)):
        proto.graph.value_info.append(helper.make_tensor_value_info("name", TensorProto.FLOAT, [1]))
        data = proto.SerializeToString()
        damaged = data.replace(b"\x0a\x04name\x12", b"\x0a\x04name\x14")  # a wire type that there is not
        assert damaged != data
        if fails:
            assert code_of(damaged) is ErrorCode.MODEL_MALFORMED
        else:
            parse(damaged)


def test_a_lack_of_memory_is_no_fault_of_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise MemoryError("Unable to allocate 8. EiB")

    monkeypatch.setattr(np, "frombuffer", fail)
    with pytest.raises(ModelError, match=r"8\. EiB") as caught:
        parse(small_model())
    assert caught.value.code is ErrorCode.OUT_OF_MEMORY
    assert "export" not in str(caught.value.hint)


def test_a_few_bytes_that_ask_for_a_huge_constant() -> None:
    text = """<ir_version: 8, opset_import: ["" : 18]> g (float[1,1099511627776,2] x) => (float[a,b,c] y)
    { y = GroupNormalization <num_groups = 2> (x, s, s) }"""
    proto = onnx.parser.parse_model(text)
    proto.graph.initializer.append(numpy_helper.from_array(np.ones(2, np.float32), "s"))
    assert code_of(proto) is ErrorCode.MODEL_UNSUPPORTED


@pytest.mark.parametrize(
    ("dims", "raw"),
    [
        ([2, 2], bytes(15)),
        ([2, 2], bytes(17)),
        ([-1], b""),
        ([2**31, 2**31], bytes(4)),
        ([2**62, 2], bytes(4)),
        ([1] * 65, bytes(4)),
        ([2**62] * 200_000, bytes(4)),
    ],
    ids=lambda value: str(len(value)),
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


def test_truth_is_one_whatever_its_byte() -> None:
    """Kernels compute with the bytes: a "not" of 2 must not be 3."""
    tensor = TensorProto(name="t", data_type=TensorProto.BOOL, dims=[4], raw_data=bytes([0, 1, 2, 255]))
    nodes = [helper.make_node("Not", ["t"], ["y"])]
    graph = helper.make_graph(nodes, "g", [], [helper.make_tensor_value_info("y", TensorProto.BOOL, [4])], [tensor])
    network = parse(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString())
    (constant,) = [layer for layer in network if layer.kind == "dovetail.Constant"]
    assert constant.descriptor.value.view(np.uint8).tolist() == [0, 1, 1, 1]
