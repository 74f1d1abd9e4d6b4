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

from .late_pages import LatePages
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
_FEW = 8
"""Numbers of a vector, such as those of a shape, whose encoding is kept."""


class BrokenFile(Exception):
    """What an offset or a length leads to does not lie in the file; never leaves the parser."""


def said(error: Exception) -> str:
    """Return what an error says: a `BrokenFile` a sentence, one of Python's own its name, too."""
    return str(error) if isinstance(error, BrokenFile) else f"{type(error).__name__}: {error}"


class Source:
    """A file, and how much of it was read.

    Args:
        data: All of its bytes.
        late: Reads those that are about to be looked at; None: they are all there.

    Attributes:
        vtables: What was read of them, by their place and the type of the table; see `_VTable`.
            Tables of a file share some few.
    """

    __slots__ = ("_left", "buffer", "data", "late", "vtables")

    def __init__(self, data: Bytes, late: LatePages | None = None) -> None:
        self.data = data
        self.late = late
        self.buffer = data.data
        self.vtables: dict[tuple[int, str], _VTable] = {}
        self._left = _FREE + _REPEATS * len(data)

    def need(self, begin: int, end: int) -> None:
        """Have bytes there that are about to be looked at, and lie in the file.

        Raises:
            ModelError: They cannot be read.
        """
        if self.late is not None and end > begin:
            self.late.need(begin, end)

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
        size: Its bytes in the table, where what is no number has an offset.
    """

    place: int
    type: str
    of: Struct | None
    default: Any
    size: int


class _VTable(NamedTuple):
    """Where the fields of a table lie.

    Attributes:
        reach: Bytes of the table.
        offsets: Of each field of the schema from the table's beginning; 0 where it is left out, and
            less where it would lie outside of the table.
    """

    reach: int
    offsets: tuple[int, ...]


@cache
def _several(of: Struct, count: int) -> Struct:
    """Return how some few numbers are encoded."""
    return Struct(f"<{count}{of.format[-1]}")


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
        size = _SCALARS[kind].size if kind in _SCALARS else packer.uoffset.size
        found[name] = _Field(place, kind, _SCALARS.get(kind.strip("[]")), value, size)
    return found


_TABLE, _VTABLE = packer.soffset, Struct("<2H")
"""What they begin with: the way back to the vtable, and the bytes of a vtable and of its table."""
_table_at = _TABLE.unpack_from
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

    __slots__ = ("_at", "_buffer", "_fields", "_offsets", "_size", "_source", "name")

    def __init__(self, source: Source, at: int, name: str) -> None:
        self.name = name
        self._source = source
        self._buffer = source.buffer
        self._size = size = len(source.buffer)
        self._at = at
        self._fields = _fields(name)
        if at < 0 or at + _TABLE.size > size:
            raise self._leads_to("a table", at)
        if source.late is not None:
            source.late.need(at, at + _TABLE.size)
        vtable = at - _table_at(self._buffer, at)[0]
        known = source.vtables.get((vtable, name))
        if known is None:
            known = source.vtables[vtable, name] = self._read_vtable(vtable)
        reach, self._offsets = known
        if at + reach > size:
            raise BrokenFile(f"{name} at byte {at} has {reach} bytes, of a file of {size}")
        if source.late is not None:
            source.late.need(at, at + reach)

    def _read_vtable(self, at: int) -> _VTable:
        if at < 0 or at + _VTABLE.size > self._size:
            raise self._leads_to("a vtable", at)
        self._source.need(at, at + _VTABLE.size)
        length, reach = _VTABLE.unpack_from(self._buffer, at)
        if length < _VTABLE.size or length % 2 or at + length > self._size:
            raise BrokenFile(f"{self.name} at byte {self._at} has a vtable of {length} bytes at byte {at}")
        if reach < _TABLE.size:
            raise BrokenFile(f"{self.name} at byte {self._at} has {reach} bytes, of a file of {self._size}")
        self._source.need(at, at + length)
        offsets = [0] * len(TABLES[self.name].split())
        count = min(length // 2 - 2, len(offsets))
        entries = unpack_from(f"<{count}H", self._buffer, at + _VTABLE.size)
        for field in self._fields.values():
            offset = entries[field.place] if field.place < count else 0
            is_inside = not offset or _TABLE.size <= offset <= reach - field.size
            offsets[field.place] = offset if is_inside else -offset
        return _VTable(reach, tuple(offsets))

    @classmethod
    def root(cls, data: Bytes | Source, name: str) -> Table:
        """Return the table that a file begins with."""
        source = data if isinstance(data, Source) else Source(data)
        if len(source.data) < 8:
            raise BrokenFile(f"there are {len(source.data)} bytes")
        source.need(0, 8)
        return cls(source, _offset_at(source.buffer, 0)[0], name)

    def _leads_to(self, what: str, at: int) -> BrokenFile:
        return BrokenFile(f"{self.name} leads to {what} at byte {at} of {self._size}")

    def _outside(self, offset: int) -> BrokenFile:
        return BrokenFile(f"a field of {self.name} lies {-offset} bytes into a table that ends before")

    def _target(self, field: _Field) -> int | None:
        """Return what a field's offset leads to, or None if it is left out."""
        offset = self._offsets[field.place]
        if offset <= 0:
            if offset:
                raise self._outside(offset)
            return None
        at = self._at + offset
        found: int = at + _offset_at(self._buffer, at)[0]
        return found

    def _vector(self, field: _Field, itemsize: int, *, is_read: bool = True) -> tuple[int, int]:
        """Return where the elements of a vector lie, and how many; none if it is left out."""
        at = self._target(field)
        if at is None:
            return 0, 0
        begin = at + 4
        if begin > self._size:
            raise self._leads_to("a vector", at)
        late = self._source.late
        if late is not None:
            late.need(at, begin)
        count: int = _offset_at(self._buffer, at)[0]
        if begin + count * itemsize > self._size:
            raise BrokenFile(f"{self.name} has a vector of {count} elements at byte {at} of {self._size}")
        if late is not None and is_read and count:
            late.need(begin, begin + count * itemsize)
        return begin, count

    def has(self, name: str) -> bool:
        """Tell whether a field is there, be it out of place."""
        return self._offsets[self._fields[name].place] != 0

    def number(self, name: str) -> Any:
        """Return a field that is a number or bool, or what the schema says if it is left out."""
        place, _, of, default, _ = self._fields[name]
        assert of is not None
        offset = self._offsets[place]
        if offset > 0:
            return of.unpack_from(self._buffer, self._at + offset)[0]
        if offset:
            raise self._outside(offset)
        return default

    def text(self, name: str) -> str:
        """Return a string; one that is left out is empty, what is no UTF-8 is replaced."""
        at, count = self._vector(self._fields[name], 1)
        if count > _LONGEST_STRING:
            raise BrokenFile(f"{self.name} has a {name} of {count} bytes")
        self._source.count(count)
        return str(self._buffer[at : at + count], "utf-8", "replace")

    def numbers(self, name: str) -> tuple[Any, ...]:
        """Return the numbers of a vector; one that is left out is empty."""
        field = self._fields[name]
        of = field.of
        assert of is not None
        at, count = self._vector(field, of.size)
        if not count:
            return ()
        self._source.count(count * of.size)
        if count > _FEW:
            return unpack_from(f"<{count}{of.format[-1]}", self._buffer, at)
        return _several(of, count).unpack_from(self._buffer, at)

    def vector(self, name: str) -> npt.NDArray[Any]:
        """Return a vector of numbers to be looked at; one that is left out is empty."""
        found = self.view(name)
        self._source.count(found.nbytes)
        return found

    def view(self, name: str) -> npt.NDArray[Any]:
        """Return a vector as a view of the file that stays one, and so does not count as read."""
        field = self._fields[name]
        dtype = np.dtype(_DTYPES[field.type[1:-1]])
        at, count = self._vector(field, dtype.itemsize)
        return self._source.data[at : at + count * dtype.itemsize].view(dtype)

    def extent(self, name: str) -> tuple[int, int]:
        """Return where the bytes of a vector lie, and how many there are, without reading them."""
        field = self._fields[name]
        itemsize = np.dtype(_DTYPES[field.type[1:-1]]).itemsize
        at, count = self._vector(field, itemsize, is_read=False)
        return at, count * itemsize

    def table(self, name: str, of: str = "") -> Table | None:
        """Return a table, or None; `of` names its type where the schema has a union."""
        field = self._fields[name]
        at = self._target(field)
        return None if at is None else Table(self._source, at, of or field.type)

    def tables(self, name: str) -> Tables:
        """Return a vector of tables; one that is left out is empty."""
        field = self._fields[name]
        return Tables(self._source, *self._vector(field, 4), field.type[1:-1])


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
