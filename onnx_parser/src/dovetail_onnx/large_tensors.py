"""Read a model file so that its weights are copied once: from the file into the network's arrays.

A file that is read as a whole has a tensor's bytes twice, in the file's and out of them. So the
initializers' bytes are cut out of it beforehand, by the few rules of the encoding of protobuf; what
is left, and every file that is in any way unusual, `wire` reads as a whole.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import BufferedReader
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt

from dovetail.ground.late_reads import LARGE, PlaceInFile, may_wait
from dovetail.ground.limits import budget
from dovetail.ground.pieces import read_into
from dovetail.ground.records import NamedTuple

from .messages import GraphProto, ModelProto, TensorProto

_VARINT, _EIGHT_BYTES, _SIZED, _FOUR_BYTES = 0, 1, 2, 5
"""Wire types."""
_LONGEST_HEAD = 20
"""Bytes of a tag and a size."""
_AT_ONCE = 1 << 23
"""Bytes of a file that are read or copied at once."""
_WINDOW = 1 << 12
"""Bytes that are read at once: many nodes, or the heads of one tensor."""


class OddEncodingError(ValueError):
    """The file is not encoded as was expected, or not at all."""


class _Field(NamedTuple):
    number: int
    wire: int
    begin: int
    payload: int
    end: int


def read_apart(path: str) -> tuple[bytes | bytearray, Mapping[int, npt.NDArray[Any] | PlaceInFile]]:
    """Return an ONNX file without the bytes of large initializers, and these by place.

    The place is that among the initializers. Bytes that may wait in the file are not read.

    Raises:
        OddEncodingError: The file is to be read as a whole.
        LimitError: The load may not take so much memory.
        OSError: It cannot be read.
    """
    with open(path, "rb") as file:
        return _Cutter(file, path).cut()


class _Cutter:
    def __init__(self, file: BufferedReader, path: str) -> None:
        self._file = file
        self._path = path
        self._size = file.seek(0, 2)
        self._places = count()
        self._cut: dict[int, npt.NDArray[Any] | PlaceInFile] = {}

    def cut(self) -> tuple[bytes | bytearray, dict[int, npt.NDArray[Any] | PlaceInFile]]:
        """Return what is left, and what was cut out."""
        if not self._size:
            raise OddEncodingError("the file is empty")
        budget().take_memory(self._size, "the file")
        return self._shortened(0, self._size, ModelProto.numbers["graph"], self._graph), self._cut

    def _graph(self, begin: int, end: int) -> bytes | bytearray:
        return self._shortened(begin, end, GraphProto.numbers["initializer"], self._tensor)

    def _tensor(self, begin: int, end: int) -> bytes | bytearray | None:
        place = next(self._places)
        if end - begin < LARGE:
            return None
        raw = [field for field in self._fields(begin, end) if field.number == TensorProto.numbers["raw_data"]]
        if len(raw) != 1 or raw[0].wire != _SIZED or raw[0].end - raw[0].payload < LARGE:
            return None
        nbytes = raw[0].end - raw[0].payload
        if may_wait(nbytes):
            status = os.fstat(self._file.fileno())
            if raw[0].end > status.st_size:
                raise OddEncodingError("the file ends within a tensor")
            budget().give_memory(nbytes)
            self._cut[place] = PlaceInFile(self._path, status, raw[0].payload, nbytes, f"initializer {place}")
            return self._read(begin, raw[0].begin) + self._read(raw[0].end, end)
        array = np.empty(nbytes, np.uint8)
        self._file.seek(raw[0].payload)
        if read_into(self._file, array) != array.nbytes:
            raise OddEncodingError("the file ends within a tensor")
        array.flags.writeable = False  # so that the network shares it
        self._cut[place] = array
        return self._read(begin, raw[0].begin) + self._read(raw[0].end, end)

    def _shortened(
        self, begin: int, end: int, number: int, shorten: Callable[[int, int], bytes | bytearray | None]
    ) -> bytes | bytearray:
        """Return a message whose fields of a number were shortened, where they could be."""
        parts, done = [], begin
        for field in self._fields(begin, end):
            shorter = shorten(field.payload, field.end) if field.number == number and field.wire == _SIZED else None
            if (
                shorter is not None and len(shorter) < field.end - field.payload
            ):  # else a million empty ones become as many parts
                parts += [self._read(done, field.begin), bytes([number << 3 | _SIZED]), _encoded(len(shorter)), shorter]
                done = field.end
        return joined([*parts, self._read(done, end)])

    def _fields(self, begin: int, end: int) -> Iterator[_Field]:
        window, start, load = b"", begin, budget()
        while begin < end:
            if begin + _LONGEST_HEAD > start + len(window):
                load.check_time()
                self._file.seek(begin)
                window, start = self._file.read(_WINDOW), begin
            tag, at = _number(window, begin - start)
            wire = tag & 7
            payload = stop = start + at
            if wire == _VARINT:
                payload = stop = start + _number(window, at)[1]
            elif wire == _SIZED:
                size, at = _number(window, at)
                payload = start + at
                stop = payload + size
            elif wire in (_EIGHT_BYTES, _FOUR_BYTES):
                stop += 8 if wire == _EIGHT_BYTES else 4
            else:
                raise OddEncodingError(f"wire type {wire}")
            if stop > end:
                raise OddEncodingError("a field is longer than what is around it")
            yield _Field(tag >> 3, wire, begin, payload, stop)
            begin = stop

    def _read(self, begin: int, end: int) -> bytes | bytearray:
        self._file.seek(begin)
        found = read_bytes(self._file, end - begin)
        if len(found) != end - begin:
            raise OddEncodingError("the file ends early")
        return found


def read_bytes(file: BufferedReader, nbytes: int) -> bytes | bytearray:
    """Return what comes next in a file, as many bytes as there are."""
    if nbytes <= _AT_ONCE:
        return file.read(nbytes)
    found = bytearray(nbytes)
    del found[read_into(file, np.frombuffer(found, np.uint8)) :]
    return found


def joined(parts: Sequence[bytes | bytearray]) -> bytes | bytearray:
    """Join pieces of a file."""
    if len(parts) == 1:
        return parts[0]
    if sum(map(len, parts)) <= _AT_ONCE:
        return b"".join(parts)
    found, load = bytearray(), budget()
    for part in parts:
        for begin in range(0, len(part), _AT_ONCE):
            load.check_time()
            found += memoryview(part)[begin : begin + _AT_ONCE]
    return found


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Decode a number, groups of seven bits; returns it and where it ends."""
    if at < len(data) and data[at] < 0x80:  # as most are
        return data[at], at + 1
    value = shift = 0
    while shift < 64 and at < len(data):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise OddEncodingError("a number without an end")


def _encoded(value: int) -> bytes:
    """Encode a number in groups of seven bits."""
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)
