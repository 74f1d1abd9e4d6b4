"""What the builder of the tests' models writes is what was asked for."""

import numpy as np
import pytest
from tflite_making import Model, encoded, options_of

from dovetail_tflite.flatbuffer import Table
from dovetail_tflite.schema import OPERATORS


def dense() -> Model:
    model = Model("dense")
    graph = model.main
    x = graph.input("x", np.float32, (1, 3), signature=(-1, 3))
    w = graph.constant("w", np.arange(6, dtype=np.float32).reshape(2, 3))
    b = graph.tensor("b", "int4", (3,), value=[-8, 7, 1], quantization=([0.5, 1.0, 2.0], [0, 0, 0], 0))
    y = graph.output(graph.tensor("y", np.float32, (1, 2)))
    graph.operator("FULLY_CONNECTED", [x, w, -1], [y], {"fused_activation_function": 1}, version=4)
    graph.operator("custom:Mine", [x], [b], custom_options=b"abc")
    model.signature("serving", {"a": x}, {"b": y})
    model.metadata("note", b"text")
    return model


def test_tables() -> None:
    root = Table.root(np.frombuffer(dense().build(), np.uint8), "Model")
    graph = root.tables("subgraphs")[0]
    x, w, b, _ = (graph.tables("tensors")[number] for number in range(4))
    assert (x.text("name"), x.vector("shape_signature").tolist(), x.number("type")) == ("x", [-1, 3], 0)
    buffers = root.tables("buffers")
    assert buffers[w.number("buffer")].vector("data").view("<f4").tolist() == [0, 1, 2, 3, 4, 5]
    assert buffers[b.number("buffer")].vector("data").tolist() == [0x78, 0x01]
    scales = b.table("quantization")
    assert scales is not None
    assert scales.vector("scale").tolist() == [0.5, 1, 2]
    first, second = (graph.tables("operators")[number] for number in range(2))
    options = first.table("builtin_options", "FullyConnectedOptions")
    assert options is not None
    assert (options.number("fused_activation_function"), first.vector("inputs").tolist()) == (1, [0, 1, -1])
    codes = root.tables("operator_codes")
    assert (codes[0].number("builtin_code"), codes[0].number("version")) == (OPERATORS.index("FULLY_CONNECTED"), 4)
    assert (codes[1].text("custom_code"), second.vector("custom_options").tobytes()) == ("Mine", b"abc")
    signature = root.tables("signature_defs")[0]
    assert [signature.tables(end)[0].text("name") for end in ("inputs", "outputs")] == ["a", "b"]
    assert buffers[root.tables("metadata")[0].number("buffer")].vector("data").tobytes() == b"text"


def test_buffers_behind() -> None:
    data = dense().build_with_buffers_behind()
    buffer = Table.root(np.frombuffer(data, np.uint8), "Model").tables("buffers")[1]
    begin = buffer.number("offset")
    assert begin % 16 == 0
    assert np.frombuffer(data[begin : begin + buffer.number("size")], "<f4").tolist() == [0, 1, 2, 3, 4, 5]


def test_what_stands_twice_is_written_once() -> None:
    twin = {"name": "twin" * 100}
    alone = encoded({"buffers": [], "metadata": [twin]})
    assert len(encoded({"buffers": [], "metadata": [twin] * 50})) < len(alone) + 50 * 4 + 32


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        ("CONV_2D", ("Conv2DOptions", 1, "builtin_options")),
        ("L2_POOL_2D", ("Pool2DOptions", 5, "builtin_options")),
        ("REDUCE_MAX", ("ReducerOptions", 27, "builtin_options")),
        ("STABLEHLO_COMPOSITE", ("StableHLOCompositeOptions", 21, "builtin_options2")),
    ],
)
def test_options(operator: str, expected: tuple[str, int, str]) -> None:
    assert options_of(operator) == expected
