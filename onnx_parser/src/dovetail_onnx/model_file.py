"""From a path or bytes to a `ModelProto` that is worth reading on."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from dovetail import DovetailError, ErrorCode, ModelError
from dovetail.ground.limits import budget
from dovetail.ground.records import NamedTuple

from .large_tensors import OddEncodingError, joined, read_apart, read_bytes
from .malformed import malformed
from .messages import ModelProto
from .tensors import Bytes
from .wire import WireError, decode_number

if TYPE_CHECKING:
    import onnx

LOW_LEVEL_ERRORS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What Python raises when values from a file do not make sense."""

_EXPORT_AGAIN = "check that the download or export is complete"


class ModelFile(NamedTuple):
    """A model that was read.

    Attributes:
        proto: The model.
        origin: How to call it in messages.
        folder: Where it lies, if it lies anywhere.
        cut: Bytes of initializers of the main graph that `proto` does not have, by their place.
    """

    proto: ModelProto
    origin: str
    folder: str | None = None
    cut: Mapping[int, Bytes] = {}


def read_model(model: str | os.PathLike[str] | bytes | onnx.ModelProto) -> ModelFile:
    """Read a model.

    One that protobuf has read already is encoded again, so that all are read in one way.

    Raises:
        ModelError: Missing, not a file, empty, or not an ONNX model.
    """
    if isinstance(model, bytes | bytearray | memoryview):
        data = model if isinstance(model, bytes) else joined([b"", memoryview(model).cast("B")])  # which copies it
        return ModelFile(_decode(data, "the model"), "the model")
    if not isinstance(model, str | os.PathLike):
        return ModelFile(_decode(_encoded(model), "the model"), "the model")
    path = os.fspath(model)
    origin = repr(path)
    proto, cut = _read(path, origin)
    return ModelFile(_plausible(proto, origin), origin, os.path.dirname(path), cut)


_WIRE_TYPES = {1: 0, 2: 2, 3: 2, 4: 2, 5: 0, 6: 2, 7: 2, 8: 2, 14: 2, 20: 2, 25: 2, 26: 2}
"""Of the fields of a `ModelProto`, by number (onnx.proto)."""
_GRAPH = 7


def begins_as_model(head: bytes) -> bool:
    """Tell whether the first bytes of a file can be those of an ONNX model.

    The format has no mark of its own: fields that a `ModelProto` has follow one another up to the
    graph, or up to the end of what is given.
    """
    at = fields = 0
    while at < len(head):
        try:
            tag, at = decode_number(head, at)
            number, wire_type = tag >> 3, tag & 7
            if _WIRE_TYPES.get(number) != wire_type:
                return False
            fields += 1
            value, at = decode_number(head, at)
        except (WireError, IndexError):  # what is given ends here
            break
        if number == _GRAPH:
            return True
        if wire_type == 2:
            at += value
    return fields > 1


def _read(path: str, origin: str) -> tuple[ModelProto, Mapping[int, Bytes]]:
    load = budget()
    taken = load.memory
    try:
        if not os.path.exists(path):
            raise ModelError(f"there is no file {origin}", code=ErrorCode.MODEL_NOT_FOUND, hint="check the path")
        if not os.path.isfile(path):
            what = "a folder" if os.path.isdir(path) else "not a regular file"
            raise ModelError(f"{origin} is {what}", code=ErrorCode.MODEL_NOT_FOUND, hint="give the path of an .onnx file")
        try:
            rest, cut = read_apart(path)
            return ModelProto.read(rest), cut
        except (OddEncodingError, WireError):  # what is wrong, if anything is, is told of the whole
            load.give_memory(load.memory - taken)
            with open(path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                load.take_memory(size, f"{origin}, read as a whole,")
                return _decode(read_bytes(file, size), origin), {}
    except DovetailError:
        raise
    except (OSError, ValueError) as error:
        raise ModelError(f"{origin} cannot be read: {error}", code=ErrorCode.MODEL_NOT_FOUND, hint="check the path") from error


def _decode(data: bytes | bytearray, origin: str) -> ModelProto:
    if not data:
        raise malformed(f"{origin} is empty", hint=_EXPORT_AGAIN)
    try:
        model = ModelProto.read(data)
    except WireError as error:
        raise malformed(
            f"{origin} is not an ONNX model ({len(data)} bytes, not a protobuf message of it): {error}",
            hint=_EXPORT_AGAIN,
        ) from error
    return _plausible(model, origin)


def _encoded(model: onnx.ModelProto) -> bytes:
    try:
        return model.SerializeToString()
    except Exception as error:  # protobuf's own, whatever they are: above 2 GiB it cannot
        raise malformed(
            f"the model cannot be encoded: {error}",
            hint="save it with external data and give the path of the file",
        ) from error


def _plausible(model: ModelProto, origin: str) -> ModelProto:
    if not model.has("graph") or not model.graph.output:
        raise malformed(f"{origin} holds no graph with outputs", hint=_EXPORT_AGAIN)
    if not model.opset_import and model.ir_version >= 3:
        found = f"{origin} does not say which operator set it uses"
        raise malformed(found, hint=_EXPORT_AGAIN)
    return model
