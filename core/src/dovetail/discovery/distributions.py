"""Go through installed distributions: folders of metadata on `sys.path`, as installers write them.

They are read here, since `importlib_metadata`, as `importlib.metadata`, takes longer to import than
all of this takes to run. It is asked where anything else may be installed: on `sys.path` in an
archive or an egg, or through an import hook that lists distributions of its own.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from importlib.machinery import PathFinder
from typing import Any

_SUFFIXES = (".dist-info", ".egg-info")


class Distribution:
    """One installed distribution.

    Args:
        folder: Of `sys.path`.
        name: Of the folder of metadata in it.

    Attributes:
        normalized: Its name, for comparisons.
    """

    __slots__ = ("_folder", "_metadata", "normalized")

    def __init__(self, folder: str, name: str) -> None:
        self.normalized = normalized(name.rpartition(".")[0].partition("-")[0])
        self._folder = folder
        self._metadata = os.path.join(folder, name)

    def read_text(self, name: str) -> str | None:
        """Return a file of the metadata; None if it is not there or may not be read.

        Raises:
            UnicodeDecodeError: It is not UTF-8.
        """
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


def folders_of_metadata() -> Iterator[Distribution | _Foreign]:
    """Go through what is installed, in the order of `sys.path`.

    Raises:
        Exception: Whatever an import hook of somebody else raises.
    """
    if any(map(_lists_distributions, sys.meta_path)) or any(map(_is_archive, sys.path)):
        import importlib_metadata

        yield from map(_Foreign, importlib_metadata.distributions())
        return
    for entry in sys.path:
        try:
            names = os.listdir(entry or ".")
        except (OSError, TypeError, ValueError):  # one that is not there, or no path at all
            continue
        for name in names:
            if name.lower().endswith(_SUFFIXES):
                yield Distribution(entry, name)


def _lists_distributions(finder: Any) -> bool:
    """Tell whether an import hook knows of distributions that lie in no folder of `sys.path`."""
    is_known = finder is PathFinder or type(finder).__module__ == "importlib_metadata"
    return not is_known and hasattr(finder, "find_distributions")


def _is_archive(entry: Any) -> bool:
    if not isinstance(entry, str):
        return False
    return entry.lower().rstrip("/").endswith(".egg") or os.path.isfile(entry)
