"""Maps of numbers of custom operators: what is written is read, what is broken is refused."""

import random

import pytest
from flatbuffers import flexbuffers

from dovetail_tflite.flatbuffer import BrokenFile
from dovetail_tflite.flexbuffer import numbers


def dumped(value: object) -> bytes:
    return bytes(flexbuffers.Dumps(value))


@pytest.mark.parametrize(
    "entries",
    [
        {},
        {"a": 1},
        {"count": 200, "negative": -3, "yes": True, "no": False, "half": 0.5, "third": 1 / 3},
        {"wide": 2**40, "low": -(2**63), "large": 2**63 - 1, "small": 7},
        {"short": 300, "float": 1.5},
        {f"key {i}": i * 1000 for i in range(300)},
    ],
    ids=range(6),
)
def test_numbers(entries: dict[str, object]) -> None:
    found = numbers(dumped(entries))
    assert found == {key: int(value) if isinstance(value, bool) else value for key, value in entries.items()}


def test_indirect_numbers() -> None:
    builder = flexbuffers.Builder()
    with builder.Map():
        builder.IndirectInt("int", -(2**40))
        builder.IndirectUInt("uint", 2**60)
        builder.IndirectFloat("float", 0.1)
        builder.Int("beside", 5)
    assert numbers(bytes(builder.Finish())) == {"int": -(2**40), "uint": 2**60, "float": 0.1, "beside": 5}


def test_what_is_no_number() -> None:
    found = numbers(dumped({"text": "abc", "list": [1, "b"], "nothing": None, "map": {"a": 1}, "number": 4}))
    assert found == {"text": None, "list": None, "map": None, "number": 4}


@pytest.mark.parametrize("value", [5, 2.5, "text", [1, 2], None, [1, "a"]], ids=str)
def test_no_map(value: object) -> None:
    with pytest.raises(BrokenFile, match="expected a map"):
        numbers(dumped(value))


@pytest.mark.parametrize("size", [0, 1, 2, (1 << 16) + 1])
def test_sizes(size: int) -> None:
    with pytest.raises(BrokenFile, match=f"has {size} bytes"):
        numbers(bytes(size))


def test_more_entries_than_any_operator_has() -> None:
    assert len(numbers(dumped({f"{i}": 1 for i in range(1024)}))) == 1024
    with pytest.raises(BrokenFile, match="1025 entries"):
        numbers(dumped({f"{i}": 1 for i in range(1025)}))


def test_keys_end_soon() -> None:
    assert numbers(dumped({"k" * 255: 1})) == {"k" * 255: 1}
    with pytest.raises(BrokenFile, match="has no end"):
        numbers(dumped({"k" * 256: 1}))


def test_floats_of_two_bytes() -> None:
    data = bytearray(dumped({"a": 1000}))  # an integer of two bytes, as wide as the map
    assert data.count(1 << 2 | 1) == 1
    data[data.index(1 << 2 | 1)] = 3 << 2 | 1
    with pytest.raises(BrokenFile, match="2 bytes wide"):
        numbers(bytes(data))


def test_a_part_of_a_map() -> None:
    data = dumped({"count": 200, "half": 0.5, "wide": 2**40})
    for begin in range(1, len(data)):
        with pytest.raises(BrokenFile):
            numbers(data[begin:])


def test_damaged_maps_are_read_or_refused() -> None:
    source = random.Random(5)
    data = dumped({"count": 200, "half": 0.5, "wide": 2**40, "text": "some", "yes": True})
    read = refused = 0
    for _ in range(20_000):
        damaged = bytearray(data)
        for _ in range(source.randint(1, 4)):
            damaged[source.randrange(len(damaged))] = source.choice([0, 1, 0x7F, 0x80, 0xFF, source.randrange(256)])
        try:
            found = numbers(bytes(damaged))
        except BrokenFile:
            refused += 1
        else:
            read += 1
            assert all(value is None or isinstance(value, int | float) for value in found.values())
    assert min(read, refused) > 1000
