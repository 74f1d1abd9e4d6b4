"""Weights that stay in their file until something asks for them.

To say what a network is made of takes no weights, and they are most of a file. Whoever wants no
more than that parses by `waiting`; a parser that can then hands over places in files instead of
arrays. A file that was changed meanwhile is noticed, and never mixed with what was read before.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from .errors import DovetailError, ErrorCode, ModelError
from .limits import budget
from .pieces import read_into

LARGE = 1 << 12
"""Bytes of a tensor from which on it is worth while to leave it where it is."""
_FLAGS = os.O_RDONLY | sum(getattr(os, flag, 0) for flag in ("O_NONBLOCK", "O_BINARY", "O_CLOEXEC"))


class _Thread(threading.local):
    waits: bool = False


_thread = _Thread()


def may_wait(nbytes: int) -> bool:
    """Tell a parser whether a tensor of so many bytes may stay in its file for now."""
    return _thread.waits and nbytes >= LARGE


@contextmanager
def waiting(waits: bool) -> Iterator[None]:
    """Let what the block parses leave weights in their files, or not."""
    before = _thread.waits
    _thread.waits = waits
    try:
        yield
    finally:
        _thread.waits = before


class PlaceInFile:
    """Bytes of a file that can be read later, if it is still the same.

    Args:
        path: The file.
        found: What `os.fstat` says of it while it is open and checked.
        offset: Where the bytes begin.
        nbytes: How many they are.
        what: Whose they are, for messages.

    Attributes:
        nbytes: How many bytes there are.
        what: Whose they are; may be set once that is known.
    """

    __slots__ = ("_offset", "_path", "_stamp", "nbytes", "what")

    def __init__(self, path: str, found: os.stat_result, offset: int, nbytes: int, what: str) -> None:
        # Not made shorter: above a link is the folder that it leads to, not its own.
        self._path = path if os.path.isabs(path) else os.path.join(os.getcwd(), path)
        self._stamp = _stamp(found)
        self._offset = offset
        self.what = what
        self.nbytes = nbytes

    def read(self) -> npt.NDArray[np.uint8]:
        """Return the bytes, read-only.

        Raises:
            ModelError: The file was removed or changed (`MODEL_NOT_FOUND`).
            LimitError: The load under way may not take so much memory, or more time.
        """
        budget().take_memory(self.nbytes, self.what)
        try:
            with os.fdopen(os.open(self._path, _FLAGS), "rb", buffering=0) as file:
                if _stamp(os.fstat(file.fileno())) != self._stamp:
                    raise self._changed()
                found = np.empty(self.nbytes, np.uint8)
                file.seek(self._offset)
                done = read_into(file, found)
                if done != self.nbytes or _stamp(os.fstat(file.fileno())) != self._stamp:
                    raise self._changed()
        except OSError as error:
            if isinstance(error, DovetailError):  # a deadline
                raise
            raise self._changed(f" ({error})") from error
        found.flags.writeable = False
        return found

    def _changed(self, why: str = "") -> ModelError:
        return ModelError(
            f"{self._path!r} was removed or changed before {self.what} was read from it{why}",
            code=ErrorCode.MODEL_NOT_FOUND,
            hint="parse the model again; dovetail.parse(path) reads the weights at once",
            path=self._path,
        )


def is_same_state(before: os.stat_result, now: os.stat_result) -> bool:
    """Tell whether a file is as it was, by what `os.fstat` said and says of it."""
    return _stamp(before) == _stamp(now)


def _stamp(found: Any) -> tuple[int, ...]:
    # Whoever writes to a file may set the time of its content back, but not that of its status.
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
