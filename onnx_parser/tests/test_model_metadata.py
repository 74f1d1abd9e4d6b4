"""What a model says of itself, beside what ONNX's own reader finds."""

from __future__ import annotations

import io
from pathlib import Path

import onnx
import pytest
from onnx import helper

import dovetail
from dovetail import LimitError, Limits
from dovetail_onnx import parse


def model(**fields: object) -> onnx.ModelProto:
    ends = [helper.make_tensor_value_info(name, 1, [2]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", ends[:1], ends[1:])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, **fields)


def test_all_that_a_model_says(tmp_path: Path) -> None:
    made = model(
        producer_name="Initech", producer_version="1.0", domain="com.initech", model_version=-7, doc_string="Größe\nnext line"
    )
    helper.set_model_props(made, {"names": "{0: 'cat'}", "version": "8.3", "": "no name"})
    expected = {
        "producer": "Initech 1.0",
        "version": "-7",
        "domain": "com.initech",
        "description": "Größe\nnext line",
        "opset": "17, ai.onnx.ml 3",
        "metadata_props.names": "{0: 'cat'}",
        "metadata_props.version": "8.3",
        "metadata_props.": "no name",
    }
    path = tmp_path / "model.onnx"
    onnx.save(made, path)
    for given in (path, made, made.SerializeToString(), io.BytesIO(made.SerializeToString())):
        assert dovetail.parse(given).metadata == expected
    with dovetail.load(path, "CpuRef") as net:
        assert net.metadata == expected


def test_a_model_that_says_little() -> None:
    made = model()
    made.ClearField("producer_name")
    assert parse(made).metadata == {"opset": "17, ai.onnx.ml 3"}


def entry(number: int, content: bytes) -> bytes:
    """Return a field of protobuf's encoding that has a size."""
    size, out = len(content), bytearray([number << 3 | 2])
    while size > 0x7F:
        out.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes(out) + bytes([size]) + content


def test_text_that_is_none_loads_all_the_same() -> None:
    data = model().SerializeToString() + entry(6, b"ab\xffcd") + entry(14, entry(1, b"k") + entry(2, b"\xc3"))
    found = parse(data).metadata
    assert found["description"] == "ab\ufffdcd"
    assert found["metadata_props.k"] == "\ufffd"


def test_of_very_long_text_it_is_the_beginning() -> None:
    found = parse(model().SerializeToString() + entry(6, b"x" * (20 << 20))).metadata  # which is longer than any name may be
    assert found["description"] == "x" * (1 << 20)


def test_an_entry_that_is_damaged_is_left_out() -> None:
    whole = model().SerializeToString()
    assert parse(whole + entry(14, b"\x0a\x7fab")).metadata == parse(whole).metadata


@pytest.mark.parametrize(
    "hostile",
    [
        b"".join(entry(14, entry(1, b"%060d" % number)) for number in range(60_000)),
        entry(14, entry(1, b"a") + entry(2, b"b" * 100_000)) * 40,
    ],
)
def test_limits_count_it(hostile: bytes) -> None:
    data = model().SerializeToString() + hostile
    parse(data)
    with pytest.raises(LimitError) as caught:
        dovetail.parse(data, limits=Limits(memory=3_000_000))
    assert caught.value.details["limit"] == "memory"
