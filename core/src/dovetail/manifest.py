"""Read what a backend says about itself without importing it: `dovetail-backend.json` beside its package's `__init__`.

A manifest is one object, or a list of them if a package holds several backends::

    {"id": "CpuAcme", "abi": [0, 1], "device": "cpu", "rank": 10, "description": "ACME kernels for AVX2"}

`abi` is the version of the kernel protocol that the backend was built for. `device` is "cpu" for everything that computes on
the host; only these are chosen when a caller names no backend, highest `rank` first. The rank of an oracle is 0.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

FILE_NAME = "dovetail-backend.json"
_LARGEST = 64 * 1024  # bytes: a manifest is a few lines, and a huge one must not slow down every listing

_FIELDS: dict[str, type] = {"id": str, "abi": list, "device": str, "rank": int, "description": str}


class ManifestError(Exception):
    """A manifest is there and cannot be used; the text says why."""


def manifest_of(module: str, backend: str) -> Mapping[str, Any] | None:
    """Return the manifest for a backend whose entry point lies in this module, or None if its package has none.

    Only the top-level package is looked for, because finding a deeper module would import the packages above it.

    Raises:
        ManifestError: It cannot be read, is malformed, or speaks of other backends only.
    """
    try:
        spec = find_spec(module.partition(".")[0])
    except (ImportError, ValueError):  # the import will say it better, if it is ever asked for
        return None
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        path = Path(folder, FILE_NAME)
        if path.is_file():
            return _choose(_read(path), backend)
    return None


def check(manifest: Any) -> Mapping[str, Any]:
    """Return a manifest if it has every field, each of its type.

    Raises:
        ManifestError: It does not.
    """
    if not isinstance(manifest, dict):
        raise ManifestError(f"{FILE_NAME} must hold an object, not {type(manifest).__name__}")
    for name, wanted in _FIELDS.items():
        if name not in manifest:
            raise ManifestError(f"{FILE_NAME} lacks {name!r}; its fields are {', '.join(_FIELDS)}")
        value = manifest[name]
        if not isinstance(value, wanted) or isinstance(value, bool):
            raise ManifestError(f"{name!r} in {FILE_NAME} must be of type {wanted.__name__}, not {_short(value)}")
    abi = manifest["abi"]
    if len(abi) != 2 or not all(type(number) is int and number >= 0 for number in abi):
        raise ManifestError(f"'abi' in {FILE_NAME} must be [major, minor], not {_short(abi)}")
    return manifest


def _read(path: Path) -> Any:
    try:
        with path.open("rb") as file:
            raw = file.read(_LARGEST + 1)
        if len(raw) > _LARGEST:
            raise ManifestError(f"{FILE_NAME} is larger than {_LARGEST} bytes")
        return json.loads(raw, object_pairs_hook=_without_duplicates)
    except (OSError, ValueError, RecursionError) as error:
        raise ManifestError(f"{FILE_NAME} cannot be read: {_short(error)}") from error


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a key stands there twice")
    return fields


def _choose(content: Any, backend: str) -> Mapping[str, Any]:
    manifests = [check(manifest) for manifest in (content if isinstance(content, list) else [content])]
    for manifest in manifests:
        if manifest["id"] == backend:
            return manifest
    found = ", ".join(repr(manifest["id"]) for manifest in manifests) or "nothing"
    raise ManifestError(f"{FILE_NAME} describes {found}, but the entry point is named {backend!r}")


def _short(value: Any) -> str:
    text = str(value) if isinstance(value, BaseException) else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
