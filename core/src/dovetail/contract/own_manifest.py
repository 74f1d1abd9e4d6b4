"""Find the manifest beside a backend's own code, for a backend made without the registry."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from functools import cache
from typing import Any

from ..ground.errors import BackendError, ErrorCode
from .backend_id import BackendId

FILE_NAME = "dovetail-backend.json"


def own_manifest(kind: type, backend: str) -> Mapping[str, Any] | None:
    """Return what the manifest in a class's top-level package says of a backend; None without one.

    Raises:
        BackendError: It cannot be read (`BACKEND_CONTRACT`).
    """
    return next((entry for entry in _entries(kind) if entry.get("id") == backend), None)


def own_id(kind: type) -> BackendId:
    """Return the id in the manifest in the top-level package of a class.

    Raises:
        BackendError: There is none, or it cannot be read, or is of several backends
            (`BACKEND_CONTRACT`).
    """
    ids = [entry["id"] for entry in _entries(kind) if isinstance(entry.get("id"), str)]
    if len(ids) != 1:
        package = kind.__module__.partition(".")[0]
        raise BackendError(
            f"package {package!r} of backend class {kind.__qualname__} has a {FILE_NAME} of {len(ids)} backends, not of one",
            code=ErrorCode.BACKEND_CONTRACT,
            hint="put the manifest beside the package's code, or override `id`",
        )
    return BackendId(ids[0])


@cache
def _entries(kind: type) -> list[Mapping[str, Any]]:
    package = sys.modules.get(kind.__module__.partition(".")[0])
    for folder in getattr(package, "__path__", ()):
        path = os.path.join(folder, FILE_NAME)
        if not os.path.isfile(path):
            continue
        try:
            with open(path, "rb") as file:
                content = json.loads(file.read())
        except (OSError, ValueError, RecursionError) as error:
            raise BackendError(
                f"the manifest {path} of backend class {kind.__qualname__} cannot be read: {error}",
                code=ErrorCode.BACKEND_CONTRACT,
                hint="write one JSON object, or a list of them",
            ) from error
        return [entry for entry in (content if isinstance(content, list) else [content]) if isinstance(entry, dict)]
    return []
