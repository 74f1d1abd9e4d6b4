"""`dovetail conform`: prove that a backend does what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..options import in_folder, json_option, value_of

if TYPE_CHECKING:
    from ..conformance.checks import Check
    from ..conformance.endings import Event
    from ..conformance.results import CheckResult, KnownDeviation, Report

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
_SUFFIXES = (".html", ".json", ".xml")
_MAX_CASES = 5
"""Failed cases of one check that are shown; a report has them all."""
_MAX_DEVIATING = 2
"""Cases of one declared deviation that are shown."""
STYLES = {
    "passed": "green",
    "failed": "red",
    "failed as expected": "yellow",
    "deviates as declared": "magenta",
    "not applicable": "dim",
    "not run": "yellow",
}


def seconds_of(context: click.Context, parameter: click.Parameter, value: str) -> float:
    """Read ``90``, ``90s``, ``10m`` or ``1h`` as seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", value, re.ASCII)
    if not match or not float(match[1]):
        raise click.BadParameter(f"{value!r} is not a time; write 90s, 10m or 1h", context, parameter)
    return float(match[1]) * _UNITS[match[2]]


def options_of(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> dict[str, Any]:
    """Read ``name=value``: the value as JSON where it is such (3, true), else as text."""
    found: dict[str, Any] = {}
    for text in value:
        name, equals, content = text.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{text!r} is not name=value", context, parameter)
        found[name] = value_of(content)
    return found


def report_path(context: click.Context, parameter: click.Parameter, value: tuple[Path, ...]) -> tuple[Path, ...]:
    """Refuse, before anything runs, a report of unknown format or in a missing folder."""
    for path in value:
        if path.suffix.lower() not in _SUFFIXES:
            raise click.BadParameter(f"{str(path)!r}: the suffix must be {', '.join(_SUFFIXES)}", context, parameter)
        in_folder(context, parameter, path)
    return value


@click.command()
@click.argument("backend", metavar="ID")
@click.option("--level", type=click.IntRange(0, 5), default=4, show_default=True, help="Run the checks up to this level.")
@click.option("--budget", callback=seconds_of, default="10m", show_default=True, help="Time for all of it: 90s, 10m, 1h.")
@click.option(
    "--report",
    "reports",
    multiple=True,
    type=click.Path(dir_okay=False, path_type=Path),
    callback=report_path,
    help="Write a report: .html, .json or .xml (JUnit). Repeatable.",
)
@click.option(
    "--options", multiple=True, metavar="NAME=VALUE", callback=options_of, help="An option of the backend. Repeatable."
)
@click.option(
    "--late-failure",
    multiple=True,
    metavar="NAME=VALUE",
    callback=options_of,
    help="An option under which enqueued work fails on the device, instead of those of the manifest. Repeatable.",
)
@click.option(
    "--bit-exact", is_flag=True, help="Hold results to the bits that standards define, even where these are not promised."
)
@click.option("--isolate", is_flag=True, help="Load its networks in a process of its own, as users can.")
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="Judge so many kinds of layers at a time, each in a process: for a slow backend, if several can use its device.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of all random numbers.")
@click.option(
    "--only",
    multiple=True,
    metavar="PATTERN",
    help="Checks whose id contains this, or matches it as a glob, in capitals or not. Repeatable.",
)
@click.option(
    "--operators", multiple=True, metavar="MODULE", help="A module with an OPERATOR for a kind of your own. Repeatable."
)
@json_option
def command(
    backend: str,
    level: int,
    budget: float,
    reports: tuple[Path, ...],
    options: dict[str, Any],
    late_failure: dict[str, Any],
    bit_exact: bool,
    isolate: bool,
    jobs: int,
    seed: int,
    only: tuple[str, ...],
    operators: tuple[str, ...],
    as_json: bool,
) -> None:
    """Prove that the backend ID conforms.

    The levels are 0 identity, 1 contract, 2 operators, 3 graphs, 4 stress, 5 performance.

    ID is that of an installed backend, or module:Class of one that is not packaged yet; ID:1 is its
    device 1, and without a number device 0 is judged. The checks run in processes of their own: a
    backend that crashes or hangs fails the check, and the rest goes on. Exit code 0: it conforms,
    as far as was asked.
    """
    from ..conformance.checks import checks_up_to, pattern_hint
    from ..conformance.environment import environment
    from ..conformance.reports import write_report
    from ..conformance.results import Verdict
    from ..conformance.supervisor import Orders, Supervisor

    _check_there(backend)
    checks = checks_up_to(level, only)
    if missed := [pattern for pattern in only if not checks_up_to(level, [pattern])]:
        said = f"no check up to level {level} matches {' or '.join(map(repr, missed))}"
        raise click.UsageError(f"{said}: {pattern_hint(missed, level)}")
    orders = Orders(
        backend,
        options,
        seed,
        budget,
        operators,
        late_failure=late_failure or None,
        bit_exact=bit_exact,
        isolate=isolate,
    )
    with _progress(len(checks), quiet=as_json) as listen:
        report = Supervisor(orders, listen, jobs=jobs).run(checks, level)
    report.environment = environment(backend, seed=seed, options=options)
    for path in reports:
        write_report(report, path)
    if as_json:
        from ..conformance.reports.machine import as_json as text_of

        click.echo(text_of(report), nl=False)
    else:
        show_report(report)
        for path in reports:
            click.echo(f"report written to {path}")
    if report.verdict is not Verdict.CONFORMS:
        raise click.exceptions.Exit(1)


def _check_there(target: str) -> None:
    """Refuse the id of a backend that is not there, before a report says so of each check.

    Raises:
        BackendError: There is none.
    """
    from dovetail.discovery.registry import default_registry

    from ..conformance.target import parted

    id, _ = parted(target)
    registry = default_registry()
    if ":" not in id and all(row.id != id for row in registry.rows()):
        registry.get(id)


class _Progress:
    """Shows on a terminal which check runs, and what it does."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.done = 0
        self.status: Any = None

    def __call__(self, check: Check, event: Event) -> None:
        if event["event"] == "end":
            self.done += 1
        elif event["event"] in ("begin", "step") and self.status is not None:
            doing = event.get("text", "")
            self.status.update(f"[{self.done + 1}/{self.total}] {check.id} {doing}"[:200])


def _progress(total: int, *, quiet: bool) -> Any:
    import sys
    from contextlib import contextmanager

    @contextmanager
    def shown() -> Any:
        progress = _Progress(total)
        if quiet or not sys.stderr.isatty():
            yield progress
            return
        from ..rendering import console

        with console(sys.stderr).status("starting", spinner="line") as progress.status:
            yield progress

    return shown()


def show_report(report: Report) -> None:
    """Print failures and what to do about them, the checks that apply, the counts, the verdict."""
    from ..conformance.results import Status
    from ..rendering import say, show, styled, table

    for result in report.problems:
        _show_failure(report, result)
    for known in report.deviations:
        _show_deviation(known)
    if report.problems or report.deviations:
        click.echo()
    applicable = [result for result in report.results if result.status is not Status.NOT_APPLICABLE]
    left = applicable[1:] if all(result.status is Status.NOT_RUN for result in applicable[1:]) else []
    rows = [
        (
            str(int(result.check.level)),
            result.check.id,
            styled(str(result.status), STYLES[result.status]),
            f"{result.seconds:.2f}",
            result.text.partition("\n")[0],
        )
        for result in applicable
        if result not in left
    ]
    show(table(("level", "check", "result", "seconds", ""), rows, right=("level", "seconds"), long=("check",)))
    if left:
        say(f"{len(left)} more check{'s were' if len(left) > 1 else ' was'} not run: {left[0].text}\n")
    hidden = len(report.results) - len(applicable)
    if hidden:
        say(f"{hidden} check{'s do' if hidden > 1 else ' does'} not apply to this backend; a report lists them\n")
    if any(kind for kind, _ in report.counts):
        show(counts_table(report))
        _show_strangers(report)
        _show_bits(report)
    for result in report.results:
        for note in result.notes:
            say(f"note: {result.check.id}: {note}")
    for kind, dtypes in report.not_judged_by_kind.items():
        say(f"not judged: {kind} of {', '.join(dtypes)}: claimed, but no case of the kit lies within the claim")
    for line in unreached_lines(report):
        say(line)
    say(verdict_text(report))


def _show_failure(report: Report, result: CheckResult) -> None:
    from ..rendering import say

    say(f"\nFAILED {result.check.id}: {report.backend} {result.check.title}: {result.text}")
    for case in result.cases[:_MAX_CASES]:
        click.echo(f"  {case.id}\n    {case.text}")
    if len(result.cases) > _MAX_CASES:
        click.echo(f"  ... and {len(result.cases) - _MAX_CASES} more; a report lists all: --report out.html")
    if result.check.troubleshooting:
        say(f"  Troubleshooting: {result.check.troubleshooting}", indent=4)


def _show_deviation(known: KnownDeviation) -> None:
    style = STYLES["deviates as declared"] if known.cases else "yellow"
    click.echo(f"\n{click.style(known.state.upper(), fg=style)} {known.described}")
    cases = list(known.cases.values())
    for case in cases[:_MAX_DEVIATING]:
        click.echo(f"  {case.id}\n    {case.text}")
    if len(cases) > _MAX_DEVIATING:
        click.echo(f"  ... and {len(cases) - _MAX_DEVIATING} more cases")


def _show_bits(report: Report) -> None:
    from ..rendering import say

    how = "asked for" if report.bit_exact else "promised"
    for standard, kinds in report.bits_by_standard.items():
        names = ", ".join(f"{kind.removeprefix('dovetail.')} ({number})" for kind, number in sorted(kinds.items()))
        say(f"bit-exact as {how}, judged with zero tolerance by the standard {standard!r}, cases: {names}")


def _show_strangers(report: Report) -> None:
    from ..rendering import say

    taken = {kind for (kind, _), counts in report.counts.items() if kind and (counts.claimed or counts.run or counts.failed)}
    refused = sorted({kind for (kind, _), counts in report.counts.items() if kind and counts.refused} - taken)
    if refused:
        say(f"refused in every element type, with a reason: {', '.join(kind.removeprefix('dovetail.') for kind in refused)}")
    folded = sum(counts.folded for counts in report.counts.values())
    if folded:
        say(f"{folded} cases of constants were computed by the core beforehand: no backend is asked")


def unreached_lines(report: Report) -> list[str]:
    """Say what is claimed and no case reached; kinds of which the same is said share a line."""
    kinds: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for (kind, what, reason), dtypes in report.unreached_by_kind.items():
        kinds.setdefault((what, reason, tuple(dtypes)), []).append(kind.removeprefix("dovetail."))
    whats: dict[tuple[tuple[str, ...], tuple[str, ...], str], list[str]] = {}
    for (what, reason, types), names in kinds.items():
        whats.setdefault((tuple(names), types, reason), []).append(what)
    return [
        f"claimed, not judged: {', '.join(names)} of {', '.join(types)}: {', '.join(said)}{f' ({reason})' if reason else ''}"
        for (names, types, reason), said in whats.items()
    ]


def counts_table(report: Report) -> Any:
    """Tabulate cases by kind and element type; a kind's types with the same numbers share a row."""
    from ..rendering import table

    taken = {kind for (kind, _), counts in report.counts.items() if kind and (counts.claimed or counts.run or counts.failed)}
    deviating = ("deviating",) if report.deviations else ()
    columns = ("claimed", "run", "exact", "refused", *deviating, "failed")
    rows: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    for (kind, dtype), counts in report.counts.items():
        numbers = tuple(getattr(counts, name) for name in columns)
        if kind in taken and any(numbers):
            rows.setdefault((kind, numbers), []).append(dtype)
    cells = [(kind, " ".join(dtypes), *map(str, numbers)) for (kind, numbers), dtypes in rows.items()]
    return table(("kind", "each of", *columns), cells, right=columns)


def verdict_text(report: Report) -> str:
    """Say in one or two lines how it ended."""
    from ..conformance.results import Counts, Status

    total = Counts()
    for (kind, _), counts in report.counts.items():
        if kind:
            total.add(**counts.as_dict())
    results = [result.status for result in report.results]
    parts = [f"{results.count(status)} {status}" for status in Status if results.count(status)]
    deviating = f"{total.deviating} deviating as declared, " if report.deviations else ""
    objection = f"\n{report.objection}" if report.objection else ""
    device = f"device: {report.device}; " if report.device else ""
    return (
        f"\n{report.backend} at level {report.level}: {report.verdict}{objection}\n"
        f"{device}checks: {', '.join(parts)}; cases: {total.claimed} claimed, {total.run} run, "
        f"{total.exact} judged to the bit, {total.refused} refused, {deviating}{total.failed} failed; {report.seconds:.1f} s"
    )
