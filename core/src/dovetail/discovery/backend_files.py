"""What identifies a backend in use: the bytes of its files and its distribution's version."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from functools import cache
from typing import Any

from .content import Files, Stamp, files_of_module
from .entry_points import offers
from .reasons import Refused

_ADAPTERS = "dovetail"
"""Package whose backends are adapters of a library: `path` is what they consist of."""


def content_of(backend: Any) -> str | None:
    """Return the digest of the files of a backend: a library or a package; None without files."""
    files = _files(backend)
    if not files.names:
        return None
    try:
        return _digest(tuple(sorted(files.names.items())), tuple(files.stamps()))
    except Refused:
        return None


def version_of_backend(backend: Any, group: str) -> str:
    """Return a backend's version: its own, or that of its distribution; empty if there is none.

    Args:
        backend: The backend.
        group: Of the entry points of backends.
    """
    own = getattr(backend, "version", "")
    if own and isinstance(own, str):
        return own
    package = _package(backend)
    found = (
        one for one in offers(group) if one.name == str(backend.id) and one.value.partition(":")[0].partition(".")[0] == package
    )
    return next((one.version for one in found), "")


def _package(backend: Any) -> str:
    return type(backend).__module__.partition(".")[0]


def _files(backend: Any) -> Files:
    package = _package(backend)
    if package == _ADAPTERS:
        path = str(getattr(backend, "path", ""))
        return Files({os.path.basename(path): path} if path else {}, ())
    try:
        files = files_of_module(package, package)
    except Refused:
        return Files({}, ())
    if files.names:
        return files
    alone = getattr(sys.modules.get(type(backend).__module__), "__file__", None)
    return Files({os.path.basename(alone): alone}, ()) if alone else files


@cache
def _digest(names: tuple[tuple[str, str], ...], stamps: tuple[Stamp, ...]) -> str:
    # Reading some megabytes takes milliseconds: once per process, as long as the stamps stay.
    return hashlib.sha256(json.dumps(Files(dict(names), ()).digests(), sort_keys=True).encode()).hexdigest()
