"""Messages are read as protobuf reads them, and what it refuses is refused."""

from __future__ import annotations

import random
import struct
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from dovetail import ErrorCode, LimitError, Limits, LoadTimeoutError, ModelError
from dovetail.ground.limits import limited
from dovetail_onnx import fields, messages, parse
from dovetail_onnx.model_file import read_model
from dovetail_onnx.wire import Message, WireError

KNOWN = [cls for cls in vars(messages).values() if isinstance(cls, type) and issubclass(cls, Message) and cls is not Message]


def encoded_as(cls: type[Message]) -> Any:
    """The class of `onnx` for one of ours."""
    if cls is messages.PropertyProto:  # the same, whose texts are only shown
        return onnx.StringStringEntryProto
    found: Any = onnx
    for part in cls.__qualname__.split("."):
        found = getattr(found, part)
    return found


@pytest.mark.parametrize("cls", KNOWN, ids=lambda cls: cls.__qualname__)
def test_names_and_numbers_are_those_of_onnx(cls: type[Message]) -> None:
    theirs = {field.name: field.number for field in encoded_as(cls).DESCRIPTOR.fields}
    assert cls.numbers.items() <= theirs.items()
    assert cls.numbers


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (messages.TensorProto.DataType, onnx.TensorProto.DataType),
        (messages.AttributeProto.AttributeType, onnx.AttributeProto.AttributeType),
    ],
)
def test_enums_are_those_of_onnx(ours: Any, theirs: Any) -> None:
    mine = {member.name: member.value for member in ours}
    assert dict(theirs.items()).items() <= mine.items()  # an older onnx lacks the newest


def compare(mine: Message, theirs: Any, path: str = "") -> None:
    """Compare every field of ours with protobuf's."""
    for name in mine.numbers:
        here, one, other = f"{path}.{name}", getattr(mine, name), getattr(theirs, name)
        field = theirs.DESCRIPTOR.fields_by_name[name]
        if isinstance(one, Message):
            assert mine.has(name) == theirs.HasField(name), here
            compare(one, other, here)
        elif isinstance(one, bytes) and field.message_type is not None:  # only noted
            assert mine.has(name) == theirs.HasField(name), here
        elif isinstance(one, str | bytes | int | float):
            assert mine.has(name) == theirs.HasField(name), here
            assert one == other or (one != one and other != other), here
        else:
            assert len(one) == len(other), here
            for index, (a, b) in enumerate(zip(one, other, strict=True)):
                if isinstance(a, Message):
                    compare(a, b, f"{here}[{index}]")
                else:
                    assert a == b or (a != a and b != b), here


def rich_model() -> onnx.ModelProto:
    """A model with something in nearly every field."""
    text = """<ir_version: 8, opset_import: ["" : 17, "own" : 1]> g (float[N,3] x, int64[2] s) => (float[N,3] y)
    <float[3] w = {1.0, -2.5, 3.25}, int64[4] big = {1, -1, 9223372036854775807, -9223372036854775808}, bool[1] c = {1}> {
      a = Add(x, w) b = own.f <alpha = 0.5> (a) t = Constant <value = float[2] {0.5, 0.25}> ()
      d = If (c) <then_branch = h () => (float[N,3] e) { e = Relu(b) }, else_branch = i () => (float[N,3] e) { e = Neg(b) }>
      y = Gemm <alpha = 0.25, transB = 1, note = "text", names = ["p", "q"], axes = [1, -2, 300], scales = [0.5, 1.5]> (d, w)
    }
    <domain: "own", opset_import: ["" : 17]> f <alpha> (p) => (r) { r = LeakyRelu <alpha : float = @alpha> (p) }"""
    model = onnx.parser.parse_model(text)
    rng = np.random.default_rng(3)
    for dtype in (np.float32, np.float64, np.int8, np.int32, np.uint64, np.float16):
        value = (100 * rng.standard_normal((40,))).astype(dtype)
        model.graph.initializer.append(numpy_helper.from_array(value, f"raw_{np.dtype(dtype)}"))
    for code, values in (
        (TensorProto.INT32, [0, -1, 2**31 - 1, -(2**31), 300] * 20),
        (TensorProto.INT64, [0, -1, 2**63 - 1, -(2**63), 300] * 20),
        (TensorProto.UINT64, [0, 1, 2**64 - 1, 2**63, 300] * 20),
        (TensorProto.DOUBLE, [0.5, float("nan"), float("inf")] * 20),
        (TensorProto.FLOAT, [0.5, float("nan"), float("inf")] * 20),
    ):
        model.graph.initializer.append(helper.make_tensor(f"listed_{code}", code, [len(values)], values))
    sparse = helper.make_sparse_tensor(
        numpy_helper.from_array(np.ones(1, np.float32), "sp"), helper.make_tensor("", 7, [1], [2]), [5]
    )
    model.graph.sparse_initializer.append(sparse)
    outside = TensorProto(
        name="out", data_type=1, dims=[4], data_location=TensorProto.EXTERNAL, segment=TensorProto.Segment(begin=1)
    )
    outside.external_data.add(key="location", value="w.bin")
    model.graph.initializer.append(outside)
    model.graph.value_info.append(helper.make_tensor_value_info("a", TensorProto.FLOAT, [None, "K", 3]))
    model.graph.value_info.append(helper.make_tensor_sequence_value_info("sq", TensorProto.FLOAT, None))
    return model


def test_a_model_is_read_as_protobuf_reads_it() -> None:
    model = rich_model()
    data = model.SerializeToString()
    found = messages.ModelProto.read(data)
    compare(found, model)
    assert "'own'" in repr(found)
    node = found.graph.node[1]
    assert onnx.NodeProto.FromString(node.encoded) == model.graph.node[1]


def theirs_or_none(data: bytes) -> onnx.ModelProto | None:
    try:
        return onnx.ModelProto.FromString(data)
    except Exception:  # protobuf's, whose class depends on its implementation
        return None


def mutated(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 5])):
        at = rng.randrange(len(changed))
        match rng.randrange(4):
            case 0:
                changed[at] = rng.randrange(256)
            case 1:
                changed[at] ^= 1 << rng.randrange(8)
            case 2:
                del changed[at : at + rng.randrange(1, 4)]
            case _:
                changed[at:at] = rng.randbytes(rng.randrange(1, 4))
    return bytes(changed)


def verdict(data: bytes) -> str:
    """Say how our reading of some bytes is related to protobuf's."""
    theirs = theirs_or_none(data)
    try:
        mine = messages.ModelProto.read(data)
    except WireError as error:
        return "refused" if theirs is None else f"stricter: {error}"
    if theirs is None:
        try:
            list(mine.graph.value_info)  # read when it is asked for
        except WireError:
            return "refused"
        return "looser"
    try:
        compare(mine, theirs)
    except WireError as error:  # in what is read when it is asked for
        return f"stricter: {error}"
    except (AssertionError, UnicodeDecodeError) as error:
        return f"other: {str(error).splitlines()[0]}"
    return "alike"


def test_damaged_models_are_read_alike_or_refused_alike() -> None:
    data, rng = rich_model().SerializeToString(), random.Random(11)
    found = Counter(verdict(mutated(data, rng)) for _ in range(3000))
    assert found.pop("alike") > 500
    assert found.pop("refused") > 1000
    assert found.pop("looser", 0) < 20  # damage inside of documentation and metadata, which are skipped
    for what in found:
        if what.startswith("stricter"):  # protobuf tells of names that are no text later; groups ONNX never had
            assert "no UTF-8" in what or "wire type 3" in what, what
        else:  # for protobuf a number that an enum does not have is as if it were not there
            assert what.endswith((".type", ".data_location")), what


@pytest.mark.parametrize(
    "data",
    [
        b"\x3a\x05abc",  # longer than the data
        b"\x3a\x04\x0a\x05xy",  # longer than what is around it
        b"\x3b",  # a group
        b"\x3c",
        b"\x06",  # no wire type
        b"\x02\x00",  # no number
        b"\x08",  # a number that is missing
        b"\x08" + b"\xff" * 10,  # without an end
        b"\x08" + b"\xff" * 3,
        b"\x15\x00\x00",  # four bytes, of which there are two
        b"\x3a\x03\x08\x01\x80",
        b"\x3a\x03\x08\x01\x80\x01",
    ],
    ids=bytes.hex,
)
def test_what_is_no_encoding_is_refused(data: bytes) -> None:
    assert verdict(data) == "refused"


class Numbers(Message):
    """Lists of numbers."""

    packed: Any = fields.integers(1)
    short: Any = fields.short_integers(2)
    floats: Any = fields.reals(3)


def varint(value: int) -> bytes:
    value %= 1 << 64
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*groups, value])


def sized(number: int, payload: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(payload)) + payload


@pytest.mark.parametrize("count", [1, 5, 33, 1000, 300_000])
def test_packed_numbers_of_any_length(count: int) -> None:
    rng = random.Random(count)
    values = [rng.choice([0, 1, -1, 127, 128, 2**31, -(2**31), 2**63 - 1, -(2**63), rng.getrandbits(40)]) for _ in range(count)]
    found = Numbers.read(sized(1, b"".join(map(varint, values))) + b"\x08\x07")
    assert list(found.packed) == [*values, 7]
    data = sized(2, b"".join(map(varint, values)))
    assert list(Numbers.read(data).short) == [struct.unpack("<i", struct.pack("<I", v % (1 << 32)))[0] for v in values]


def test_numbers_in_pieces_go_on() -> None:
    data = sized(3, struct.pack("<2f", 1, 2)) + varint(3 << 3 | 5) + struct.pack("<f", 3) + sized(3, struct.pack("<f", 4))
    assert list(Numbers.read(data).floats) == [1, 2, 3, 4]


@pytest.mark.parametrize("payload", [b"\x80", b"\x01" * 40 + b"\x80", b"\x80" * 11 + b"\x00" * 40, b"\x80" * 50])
def test_packed_numbers_that_do_not_end_are_refused(payload: bytes) -> None:
    with pytest.raises(WireError):
        Numbers.read(sized(1, payload))


def test_packed_numbers_count_against_the_memory_of_a_load() -> None:
    with limited(Limits(memory=1000)), pytest.raises(LimitError):
        Numbers.read(sized(1, b"\x01" * 500))


def test_names_that_are_no_text_are_told() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2] abcd) => (float[2] y) { y = Relu(abcd) }'
    )
    with pytest.raises(ModelError, match="no UTF-8") as caught:
        parse(model.SerializeToString().replace(b"abcd", b"ab\xff\xfe"))
    assert caught.value.code is ErrorCode.MODEL_MALFORMED


def nested_graphs(depth: int) -> bytes:
    inner = b""
    for _ in range(depth):
        inner = sized(1, sized(5, sized(1, b"b") + sized(6, inner) + b"\xa0\x01\x05"))  # node, attribute, g
    return varint(1 << 3) + b"\x08" + sized(7, inner)


@pytest.mark.parametrize("depth", [65, 5000])
def test_graphs_nested_more_deeply_than_allowed_are_refused(depth: int) -> None:
    with pytest.raises(LimitError) as caught:
        parse(nested_graphs(depth))
    assert caught.value.details["limit"] == "nesting"
    with limited(Limits(nesting=10**6)), pytest.raises(ModelError):
        parse(nested_graphs(depth))


@pytest.mark.parametrize("as_file", [True, False])
def test_a_deadline_ends_the_reading_of_a_file(tmp_path: Path, as_file: bool) -> None:
    nodes = [helper.make_node("Relu", ["x"], [f"y{i}"]) for i in range(20_000)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("x", "y0")]
    data = helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:])).SerializeToString()
    path = tmp_path / "m.onnx"
    path.write_bytes(data)
    with limited(Limits(seconds=1e-4)), pytest.raises(LoadTimeoutError):
        read_model(path if as_file else data)


MANY = 100_000
HEAD = b"\x08\x0a" + b"\x42\x02\x10\x16"
HOSTILE = {
    "nodes": HEAD + sized(7, b"\x0a\x00" * MANY),
    "initializers": HEAD + sized(7, b"\x2a\x00" * MANY),
    "value infos": HEAD + sized(7, b"\x6a\x00" * MANY),
    "attributes": HEAD + sized(7, sized(1, b"\x2a\x00" * MANY)),
    "attributes of nodes": HEAD + sized(7, sized(1, b"\x2a\x00" * 50) * (MANY // 50)),
    "operator sets": HEAD + b"\x42\x00" * MANY,
    "functions": HEAD + b"\xca\x01\x00" * MANY,
    "sizes": HEAD + sized(7, sized(11, sized(2, sized(1, sized(2, b"\x0a\x00" * MANY))))),
    "types": HEAD + sized(7, sized(11, sized(2, sized(1, sized(2, b"")))) * (MANY // 4)),
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=list(HOSTILE))
@pytest.mark.parametrize("as_file", [True, False])
def test_what_a_file_is_read_into_counts_against_the_memory_of_a_load(tmp_path: Path, data: bytes, as_file: bool) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(data)
    with limited(Limits(memory=1 << 21)), pytest.raises(LimitError) as caught:
        read_model(path if as_file else data)
    assert caught.value.details["limit"] == "memory"


@pytest.mark.parametrize("outer", [lambda nodes: sized(7, nodes), lambda nodes: sized(25, nodes.replace(b"\x0a", b"\x3a"))])
def test_nodes_are_counted_before_they_are_made(outer: Any) -> None:
    data = HEAD + outer(b"\x0a\x00" * 100)
    with limited(Limits(layers=99)), pytest.raises(LimitError) as caught:
        messages.ModelProto.read(data)
    assert (caught.value.details["limit"], caught.value.details["wanted"]) == ("layers", 100)
    with limited(Limits(layers=100)):
        messages.ModelProto.read(data)


def test_a_million_empty_graphs_stay_a_small_file(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(HEAD + b"\x3a\x00" * MANY)
    tracemalloc.start()
    try:
        with limited(None), pytest.raises(ModelError):
            read_model(path)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


LONG = {
    "unknown fields": b"\x98\x06\x01" * MANY,
    "one number again and again": sized(1, sized(5, b"\x18\x01" * MANY)),
    "one text again and again": b"\x12\x00" * MANY,
    "names": sized(1, b"\x0a\x01x" * MANY),
    "texts": sized(1, sized(5, b"\x4a\x01x" * MANY)),
    "numbers one by one": sized(1, sized(5, b"\x40\x01" * MANY)),
    "floats one by one": sized(1, sized(5, b"\x3d\0\0\0\0" * MANY)),
    "packed numbers": sized(1, sized(5, sized(8, b"\x01" * MANY))),
    "floats of an initializer": sized(5, b"\x25\0\0\0\0" * MANY),
}


@pytest.mark.parametrize("graph", LONG.values(), ids=list(LONG))
def test_a_deadline_ends_long_reading_of_any_field(graph: bytes) -> None:
    with limited(Limits(seconds=1e-9)), pytest.raises(LoadTimeoutError):
        messages.ModelProto.read(sized(7, graph))


def test_a_packed_number_without_an_end_is_not_looked_for_to_the_end_of_the_data() -> None:
    looked_at: list[int] = []

    class Watched(bytes):
        def __getitem__(self, at: Any) -> Any:
            looked_at.append(at)
            return super().__getitem__(at)

    payload = b"\x01" * (fields._AT_ONCE - 1) + b"\xff" * 100_000
    with pytest.raises(WireError):
        messages.TensorProto.read(Watched(sized(7, payload)))
    assert len(looked_at) < 100


def test_what_onnx_itself_cannot_read_of_a_node_is_told() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[3,5] x, int64[3] t) => (float l)
    { l = SoftmaxCrossEntropyLoss <reduction = "mean"> (x, t) }"""
    model = onnx.parser.parse_model(text)
    node = model.graph.node.pop().SerializeToString() + sized(6, b"\xff\xfe") + sized(9, b"\xff")  # damage that we skip
    head = onnx.ModelProto(ir_version=8, opset_import=model.opset_import).SerializeToString()
    with pytest.raises(ModelError) as caught:
        parse(head + sized(7, model.graph.SerializeToString() + sized(1, node)))
    assert caught.value.code is ErrorCode.MODEL_MALFORMED
