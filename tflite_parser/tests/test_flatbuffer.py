"""Tables whose offsets and lengths lie: each is refused, none is followed."""

import contextlib
import struct

import numpy as np
import pytest
from tflite_making import Tree, encoded

from dovetail_tflite import flatbuffer
from dovetail_tflite.flatbuffer import BrokenFile, Table
from dovetail_tflite.schema import TABLES

TREE: Tree = {
    "version": 3,
    "description": "words",
    "operator_codes": [{"version": 2, "custom_code": "first"}, {"version": 7}],
    "metadata_buffer": [1, -2, 3],
    "buffers": [{"data": bytes(range(20)), "offset": 1 << 40}],
}


def read(data: bytes | bytearray) -> Table:
    return Table.root(np.frombuffer(bytes(data), np.uint8), "Model")


class Plan:
    """A file and where its parts lie, worked out apart from the parser."""

    def __init__(self) -> None:
        self.data = bytearray(encoded(TREE))
        self.root = self.u32(0)
        self.vtable = self.root - self.i32(self.root)

    def u16(self, at: int) -> int:
        return int(struct.unpack_from("<H", self.data, at)[0])

    def u32(self, at: int) -> int:
        return int(struct.unpack_from("<I", self.data, at)[0])

    def i32(self, at: int) -> int:
        return int(struct.unpack_from("<i", self.data, at)[0])

    def put(self, form: str, at: int, value: int) -> None:
        struct.pack_into(form, self.data, at, value)

    def field(self, place: int) -> int:
        """Return where a field of the root lies."""
        return self.root + self.u16(self.vtable + 4 + 2 * place)

    def target(self, place: int) -> int:
        """Return what a field of the root leads to."""
        at = self.field(place)
        return at + self.u32(at)


CODES, DESCRIPTION, BUFFERS, METADATA = 1, 3, 4, 5


@pytest.fixture
def plan() -> Plan:
    return Plan()


def test_what_a_file_says(plan: Plan) -> None:
    root = read(plan.data)
    assert (root.number("version"), root.text("description")) == (3, "words")
    assert root.vector("metadata_buffer").tolist() == [1, -2, 3]
    codes = root.tables("operator_codes")
    assert [codes[number].number("version") for number in range(len(codes))] == [2, 7]
    assert [codes[number].text("custom_code") for number in range(len(codes))] == ["first", ""]
    buffer = root.tables("buffers")[0]
    assert buffer.view("data").tolist() == list(range(20))
    assert (buffer.number("offset"), buffer.number("size")) == (1 << 40, 0)


def test_what_is_left_out(plan: Plan) -> None:
    code = read(encoded({"operator_codes": [{}]})).tables("operator_codes")[0]
    assert code.number("version") == 1  # which the schema says
    assert code.number("builtin_code") == 0
    root = read(encoded({}))
    assert (root.number("version"), root.text("description"), len(root.tables("subgraphs"))) == (0, "", 0)
    assert root.vector("metadata_buffer").tolist() == []


@pytest.mark.parametrize("data", [b"", b"\0" * 7, b"\4\0\0\0"])
def test_too_short_for_a_root(data: bytes) -> None:
    with pytest.raises(BrokenFile, match="bytes"):
        read(data)


@pytest.mark.parametrize("at", [1 << 31, (1 << 32) - 1, 10_000])
def test_a_root_outside(plan: Plan, at: int) -> None:
    plan.put("<I", 0, at)
    with pytest.raises(BrokenFile):
        read(plan.data)


def test_a_root_at_the_last_bytes(plan: Plan) -> None:
    for short in range(1, 4):
        plan.put("<I", 0, len(plan.data) - short)
        with pytest.raises(BrokenFile):
            read(plan.data)


@pytest.mark.parametrize("back", [1 << 30, -(1 << 31), (1 << 31) - 1])
def test_a_vtable_outside(plan: Plan, back: int) -> None:
    plan.put("<i", plan.root, back)
    with pytest.raises(BrokenFile):
        read(plan.data)


def test_a_vtable_that_begins_before_the_file(plan: Plan) -> None:
    plan.put("<i", plan.root, plan.root + 1)
    with pytest.raises(BrokenFile):
        read(plan.data)


def test_a_vtable_that_ends_behind_the_file(plan: Plan) -> None:
    last = len(plan.data) - 4
    plan.put("<i", plan.root, plan.root - last)
    struct.pack_into("<HH", plan.data, last, 6, 8)
    with pytest.raises(BrokenFile, match="vtable of 6 bytes"):
        read(plan.data)


@pytest.mark.parametrize("length", [0, 1, 2, 3, 5, 7, 0xFFFE, 0xFFFF])
def test_wrong_sizes_of_a_vtable(plan: Plan, length: int) -> None:
    plan.put("<H", plan.vtable, length)
    with pytest.raises(BrokenFile, match="vtable"):
        read(plan.data)


@pytest.mark.parametrize("length", [0, 3, 0xFFFF])
def test_wrong_sizes_of_a_table(plan: Plan, length: int) -> None:
    plan.put("<H", plan.vtable + 2, length)
    with pytest.raises(BrokenFile, match=f"has {length} bytes"):
        read(plan.data)


@pytest.mark.parametrize("offset", [1, 2, 3, 1000, 0xFFFF])
def test_a_field_outside_of_its_table(plan: Plan, offset: int) -> None:
    plan.put("<H", plan.vtable + 4, offset)
    root = read(plan.data)
    with pytest.raises(BrokenFile, match="field of Model"):
        root.number("version")


def test_a_field_across_the_end_of_its_table(plan: Plan) -> None:
    reach = plan.u16(plan.vtable + 2)
    plan.put("<H", plan.vtable + 4, reach - 3)
    with pytest.raises(BrokenFile, match="field of Model"):
        read(plan.data).number("version")


@pytest.mark.parametrize("to", [1 << 31, (1 << 32) - 1, 5000])
def test_an_offset_outside(plan: Plan, to: int) -> None:
    for place in (CODES, DESCRIPTION, BUFFERS, METADATA):
        plan.put("<I", plan.field(place), to)
    root = read(plan.data)
    for found in (
        lambda: root.text("description"),
        lambda: root.tables("operator_codes"),
        lambda: root.tables("buffers"),
        lambda: root.vector("metadata_buffer"),
    ):
        with pytest.raises(BrokenFile, match="leads to a vector"):
            found()


@pytest.mark.parametrize("count", [1 << 31, (1 << 32) - 1, 1 << 30, 5000])
def test_vectors_that_are_too_long(plan: Plan, count: int) -> None:
    for place in (CODES, DESCRIPTION, METADATA):
        plan.put("<I", plan.target(place), count)
    root = read(plan.data)
    with pytest.raises(BrokenFile, match=f"vector of {count} elements"):
        root.text("description")
    with pytest.raises(BrokenFile, match=f"vector of {count} elements"):
        root.tables("operator_codes")
    with pytest.raises(BrokenFile, match=f"vector of {count} elements"):
        root.vector("metadata_buffer")


def test_a_vector_that_ends_with_the_file() -> None:
    data = bytearray(encoded({"metadata_buffer": [5, 6]}))
    root = read(data)
    at = data.index(struct.pack("<Iii", 2, 5, 6))
    fits = (len(data) - at - 4) // 4
    struct.pack_into("<I", data, at, fits)
    assert len(read(data).vector("metadata_buffer")) == fits
    struct.pack_into("<I", data, at, fits + 1)
    with pytest.raises(BrokenFile):
        read(data).vector("metadata_buffer")
    assert root.vector("metadata_buffer").tolist() == [5, 6]


def test_a_table_of_a_vector_that_lies_outside(plan: Plan) -> None:
    first = plan.target(CODES) + 4
    plan.put("<I", first, 1 << 31)
    codes = read(plan.data).tables("operator_codes")
    assert codes[1].number("version") == 7
    with pytest.raises(BrokenFile, match="leads to a table"):
        codes[0]


@pytest.mark.parametrize("index", [-1, 2, 1 << 40])
def test_a_table_that_is_not_there(plan: Plan, index: int) -> None:
    codes = read(plan.data).tables("operator_codes")
    with pytest.raises(BrokenFile, match="there are 2 of OperatorCode"):
        codes[index]


def test_tables_that_overlap(plan: Plan) -> None:
    """The second entry leads into the first one: what it says is nonsense, or refused."""
    at = plan.target(CODES)
    first = at + 4 + plan.u32(at + 4)
    refused = 0
    for into in range(-8, 12):
        plan.put("<I", at + 8, first + into - (at + 8))
        codes = read(plan.data).tables("operator_codes")
        assert codes[0].number("version") == 2
        try:
            assert isinstance(codes[1].number("version"), int)
        except BrokenFile:
            refused += 1
    assert refused


def walk(table: Table) -> int:
    """Read all that a table says, and all below it; returns how many tables there are."""
    count = 1
    for text in TABLES[table.name].split():
        name, _, kind = text.partition("=")[0].partition(":")
        if name == "-" or kind == "union":
            continue
        if kind == "string":
            table.text(name).encode()
        elif kind in TABLES:
            found = table.table(name)
            count += walk(found) if found is not None else 0
        elif kind[1:-1] in TABLES:
            entries = table.tables(name)
            count += sum(walk(entries[number]) for number in range(min(len(entries), 50)))
        elif kind.startswith("["):
            assert table.vector(name).sum() is not None  # which touches each element
        else:
            table.number(name)
    return count


def test_any_byte_may_be_wrong(plan: Plan) -> None:
    sound = bytes(plan.data)
    assert walk(read(sound)) == 4
    refused = 0
    for at in range(len(sound)):
        for value in (0, 1, 0x7F, 0x80, 0xFF, sound[at] ^ 4):
            try:
                walk(read(sound[:at] + bytes([value]) + sound[at + 1 :]))
            except BrokenFile:
                refused += 1
    assert refused > len(sound)


def test_any_word_may_lead_anywhere(plan: Plan) -> None:
    sound = bytes(plan.data)
    for at in range(0, len(sound) - 3, 4):
        for to in range(-at, len(sound) - at + 8, 3):
            with contextlib.suppress(BrokenFile):
                walk(read(sound[:at] + struct.pack("<i", to) + sound[at + 4 :]))


def test_cut_anywhere(plan: Plan) -> None:
    for length in range(len(plan.data)):
        try:
            walk(read(plan.data[:length]))
        except BrokenFile:
            continue
        assert len(plan.data) - length < 4, "more than padding is missing"


def test_strings() -> None:
    root = read(encoded({"description": b"\xff\xfea\xed\xa0\x80b\0c"}))
    text = root.text("description")
    assert "a" in text
    assert text.endswith("b\0c")
    text.encode()  # without surrogates, so that it can be printed


def test_long_strings() -> None:
    longest = flatbuffer._LONGEST_STRING
    assert len(read(encoded({"description": "x" * longest})).text("description")) == longest
    with pytest.raises(BrokenFile, match=f"description of {longest + 1} bytes"):
        read(encoded({"description": "x" * (longest + 1)})).text("description")


def test_a_union_of_another_table() -> None:
    """The file says which table it is; what is read as another stays inside of the file."""
    tree: Tree = {"builtin_options_type": 5, "builtin_options": ("SoftmaxOptions", {"beta": 2.0})}
    table = Table.root(np.frombuffer(encoded(tree, "Operator"), np.uint8), "Operator")
    softmax, reshape = (table.table("builtin_options", name) for name in ("SoftmaxOptions", "ReshapeOptions"))
    assert softmax is not None
    assert reshape is not None
    assert softmax.number("beta") == 2.0
    with pytest.raises(BrokenFile, match="ReshapeOptions leads to a vector"):
        reshape.vector("new_shape")


def test_what_repeats_itself_is_refused() -> None:
    """Thousands of tables that all lead to one vector of a thousand numbers."""
    shape = list(range(1000))
    alike = {"subgraphs": [{"tensors": [{"shape": shape} for _ in range(10_000)]}]}
    tensors = read(encoded(alike)).tables("subgraphs")[0].tables("tensors")
    with pytest.raises(BrokenFile, match="repeat one another"):
        sum(len(tensors[number].vector("shape")) for number in range(len(tensors)))


def test_what_is_said_once_is_read_often_enough() -> None:
    tree = {"subgraphs": [{"tensors": [{"shape": list(range(50_000)), "name": "n" * 5000}]}]}
    tensor = read(encoded(tree)).tables("subgraphs")[0].tables("tensors")[0]
    for _ in range(128):
        tensor.vector("shape")
        tensor.text("name")


def test_constants_may_be_shared_by_any_number() -> None:
    buffer = read(encoded({"buffers": [{"data": bytes(1 << 16)}]})).tables("buffers")[0]
    assert all(len(buffer.view("data")) == 1 << 16 for _ in range(1000))
