"""Files and folders whose content is believed: nobody but root and the user may have written it.

What is opened here never blocks: a FIFO that lies where a file is expected is refused, not waited
for.
"""

from __future__ import annotations

import os
import stat

_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def read_trusted(path: str | os.PathLike[str], limit: int | None = None, *, follow: bool = True) -> bytes:
    """Read a file that nobody but root and the user could have written.

    Args:
        path: The file.
        limit: Bytes that are read at most; None: all of it.
        follow: Whether the last element of the path may be a symbolic link.

    Raises:
        PermissionError: It is no regular file, or somebody else owns it or may write it; the text
            says which.
        OSError: It cannot be read.
    """
    with open(open_trusted(path, follow=follow), "rb") as file:
        return file.read() if limit is None else file.read(limit)


def open_trusted(path: str | os.PathLike[str], *, follow: bool = True) -> int:
    """Open a file for reading that nobody but root and the user could have written.

    Args, Raises: As for `read_trusted`.

    Returns:
        A descriptor, to be closed.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)
    descriptor = os.open(path, flags)
    try:
        problem = _problem(os.fstat(descriptor))
        if problem:
            raise PermissionError(problem)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def folder_problem(folder: str) -> str:
    """Say why what lies in a folder must not be believed; empty if it may be.

    Empty also if the folder does not exist yet.
    """
    try:
        facts = os.lstat(folder)
    except FileNotFoundError:
        return ""
    except (OSError, ValueError) as error:
        return f"{shortened(folder)}: {getattr(error, 'strerror', None) or error}"
    if not stat.S_ISDIR(facts.st_mode):
        return f"{shortened(folder)} is no folder"
    problem = _owner_problem(facts)
    return f"{shortened(folder)}: {problem}" if problem else ""


def shortened(path: str | os.PathLike[str]) -> str:
    """Return a path as text that fits into a message, whatever the environment made of it."""
    text = os.fspath(path)
    return text if len(text) <= 300 else f"{text[:140]}...{text[-140:]} ({len(text)} characters)"


def _problem(facts: os.stat_result) -> str:
    return "it is no regular file" if not stat.S_ISREG(facts.st_mode) else _owner_problem(facts)


def _owner_problem(facts: os.stat_result) -> str:
    if facts.st_uid not in (0, os.geteuid()):
        return f"it belongs to user {facts.st_uid}, neither root nor user {os.geteuid()}"
    return f"others can write it (mode {stat.S_IMODE(facts.st_mode):04o})" if facts.st_mode & _OTHERS else ""
