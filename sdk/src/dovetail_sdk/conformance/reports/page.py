"""The report for people: one self-contained HTML file with a matrix of kinds and element types."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from dovetail import DType

from ..results import CheckResult, Counts, FailedCase, Report, Status, Verdict

LETTERS = {"passed": "P", "partial": "S", "failed": "F", "deviates": "D", "refused": "R", "unknown": "?", "folded": "C"}
"""What stands in a cell of the matrix besides its colour."""
MEANINGS = {
    "passed": "every case ran and is right",
    "partial": "some ran and are right, others were refused with a reason",
    "failed": "a case is wrong",
    "deviates": "a case differs as the manifest declares",
    "refused": "every case was refused with a reason",
    "unknown": "claimed, but nothing could judge it",
    "folded": "computed by the core beforehand",
}
_CHECK_STATES = {
    Status.PASSED: "passed",
    Status.FAILED: "failed",
    Status.EXPECTED: "unknown",
    Status.DEVIATES: "deviates",
    Status.NOT_APPLICABLE: "refused",
    Status.NOT_RUN: "unknown",
}
_VERDICTS = {Verdict.CONFORMS: "passed", Verdict.FAILS: "failed", Verdict.INCOMPLETE: "unknown"}
_MAX_CASES = 200
"""Failed cases of one check on the page, at most.

A backend that gets everything wrong has thousands; the JSON report has them all."""


def as_page(report: Report) -> str:
    """Return the report as HTML text."""
    style = files(__package__).joinpath("page.css").read_text(encoding="utf-8")
    script = files(__package__).joinpath("page.js").read_text(encoding="utf-8")
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            '<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(report.backend)} {escape(str(report.verdict))}</title>",
            f"<style>{style}</style></head>",
            "<body>",
            _head(report),
            _failures(report),
            _deviations(report),
            _matrix(report),
            _checks(report),
            _notes(report),
            _environment(report),
            f"<script>{script}</script>",
            "</body></html>\n",
        ]
    )


def _badge(state: str, text: str) -> str:
    return f'<span class="badge {state}">{escape(text)}</span>'


def _head(report: Report) -> str:
    facts = report.environment
    total = Counts()
    for (kind, _), counts in report.counts.items():
        if kind:
            total.add(**counts.as_dict())
    statuses = [result.status for result in report.results]
    origin = [str(facts[name]) for name in ("distribution", "date") if facts.get(name)]
    origin += [f"device {report.device}"] if report.device else []
    lines = [
        f"<h1>{escape(report.backend)} {_badge(_VERDICTS[report.verdict], str(report.verdict))}</h1>",
        f'<p class="soft">{escape(" · ".join([*origin, f"level {report.level}", f"{report.seconds:.1f} s"]))}</p>',
    ]
    if report.objection:
        lines.append(f"<p>{_badge('failed', 'the run as a whole')} {escape(report.objection)}</p>")
    numbers: list[tuple[int, str]] = [
        (statuses.count(status), f"checks {status}") for status in Status if statuses.count(status)
    ]
    numbers += [(total.claimed, "cases claimed"), (total.run, "cases run"), (total.refused, "cases refused")]
    numbers += [(total.failed, "cases failed"), (total.exact, "cases judged to the bit")]
    numbers += [(total.deviating, "cases deviate as declared")] if report.deviations else []
    boxes = "".join(f"<div><b>{number:,}</b><span>{escape(what)}</span></div>" for number, what in numbers)
    return "\n".join([*lines, f'<div class="numbers">{boxes}</div>'])


def _failures(report: Report) -> str:
    if not report.problems:
        return ""
    return "\n".join(["<h2>What failed</h2>", *(_check(result, opened=True) for result in report.problems)])


def _deviations(report: Report) -> str:
    """Show what the manifest declares, and what became of it."""
    if not report.deviations:
        return ""
    lines = ["<h2>Declared deviations</h2>"]
    for known in report.deviations:
        badge = _badge("deviates" if known.cases else "unknown", known.state)
        lines.append(
            f'<details><summary>{badge}<span class="what">{escape(known.described)}</span></summary>'
            f'<div class="inside">{"".join(_cases(list(known.cases.values())))}</div></details>'
        )
    return "\n".join(lines)


def cell_state(counts: Counts | None, *, not_judged: bool) -> str:
    """Return the state of a cell of the matrix, or an empty string if there is nothing to say."""
    if counts is not None and counts.failed:
        return "failed"
    if not_judged:
        return "unknown"
    if counts is not None and counts.deviating:
        return "deviates"
    if counts is None or not (counts.run or counts.refused):
        return "folded" if counts is not None and counts.folded else ""
    if not counts.run:
        return "refused"
    return "partial" if counts.refused else "passed"


def _matrix(report: Report) -> str:
    counts, not_judged = report.counts, set(report.not_judged)
    cells = {cell for cell in {*counts, *not_judged} if cell[0]}
    if not cells:
        return ""
    present = {dtype for _, dtype in cells}
    dtypes = [dtype.label for dtype in DType if dtype.label in present]
    head = "".join(f'<th scope="col">{dtype}</th>' for dtype in dtypes)
    rows = []
    strangers = []
    for kind in sorted({kind for kind, _ in cells}):
        states = {dtype: cell_state(counts.get((kind, dtype)), not_judged=(kind, dtype) in not_judged) for dtype in dtypes}
        if set(states.values()) <= {"refused", ""}:
            strangers.append(kind.removeprefix("dovetail."))
            continue
        row = "".join(f"<td>{_cell(states[dtype], counts.get((kind, dtype)), f'{kind} of {dtype}')}</td>" for dtype in dtypes)
        known = " ".join(sorted({state for state in states.values() if state}))
        name = escape(kind.removeprefix("dovetail."))
        head_cell = f'<th scope="row" title="{escape(kind)}">{name}</th>'
        rows.append(f'<tr data-states="{known}" data-text="{escape(kind.lower())}">{head_cell}{row}</tr>')
    legend = " ".join(f'<label><input type="checkbox" value="{state}" checked>{_legend(state)}</label>' for state in LETTERS)
    return "\n".join(
        [
            "<h2>Kinds and element types</h2>",
            '<p class="soft">The number below a letter counts cases that ran, of those that were asked about.</p>',
            '<div class="tools" data-of=".matrix tbody tr" data-none="no-kinds"><input type="search" placeholder="filter kinds"'
            f' aria-label="filter kinds">{legend}</div>',
            f'<div class="scroll"><table class="matrix"><thead><tr><th scope="col">kind</th>{head}</tr></thead>',
            f"<tbody>{''.join(rows)}</tbody></table></div>",
            '<p class="none" id="no-kinds" hidden>No kind fits the filter.</p>',
            f'<p class="soft">Refused in every element type, with a reason: {escape(", ".join(strangers) or "no kind")}.</p>',
        ]
    )


def _legend(state: str) -> str:
    return f"{_badge(state, LETTERS[state])} {MEANINGS[state]}"


def _cell(state: str, counts: Counts | None, what: str) -> str:
    if not state:
        return ""
    counts = counts or Counts()
    tip = f"{what}: {MEANINGS[state]}; " + ", ".join(f"{number} {name}" for name, number in counts.as_dict().items())
    asked = counts.run + counts.refused + counts.folded
    numbers = f"<small>{counts.run}/{asked}</small>" if asked else ""
    return f'<span class="badge {state}" title="{escape(tip)}">{LETTERS[state]}{numbers}</span>'


def _checks(report: Report) -> str:
    states = dict.fromkeys(_CHECK_STATES[result.status] for result in report.results)
    words = {
        "passed": "passed",
        "failed": "failed",
        "deviates": "deviates as declared",
        "refused": "not applicable",
        "unknown": "not run, or expected to fail",
    }
    boxes = " ".join(
        f'<label><input type="checkbox" value="{state}" checked>{_badge(state, words[state])}</label>'
        for state in words
        if state in states
    )
    lines = [
        "<h2>Checks</h2>",
        '<div class="tools" data-of="details.check" data-none="no-checks"><input type="search" placeholder="filter checks" '
        f'aria-label="filter checks">{boxes}</div>',
    ]
    for level in sorted({result.check.level for result in report.results}):
        results = [result for result in report.results if result.check.level == level]
        lines.append(f"<h3>Level {int(level)}: {level.name.lower()}</h3>")
        lines += [_check(result) for result in results]
    return "\n".join([*lines, '<p class="none" id="no-checks" hidden>No check fits the filter.</p>'])


def _check(result: CheckResult, *, opened: bool = False) -> str:
    check, state = result.check, _CHECK_STATES[result.status]
    inside = [f"<pre>{escape(result.text)}</pre>"] if result.text else []
    if result.status is Status.FAILED:
        inside.append(f'<p class="help"><b>Troubleshooting.</b> {_prose(check.troubleshooting)}</p>')
    inside += _cases(result.cases)
    if result.status is not Status.FAILED:
        inside.append(f'<p class="soft">If this fails: {_prose(check.troubleshooting)}</p>')
    inside += [f'<p class="soft">{escape(note)}</p>' for note in result.notes]
    words = escape(f"{check.id} {check.title}".lower())
    opening = " open" if opened else f' class="check" data-states="{state}" data-text="{words}"'
    title = f'<span class="what"><code>{escape(check.id)}</code> {escape(check.title)}</span>'
    return (
        f"<details{opening}><summary>{_badge(state, str(result.status))}{title}"
        f'<span class="time">{result.seconds:.2f} s</span></summary><div class="inside">{"".join(inside)}</div></details>'
    )


def _prose(text: str) -> str:
    """Return text with what stands between backquotes set as code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(text))


def _cases(cases: Sequence[FailedCase]) -> list[str]:
    shown = [
        f'<details{" open" if number < 3 else ""}><summary><span class="what mono">{escape(case.id)}</span></summary>'
        f'<div class="inside"><pre>{escape(case.text)}</pre></div></details>'
        for number, case in enumerate(cases[:_MAX_CASES])
    ]
    if len(cases) > _MAX_CASES:
        shown.append(f'<p class="soft">… and {len(cases) - _MAX_CASES} more, in the JSON report.</p>')
    return shown


def _notes(report: Report) -> str:
    notes = [f"<code>{escape(result.check.id)}</code> {escape(note)}" for result in report.results for note in result.notes]
    notes += [
        f"<code>{escape(kind)}</code> of {escape(', '.join(dtypes))} is claimed, but nothing could judge it"
        for kind, dtypes in report.not_judged_by_kind.items()
    ]
    notes += [
        f"<code>{escape(kind)}</code> of {escape(', '.join(dtypes))}: claimed, not judged: {escape(what)}"
        f"{escape(f' ({reason})' if reason else '')}"
        for (kind, what, reason), dtypes in report.unreached_by_kind.items()
    ]
    if not notes:
        return ""
    return f"<h2>Notes</h2><ul>{''.join(f'<li>{note}</li>' for note in notes)}</ul>"


def _environment(report: Report) -> str:
    rows: list[str] = []
    for name, value in report.environment.items():
        if name == "files" and value:
            text = "\n".join(f"{digest}  {file}" for file, digest in value.items())
            content = (
                f"<details><summary>sha256 of {len(value)} files</summary>"
                f'<div class="inside"><pre>{escape(text)}</pre></div></details>'
            )
        else:
            content = escape(_text_of(value))
        rows.append(f'<tr><th scope="row">{escape(name)}</th><td>{content}</td></tr>')
    return f'<h2>Environment</h2><div class="scroll"><table class="facts"><tbody>{"".join(rows)}</tbody></table></div>'


def _text_of(value: Any) -> str:
    if isinstance(value, dict) and all(isinstance(one, str | int | float) for one in value.values()):
        return ", ".join(f"{name} {one}" for name, one in value.items()) or "none"
    if isinstance(value, list):
        return _joined(value)
    return json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, dict) else str(value)


def _joined(parts: Iterable[Any]) -> str:
    return " ".join(map(str, parts))
