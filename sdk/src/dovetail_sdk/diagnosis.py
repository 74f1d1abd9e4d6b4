"""What `dovetail doctor` finds out about backends, searched folders and this machine.

There are no weights and no inputs in it.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dovetail.ground.settings import configuration_path

from .commands.backends import as_dict

if TYPE_CHECKING:
    from dovetail.discovery.registry import BackendRow

_CPU_FIELDS = ("model name", "flags", "Features", "CPU implementer", "CPU part")


class _Collector(logging.Handler):
    """Keep what is logged as a warning or worse."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def diagnose(
    ids: Sequence[str], paths: Sequence[str], problems: Sequence[str], defaults: Mapping[str, Any], *, probing: bool
) -> dict[str, Any]:
    """Tell how far backends, by default all, get in the load pipeline, without loading any.

    Args:
        ids: Of the backends.
        paths: Further folders that are searched for them.
        problems: What is wrong in the user's configuration.
        defaults: Options that have a default there, and a right one.
        probing: Whether they are tried in a child process.
    """
    from dovetail import BackendError, backends
    from dovetail.discovery.registry import BackendRow, BackendState, default_registry

    collector = _Collector()
    logger = logging.getLogger("dovetail")
    logger.addHandler(collector)
    try:
        registry = default_registry()
        rows: list[BackendRow] = []
        known = backends(paths=paths)
        for id in ids or [row.id for row in known]:
            same = [row for row in known if row.id == id]
            if id and len(same) == 1 and same[0].state.is_ready:
                same = [registry.examine(id, probing=probing)]
            elif not same:
                try:
                    registry.get(id)
                except BackendError as error:
                    absent = BackendRow(id, BackendState.NOT_INSTALLED, None, None, "-", None, error.message, error.hint or "")
                    same = [absent]
            rows += [row for row in same if row not in rows]
    finally:
        logger.removeHandler(collector)
    return {
        "rows": [as_dict(row) | {"ready": row.state.is_ready} for row in rows],
        "folders": [
            {
                "path": report.path,
                "asked_by": report.asked_by,
                "refused": report.refusal.text if report.refusal is not None else "",
                "backends": [candidate.id for candidate in report.candidates],
                "skipped": report.skipped,
            }
            for report in registry.folders()
        ],
        "quarantine": [
            {"id": one.id, "code": one.code, "reason": one.reason, "count": one.count, "time": one.time, "trace": one.trace}
            for one in registry.verdicts.quarantine()
        ],
        "cache": registry.verdicts.describe(),
        "warnings": [line for line in dict.fromkeys(collector.lines) if _is_news(line, problems)],
        "configuration": {"path": configuration_path(), "problems": list(problems)},
        "defaults": dict(defaults),
        "system": system(),
    }


def _is_news(line: str, problems: Sequence[str]) -> bool:
    """Say whether a warning is told nowhere else; folders that are not searched are rows."""
    return " is not searched: " not in line and line not in problems


def system() -> dict[str, Any]:
    """Describe Python, the packages that matter here, and the machine."""
    from dovetail.contract.abi_version import ABI_VERSION
    from dovetail.discovery.verdicts import python_tag

    return {
        "python": sys.version,
        "python_tag": python_tag(),
        "executable": sys.executable,
        "platform": platform.platform(),
        "machine": platform.machine(),
        "c_library": " ".join(platform.libc_ver()),
        "abi": list(ABI_VERSION),
        "distributions": _distributions(),
        "environment": {name: value for name, value in sorted(os.environ.items()) if name.startswith("DOVETAIL_")},
        "cpu": _cpu(),
        "cores": os.cpu_count(),
    }


def write_bundle(report: dict[str, Any], path: Path) -> None:
    """Write a report as a zip file for a support desk; the home folder is written as ``~``."""
    parts = {name: _shortened(report[name]) for name in report}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, content in parts.items():
            bundle.writestr(f"{name}.json", json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def _shortened(value: Any) -> Any:
    home = os.path.expanduser("~").rstrip("/")
    if isinstance(value, str):
        return value.replace(home, "~") if len(home) > 1 else value
    if isinstance(value, dict):
        return {_shortened(name): _shortened(one) for name, one in value.items()}
    return [_shortened(one) for one in value] if isinstance(value, list | tuple) else value


def _distributions() -> dict[str, str]:
    """Return the versions of NumPy and of all distributions that have to do with dovetail."""
    from importlib_metadata import distributions

    found: dict[str, str] = {}
    for one in distributions():
        try:
            name, offers = str(one.metadata["Name"]), one.read_text("entry_points.txt") or ""
            if (
                name.lower() in ("numpy", "importlib-metadata", "importlib_metadata")
                or "dovetail" in name
                or "[dovetail." in offers
            ):
                found.setdefault(name, one.version)
        except Exception as error:  # it has a row of its own
            found.setdefault(str(one.locate_file("")), f"unreadable: {type(error).__name__}")
    return dict(sorted(found.items()))


def _cpu() -> dict[str, str]:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").partition("\n\n")[0].splitlines()
    except OSError:
        return {"processor": platform.processor()}
    pairs = (line.partition(":") for line in lines)
    return {name.strip(): value.strip() for name, _, value in pairs if name.strip() in _CPU_FIELDS}
