"""What becomes of names, shapes and operators; models are written in ONNX's text form."""

from __future__ import annotations

import io
import time
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import dovetail
import dovetail.layers as kinds
from dovetail import Constant, DType, Layer, ModelError, Network, load
from dovetail.layers import ActivationFunction, AutoPadding, BinaryOperation, ReduceFunction
from dovetail_onnx import OnnxParser, parse


def model(graph: str, opset: int = 21, **constants: Any) -> onnx.ModelProto:
    proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> {graph}')
    for name, value in constants.items():
        proto.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
    return proto


def parsed(graph: str, opset: int = 21, **constants: Any) -> Network:
    return parse(model(graph, opset, **constants))


def producer(network: Network, name: str = "y") -> Layer:
    source = network.layer(name).inputs[0].source
    assert source is not None
    return source.layer


def shape(network: Network, name: str = "y") -> tuple[Any, ...]:
    info = network.layer(name).inputs[0].info
    assert info is not None
    return info.shape


def kinds_of(network: Network) -> list[str]:
    plain = {"Input", "Output", "Constant"}
    return [kind for kind in (layer.kind.rsplit(".", 1)[-1] for layer in network.topological_order()) if kind not in plain]


# -- names -----------------------------------------------------------------------------------------


def test_inputs_outputs_and_layers_keep_their_names() -> None:
    proto = model("g (float[1,3] x) => (float[1,3] y) { t = Relu(x)  y = Sigmoid(t) }")
    proto.graph.node[0].name = "first"
    network = parse(proto)
    assert [layer.name for layer in network.inputs] == ["x"]
    assert [layer.name for layer in network.outputs] == ["y"]
    assert [layer.name for layer in network.layers] == ["x", "first", "y/Sigmoid", "y"]
    assert network.name == "g"


def test_a_node_called_like_a_tensor_does_not_take_its_name() -> None:
    proto = model("g (float[1] x) => (float[1] y, float[1] w) { w = Relu(x)  y = Neg(w) }")
    proto.graph.node[0].name, proto.graph.node[1].name = "x", "w"
    network = parse(proto)
    assert [layer.name for layer in network.inputs] == ["x"]
    assert [layer.name for layer in network.outputs] == ["y", "w"]
    assert kinds_of(network) == ["Activation", "ElementwiseUnary"]


def test_an_initializer_may_be_an_output() -> None:
    network = parsed("g (float[1] x) => (float[2] w, float[1] y) { y = Relu(x) }", w=np.ones(2, np.float32))
    assert isinstance(producer(network, "w").descriptor, Constant)


def test_symbolic_dimensions_keep_their_names_and_unknown_ones_get_one() -> None:
    proto = model("g (float[N,3] x) => (float[N,3] y) { y = Relu(x) }")
    proto.graph.input[0].type.tensor_type.shape.dim[1].Clear()
    info = parse(proto).layer("x").output.known_info
    assert info.shape == ("N", "x_dim1")


def test_an_input_with_an_initializer_is_a_constant() -> None:
    network = parsed("g (float[2] x, float[2] w) => (float[2] y) { y = Add(x, w) }", w=np.ones(2, np.float32))
    assert [layer.name for layer in network.inputs] == ["x"]


def test_every_layer_of_a_node_names_the_node() -> None:
    proto = model("g (float[2,3,8] x) => (float[2,4,6] y) { t = Conv(x, w) y = Relu(t) }", w=np.zeros((4, 3, 3), np.float32))
    proto.graph.node[0].name = "conv"
    network = parse(proto)
    of_conv = [layer for layer in network.layers if layer.sources == ("conv",)]
    assert [layer.kind.rsplit(".", 1)[-1] for layer in of_conv if not isinstance(layer.descriptor, Constant)] == [
        "ExpandDims",
        "Convolution2d",
        "Squeeze",
    ]
    assert network.layer("conv") in of_conv


def test_nodes_may_stand_in_any_order() -> None:
    network = parsed("g (float[1] x) => (float[1] y) { y = Neg(t)  t = Relu(x) }")
    assert kinds_of(network) == ["Activation", "ElementwiseUnary"]


def test_the_parser_reads_a_file(tmp_path) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(model("g (float[1] x) => (float[1] y) { y = Relu(x) }"), path)
    assert kinds_of(OnnxParser().parse(path)) == ["Activation"]
    assert kinds_of(parse(path.read_bytes())) == ["Activation"]


def test_a_model_in_memory_is_found_as_onnx() -> None:
    proto = model("g (float[1] x) => (float[1] y) { y = Relu(x) }")
    content = proto.SerializeToString()
    for given in (content, bytearray(content), memoryview(content), io.BytesIO(content), proto):
        assert kinds_of(dovetail.parse(given)) == ["Activation"]
    with load(content) as net:
        assert net.run({"x": np.array([-1.0], np.float32)})["y"] == 0


def test_an_encoding_that_begins_with_another_field_is_found() -> None:
    proto = model("g (float[1] x) => (float[1] y) { y = Relu(x) }")
    graph = proto.graph.SerializeToString()
    proto.ClearField("graph")
    graph_first = b"\x3a" + bytes([len(graph)]) + graph + proto.SerializeToString()
    assert len(graph) < 128
    assert kinds_of(dovetail.parse(graph_first)) == ["Activation"]


@pytest.mark.parametrize("cut", [1, 40])
def test_a_model_in_memory_that_was_cut_off_is_malformed(cut: int) -> None:
    content = model("g (float[1] x) => (float[1] y) { y = Relu(x) }").SerializeToString()
    with pytest.raises(ModelError, match="MODEL_MALFORMED"):
        dovetail.parse(content[:-cut])


@pytest.mark.parametrize(
    "head", [b"", b"\x08", b"TFL3", b"\x1c\0\0\0TFL3", b"\x12\0\0\0", b"PK\x03\x04", b"\x89PNG\r\n", bytes(64), b"VPMN"]
)
def test_other_formats_are_not_taken(head: bytes) -> None:
    assert not OnnxParser().takes(head)


def test_any_bytes_are_looked_at_without_an_error() -> None:
    generator = np.random.default_rng(0)
    for _ in range(2000):
        head = generator.integers(0, 256, generator.integers(0, 65)).astype(np.uint8).tobytes()
        for first in (b"", b"\x08", b"\x3a", b"\x08\x07\x12"):
            assert OnnxParser().takes((first + head)[:64]) in (True, False)


# -- element types ---------------------------------------------------------------------------------


def test_bfloat16_is_kept_as_bits() -> None:
    proto = model("g (bfloat16[2] x) => (bfloat16[2] y) { y = Add(x, w) }")
    proto.graph.initializer.append(helper.make_tensor("w", TensorProto.BFLOAT16, [2], [1.0, -2.0]))
    network = parse(proto)
    constant = network.layer("w").descriptor
    assert isinstance(constant, Constant)
    assert constant.value.tolist() == [0x3F80, 0xC000]
    assert network.layer("w").output.dtype is DType.BFLOAT16


@pytest.mark.parametrize(
    ("code", "values"),
    [
        (TensorProto.FLOAT16, [1.5, -2.0]),
        (TensorProto.DOUBLE, [0.1, 3.0]),
        (TensorProto.INT8, [-7, 7]),
        (TensorProto.UINT16, [3, 60000]),
        (TensorProto.UINT64, [3, 2**63]),
        (TensorProto.BOOL, [True, False]),
    ],
)
@pytest.mark.parametrize("raw", [True, False])
def test_initializers_are_read_from_bytes_and_from_fields(code: int, values: list[Any], raw: bool) -> None:
    expected = np.asarray(values, helper.tensor_dtype_to_np_dtype(code))
    tensor = numpy_helper.from_array(expected, "w") if raw else helper.make_tensor("w", code, [2], values)
    proto = model("g (float[1] x) => (float[2] y) { y = Identity(w) }")
    proto.graph.initializer.append(tensor)
    descriptor = producer(parse(proto)).descriptor
    assert isinstance(descriptor, Constant)
    np.testing.assert_array_equal(descriptor.value, expected)
    assert descriptor.value.dtype == expected.dtype


# -- families --------------------------------------------------------------------------------------


def test_a_convolution_of_one_channel_each_is_depthwise() -> None:
    w = np.zeros((8, 1, 3, 3), np.float32)
    network = parsed("g (float[1,4,8,8] x) => (float[1,8,6,6] y) { y = Conv <group = 4> (x, w) }", w=w)
    assert kinds_of(network) == ["DepthwiseConvolution2d"]
    network = parsed("g (float[1,1,8,8] x) => (float[1,8,6,6] y) { y = Conv(x, w) }", w=w)
    assert kinds_of(network) == ["Convolution2d"]


def test_same_padding_waits_for_the_size() -> None:
    w = np.zeros((4, 3, 3, 3), np.float32)
    graph = 'g (float[1,3,H,8] x) => (float[1,4,H,4] y) { y = Conv <auto_pad = "SAME_UPPER", strides = [2,2]> (x, w) }'
    descriptor = producer(parsed(graph, w=w)).descriptor
    assert isinstance(descriptor, kinds.Convolution2d)
    assert descriptor.auto_padding is AutoPadding.SAME_UPPER
    fixed = producer(parsed(graph.replace("H", "8"), w=w)).descriptor
    assert isinstance(fixed, kinds.Convolution2d)
    assert fixed.padding == (0, 0, 1, 1)


def test_gemm_with_constant_weights_is_fully_connected() -> None:
    w, c = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones(3, np.float32)
    network = parsed("g (float[4,2] x) => (float[4,3] y) { y = Gemm <alpha = 2.0, beta = 0.5> (x, w, c) }", w=w, c=c)
    assert kinds_of(network) == ["FullyConnected"]
    layer = producer(network)
    np.testing.assert_array_equal(layer.constant(1), w.T * 2)
    np.testing.assert_array_equal(layer.constant(2), c / 2)


@pytest.mark.parametrize(
    ("attributes", "bias", "is_layer"),
    [
        ("transB = 1", (3,), True),
        ("transB = 1", (1, 3), False),
        ("transB = 1, alpha = 2.0", (3,), False),
        ("transB = 0", (3,), False),
    ],
)
def test_gemm_of_stored_weights_is_fully_connected(attributes: str, bias: tuple[int, ...], is_layer: bool) -> None:
    w = np.arange(9, dtype=np.int8).reshape(3, 3) - np.int8(2)
    c = np.arange(3, dtype=np.float32).reshape(bias)
    graph = "g (float[4,3] x) => (float[4,3] y) { r = DequantizeLinear(w, s)  y = Gemm <ATTRIBUTES> (x, r, c) }"
    network = parsed(graph.replace("ATTRIBUTES", attributes), w=w, c=c, s=np.float32(0.5))
    assert ("FullyConnected" in kinds_of(network)) == is_layer
    x = np.random.default_rng(0).standard_normal((4, 3), np.float32)
    weights = w * 0.5 if attributes == "transB = 0" else (w * 0.5).T
    with load(network, ["CpuRef"]) as net:
        found = net.run({"x": x})["y"]
    np.testing.assert_allclose(found, x @ weights * (2 if "alpha" in attributes else 1) + c, rtol=1e-6, atol=1e-6)


def test_gemm_of_two_inputs_is_composed() -> None:
    network = parsed("g (float[4,2] x, float[3,2] w) => (float[4,3] y) { y = Gemm <alpha = 2.0, transB = 1> (x, w) }")
    assert kinds_of(network) == ["MatMul", "ElementwiseBinary"]


@pytest.mark.parametrize(
    ("opset", "graph", "constants"),
    [
        (6, "g (float[2] x) => (float[2] y) { y = Clip <min = 0.0, max = 6.0> (x) }", {}),
        (11, "g (float[2] x) => (float[2] y) { y = Clip(x, a, b) }", {"a": np.float32(0), "b": np.float32(6)}),
    ],
)
def test_clip_with_constant_bounds_is_an_activation(opset: int, graph: str, constants: dict[str, Any]) -> None:
    descriptor = producer(parsed(graph, opset, **constants)).descriptor
    assert isinstance(descriptor, kinds.Activation)
    assert (descriptor.function, descriptor.alpha, descriptor.beta) == (ActivationFunction.BOUNDED_RELU, 6.0, 0.0)


@pytest.mark.parametrize(
    ("low", "high", "function"),
    [(0.0, np.inf, "relu"), (0.0, None, "bounded_relu"), (-np.inf, 6.0, "bounded_relu"), (None, None, "bounded_relu")],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_a_bound_of_clip_that_is_left_out_is_the_largest_finite_number(dtype: Any, low: Any, high: Any, function: str) -> None:
    name = np.dtype(dtype).name.replace("float32", "float").replace("float64", "double")
    bounds = {key: dtype(value) for key, value in (("a", low), ("b", high)) if value is not None}
    text = f"g ({name}[2] x) => ({name}[2] y) {{ y = Clip(x, {'a' if 'a' in bounds else ''}, {'b' if 'b' in bounds else ''}) }}"
    descriptor = producer(parsed(text.replace(", ) }", ") }").replace("(x, )", "(x)"), 13, **bounds)).descriptor
    assert isinstance(descriptor, kinds.Activation)
    assert descriptor.function == function
    if function == "bounded_relu":
        limit = float(np.finfo(dtype).max)
        assert (descriptor.beta, descriptor.alpha) == (-limit if low is None else low, limit if high is None else high)


def test_clip_between_infinities_is_nothing() -> None:
    text = "g (float[2] x) => (float[2] y) { y = Clip(x, a, b) }"
    assert kinds_of(parsed(text, 13, a=np.float32(-np.inf), b=np.float32(np.inf))) == []


def test_clip_of_integers_and_of_fed_bounds_is_maximum_and_minimum() -> None:
    network = parsed("g (int64[2] x) => (int64[2] y) { y = Clip(x, a, b) }", a=np.int64(0), b=np.int64(2**60 + 1))
    assert kinds_of(network) == ["ElementwiseBinary", "ElementwiseBinary"]
    network = parsed("g (float[2] x, float a) => (float[2] y) { y = Clip(x, a) }")
    assert kinds_of(network) == ["ElementwiseBinary", "ElementwiseBinary"]
    network = parsed("g (float[2] x) => (float[2] y) { y = Clip(x, a) }", a=np.float32(np.nan))
    assert kinds_of(network) == ["ElementwiseBinary", "ElementwiseBinary"]


@pytest.mark.parametrize("op", ["Mean", "Concat"])
def test_ten_thousand_inputs_of_one_node_are_joined_in_time(op: str) -> None:
    size = 10_000
    attributes = {"axis": 0} if op == "Concat" else {}
    node = helper.make_node(op, [f"x{index}" for index in range(size)], ["y"], **attributes)
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 2]) for name in node.input]
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    started = time.process_time()
    network = parse(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    assert time.process_time() - started < 15  # it takes a fiftieth of it; quadratic work would take minutes
    assert len(network.inputs) == size


def test_softmax_before_13_works_on_a_matrix() -> None:
    assert kinds_of(parsed("g (float[2,3,4] x) => (float[2,3,4] y) { y = Softmax <axis = 2> (x) }", 11)) == ["Softmax"]
    network = parsed("g (float[N,3,4] x) => (float[N,3,4] y) { y = Softmax(x) }", 11)
    assert sorted(kinds_of(network)) == ["Flatten", "Reshape", "Shape", "Softmax"]
    assert kinds_of(parsed("g (float[2,3,4] x) => (float[2,3,4] y) { y = Softmax(x) }", 13)) == ["Softmax"]


@pytest.mark.parametrize(
    ("opset", "graph", "constants"),
    [
        (11, "g (float[2,3] x) => (float[2,1] y) { y = ReduceMean <axes = [1]> (x) }", {}),
        (18, "g (float[2,3] x) => (float[2,1] y) { y = ReduceMean(x, axes) }", {"axes": np.asarray([1])}),
    ],
)
def test_axes_are_an_attribute_or_an_input(opset: int, graph: str, constants: dict[str, Any]) -> None:
    network = parsed(graph, opset, **constants)
    descriptor = producer(network).descriptor
    assert isinstance(descriptor, kinds.Reduce)
    assert (descriptor.function, descriptor.axes, descriptor.keep_dims) == (ReduceFunction.MEAN, (1,), True)
    assert shape(network) == (2, 1)


@pytest.mark.parametrize(
    ("opset", "graph", "constants", "expected"),
    [
        (9, "g (float[9,9] x) => (float[a,b] y) { y = Slice <starts = [1], ends = [-1], axes = [1]> (x) }", {}, (9, 7)),
        (13, "g (float[9,9] x) => (float[a,b] y) { y = Slice(x, s, e, a) }", {"s": [1], "e": [-1], "a": [1]}, (9, 7)),
        (9, "g (float[1,9] x) => (float[a] y) { y = Squeeze <axes = [0]> (x) }", {}, (9,)),
        (13, "g (float[1,9] x) => (float[a] y) { y = Squeeze(x, a) }", {"a": [0]}, (9,)),
        (9, "g (float[9] x) => (float[a,b] y) { y = Unsqueeze <axes = [0]> (x) }", {}, (1, 9)),
        (13, "g (float[9] x) => (float[a,b] y) { y = Unsqueeze(x, a) }", {"a": [-1]}, (9, 1)),
        (7, "g (float[1,1,2,2] x) => (float[a,b,c,d] y) { y = Upsample <scales = [1.0,1.0,2.0,3.0]> (x) }", {}, (1, 1, 4, 6)),
        (2, "g (float[2,2] x) => (float[a,b] y) { y = Pad <pads = [0,1,2,3]> (x) }", {}, (4, 6)),
        (18, "g (float[2,2] x) => (float[a,b] y) { y = Pad(x, p, , a) }", {"p": [1, 2], "a": [-1]}, (2, 5)),
        (18, "g (float[2,5] x) => (float[a,b] z, float[c,d] y) { z, y = Split <axis = 1, num_outputs = 2> (x) }", {}, (2, 2)),
    ],
)
def test_forms_of_the_same_operator(opset: int, graph: str, constants: dict[str, Any], expected: tuple[int, ...]) -> None:
    assert shape(parsed(graph, opset, **constants)) == expected


def test_a_value_that_is_fed_stays_an_input_of_its_layer() -> None:
    network = parsed("g (float[2,3] x, int64[1] s) => (float[6] y) { y = Reshape(x, s) }")
    layer = producer(network)
    assert layer.output.info is None
    assert layer.inputs[1].source is network.layer("s").output


def test_the_mean_divides_by_the_count_in_the_type_of_the_data() -> None:
    network = parsed("g (double[N] a, double[N] b, double[N] c) => (double[N] y) { y = Mean(a, b, c) }")
    layer = producer(network)
    assert isinstance(layer.descriptor, kinds.ElementwiseBinary)
    assert layer.descriptor.operation is BinaryOperation.DIV
    divisor = layer.constant(1)
    assert divisor is not None
    assert (divisor.dtype, divisor.item()) == (np.float64, 3.0)


@pytest.mark.parametrize(
    ("equation", "shapes", "expected"),
    [
        ("ij,jk->ik", [(2, 3), (3, 4)], (2, 4)),
        ("bij,bjk->bik", [(5, 2, 3), (5, 3, 4)], (5, 2, 4)),
        ("...ij->...ji", [(5, 2, 3)], (5, 3, 2)),
        ("ij->i", [(2, 3)], (2,)),
        ("i,i", [(3,), (3,)], ()),
        ("i,j->ij", [(2,), (3,)], (2, 3)),
        ("bhqd,bhkd->bhqk", [(1, 2, 3, 4), (1, 2, 5, 4)], (1, 2, 3, 5)),
        ("abc,cd,de->abe", [(1, 2, 3), (3, 4), (4, 5)], (1, 2, 5)),
    ],
)
def test_einsum_is_lowered(equation: str, shapes: list[tuple[int, ...]], expected: tuple[int, ...]) -> None:
    names = [f"x{i}" for i in range(len(shapes))]
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in zip(names, shapes, strict=True)]
    node = helper.make_node("Einsum", names, ["y"], equation=equation)
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    network = parse(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 12)]))
    assert shape(network) == expected


# -- functions and branches ------------------------------------------------------------------------


def test_a_function_of_the_model_is_expanded() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17, "own" : 1]>
    g (float[2] x) => (float[2] y) { y = own.twice <factor = 3.0> (x) }
    <domain: "own", opset_import: ["" : 17]>
    twice <factor> (a) => (b) { c = Constant <value_float: float = @factor> ()  b = Mul(a, c) }"""
    network = parse(onnx.parser.parse_model(text))
    assert kinds_of(network) == ["ElementwiseBinary"]
    assert producer(network).name == "y/twice/b"
    factor = producer(network).constant(1)
    assert factor is not None
    assert factor.item() == 3.0


def test_an_operator_that_onnx_defines_by_others_is_expanded() -> None:
    network = parsed("g (float[2,4] x) => (float[2,4] y) { y = MeanVarianceNormalization <axes = [1]> (x) }")
    assert "Reduce" in kinds_of(network)
    assert shape(network) == (2, 4)


@pytest.mark.parametrize(("condition", "expected"), [(True, "Activation"), (False, "ElementwiseUnary")])
def test_a_constant_condition_takes_one_branch(condition: bool, expected: str) -> None:
    graph = """g (float[2] x) => (float[2] y)
    { y = If (c) <then_branch = t () => (float[2] a) { a = Relu(x) }, else_branch = e () => (float[2] b) { b = Neg(x) }> }"""
    assert kinds_of(parsed(graph, c=np.asarray(condition))) == [expected]


def test_a_fed_condition_chooses_between_branches() -> None:
    graph = """g (float[2] x, bool c) => (float[2] y)
    { y = If (c) <then_branch = t () => (float[2] a) { a = Relu(x) }, else_branch = e () => (float[2] b) { b = Neg(x) }> }"""
    assert kinds_of(parsed(graph)) == ["Activation", "ElementwiseUnary", "Conditional"]
