"""From a path or bytes to a `ModelProto` that is worth reading on."""

from __future__ import annotations

from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from dovetail.errors import ErrorCode, ModelError

LOW_LEVEL_ERRORS = (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError)
"""What Python raises when values from a file do not make sense."""

_EXPORT_AGAIN = "check that the download or export is complete"


def read_model(model: str | Path | bytes | onnx.ModelProto) -> tuple[onnx.ModelProto, str, Path | None]:
    """Return the model, how to call it in messages, and the folder that it lies in.

    Raises:
        ModelError: Missing, not a file, empty, or not an ONNX model.
    """
    if isinstance(model, onnx.ModelProto):
        return _plausible(model, "the model"), "the model", None
    if isinstance(model, bytes | bytearray | memoryview):
        return _decode(bytes(model), "the model"), "the model", None
    path = Path(model)
    origin = f"{str(path)!r}"
    return _decode(_read(path, origin), origin), origin, path.parent


def _read(path: Path, origin: str) -> bytes:
    try:
        if not path.exists():
            raise ModelError(f"there is no file {origin}", code=ErrorCode.MODEL_NOT_FOUND, hint="check the path")
        if not path.is_file():
            what = "a folder" if path.is_dir() else "not a regular file"
            raise ModelError(f"{origin} is {what}", code=ErrorCode.MODEL_NOT_FOUND, hint="give the path of an .onnx file")
        return path.read_bytes()
    except (OSError, ValueError) as error:
        raise ModelError(f"{origin} cannot be read: {error}", code=ErrorCode.MODEL_NOT_FOUND, hint="check the path") from error


def _decode(data: bytes, origin: str) -> onnx.ModelProto:
    if not data:
        raise ModelError(f"{origin} is empty", code=ErrorCode.MODEL_MALFORMED, hint=_EXPORT_AGAIN)
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except (DecodeError, ValueError) as error:
        raise ModelError(
            f"{origin} is not an ONNX model ({len(data)} bytes, not a protobuf message of it): {error}",
            code=ErrorCode.MODEL_MALFORMED,
            hint=_EXPORT_AGAIN,
        ) from error
    return _plausible(model, origin)


def _plausible(model: onnx.ModelProto, origin: str) -> onnx.ModelProto:
    if not model.HasField("graph") or not model.graph.output:
        raise ModelError(f"{origin} holds no graph with outputs", code=ErrorCode.MODEL_MALFORMED, hint=_EXPORT_AGAIN)
    if not model.opset_import and model.ir_version >= 3:
        found = f"{origin} does not say which operator set it uses"
        raise ModelError(found, code=ErrorCode.MODEL_MALFORMED, hint=_EXPORT_AGAIN)
    return model
