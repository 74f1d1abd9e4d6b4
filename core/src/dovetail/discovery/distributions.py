"""Go through installed distributions: folders of metadata on `sys.path`, as installers write them.

They are read here, since `importlib_metadata`, as `importlib.metadata`, takes longer to import than
all of this takes to run. It is asked where anything else may be installed: on `sys.path` in an
archive or an egg, or through an import hook that lists distributions of its own.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator
from importlib.machinery import PathFinder
from typing import Any

RACY_NS = 2_000_000_000
"""Longest step of a file system's clock.

What changed so shortly before may have changed again without a new time.
"""
_SUFFIXES = (".dist-info", ".egg-info")


class Distribution:
    """One installed distribution; what was read of it is kept.

    Args:
        folder: Of `sys.path`.
        name: Of the folder of metadata in it.

    Attributes:
        normalized: Its name, for comparisons.
    """

    __slots__ = ("_folder", "_metadata", "_texts", "normalized")

    def __init__(self, folder: str, name: str) -> None:
        self.normalized = normalized(name.rpartition(".")[0].partition("-")[0])
        self._folder = folder
        self._metadata = os.path.join(folder, name)
        self._texts: dict[str, str | None] = {}

    def read_text(self, name: str) -> str | None:
        """Return a file of the metadata; None if it is not there or may not be read.

        Raises:
            UnicodeDecodeError: It is not UTF-8.
        """
        if name not in self._texts:
            self._texts[name] = self._read(name)
        return self._texts[name]

    def _read(self, name: str) -> str | None:
        try:
            # Bytes and no buffer: a load reads a file of every distribution.
            with open(os.path.join(self._metadata, name), "rb", buffering=0) as file:
                return file.read().decode("utf-8")
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError):
            return None

    def locate_file(self, path: str) -> str:
        """Return the path of a file that the distribution installed."""
        return os.path.join(self._folder, path)


class _Foreign:
    """A distribution that `importlib_metadata` found, read as those above are."""

    __slots__ = ("_found", "normalized")

    def __init__(self, found: Any) -> None:
        self._found = found
        try:
            name = found.metadata["Name"]
        except (OSError, KeyError, TypeError, ValueError):  # its metadata is missing or cannot be read
            name = None
        self.normalized = normalized(name or "")

    def read_text(self, name: str) -> str | None:
        text: str | None = self._found.read_text(name)
        return text

    def locate_file(self, path: str) -> str:
        return str(self._found.locate_file(path))


def normalized(name: str) -> str:
    """Spell the name of a distribution as all spellings of it are compared."""
    return re.sub(r"[-_.]+", "_", name).lower()


_Folder = tuple[str, int, int]
"""A folder as it is: its path, its inode, and when it changed last."""
_listed: dict[_Folder, list[Distribution]] = {}
"""What folders hold; replaced as a whole, so that folders which changed or left are dropped."""


def forget() -> None:
    """Look into all folders again when next asked: distributions may have changed in place."""
    global _listed
    _listed = {}


def folders_of_metadata() -> Iterator[Distribution | _Foreign]:
    """Go through what is installed, in the order of `sys.path`.

    Folders that have not changed since are not looked into again: it is mostly another one that
    changes all the time, such as that of a script, where it writes what it works out.

    Raises:
        Exception: Whatever an import hook of somebody else raises.
    """
    if any(map(_lists_distributions, sys.meta_path)) or any(map(_is_archive, sys.path)):
        import importlib_metadata

        yield from map(_Foreign, importlib_metadata.distributions())
        return
    global _listed
    known, settled, since = _listed, {}, time.time_ns() - RACY_NS
    for entry in sys.path:
        try:
            facts = os.stat(entry or ".")
            folder = entry, facts.st_ino, facts.st_mtime_ns
            held = known[folder] if folder in known else _in_folder(entry)
        except (OSError, TypeError, ValueError):  # one that is not there, or no path at all
            continue
        if facts.st_mtime_ns < since:
            settled[folder] = held
        yield from held
    _listed = settled


def _in_folder(entry: str) -> list[Distribution]:
    return [Distribution(entry, name) for name in os.listdir(entry or ".") if name.lower().endswith(_SUFFIXES)]


def _lists_distributions(finder: Any) -> bool:
    """Tell whether an import hook knows of distributions that lie in no folder of `sys.path`."""
    is_known = finder is PathFinder or type(finder).__module__ == "importlib_metadata"
    return not is_known and hasattr(finder, "find_distributions")


def _is_archive(entry: Any) -> bool:
    if not isinstance(entry, str):
        return False
    return entry.lower().rstrip("/").endswith(".egg") or os.path.isfile(entry)
