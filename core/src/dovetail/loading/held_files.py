"""Hold files open, so that they can be read once they were replaced or removed.

A file that was written over in place cannot be had again; one that another took the place of can.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress

_PIECE = 1 << 20
"""Bytes that are copied at once."""


class HeldFiles:
    """Files that are open as long as this is.

    Args:
        stamps: What each looked like, by path; see `stamp_of`. One that looks otherwise, or cannot
            be opened, is not held.
    """

    def __init__(self, stamps: Mapping[str, tuple[int, ...]]) -> None:
        self._stamps = stamps
        self._descriptors: dict[str, int] = {}
        for path, stamp in stamps.items():
            with suppress(OSError):
                descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
                self._descriptors[path] = descriptor
                if _stamp(os.fstat(descriptor)) != stamp:
                    os.close(self._descriptors.pop(path))

    def __del__(self) -> None:
        for descriptor in self._descriptors.values():
            os.close(descriptor)

    def is_whole(self) -> bool:
        """Tell whether all files can be had as they were."""
        return len(self._descriptors) == len(self._stamps) and not any(map(self._is_changed, self._descriptors))

    def _is_changed(self, path: str) -> bool:
        """Tell whether a file was written to; removing it changes its last time alone."""
        return _stamp(os.fstat(self._descriptors[path]))[:-1] != self._stamps[path][:-1]

    def copy(self, path: str, folder: str) -> str:
        """Copy all files into an empty folder; return where one of them came to lie.

        Raises:
            OSError: One cannot be copied.
        """
        above = os.path.commonpath([os.path.dirname(one) for one in self._descriptors])
        for one, descriptor in self._descriptors.items():
            copy = os.path.join(folder, os.path.relpath(one, above))
            os.makedirs(os.path.dirname(copy), exist_ok=True)
            at = 0
            with open(copy, "wb") as target:  # the place where a descriptor reads is every thread's
                while piece := os.pread(descriptor, _PIECE, at):
                    at += target.write(piece)
        return os.path.join(folder, os.path.relpath(path, above))


def stamp_of(path: str) -> tuple[int, ...] | None:
    """Tell one state of a file from another; None if it is not there.

    Returns:
        Device, inode, size, times of the last change of content and of anything, in nanoseconds.
    """
    try:
        return _stamp(os.stat(path))
    except (OSError, ValueError):  # a path that no file can have
        return None


def _stamp(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
