"""What dovetail does not have is listed whole, with names."""

from __future__ import annotations

import onnx
import pytest
from onnx import TensorProto, helper

from dovetail import ErrorCode, UnsupportedModelError
from dovetail_onnx import parse


def unsupported(text: str, opset: int = 21) -> list[dict[str, object]]:
    with pytest.raises(UnsupportedModelError) as caught:
        parse(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}, "own" : 1]> {text}'))
    assert caught.value.code is ErrorCode.MODEL_UNSUPPORTED
    entries: list[dict[str, object]] = caught.value.details["unsupported"]
    for entry in entries:
        assert set(entry) == {"op", "domain", "opset", "node", "reason", "attribute"}
        assert str(entry["node"]) in str(caught.value)
    return entries


def test_everything_is_listed_in_one_error() -> None:
    text = """g (float[1,3,8,8] x, float[1,4,4,2] grid) => (float[1,3,4,4] y, int64[a,b] n, float[1,3,8,8] z)
    { t = GridSample(x, grid)  y = Relu(t)  n = NonZero(y)  z = own.Mystery(x) }"""
    entries = unsupported(text)
    assert [entry["op"] for entry in entries] == ["GridSample", "NonZero", "Mystery"]
    assert [entry["domain"] for entry in entries] == ["", "", "own"]
    assert entries[0]["opset"] == 21
    assert entries[0]["node"] == "t"


@pytest.mark.parametrize(
    ("text", "attribute"),
    [
        (
            "g (float[1,1,4,4] x) => (float[1,1,2,2] y, int64[1,1,2,2] i) { y, i = MaxPool <kernel_shape = [3,3]> (x) }",
            "Indices",
        ),
        ("g (float[1,1,4,4,4] x) => (float[1,1,2,2,2] y) { y = MaxPool <kernel_shape = [3,3,3]> (x) }", "kernel_shape"),
        ("g (float[2] x) => (float[2] y) { y = Relu <secret = 1> (x) }", "secret"),
        ('g (float[2] x) => (float[2] y) { y = Gelu <approximate = "poly"> (x) }', "approximate"),
        ("g (float[2] x) => (float8e4m3fn[2] y) { y = Cast <to = 17> (x) }", "to"),
        ("g (float8e4m3fn[2] x) => (float[2] y) { y = Cast <to = 1> (x) }", "float8e4m3fn"),
        ("g (string[2] x) => (string[2] y) { y = Identity(x) }", "string"),
        ("g (seq(float[2]) x) => (float[2] y) { y = SequenceAt(x, x) }", "type"),
    ],
)
def test_the_attribute_is_named(text: str, attribute: str) -> None:
    assert unsupported(text)[0]["attribute"] == attribute


@pytest.mark.parametrize("code", [TensorProto.STRING, TensorProto.COMPLEX64, TensorProto.FLOAT8E5M2, TensorProto.INT4, 99])
def test_element_types_of_initializers(code: int) -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 21]> g (float[1] x) => (float[1] y) { y = Identity(w) }'
    )
    proto.graph.initializer.append(TensorProto(name="w", data_type=code, dims=[1]))
    with pytest.raises(UnsupportedModelError) as caught:
        parse(proto)
    assert caught.value.details["unsupported"][0]["node"] == "w"


def test_an_operator_set_from_the_future_is_not_guessed_at() -> None:
    node = helper.make_node("Relu", ["x"], ["y"])
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy"]
    proto = helper.make_model(helper.make_graph([node], "g", ends[:1], ends[1:]), opset_imports=[helper.make_opsetid("", 999)])
    with pytest.raises(UnsupportedModelError, match="999"):
        parse(proto)


def test_a_loop_inside_a_branch_is_found() -> None:
    text = """g (float[2] x, bool c) => (float[2] y)
    { y = If (c) <then_branch = t () => (float[2] a) { a = Det(x) }, else_branch = e () => (float[2] b) { b = Unique(x) }> }"""
    assert [entry["op"] for entry in unsupported(text)] == ["Det", "Unique"]


def test_long_names_make_no_endless_text() -> None:
    nodes = [
        helper.make_node(f"Mystery{'x' * 3000}", ["x"], [f"y{i}"], name=f"{i}{'n' * 3000}", domain="own") for i in range(60)
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("x", "y0")]
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("own", 1)]
    with pytest.raises(UnsupportedModelError) as caught:
        parse(helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:]), opset_imports=opsets))
    assert 5_000 < len(str(caught.value)) < 12_000
    assert "more, all in details['unsupported']" in str(caught.value)
    entries = caught.value.details["unsupported"]
    assert len({entry["node"] for entry in entries}) == len(nodes)
