"""Read what a file says of itself, and of its ends: how pictures are scaled, rates, class names.

Source: `metadata_schema.fbs` of TensorFlow Lite Support, file identifier M001. It is a FlatBuffer
in a buffer of the model; the files that it names lie in a ZIP archive behind the model.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from dovetail import DovetailError
from dovetail.graph.meaning import Meaning
from dovetail.ground.logs import Log

from .flatbuffer import BrokenFile, Bytes, Source, Table, Tables
from .model_file import ModelFile

_log = Log("dovetail")
_ENTRY = "TFLITE_METADATA"
_NORMALIZATION = 1
"""Of the union of process units."""
_SOUND = 4
"""Of the union of properties of contents."""
_AXIS_LABELS, _VALUE_LABELS = 2, 3
"""Of the types of associated files."""
_TEXTS = ("name", "description", "version", "author", "license")
"""Fields of the metadata."""
_LONGEST_TEXT = 1 << 13
"""Bytes of an entry that is a text."""
_MOST_ENTRIES = 1 << 10
_LARGEST_FILES = 1 << 20
"""Bytes of all files of labels."""
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Of compression; others may ask for gigabytes before the first byte."""
_TROUBLE = (
    *(ArithmeticError, AttributeError, LookupError, NotImplementedError, OSError, RuntimeError, ValueError),
    *(EOFError, struct.error, zipfile.BadZipFile, zlib.error),
)
"""What is raised by what is broken; encrypted archives raise a RuntimeError."""


def meanings(file: ModelFile, subgraph: int, inputs: Sequence[str], outputs: Sequence[str]) -> dict[str, Meaning]:
    """Return what the file says of inputs and outputs, by name.

    A model runs without it: what is damaged is left out, and the log says so.

    Args:
        file: The model.
        subgraph: Number of the subgraph that was translated.
        inputs: Names of its inputs, in order.
        outputs: Names of its outputs, in order.
    """
    try:
        root = _root(file)
        return {} if root is None else dict(_found(file, root, subgraph, inputs, outputs))
    except DovetailError:
        raise
    except (BrokenFile, *_TROUBLE) as error:
        _log.warning("%s: its metadata are left out, being damaged: %s", file.origin, error)
        return {}


def metadata_of(file: ModelFile) -> dict[str, str]:
    """Return what a file says of itself, as text by name; what it does not say is left out.

    What stands in its entries of metadata has that word before its own name: the fields of
    `TFLITE_METADATA`, and texts of other entries, such as `min_runtime_version`.
    """
    found = {"version": str(file.root.number("version"))}
    try:
        found["description"] = file.root.text("description")
        root = _root(file)
        if root is not None:
            found |= {f"metadata.{name}": root.text(name) for name in _TEXTS}
        entries = file.root.tables("metadata")
        for index in range(min(len(entries), _MOST_ENTRIES)):
            buffer = file.buffers[entries[index].number("buffer")]
            if entries[index].text("name") != _ENTRY and buffer.extent("data")[1] <= _LONGEST_TEXT:
                data = buffer.view("data")
                found.setdefault(f"metadata.{entries[index].text('name')}", _text(bytes(data)))
    except DovetailError:
        raise
    except (BrokenFile, *_TROUBLE) as error:
        _log.warning("%s: some of its metadata are left out, being damaged: %s", file.origin, error)
    return {name: text for name, text in found.items() if text}


def _text(data: bytes) -> str:
    """Return text, without zeros that fill it up; empty if it is none."""
    try:
        text = data.rstrip(b"\0").decode()
    except UnicodeDecodeError:
        return ""
    return text if text.replace("\n", "").isprintable() else ""


def _root(file: ModelFile) -> Table | None:
    entries = file.root.tables("metadata")
    for index in range(len(entries)):
        if entries[index].text("name") == _ENTRY:
            data = file.buffers[entries[index].number("buffer")].vector("data")
            return Table.root(_aligned(data), "ModelMetadata") if len(data) else None
    return None


def _aligned(data: Bytes) -> Bytes:
    return np.ascontiguousarray(data).copy()


def _found(
    file: ModelFile, root: Table, subgraph: int, inputs: Sequence[str], outputs: Sequence[str]
) -> Iterator[tuple[str, Meaning]]:
    subgraphs = root.tables("subgraph_metadata")
    labels = _Labels(file.source)
    if subgraph >= len(subgraphs):
        return
    for end, names in (("input_tensor_metadata", inputs), ("output_tensor_metadata", outputs)):
        tensors: Tables = subgraphs[subgraph].tables(end)
        for name, index in zip(names, range(len(tensors)), strict=False):
            meaning = _meaning(tensors[index], labels)
            if meaning != Meaning():
                yield name, meaning


def _meaning(tensor: Table, held: _Labels) -> Meaning:
    mean: tuple[float, ...] = ()
    deviation: tuple[float, ...] = ()
    units = tensor.tables("process_units")
    for index in range(len(units)):
        if units[index].number("options_type") == _NORMALIZATION:
            options = units[index].table("options", "NormalizationOptions")
            if options is not None:
                mean, deviation = (options.numbers(part) for part in ("mean", "std"))
    if not (len(mean) == len(deviation) and np.isfinite([*mean, *deviation]).all() and all(deviation)):
        raise BrokenFile(f"pictures are scaled by mean {mean} and deviation {deviation}")
    labels: tuple[str, ...] = ()
    associated = tensor.tables("associated_files")
    for index in range(len(associated)):
        if associated[index].number("type") in (_AXIS_LABELS, _VALUE_LABELS) and not labels:
            labels = held.lines(associated[index].text("name"))
    return Meaning(labels, mean, deviation, _rate(tensor))


def _rate(tensor: Table) -> int:
    """Return how many samples a second a sound has; 0 where nothing says so."""
    content = tensor.table("content")
    if content is None or content.number("content_properties_type") != _SOUND:
        return 0
    properties = content.table("content_properties", "AudioProperties")
    return 0 if properties is None else int(properties.number("sample_rate"))


class _Labels:
    """Files in the archive behind a model: any number of tensors may name one, each is read once.

    Args:
        source: The model, and the archive.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._known: dict[str, tuple[str, ...]] = {}
        self._left = _LARGEST_FILES

    @cached_property
    def _archive(self) -> zipfile.ZipFile:
        return zipfile.ZipFile(_Reading(self._source))

    def lines(self, name: str) -> tuple[str, ...]:
        """Return the lines of a file.

        Raises:
            BrokenFile: All files that are named have too many bytes, or it is packed in a rare way.
        """
        if name not in self._known:
            entry = self._archive.getinfo(name)
            if entry.compress_type not in _METHODS:
                raise BrokenFile(f"file {name!r} is packed by method {entry.compress_type}")
            with self._archive.open(entry) as member:
                text = member.read(self._left + 1)  # whatever size the archive states
            if len(text) > self._left:
                raise BrokenFile(f"file {name!r} and those before it have more than {_LARGEST_FILES} bytes")
            self._left -= len(text)
            self._known[name] = tuple(text.decode("utf-8", "replace").splitlines())
        return self._known[name]


class _Reading(io.RawIOBase):
    """The bytes of a model as a file: what is asked of it is read, and no more.

    Args:
        source: All of them.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        begin = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: len(self._source.data)}[whence]
        if begin + offset < 0:
            raise ValueError(f"byte {begin + offset} of a model is meant")
        self._at = begin + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        count = min(len(buffer), max(len(self._source.data) - self._at, 0))
        end = self._at + count
        self._source.need(self._at, end)
        memoryview(buffer)[:count] = self._source.buffer[self._at : end]
        self._at = end
        return count
