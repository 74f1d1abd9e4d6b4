"""Reports of a run, by the suffix of the file.

`.json` is for programs, `.xml` (JUnit) for build servers, `.html` for people.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..results import Report


def _json(report: Report) -> str:
    from .machine import as_json

    return as_json(report)


def _junit(report: Report) -> str:
    from .junit import as_junit

    return as_junit(report)


def _html(report: Report) -> str:
    from .page import as_page

    return as_page(report)


FORMATS: dict[str, Callable[[Report], str]] = {".json": _json, ".xml": _junit, ".html": _html}


def write_report(report: Report, path: Path) -> None:
    """Write a report in the format of the file's suffix; the file appears only once it is complete.

    Raises:
        KeyError: No such format.
        OSError: The file cannot be written.
    """
    text = FORMATS[path.suffix.lower()](report)
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.write_text(text, encoding="utf-8", errors="backslashreplace")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
