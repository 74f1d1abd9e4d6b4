"""Bytes of a file where they would lie if all of it were read; those are read that are looked at.

A file is not mapped: whoever cut it short meanwhile would end the process. Pages that nobody looks
at take address space, but no memory.
"""

from __future__ import annotations

import mmap
import os
from io import FileIO

import numpy as np
import numpy.typing as npt

from dovetail import DovetailError, ErrorCode, ModelError
from dovetail.ground.late_reads import PlaceInFile, is_same_state
from dovetail.ground.limits import budget
from dovetail.ground.pieces import read_into

_SHIFT = 12
"""Pages of 4 KiB: those of the system, so that what lies between two weights takes no more."""
_WITHOUT_RESERVE = getattr(mmap, "MAP_NORESERVE", 0)


class LatePages:
    """The bytes of one open file.

    Args:
        path: The file.
        file: The same, open for reading without a buffer of its own; this closes it.

    Attributes:
        data: All bytes; those that nobody needed yet are zeros.

    Raises:
        OSError: There is no address space for so many.
    """

    __slots__ = ("_file", "_found", "_is_there", "_left", "_path", "_target", "_whole", "data")

    def __init__(self, path: str, file: FileIO) -> None:
        self._path = path
        self._file = file
        self._found = os.fstat(file.fileno())
        size = self._found.st_size
        memory = mmap.mmap(-1, max(size, 1), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _WITHOUT_RESERVE)
        self._target = np.frombuffer(memory, np.uint8)[:size]
        self._is_there = bytearray(-(-size >> _SHIFT))
        self._whole: dict[tuple[int, int], npt.NDArray[np.uint8]] = {}
        self._left = size
        self.data = self._target[:]
        self.data.flags.writeable = False

    def need(self, begin: int, end: int) -> None:
        """Have bytes read that are about to be looked at, and lie in the file.

        Raises:
            ModelError: The file became shorter, or cannot be read any more.
            LimitError: The load may not take so much memory.
        """
        there, last = self._is_there, (end - 1) >> _SHIFT
        page = begin >> _SHIFT
        if page == last and there[page]:  # as nearly always
            return
        while page <= last:
            if there[page]:
                page += 1
                continue
            stop = there.find(1, page, last + 1)
            stop = last + 1 if stop < 0 else stop
            self._fill(self._target[page << _SHIFT : stop << _SHIFT], page << _SHIFT, self._around)
            there[page:stop] = b"\1" * (stop - page)
            page = stop

    @property
    def _around(self) -> str:
        """What pages hold, for messages.

        Bytes of weights at their edges are in memory twice, and count twice.
        """
        return f"what lies around the large tensors of {self._path!r}, read in pages of {1 << _SHIFT} bytes,"

    def array(self, begin: int, nbytes: int, what: str) -> npt.NDArray[np.uint8] | None:
        """Return bytes as an array of their own, read-only, which is freed with what it becomes.

        It is the same array each time. None: there are more of them than the file has bytes.

        Raises:
            ModelError: The file became shorter, or cannot be read any more.
            LimitError: The load may not take so much memory.
        """
        found = self._whole.get((begin, nbytes))
        if found is None and nbytes <= self._left:
            found = np.empty(nbytes, np.uint8)
            self._fill(found, begin, f"{what}, besides pages of {1 << _SHIFT} bytes around such tensors,")
            found.flags.writeable = False
            self._whole[begin, nbytes] = found
            self._left -= nbytes
        return found

    def place(self, begin: int, nbytes: int, what: str) -> PlaceInFile:
        """Return where bytes can be read later."""
        return PlaceInFile(self._path, self._found, begin, nbytes, what)

    def check(self) -> None:
        """Refuse what was read of a file that was written to meanwhile.

        Raises:
            ModelError: It was (`MODEL_NOT_FOUND`).
        """
        if not is_same_state(self._found, os.fstat(self._file.fileno())):
            raise self._changed("it was written to")

    def close(self) -> None:
        """Close the file; nothing more of it can be read but by `place`."""
        self._whole.clear()
        self._file.close()

    def _fill(self, target: npt.NDArray[np.uint8], begin: int, what: str) -> None:
        budget().take_memory(target.nbytes, what)
        try:
            self._file.seek(begin)
            if read_into(self._file, target) != target.nbytes:
                raise self._changed("it became shorter")
        except OSError as error:
            if isinstance(error, DovetailError):  # a deadline
                raise
            raise self._changed(str(error)) from error

    def _changed(self, how: str) -> ModelError:
        return ModelError(
            f"{self._path!r} was changed while it was read: {how}",
            code=ErrorCode.MODEL_NOT_FOUND,
            hint="read it again, once nobody writes to it any more",
            path=self._path,
        )
