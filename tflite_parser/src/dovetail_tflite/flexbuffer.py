"""Read a FlexBuffer map of numbers that nobody trusts: the options of a custom operator.

`flatbuffers.flexbuffers` checks nothing: an offset or a length leads it anywhere, and a slice that
lies outside comes out shorter. The map of an operator is small and flat, so it is read here as a
whole, each offset checked before use.

Source: FlatBuffers, "FlexBuffers" (the binary format).
"""

from __future__ import annotations

from struct import Struct, unpack_from
from typing import TypeAlias

from .flatbuffer import BrokenFile

Number: TypeAlias = "int | float"

_LARGEST = 1 << 16
"""Bytes of a map; those of known operators have some hundred."""
_MOST_ENTRIES = 1 << 10
_LONGEST_KEY = 256

_INT, _UINT, _FLOAT, _MAP, _BOOL = 1, 2, 3, 9, 26
_INDIRECT = {6: _INT, 7: _UINT, 8: _FLOAT}
_NULL = 0
_FORMATS = {
    _INT: {1: "<b", 2: "<h", 4: "<i", 8: "<q"},
    _UINT: {1: "<B", 2: "<H", 4: "<I", 8: "<Q"},
    _BOOL: {1: "<B", 2: "<H", 4: "<I", 8: "<Q"},
    _FLOAT: {4: "<f", 8: "<d"},
}
"""How a number is encoded, by its type and its width in bytes."""


def numbers(data: bytes) -> dict[str, Number | None]:
    """Return the entries of a map.

    An entry that is null is left out, as if it were not there; one that is no number or bool is
    None. A bool is 0 or 1.

    Raises:
        BrokenFile: It is no map, does not lie in its bytes, or is larger than any operator's.
    """
    if not 3 <= len(data) <= _LARGEST:
        raise BrokenFile(f"a map of options has {len(data)} bytes")
    width, packed = data[-1], data[-2]
    if packed >> 2 != _MAP or width not in (1, 2, 4, 8):
        raise BrokenFile(f"options are of type {packed >> 2} and width {width}, expected a map")
    root = len(data) - 2 - width
    return _Map(data, root - _unsigned(data, root, width), 1 << (packed & 3)).entries()


class _Map:
    def __init__(self, data: bytes, at: int, width: int) -> None:
        self._data = data
        self._at = at
        self._width = width
        self._count = _unsigned(data, at - width, width)
        self._key_width = _unsigned(data, at - 2 * width, width)
        keys = at - 3 * width
        self._keys = keys - _unsigned(data, keys, width)
        if self._key_width not in (1, 2, 4, 8):
            raise BrokenFile(f"keys are {self._key_width} bytes wide")
        if self._count > _MOST_ENTRIES or _unsigned(data, self._keys - self._key_width, self._key_width) != self._count:
            raise BrokenFile(f"a map of {self._count} entries has another number of keys, or too many")

    def entries(self) -> dict[str, Number | None]:
        found: dict[str, Number | None] = {}
        for index in range(self._count):
            packed = _unsigned(self._data, self._at + self._count * self._width + index, 1)
            if packed >> 2 != _NULL:
                found[self._key(index)] = self._number(self._at + index * self._width, packed >> 2, 1 << (packed & 3))
        return found

    def _key(self, index: int) -> str:
        place = self._keys + index * self._key_width
        at = place - _unsigned(self._data, place, self._key_width)
        end = self._data.find(b"\0", at, at + _LONGEST_KEY) if at >= 0 else -1
        if end < 0:
            raise BrokenFile(f"a key at byte {at} of {len(self._data)} has no end")
        return self._data[at:end].decode("utf-8", "replace")

    def _number(self, at: int, kind: int, width: int) -> Number | None:
        if kind in _INDIRECT:
            at -= _unsigned(self._data, at, self._width)
            kind = _INDIRECT[kind]
        else:
            width = self._width
        if kind not in _FORMATS:
            return None
        if width not in _FORMATS[kind]:
            raise BrokenFile(f"a float is {width} bytes wide")
        value: Number = _read(self._data, at, _FORMATS[kind][width])
        return int(value != 0) if kind == _BOOL else value


def _unsigned(data: bytes, at: int, width: int) -> int:
    return int(_read(data, at, _FORMATS[_UINT][width]))


def _read(data: bytes, at: int, form: str) -> Number:
    if at < 0 or at + Struct(form).size > len(data):
        raise BrokenFile(f"options lead to byte {at} of {len(data)}")
    value: Number = unpack_from(form, data, at)[0]
    return value
