"""Tensors kept in files beside the model; a path never leaves the model's folder."""

from __future__ import annotations

import os
from io import RawIOBase

import numpy as np
import numpy.typing as npt

from dovetail import DovetailError, ErrorCode, ModelError
from dovetail.ground.late_reads import PlaceInFile, may_wait
from dovetail.ground.limits import budget
from dovetail.ground.pieces import read_into

from .malformed import malformed
from .messages import TensorProto


class ExternalData:
    """Reads external tensors below one folder.

    Args:
        folder: Where the model lies; None if it came from memory, so that external data is refused.

    Attributes:
        files: Those that were read, each once.
    """

    def __init__(self, folder: str | os.PathLike[str] | None) -> None:
        self._folder = None if folder is None else os.path.realpath(folder)
        self.files: dict[str, None] = {}

    def read(self, tensor: TensorProto, nbytes: int) -> npt.NDArray[np.uint8] | PlaceInFile:
        """Return the bytes of a tensor, or where they are if they may wait there.

        Raises:
            ModelError: The path leaves the folder or is of no regular file
                (`EXTERNAL_DATA_REFUSED`), or the file is missing or too short.
            LimitError: The load may not take so much memory.
        """
        from .beneath import EscapeError, open_beneath  # most models have no such tensor

        entries = {entry.key: entry.value for entry in tensor.external_data}
        location = entries.get("location", "")
        if self._folder is None:
            raise _refused(
                tensor.name, location, "the model came from memory, so that there is no folder to look in", "give base_dir"
            )
        offset, length = (_count(tensor.name, key, entries.get(key)) for key in ("offset", "length"))
        if length is not None and length != nbytes:
            raise malformed(
                f"tensor {tensor.name!r} needs {nbytes} bytes, but its external data is said to have {length}",
                hint="export the model again",
                tensor=tensor.name,
            )
        try:
            descriptor, path = open_beneath(self._folder, location)
            self.files[path] = None
            with os.fdopen(descriptor, "rb", buffering=0) as file:
                return _read(file, path, offset or 0, nbytes, tensor.name)
        except EscapeError as error:
            raise _refused(tensor.name, location, str(error)) from error
        except OSError as error:
            if isinstance(error, DovetailError):  # a deadline
                raise
            raise ModelError(
                f"external data of tensor {tensor.name!r} cannot be read: {error}",
                code=ErrorCode.MODEL_NOT_FOUND,
                hint="keep the data files in the folder of the model",
                tensor=tensor.name,
            ) from error


def _read(file: RawIOBase, path: str, offset: int, nbytes: int, name: str) -> npt.NDArray[np.uint8] | PlaceInFile:
    found_open = os.fstat(file.fileno())
    size = found_open.st_size
    if offset + nbytes <= size:
        if may_wait(nbytes):
            return PlaceInFile(path, found_open, offset, nbytes, f"tensor {name!r}")
        budget().take_memory(nbytes, f"tensor {name!r}")
        file.seek(offset)
        found = np.empty(nbytes, np.uint8)
        if read_into(file, found) == nbytes:  # else it became shorter meanwhile
            found.flags.writeable = False  # so that the network shares it
            return found
    raise malformed(
        f"tensor {name!r} needs {nbytes} bytes from offset {offset} of {os.path.basename(path)!r}, which has {size}",
        hint="the data file is cut short or belongs to another model",
        tensor=name,
    )


def _count(name: str, key: str, text: str | None) -> int | None:
    if text is None:
        return None
    # isdecimal alone would take digits of other scripts, and int() underscores and signs.
    if not text.isascii() or not text.isdecimal() or len(text) > 18:
        raise malformed(
            f"external data of tensor {name!r} has {key} {text!r}",
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
