"""Find the manifest that lies beside a backend's own code, for a backend that was made without the registry."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..ground.errors import BackendError, ErrorCode

FILE_NAME = "dovetail-backend.json"


def own_manifest(kind: type, backend: str) -> Mapping[str, Any] | None:
    """Return what the manifest in the top-level package of a class says of a backend; None if there is none.

    Raises:
        BackendError: It cannot be read (`BACKEND_CONTRACT`).
    """
    package = sys.modules.get(kind.__module__.partition(".")[0])
    for folder in getattr(package, "__path__", ()):
        path = Path(folder, FILE_NAME)
        if not path.is_file():
            continue
        try:
            content = json.loads(path.read_bytes())
        except (OSError, ValueError) as error:
            raise BackendError(
                f"the manifest {path} of backend {backend!r} cannot be read: {error}",
                code=ErrorCode.BACKEND_CONTRACT,
                hint="write one JSON object, or a list of them",
            ) from error
        entries = content if isinstance(content, list) else [content]
        return next((entry for entry in entries if isinstance(entry, dict) and entry.get("id") == backend), None)
    return None
