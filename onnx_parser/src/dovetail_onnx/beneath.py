"""Open a file below a folder, and nowhere else, whatever others do to the folders meanwhile.

A path that was checked and is then opened as a whole may have become another in between. So the way
is walked folder by folder, each opened relative to the one before and never through a link; where a
link stands, its text is walked in the same manner.
"""

from __future__ import annotations

import os
import stat
from contextlib import ExitStack
from pathlib import PurePath, PurePosixPath, PureWindowsPath

_MAX_LINKS = 40
"""As many as the kernel of Linux follows."""
_FOLDER = os.O_RDONLY | sum(getattr(os, flag, 0) for flag in ("O_DIRECTORY", "O_CLOEXEC"))
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_FILE = os.O_RDONLY | _NO_LINK | sum(getattr(os, flag, 0) for flag in ("O_NONBLOCK", "O_BINARY", "O_CLOEXEC"))
_WALKS = os.open in os.supports_dir_fd and os.stat in os.supports_dir_fd and os.readlink in os.supports_dir_fd


class EscapeError(Exception):
    """The path is none below the folder, or does not lead to a regular file; the text says why."""


def open_beneath(folder: str, location: str) -> tuple[int, str]:
    """Open a regular file for reading.

    Args:
        folder: Where it must lie; links on the way to the folder itself are its caller's business.
        location: A relative path; links on it must not leave the folder.

    Returns:
        A descriptor, and the path without links.

    Raises:
        EscapeError: It leaves the folder, or something else than a regular file is there.
        OSError: It is not there or cannot be opened.
    """
    windows, posix = PureWindowsPath(location), PurePosixPath(location)
    if not location or "\0" in location or windows.is_absolute() or windows.drive or windows.root or posix.is_absolute():
        raise EscapeError("it is not a relative path")
    if ".." in windows.parts or ".." in posix.parts:
        raise EscapeError("it climbs out of its folder")
    parts = PurePath(location).parts
    descriptor, path = _walked(folder, parts) if _WALKS else _resolved(folder, parts)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise EscapeError("it is not a regular file")
    return descriptor, path


def _walked(folder: str, parts: tuple[str, ...]) -> tuple[int, str]:
    waiting, names, links = list(reversed(parts)), list[str](), 0
    with ExitStack() as opened:

        def kept(descriptor: int) -> int:
            opened.callback(os.close, descriptor)
            return descriptor

        # What lies around is not looked up by "..", which means another folder once one of them was
        # moved.
        folders = [kept(os.open(folder, _FOLDER))]
        while waiting:
            name = waiting.pop()
            if name == "..":
                if not names:
                    raise EscapeError("a link leads out of the model's folder")
                names.pop()
                folders.pop()
                continue
            found = os.stat(name, dir_fd=folders[-1], follow_symlinks=False)
            if stat.S_ISLNK(found.st_mode):
                links += 1
                if links > _MAX_LINKS:
                    raise EscapeError("it leads through too many links")
                target = PurePath(os.readlink(name, dir_fd=folders[-1]))
                if target.is_absolute():
                    if not target.is_relative_to(folder):
                        raise EscapeError("a link leads out of the model's folder")
                    target = target.relative_to(folder)
                    names.clear()
                    del folders[1:]
                waiting.extend(reversed(target.parts))
                continue
            names.append(name)
            if waiting:
                folders.append(kept(_opened(name, _FOLDER | _NO_LINK, folders[-1])))
            elif stat.S_ISREG(found.st_mode):  # to open a device may already do something
                return _opened(name, _FILE, folders[-1]), os.path.join(folder, *names)
    raise EscapeError("it is not a regular file")


def _opened(name: str, flags: int, folder: int) -> int:
    try:
        return os.open(name, flags, dir_fd=folder)
    except OSError as error:
        if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise EscapeError("a link took its place while it was being opened") from error
        raise


def _resolved(folder: str, parts: tuple[str, ...]) -> tuple[int, str]:
    """Do the same as well as it can be done on systems that open nothing relative to a folder."""
    path = os.path.realpath(os.path.join(folder, *parts))
    if not PurePath(path).is_relative_to(folder):
        raise EscapeError("a link leads out of the model's folder")
    return os.open(path, _FILE), path
