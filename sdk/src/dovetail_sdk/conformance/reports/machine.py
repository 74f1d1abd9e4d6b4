"""The report for programs: JSON with a version number of its own."""

from __future__ import annotations

import json
from typing import Any

from ..results import CheckResult, Report

FORMAT = 1
"""Raised when a field changes its meaning; new fields may come at any time."""


def as_dict(report: Report) -> dict[str, Any]:
    """Return the report as plain data."""
    return {
        "format": FORMAT,
        "backend": report.backend,
        "device": report.device,
        "level": report.level,
        "verdict": str(report.verdict),
        "objection": report.objection,
        "seconds": round(report.seconds, 3),
        "environment": report.environment,
        "counts": [
            {"kind": kind, "dtype": dtype, **counts.as_dict()} for (kind, dtype), counts in report.counts.items() if kind
        ],
        "bit_exact": {"asked": report.bit_exact, "cases": report.bits_by_standard},
        "deviations": [known.as_dict() for known in report.deviations],
        "not_judged": [{"kind": kind, "dtype": dtype} for kind, dtype in report.not_judged],
        "unreached": [
            {"kind": kind, "dtypes": dtypes, "what": what, "reason": reason}
            for (kind, what, reason), dtypes in report.unreached_by_kind.items()
        ],
        "checks": [_check(result) for result in report.results],
    }


def _check(result: CheckResult) -> dict[str, Any]:
    return {
        "id": result.check.id,
        "level": int(result.check.level),
        "title": result.check.title,
        "status": str(result.status),
        "seconds": round(result.seconds, 4),
        "text": result.text,
        "troubleshooting": result.check.troubleshooting,
        "facts": result.facts,
        "notes": result.notes,
        "cases": [{"id": case.id, "text": case.text} for case in result.cases],
    }


def as_json(report: Report) -> str:
    """Return the report as JSON text."""
    return json.dumps(as_dict(report), indent=2, default=str, ensure_ascii=False) + "\n"
