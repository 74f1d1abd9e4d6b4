"""The fields that a class of messages may declare, each with how it is read (see `wire`)."""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dovetail.ground.limits import Budget
from dovetail.ground.pieces import copied

from .wire import (
    CLASSES,
    EIGHT_BYTES,
    FOUR_BYTES,
    LAST_BYTE,
    SIZED,
    VARINT,
    WORD,
    Field,
    Message,
    WireError,
    decode_number,
    read_into,
)

_FEW = 32
"""Bytes of packed numbers from which on NumPy is faster."""
_OBJECT = 320
"""Bytes of a message with empty fields, its place in a list and in the data included.

In a file it may take two bytes.
"""
_MESSAGES = "what the file is read into"
_LONGEST_TEXT = 1 << 24
"""Bytes of the longest text accepted: more would be copied and decoded for too long."""
_LONGEST_NOTE = 1 << 20
"""Bytes of a text that is for people."""
_AT_ONCE = 1 << 20
"""Bytes of packed numbers that are decoded together, since their parts take 40 times as much."""


def _bytes(data: bytes | bytearray, at: int, stop: int) -> bytes:
    if stop - at > _LONGEST_TEXT:
        raise WireError(f"a text of {stop - at} bytes, of which {_LONGEST_TEXT} are the most")
    return bytes(data[at:stop])


def _signed(number: int) -> int:
    return number - WORD if number >> 63 else number


def _signed_short(number: int) -> int:
    low = number & 0xFFFFFFFF
    return low - (1 << 32) if low >> 31 else low


def _unsigned(number: int) -> int:
    return number


def string(number: int, *, group: Sequence[str] = ()) -> Any:
    """Declare text; of a `group` one is set at a time."""

    def bind(name: str) -> dict[int, Any]:
        def read(values: dict[str, Any], data: bytes | bytearray, at: int, stop: int, depth: int, load: Budget) -> None:
            for other in group:
                values.pop(other, None)
            values[name] = _bytes(data, at, stop).decode()

        return {SIZED: read}

    return Field(number, "", bind)


def note(number: int) -> Any:
    """Declare text that nothing depends on: of what is very long it is the beginning.

    What is no UTF-8 is replaced.
    """

    def bind(name: str) -> dict[int, Any]:
        def read(values: dict[str, Any], data: bytes | bytearray, at: int, stop: int, depth: int, load: Budget) -> None:
            end = min(stop, at + _LONGEST_NOTE)
            load.take_memory(end - at, _MESSAGES)
            values[name] = bytes(data[at:end]).decode(errors="replace")

        return {SIZED: read}

    return Field(number, "", bind)


def strings(number: int) -> Any:
    """Declare a list of texts."""

    def bind(name: str) -> dict[int, Any]:
        def read(values: dict[str, Any], data: bytes | bytearray, at: int, stop: int, depth: int, load: Budget) -> None:
            if name in values:
                values[name].append(_bytes(data, at, stop).decode())
            else:
                values[name] = [_bytes(data, at, stop).decode()]

        return {SIZED: read}

    return Field(number, (), bind)


def blob(number: int) -> Any:
    """Declare bytes."""

    def bind(name: str) -> dict[int, Any]:
        def read(values: dict[str, Any], data: bytes | bytearray, at: int, stop: int, depth: int, load: Budget) -> None:
            values[name] = _bytes(data, at, stop)

        return {SIZED: read}

    return Field(number, b"", bind)


def contents(number: int) -> Any:
    """Declare the contents of a tensor: bytes, or an array of them where they are many."""

    def bind(name: str) -> dict[int, Any]:
        def read(values: dict[str, Any], data: bytes | bytearray, at: int, stop: int, depth: int, load: Budget) -> None:
            values[name] = data[at:stop] if stop - at <= _AT_ONCE else copied(np.frombuffer(data, np.uint8, stop - at, at))

        return {SIZED: read}

    return Field(number, b"", bind)


def blobs(number: int) -> Any:
    """Declare a list of bytes."""

    def bind(name: str) -> dict[int, Any]:
        def read(values: dict[str, Any], data: bytes | bytearray, at: int, stop: int, depth: int, load: Budget) -> None:
            values.setdefault(name, []).append(_bytes(data, at, stop))

        return {SIZED: read}

    return Field(number, (), bind)


def integer(number: int, convert: Callable[[int], int] = _signed, *, group: Sequence[str] = ()) -> Any:
    """Declare an integer; of a `group` one is set at a time."""

    def bind(name: str) -> dict[int, Any]:
        def take(values: dict[str, Any], found: int) -> None:
            for other in group:
                values.pop(other, None)
            values[name] = convert(found)

        return {VARINT: take}

    return Field(number, 0, bind)


def short_integer(number: int) -> Any:
    """Declare an integer of 32 bits."""
    return integer(number, _signed_short)


def real(number: int) -> Any:
    """Declare a float."""

    def bind(name: str) -> dict[int, Any]:
        def read(values: dict[str, Any], data: bytes | bytearray, at: int, stop: int, depth: int, load: Budget) -> None:
            (values[name],) = struct.unpack_from("<f", data, at)

        return {FOUR_BYTES: read}

    return Field(number, 0.0, bind)


def integers(number: int, typecode: str = "q", convert: Callable[[int], int] = _signed) -> Any:
    """Declare a list of integers, one by one or packed."""

    def bind(name: str) -> dict[int, Any]:
        def take(values: dict[str, Any], found: int) -> None:
            if name not in values:
                values[name] = array(typecode)
            values[name].append(convert(found))

        def read(values: dict[str, Any], data: bytes | bytearray, at: int, stop: int, depth: int, load: Budget) -> None:
            if name not in values:
                values[name] = array(typecode)
            into = values[name]
            if stop - at > _FEW:
                _take_many(into, data, at, stop, load, short=convert is _signed_short)
                return
            while at < stop:
                found, at = decode_number(data, at)
                into.append(convert(found))
            if at != stop:
                raise WireError(f"{name} ends within a number")

        return {VARINT: take, SIZED: read}

    return Field(number, (), bind)


def short_integers(number: int) -> Any:
    """Declare a list of integers of 32 bits."""
    return integers(number, "q", _signed_short)


def unsigned_integers(number: int) -> Any:
    """Declare a list of integers without a sign."""
    return integers(number, "Q", _unsigned)


def _take_many(into: array[int], data: bytes | bytearray, at: int, stop: int, load: Budget, *, short: bool) -> None:
    """Decode packed numbers with NumPy, some at a time."""
    while at < stop:
        load.check_time()
        end = min(at + _AT_ONCE, stop)
        longest = min(end + LAST_BYTE, stop)  # no number has more bytes; looked through one by one
        while end < longest and data[end - 1] > 0x7F:
            end += 1
        found = _decoded(np.frombuffer(data, np.uint8, end - at, at))
        load.take_memory(into.itemsize * found.size, "a list of numbers")
        into.frombytes((found.astype(np.int32).astype(np.int64) if short else found).tobytes())
        at = end


def _decoded(data: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    last = np.flatnonzero(data < 0x80)
    if not last.size or last[-1] != data.size - 1:
        raise WireError("the data ends within a number")
    first = np.concatenate([[0], last[:-1] + 1])
    lengths = last - first
    if lengths.max() > LAST_BYTE:
        raise WireError("a number without an end")
    groups = (data & 0x7F).astype(np.uint64)
    values: npt.NDArray[np.uint64] = groups[first]
    for place in range(1, int(lengths.max()) + 1):
        longer = lengths >= place
        values[longer] |= groups[first[longer] + place] << np.uint64(7 * place)
    return values


def reals(number: int, typecode: str = "f") -> Any:
    """Declare a list of floats, one by one or packed; typecode "d": of 64 bits."""
    wire, size = (FOUR_BYTES, 4) if typecode == "f" else (EIGHT_BYTES, 8)

    def bind(name: str) -> dict[int, Any]:
        def read(values: dict[str, Any], data: bytes | bytearray, at: int, stop: int, depth: int, load: Budget) -> None:
            if (stop - at) % size:
                raise WireError(f"{name} ends within a number")
            if name not in values:
                values[name] = array(typecode)
            for begin in range(at, stop, _AT_ONCE):
                load.check_time()
                new = array(typecode, data[begin : min(begin + _AT_ONCE, stop)])
                if sys.byteorder == "big":
                    new.byteswap()
                values[name].extend(new)

        return {wire: read, SIZED: read}

    return Field(number, (), bind)


def message(number: int, cls: type[Message] | str, *, group: Sequence[str] = ()) -> Any:
    """Declare a message; of a `group` one is set at a time."""

    def bind(name: str) -> dict[int, Any]:
        def read(values: dict[str, Any], data: bytes | bytearray, at: int, stop: int, depth: int, load: Budget) -> None:
            for other in group:
                if other != name:
                    values.pop(other, None)
            if name not in values:
                load.take_memory(_OBJECT, _MESSAGES)
                values[name] = (CLASSES[cls] if isinstance(cls, str) else cls)()
            read_into(values[name], data, at, stop, depth, load)

        return {SIZED: read}

    return Field(number, None, bind, cls) if isinstance(cls, str) else Field(number, cls(), bind)


def messages(number: int, cls: type[Message], *, layers: str = "") -> Any:
    """Declare a list of messages; of one that becomes layers, `layers` says what is around it."""
    located = cls._located

    def bind(name: str) -> dict[int, Any]:
        def read(values: dict[str, Any], data: bytes | bytearray, at: int, stop: int, depth: int, load: Budget) -> None:
            load.take_memory(_OBJECT, _MESSAGES)
            if layers and name in values:
                load.check_layers(len(values[name]) + 1, layers)
            one = cls()
            read_into(one, data, at, stop, depth, load)
            if located:
                one.where = data, at, stop
            if name in values:
                values[name].append(one)
            else:
                values[name] = [one]

        return {SIZED: read}

    return Field(number, (), bind)


class Unread(Sequence[Message]):
    """Messages that were not looked into yet.

    Each is read when it is asked for, which may raise what `Message.read` does.
    """

    def __init__(self, cls: type[Message]) -> None:
        self._cls = cls
        self.encoded: list[bytes] = []

    def __len__(self) -> int:
        return len(self.encoded)

    def __getitem__(self, index: Any) -> Any:
        return self._cls.read(self.encoded[index])


def unread(number: int, cls: type[Message]) -> Any:
    """Declare a list of messages of which many are never needed."""

    def bind(name: str) -> dict[int, Any]:
        def read(values: dict[str, Any], data: bytes | bytearray, at: int, stop: int, depth: int, load: Budget) -> None:
            load.take_memory(_OBJECT, _MESSAGES)
            if name not in values:
                values[name] = Unread(cls)
            values[name].encoded.append(data[at:stop])

        return {SIZED: read}

    return Field(number, (), bind)


def nested(number: int, cls: str) -> Any:
    """Declare a message that may hold others of its own kind: its depth counts."""
    declared = message(number, cls)

    def bind(name: str) -> dict[int, Any]:
        (read,) = declared.bind(name).values()

        def deeper(values: dict[str, Any], data: bytes | bytearray, at: int, stop: int, depth: int, load: Budget) -> None:
            load.check_nesting(depth + 1, f"a {cls}")
            read(values, data, at, stop, depth + 1, load)

        return {SIZED: deeper}

    return Field(number, None, bind, cls)


def kept(number: int, *, group: Sequence[str] = ()) -> Any:
    """Declare a message that is only noted, and shows as its first bytes.

    Of a `group` one is set at a time.
    """

    def bind(name: str) -> dict[int, Any]:
        def read(values: dict[str, Any], data: bytes | bytearray, at: int, stop: int, depth: int, load: Budget) -> None:
            for other in group:
                values.pop(other, None)
            values[name] = data[at : min(stop, at + _AT_ONCE)]

        return {SIZED: read}

    return Field(number, b"", bind)
