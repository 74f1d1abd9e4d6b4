"""Tensors kept in files beside the model; a path never leaves the model's folder."""

from __future__ import annotations

import os
import stat
from pathlib import Path, PurePosixPath, PureWindowsPath

from dovetail.errors import ErrorCode, ModelError

from .messages import TensorProto

_OPEN_FLAGS = os.O_RDONLY | sum(getattr(os, flag, 0) for flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))


class ExternalData:
    """Reads external tensors below one folder.

    Args:
        folder: Where the model lies; None if it came from memory, so that external data is refused.

    Attributes:
        files: Those that were read, each once.
    """

    def __init__(self, folder: str | Path | None) -> None:
        self._folder = None if folder is None else Path(folder).resolve()
        self.files: dict[Path, None] = {}

    def read(self, tensor: TensorProto, nbytes: int) -> bytes:
        """Return the bytes of a tensor.

        Raises:
            ModelError: The path leaves the folder (`EXTERNAL_DATA_REFUSED`), or the file is missing or too short.
        """
        entries = {entry.key: entry.value for entry in tensor.external_data}
        path = self._resolve(tensor.name, entries.get("location", ""))
        offset, length = (_count(tensor.name, key, entries.get(key)) for key in ("offset", "length"))
        if length is not None and length != nbytes:
            raise ModelError(
                f"tensor {tensor.name!r} needs {nbytes} bytes, but its external data is said to have {length}",
                code=ErrorCode.MODEL_MALFORMED,
                hint="export the model again",
                tensor=tensor.name,
            )
        self.files[path] = None
        try:
            return self._read(path, offset or 0, nbytes, tensor.name)
        except OSError as error:
            raise ModelError(
                f"external data of tensor {tensor.name!r} cannot be read: {error}",
                code=ErrorCode.MODEL_NOT_FOUND,
                hint="keep the data files in the folder of the model",
                tensor=tensor.name,
            ) from error

    def _resolve(self, name: str, location: str) -> Path:
        if self._folder is None:
            raise _refused(name, location, "the model came from memory, so that there is no folder to look in", "give base_dir")
        windows, posix = PureWindowsPath(location), PurePosixPath(location)
        if not location or "\0" in location or windows.is_absolute() or windows.drive or windows.root or posix.is_absolute():
            raise _refused(name, location, "it is not a relative path")
        if ".." in windows.parts or ".." in posix.parts:
            raise _refused(name, location, "it climbs out of its folder")
        try:
            path = (self._folder / location).resolve()
        except (OSError, RuntimeError) as error:
            raise _refused(name, location, str(error)) from error
        if not path.is_relative_to(self._folder):
            raise _refused(name, location, "a link leads out of the model's folder")
        return path

    @staticmethod
    def _read(path: Path, offset: int, nbytes: int, name: str) -> bytes:
        # Non-blocking and not following links: neither a pipe nor a link put there meanwhile is opened for real.
        descriptor = os.open(path, _OPEN_FLAGS)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise _refused(name, path.name, "it is not a regular file")
            if offset + nbytes > status.st_size:
                raise ModelError(
                    f"tensor {name!r} needs {nbytes} bytes from offset {offset} of {path.name!r}, which has {status.st_size}",
                    code=ErrorCode.MODEL_MALFORMED,
                    hint="the data file is cut short or belongs to another model",
                    tensor=name,
                )
            file.seek(offset)
            return file.read(nbytes)


def _count(name: str, key: str, text: str | None) -> int | None:
    if text is None:
        return None
    # isdecimal alone would take digits of other scripts, and int() underscores and signs.
    if not text.isascii() or not text.isdecimal() or len(text) > 18:
        raise ModelError(
            f"external data of tensor {name!r} has {key} {text!r}",
            code=ErrorCode.MODEL_MALFORMED,
            hint="expected a non-negative integer",
            tensor=name,
        )
    return int(text)


def _refused(name: str, location: str, reason: str, hint: str = "data files must lie in the model's own folder") -> ModelError:
    return ModelError(
        f"external data {location!r} of tensor {name!r} is refused: {reason}",
        code=ErrorCode.EXTERNAL_DATA_REFUSED,
        hint=hint,
        tensor=name,
        location=location,
    )
