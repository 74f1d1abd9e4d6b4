"""Read tables of a FlatBuffer that nobody trusts: each offset and length is checked before use.

The package `flatbuffers` knows how numbers are encoded, and checks nothing: an offset of a damaged
file leads it anywhere, backwards from the end of the file too. Here a `Table` holds that its vtable
and its fields lie inside the file, and so does each vector, string and table that it leads to.

Offsets may lead to the same place again and again: a file of some kilobytes can hold thousands of
operators of thousands of inputs each. What is read is therefore counted, and ends where no writer
gets to that merely writes equal things once.

Source: FlatBuffers, "Internals" (the binary format), and `Verifier` of its C++ library.
"""

from __future__ import annotations

from functools import cache
from struct import Struct, unpack_from
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from flatbuffers import packer

from dovetail.ground.records import NamedTuple

from .schema import TABLES

Bytes: TypeAlias = "npt.NDArray[np.uint8]"

_SCALARS: dict[str, Struct] = {
    "bool": packer.boolean,
    "i8": packer.int8,
    "u8": packer.uint8,
    "u16": packer.uint16,
    "i32": packer.int32,
    "u32": packer.uint32,
    "i64": packer.int64,
    "u64": packer.uint64,
    "f32": packer.float32,
}
_DTYPES = {"u8": "u1", "bool": "u1", "u16": "<u2", "i32": "<i4", "i64": "<i8", "f32": "<f4"}
_LONGEST_STRING = 1 << 13
"""Bytes of a name; TensorFlow's have some hundred."""
_REPEATS = 128
"""How many times its own bytes a file may give as strings and numbers.

Names are read some four times, and subgraphs as often as they are put in place (`expansion`).
"""
_FREE = 1 << 24
"""Bytes that any file may give besides."""


class BrokenFile(Exception):
    """What an offset or a length leads to does not lie in the file; never leaves the parser."""


class Source:
    """A file, and how much of it was read.

    Args:
        data: All of its bytes.
    """

    __slots__ = ("_left", "buffer", "data")

    def __init__(self, data: Bytes) -> None:
        self.data = data
        self.buffer = data.data
        self._left = _FREE + _REPEATS * len(data)

    def count(self, nbytes: int) -> None:
        """Count bytes that are about to be made Python objects.

        Raises:
            BrokenFile: There are more than any file has that does not repeat itself on purpose.
        """
        self._left -= nbytes
        if self._left < 0:
            raise BrokenFile(f"tables of its {len(self.data)} bytes repeat one another too often")


class _Field(NamedTuple):
    """A field of a table.

    Attributes:
        place: Number of its entry in the vtable.
        type: Its type.
        of: How a number is encoded: its own, or those of a vector; None where it is neither.
        default: What it is if left out.
    """

    place: int
    type: str
    of: Struct | None
    default: Any


@cache
def _fields(table: str) -> dict[str, _Field]:
    found: dict[str, _Field] = {}
    for place, text in enumerate(TABLES[table].split()):
        if text == "-":
            continue
        name, _, rest = text.partition(":")
        kind, _, default = rest.partition("=")
        value: Any = None
        if kind in _SCALARS:
            value = float(default or 0) if kind == "f32" else bool(int(default or 0)) if kind == "bool" else int(default or 0)
        found[name] = _Field(place, kind, _SCALARS.get(kind.strip("[]")), value)
    return found


@cache
def _vtables(table: str) -> list[Struct]:
    """Return how the entries of a vtable are encoded, by their number, up to all of the schema."""
    return [Struct(f"<{count}H") for count in range(len(TABLES[table].split()) + 1)]


_TABLE, _VTABLE = packer.soffset, Struct("<2H")
"""What they begin with: the way back to the vtable, and the bytes of a vtable and of its table."""
_offset_at = packer.uoffset.unpack_from


class Table:
    """A table inside a file.

    Args:
        source: The whole file.
        at: Where the table begins.
        name: Its type, of `schema.TABLES`.

    Raises:
        BrokenFile: The table or its vtable does not lie in the file.
    """

    __slots__ = ("_at", "_buffer", "_entries", "_fields", "_reach", "_size", "_source", "name")

    def __init__(self, source: Source, at: int, name: str) -> None:
        self.name = name
        self._source = source
        self._buffer = source.buffer
        self._size = len(source.buffer)
        self._at = at
        self._fields = _fields(name)
        if at < 0 or at + _TABLE.size > self._size:
            raise self._leads_to("a table", at)
        vtable = at - _TABLE.unpack_from(self._buffer, at)[0]
        if vtable < 0 or vtable + _VTABLE.size > self._size:
            raise self._leads_to("a vtable", vtable)
        length, self._reach = _VTABLE.unpack_from(self._buffer, vtable)
        if length < _VTABLE.size or length % 2 or vtable + length > self._size:
            raise BrokenFile(f"{name} at byte {at} has a vtable of {length} bytes at byte {vtable}")
        if self._reach < _TABLE.size or at + self._reach > self._size:
            raise BrokenFile(f"{name} at byte {at} has {self._reach} bytes, of a file of {self._size}")
        known = _vtables(name)
        entries = known[min(length // 2 - 2, len(known) - 1)]
        self._entries = entries.unpack_from(self._buffer, vtable + _VTABLE.size)

    @classmethod
    def root(cls, data: Bytes, name: str) -> Table:
        """Return the table that a file begins with."""
        if len(data) < 8:
            raise BrokenFile(f"there are {len(data)} bytes")
        source = Source(data)
        return cls(source, _offset_at(source.buffer, 0)[0], name)

    def _leads_to(self, what: str, at: int) -> BrokenFile:
        return BrokenFile(f"{self.name} leads to {what} at byte {at} of {self._size}")

    def _place(self, field: _Field, size: int) -> int | None:
        """Return where a field lies, or None if it is left out."""
        offset: int = self._entries[field.place] if field.place < len(self._entries) else 0
        if not offset:
            return None
        if offset < _TABLE.size or offset + size > self._reach:
            raise BrokenFile(f"a field of {self.name} lies {offset} bytes into a table of {self._reach}")
        return self._at + offset

    def _target(self, field: _Field) -> int | None:
        """Return what a field's offset leads to, or None if it is left out."""
        at = self._place(field, 4)
        return None if at is None else at + _offset_at(self._buffer, at)[0]

    def _length_at(self, at: int, itemsize: int) -> int:
        """Return the number of elements of a vector that begins at `at`."""
        if at + packer.uoffset.size > self._size:
            raise self._leads_to("a vector", at)
        count: int = _offset_at(self._buffer, at)[0]
        if at + 4 + count * itemsize > self._size:
            raise BrokenFile(f"{self.name} has a vector of {count} elements at byte {at} of {self._size}")
        return count

    def number(self, name: str) -> Any:
        """Return a field that is a number or bool, or what the schema says if it is left out."""
        field = self._fields[name]
        assert field.of is not None
        at = self._place(field, field.of.size)
        return field.default if at is None else field.of.unpack_from(self._buffer, at)[0]

    def text(self, name: str) -> str:
        """Return a string; one that is left out is empty, what is no UTF-8 is replaced."""
        at = self._target(self._fields[name])
        if at is None:
            return ""
        count = self._length_at(at, 1)
        if count > _LONGEST_STRING:
            raise BrokenFile(f"{self.name} has a {name} of {count} bytes")
        self._source.count(count)
        return str(self._buffer[at + 4 : at + 4 + count], "utf-8", "replace")

    def numbers(self, name: str) -> tuple[Any, ...]:
        """Return the numbers of a vector; one that is left out is empty."""
        field = self._fields[name]
        at = self._target(field)
        if at is None:
            return ()
        assert field.of is not None
        count = self._length_at(at, field.of.size)
        self._source.count(count * field.of.size)
        return unpack_from(f"<{count}{field.of.format[-1]}", self._buffer, at + 4)

    def vector(self, name: str) -> npt.NDArray[Any]:
        """Return a vector of numbers to be looked at; one that is left out is empty."""
        found = self.view(name)
        self._source.count(found.nbytes)
        return found

    def view(self, name: str) -> npt.NDArray[Any]:
        """Return a vector as a view of the file that stays one, and so does not count as read."""
        field = self._fields[name]
        dtype = np.dtype(_DTYPES[field.type[1:-1]])
        at = self._target(field)
        if at is None:
            return np.empty(0, dtype)
        count = self._length_at(at, dtype.itemsize)
        return self._source.data[at + 4 : at + 4 + count * dtype.itemsize].view(dtype)

    def has(self, name: str) -> bool:
        """Tell whether a field is there."""
        return self._place(self._fields[name], 1) is not None

    def table(self, name: str, of: str = "") -> Table | None:
        """Return a table, or None; `of` names its type where the schema has a union."""
        field = self._fields[name]
        at = self._target(field)
        return None if at is None else Table(self._source, at, of or field.type)

    def tables(self, name: str) -> Tables:
        """Return a vector of tables; one that is left out is empty."""
        field = self._fields[name]
        at = self._target(field)
        count = 0 if at is None else self._length_at(at, 4)
        return Tables(self._source, (at or 0) + 4, count, field.type[1:-1])


class Tables:
    """A vector of tables, each read when it is asked for, and once."""

    __slots__ = ("_at", "_count", "_found", "_name", "_source")

    def __init__(self, source: Source, at: int, count: int, name: str) -> None:
        self._source = source
        self._at = at
        self._name = name
        self._count = count
        self._found: dict[int, Table] = {}

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> Table:
        """Return one.

        Raises:
            BrokenFile: There are not so many, or it does not lie in the file.
        """
        found = self._found.get(index)
        if found is None:
            if not 0 <= index < self._count:
                raise BrokenFile(f"there are {self._count} of {self._name}, number {index} is meant")
            at = self._at + 4 * index
            at += _offset_at(self._source.buffer, at)[0]
            found = self._found[index] = Table(self._source, at, self._name)
        return found
