"""From a path or bytes to the tables of a model."""

from __future__ import annotations

import os

import numpy as np

from dovetail import DovetailError, ErrorCode, ModelError
from dovetail.ground.limits import budget
from dovetail.ground.making import Making
from dovetail.ground.pieces import read_into
from dovetail.ground.records import NamedTuple

from .flatbuffer import BrokenFile, Bytes, Table, Tables
from .malformed import malformed
from .schema import IDENTIFIER, VERSION

LOW_LEVEL_ERRORS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError, BrokenFile)
"""What is raised when values from a file do not make sense."""


class ModelFile(NamedTuple):
    """A model that was read.

    Attributes:
        root: Its outermost table.
        data: All of its bytes; constants are views of them.
        origin: How to call it in messages.
        buffers: What holds the constants.
        subgraphs: The functions; the first is the model itself.
        making: Counts constants that the file does not hold as they are.
    """

    root: Table
    data: Bytes
    origin: str
    buffers: Tables
    subgraphs: Tables
    making: Making


def read_model(model: str | os.PathLike[str] | bytes) -> ModelFile:
    """Read a model.

    Raises:
        ModelError: Missing, not a file, empty, or not a TensorFlow Lite model.
        LimitError: It is larger than the load under way allows.
    """
    if isinstance(model, bytes | bytearray | memoryview):
        return _checked(np.frombuffer(bytes(model), np.uint8), "the model")
    path = os.fspath(model)
    return _checked(_read(path), repr(path))


def _read(path: str) -> Bytes:
    try:
        if not os.path.exists(path):
            raise ModelError(f"there is no file {path!r}", code=ErrorCode.MODEL_NOT_FOUND, hint="check the path")
        if not os.path.isfile(path):
            what = "a folder" if os.path.isdir(path) else "not a regular file"
            raise ModelError(f"{path!r} is {what}", code=ErrorCode.MODEL_NOT_FOUND, hint="give the path of a .tflite file")
        with open(path, "rb", buffering=0) as file:
            nbytes = os.fstat(file.fileno()).st_size
            budget().take_memory(nbytes, repr(path))
            data = np.empty(nbytes, np.uint8)  # which NumPy asks large pages for
            done = read_into(file, data)
        data.flags.writeable = False
        return data[:done]  # it may have become shorter meanwhile
    except DovetailError:
        raise
    except (OSError, ValueError) as error:
        raise ModelError(f"{path!r} cannot be read: {error}", code=ErrorCode.MODEL_NOT_FOUND, hint="check the path") from error


def _checked(data: Bytes, origin: str) -> ModelFile:
    if not len(data):
        raise malformed(f"{origin} is empty")
    if bytes(data[4:8]) != IDENTIFIER:
        found = bytes(data[4:8])
        raise malformed(f"{origin} is not a TensorFlow Lite model: bytes 4 to 7 are {found!r}, expected {IDENTIFIER!r}")
    try:
        root = Table.root(data, "Model")
        version = root.number("version")
        if version != VERSION:
            raise malformed(
                f"{origin} has version {version} of the schema; there is only version {VERSION}", hint="convert the model again"
            )
        subgraphs = root.tables("subgraphs")
        if not len(subgraphs):
            raise malformed(f"{origin} holds no subgraph")
        return ModelFile(root, data, origin, root.tables("buffers"), subgraphs, Making(len(data)))
    except BrokenFile as error:
        raise malformed(f"{origin} is damaged: {error}") from error
