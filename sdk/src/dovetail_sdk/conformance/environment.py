"""What a report needs to repeat a run: versions, machine, the backend's files, seed, date."""

from __future__ import annotations

import hashlib
import platform
import sys
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dovetail.contract.abi_version import ABI_VERSION
from dovetail.discovery.registry import default_registry

from .target import parted

_LARGEST = 512 << 20  # bytes: a file beyond this is named, not read
_SUFFIXES = (".py", ".so", ".json", ".pyd", ".dylib", ".dll", ".bin")


def environment(target: str, *, seed: int, options: dict[str, Any]) -> dict[str, Any]:
    """Return the facts of this process and of a backend, without loading it.

    Args:
        target: An id, or "module:attribute", as for `open_target`.
        seed: Of all random numbers.
        options: Options of the backend.
    """
    from importlib_metadata import PackageNotFoundError, version

    versions = {"python": platform.python_version()}
    for name in ("dovetail-core", "dovetail-sdk", "numpy"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "not installed"
    id, _ = parted(target)
    row = next((row for row in default_registry().rows() if row.id == id), None)
    facts: dict[str, Any] = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions,
        "abi": ".".join(map(str, ABI_VERSION)),
        "platform": platform.platform(),
        "machine": _machine(),
        "seed": seed,
        "options": options,
        "command": ["dovetail", *sys.argv[1:]],
    }
    if row is not None:
        facts["distribution"] = f"{row.distribution} {row.version}" if row.distribution else row.origin
        facts["manifest"] = dict(row.manifest) if row.manifest is not None else None
        facts["files"] = _hashes(row.origin)
    return facts


def _machine() -> str:
    """Return the processor's name as the system tells it."""
    try:
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            if line.startswith(("model name", "Model")):
                return line.partition(":")[2].strip()
    except OSError:  # not Linux
        pass
    return platform.processor() or platform.machine()


def _hashes(origin: str) -> dict[str, str]:
    """Return sha256 of the code and data files of an entry point's top-level package, by name."""
    if Path(origin).is_file():  # a library in a folder that is searched
        return {Path(origin).name: _hash(Path(origin))}
    try:
        spec = find_spec(origin.partition(":")[0].partition(".")[0])  # a top-level package is found without importing anything
    except (ImportError, ValueError):
        return {}
    found: dict[str, str] = {}
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        for path in sorted(Path(folder).rglob("*")):
            if path.suffix in _SUFFIXES and path.is_file() and path.stat().st_size <= _LARGEST:
                found[path.relative_to(Path(folder).parent).as_posix()] = _hash(path)
    return found


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
