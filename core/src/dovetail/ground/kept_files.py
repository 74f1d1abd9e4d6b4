"""Files that the processes of one user keep for one another.

These are verdicts, what was tuned, what backends compiled.

A file is written whole and renamed: a reader finds the one before or the one after, and of several
writers the last stays. One that others could have written, or that cannot be read, counts for
nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

from .settings import cache_folder
from .trusted_files import folder_problem, open_trusted, read_trusted

LARGEST = 4 << 20
"""Bytes that are read of a file below the cache folder."""
_WRITING = ".writing-"
"""What the name of a file begins with until it is whole."""
_ABANDONED_SECONDS = 3600


class KeptFolder:
    """The files in one folder. Safe to use from several processes at once.

    Args:
        path: The folder; it need not exist. A relative one is that of the working folder of now.
        tell: Called with why the folder is not used, each time that it is wanted and is not to be
            trusted.
        largest: Bytes that are read of a file at most; None: all of it.
    """

    def __init__(self, path: str | None, tell: Callable[[str], None], largest: int | None = None) -> None:
        self._path = os.path.abspath(path) if path is not None else None
        self._tell = tell
        self._largest = largest

    @property
    def folder(self) -> str | None:
        """Where they lie; None without such a place, or if others can write there.

        The folder need not exist.
        """
        problem = self.problem
        if problem:
            self._tell(problem)
            return None
        return self._path

    @property
    def problem(self) -> str:
        """Why the folder is not to be trusted; empty if it is, or if there is none."""
        return "" if self._path is None else folder_problem(os.path.realpath(self._path))

    def names(self) -> list[str]:
        """List the files, in order."""
        folder = self.folder
        try:
            return [] if folder is None else sorted(name for name in os.listdir(folder) if not name.startswith("."))
        except OSError:
            return []

    def read(self, name: str, largest: int | None = None) -> bytes | None:
        """Return what stands in a file, at most `largest` bytes of it; None if it is not there.

        Raises:
            PermissionError: Others could have written it, or it is no file.
            OSError: It cannot be read.
        """
        folder = self.folder
        if folder is None:
            return None
        try:
            return read_trusted(os.path.join(folder, name), self._largest if largest is None else largest, follow=False)
        except (FileNotFoundError, NotADirectoryError):
            return None

    @contextmanager
    def opened(self, name: str) -> Iterator[BinaryIO | None]:
        """Open a file for reading, without a buffer; None if it is not there.

        Raises:
            PermissionError: Others could have written it, or it is no file.
            OSError: It cannot be read.
        """
        folder = self.folder
        try:
            descriptor = -1 if folder is None else open_trusted(os.path.join(folder, name), follow=False)
        except (FileNotFoundError, NotADirectoryError):
            descriptor = -1
        if descriptor < 0:
            yield None
            return
        with open(descriptor, "rb", buffering=0) as file:
            yield file

    def stamp(self, name: str) -> tuple[int, int] | None:
        """Return when a file was written, in nanoseconds, and its size; None if there is none."""
        folder = self.folder
        if folder is not None:
            with suppress(OSError):
                facts = os.lstat(os.path.join(folder, name))
                return facts.st_mtime_ns, facts.st_size
        return None

    def shrink(self, nbytes: int) -> None:
        """Remove the files that were written longest ago, until the others have so many bytes."""
        stamps = {name: self.stamp(name) for name in self.names()}
        found = sorted((*stamp, name) for name, stamp in stamps.items() if stamp is not None)
        excess = sum(size for _, size, _ in found) - nbytes
        for _, size, name in found:
            if excess <= 0:
                return
            self.remove(name)
            excess -= size

    def write(self, name: str, *parts: bytes | memoryview, lasting: bool = True) -> bool:
        """Write a file whole, in the place of any of this name; false if there is no folder for it.

        Args:
            name: Of the file.
            parts: What is written, one after the other.
            lasting: Whether it is to be whole after a loss of power, too; that takes milliseconds.

        Raises:
            OSError: It cannot be written; the one that was there before still is.
        """
        folder = self.folder
        if folder is None:
            return False
        temporary = os.path.join(folder, f"{_WRITING}{name}.{os.getpid()}.{time.monotonic_ns()}")
        _make_folder(folder)
        for path in _abandoned(folder):
            _unlink(path)
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with open(os.open(temporary, flags, 0o600), "wb") as file:
                for part in parts:
                    file.write(part)
                if lasting:
                    file.flush()
                    os.fsync(file.fileno())
            os.replace(temporary, os.path.join(folder, name))
        except BaseException:
            _unlink(temporary)
            raise
        return True

    def remove(self, name: str) -> bool:
        """Remove a file; false if it is not there."""
        folder = self.folder
        try:
            if folder is not None:
                os.unlink(os.path.join(folder, name))
                return True
        except OSError:
            pass
        return False


class KeptFiles(KeptFolder):
    """The files of one kind: a folder below the cache folder.

    Args:
        kind: Name of the folder.
        tell: Called with why the folder is not used, each time that it is wanted and is not to be
            trusted.
    """

    def __init__(self, kind: str, tell: Callable[[str], None]) -> None:
        super().__init__(None, tell, LARGEST)
        self.kind = kind

    @property
    def folder(self) -> str | None:
        """Where they lie; None without such a place, or if others can write there.

        The folder need not exist.
        """
        base = cache_folder()
        if base is None:
            return None
        problem = folder_problem(base) or folder_problem(os.path.join(base, self.kind))
        if problem:
            self._tell(f"the cache folder is not used: {problem}")
            return None
        return os.path.join(base, self.kind)


def _make_folder(folder: str) -> None:
    """Make a folder for the user alone; those above it as usual, as `mkdir -p -m 700` does."""
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    with suppress(FileExistsError):
        os.mkdir(folder, 0o700)


def _unlink(path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)


def _abandoned(folder: str) -> Iterator[str]:
    """What processes that were killed while they wrote left behind."""
    for name in os.listdir(folder):
        if not name.startswith(_WRITING):
            continue
        path = os.path.join(folder, name)
        try:
            if os.stat(path).st_mtime < time.time() - _ABANDONED_SECONDS:
                yield path
        except OSError:
            continue
