"""From a path or bytes to the tables of a model."""

from __future__ import annotations

import os
from contextlib import ExitStack
from io import FileIO

import numpy as np

from dovetail import DovetailError, ErrorCode, ModelError
from dovetail.ground.late_reads import may_wait
from dovetail.ground.limits import budget
from dovetail.ground.making import Making
from dovetail.ground.pieces import read_into
from dovetail.ground.records import NamedTuple

from .flatbuffer import BrokenFile, Bytes, Source, Table, Tables
from .late_pages import LatePages
from .malformed import malformed
from .schema import IDENTIFIER, VERSION

_READ_AT_ONCE = 1 << 22
"""Bytes of a file that is read as a whole; weights of a larger one are freed one by one."""
LOW_LEVEL_ERRORS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError, BrokenFile)
"""What is raised when values from a file do not make sense."""


class ModelFile(NamedTuple):
    """A model that was read.

    Attributes:
        root: Its outermost table.
        source: All of its bytes.
        origin: How to call it in messages.
        buffers: What holds the constants.
        subgraphs: The functions; the first is the model itself.
        making: Counts constants that the file does not hold as they are.
    """

    root: Table
    source: Source
    origin: str
    buffers: Tables
    subgraphs: Tables
    making: Making

    def check(self) -> None:
        """Refuse what was read of a file that was written to meanwhile.

        Raises:
            ModelError: It was (`MODEL_NOT_FOUND`).
        """
        if self.source.late is not None:
            self.source.late.check()

    def close(self) -> None:
        """Read no more of the file; constants that wait in it open it again."""
        if self.source.late is not None:
            self.source.late.close()


def read_model(model: str | os.PathLike[str] | bytes) -> ModelFile:
    """Read a model, and close it once it is translated.

    Of a large file, and of one whose weights may wait in it, only what is looked at is read.

    Raises:
        ModelError: Missing, not a file, empty, or not a TensorFlow Lite model.
        LimitError: It is larger than the load under way allows.
    """
    if isinstance(model, bytes | bytearray | memoryview):
        return _checked(Source(np.frombuffer(bytes(model), np.uint8)), "the model")
    path = os.fspath(model)
    source = _opened(path)
    try:
        return _checked(source, repr(path))
    except BaseException:
        if source.late is not None:
            source.late.close()
        raise


def _opened(path: str) -> Source:
    try:
        if not os.path.exists(path):
            raise ModelError(f"there is no file {path!r}", code=ErrorCode.MODEL_NOT_FOUND, hint="check the path")
        if not os.path.isfile(path):
            what = "a folder" if os.path.isdir(path) else "not a regular file"
            raise ModelError(f"{path!r} is {what}", code=ErrorCode.MODEL_NOT_FOUND, hint="give the path of a .tflite file")
        with ExitStack() as stack:
            file = stack.enter_context(open(path, "rb", buffering=0))
            nbytes = os.fstat(file.fileno()).st_size
            waits = may_wait(nbytes)
            if not waits:
                budget().check_memory(nbytes, f"the file {path!r}")
            late = _late(path, file) if waits or nbytes > _READ_AT_ONCE else None
            if late is None:
                return Source(_read(path, file, nbytes))
            stack.pop_all()  # which leaves it open
            return Source(late.data, late)
    except DovetailError:
        raise
    except (OSError, ValueError) as error:
        raise ModelError(f"{path!r} cannot be read: {error}", code=ErrorCode.MODEL_NOT_FOUND, hint="check the path") from error


def _late(path: str, file: FileIO) -> LatePages | None:
    try:
        return LatePages(path, file)
    except OSError:  # there is no address space for another copy: the only one will do
        return None


def _read(path: str, file: FileIO, nbytes: int) -> Bytes:
    budget().take_memory(nbytes, f"the file {path!r}")
    data = np.empty(nbytes, np.uint8)  # which NumPy asks large pages for
    done = read_into(file, data)
    data.flags.writeable = False
    return data[:done]  # it may have become shorter meanwhile


def _checked(source: Source, origin: str) -> ModelFile:
    nbytes = len(source.data)
    if not nbytes:
        raise malformed(f"{origin} is empty")
    source.need(0, min(8, nbytes))
    found = bytes(source.data[4:8])
    if found != IDENTIFIER:
        raise malformed(f"{origin} is not a TensorFlow Lite model: bytes 4 to 7 are {found!r}, expected {IDENTIFIER!r}")
    try:
        root = Table.root(source, "Model")
        version = root.number("version")
        if version != VERSION:
            raise malformed(
                f"{origin} has version {version} of the schema; there is only version {VERSION}", hint="convert the model again"
            )
        subgraphs = root.tables("subgraphs")
        if not len(subgraphs):
            raise malformed(f"{origin} holds no subgraph")
        return ModelFile(root, source, origin, root.tables("buffers"), subgraphs, Making(nbytes))
    except BrokenFile as error:
        raise malformed(f"{origin} is damaged: {error}") from error
