"""How a report looks: on a terminal, and in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from dovetail_sdk.rendering import bytes_text, count_text, seconds_text, table

from .results import TIE, Comparison, Entry, Report, State, geometric_means

if TYPE_CHECKING:
    from rich.table import Table

NONE = "-"
EXPLANATION = (
    "peer / dovetail: the peer's median divided by dovetail's, round by round, then the median: above 1, dovetail is faster; "
    f"within {TIE:.0%} of 1 is a tie. by minima: the shortest calls divided. of peak: of the machine's float32 "
    "multiply-accumulates per second, measured in the same rounds. memory: the most that the process held, less Python, NumPy "
    "and the inputs. load + first run: of this model, in a new process, by minima; import is what any model needs, total is "
    "all of it. peak: VmHWM after the first run; increase: less what the imports left. error: the largest difference, "
    "relative to the largest value."
)


@dataclass(frozen=True, slots=True)
class Grid:
    """A table in no particular look.

    Attributes:
        columns: Headings.
        rows: Cells, one per column.
        right: Headings of the columns that are set flush right.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: Sequence[str]

    def for_terminal(self) -> Table:
        """Build what `dovetail_sdk.rendering.show` shows."""
        return table(self.columns, self.rows, right=self.right)

    def markdown(self) -> str:
        """Write it in Markdown."""
        rule = ["---:" if column in self.right else "---" for column in self.columns]
        lines = [self.columns, rule, *self.rows]
        return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def heading(report: Report) -> list[str]:
    """Say on which machine, with which versions, when, and by which command."""
    machine = report.machine
    cores = f"{machine['usable_cores']} of {machine['cores']} cores"
    return [
        f"machine: {machine['cpu']}, {cores}, {machine['system']}",
        f"versions: {', '.join(f'{name} {version}' for name, version in report.versions.items())}",
        f"date: {report.date}",
        f"command: {report.command}",
    ]


def detail(report: Report) -> Grid:
    """Build the table of every runtime on every model."""
    columns = (
        "model",
        "threads",
        "runtime",
        "median",
        "min",
        "peer / dovetail",
        "of peak",
        "memory",
        "error",
    )
    rows: list[list[str]] = []
    for comparison in report.comparisons:
        macs = f" ({count_text(comparison.macs)} MAC)" if comparison.macs else ""
        for entry in comparison.entries:
            first = entry is comparison.ours
            name = f"{comparison.model}{macs}" if first else ""
            rows.append([name, str(comparison.threads) if first else "", *_cells(comparison, entry)])
    return Grid(columns, rows, tuple(column for column in columns if column not in ("model", "runtime")))


def _cells(comparison: Comparison, entry: Entry) -> list[str]:
    part = comparison.part_of_peak(entry)
    ratio = comparison.ratio(entry) if entry is not comparison.ours else None
    backends = entry.ready.get("facts", {}).get("backends")
    return [
        f"{entry.runtime} ({', '.join(backends)})" if backends else entry.runtime,
        seconds_text(entry.median) if entry.median is not None else entry.state.value,
        seconds_text(entry.minimum) if entry.minimum is not None else NONE,
        f"{ratio:.3g}" if ratio is not None else NONE,
        f"{part:.1%}" if part is not None else NONE,
        bytes_text(max(0, entry.memory_bytes)) if entry.memory_bytes is not None else NONE,
        _error(entry),
    ]


def _error(entry: Entry) -> str:
    if entry.agreement is None:
        return NONE
    if entry.agreement.largest is None:
        return "WRONG"
    own = " own int8" if entry.ready.get("facts", {}).get("quantized") else ""
    return f"{entry.agreement.largest:.0e}{own}{'' if entry.agreement.agrees else ' WRONG'}"


def summary(report: Report) -> Grid:
    """Build the table of the best peers, with the geometric mean per thread count."""
    columns = ("model", "threads", "dovetail", "best peer", "its median", "best peer / dovetail", "rounds", "by minima")
    rows: list[list[str]] = []
    for comparison in report.comparisons:
        ours, best = comparison.ours.median, comparison.best_peer
        ratio, ratios = comparison.ratio(best), comparison.ratios(best) if best else []
        rows.append(
            [
                comparison.model,
                str(comparison.threads),
                seconds_text(ours) if ours is not None else comparison.ours.state.value,
                best.runtime if best else NONE,
                seconds_text(best.median) if best and best.median is not None else NONE,
                f"{ratio:.3g}" if ratio is not None else NONE,
                f"{min(ratios):.3g} .. {max(ratios):.3g}" if ratios else NONE,
                f"{minima:.3g}" if (minima := comparison.ratio_of_minima(best)) is not None else NONE,
            ]
        )
    for threads, (mean, count) in geometric_means(report.comparisons).items():
        rows.append([f"geometric mean of {count}", str(threads), "", "", "", f"{mean:.3g}", "", ""])
    return Grid(columns, rows, tuple(column for column in columns if column not in ("model", "best peer")))


def starting(report: Report) -> Grid:
    """Build the table of what it takes until the first answer of a process is there."""
    times = ("import", "load", "first run", "load + first run", "peer / dovetail", "total")
    columns = ("model", "threads", "runtime", *times, "peak", "peer / dovetail's", "increase")
    rows: list[list[str]] = []
    for comparison in report.comparisons:
        for entry in comparison.entries:
            ours = entry is comparison.ours
            seconds = {
                name: seconds_text(found) if (found := entry.least(f"{name}_seconds")) is not None else NONE
                for name in ("import", "load", "first", "model")
            }
            total, peak, increase = (entry.least(name) for name in ("seconds", "peak_bytes", "increase_bytes"))
            faster, smaller = (
                None if ours else comparison.ratio_of_starts(entry, name) for name in ("model_seconds", "peak_bytes")
            )
            rows.append(
                [
                    comparison.model if ours else "",
                    str(comparison.threads) if ours else "",
                    entry.runtime,
                    *seconds.values(),
                    f"{faster:.3g}" if faster is not None else NONE,
                    seconds_text(total) if total is not None else NONE,
                    bytes_text(int(peak)) if peak is not None else NONE,
                    f"{smaller:.3g}" if smaller is not None else NONE,
                    bytes_text(int(increase)) if increase is not None else NONE,
                ]
            )
    return Grid(columns, rows, tuple(column for column in columns if column not in ("model", "runtime")))


def remarks(report: Report) -> list[str]:
    """Say what is wrong, what was left out, and how undisturbed it was."""
    lines = [f"{model}: not measured: {reason}" for model, reason in report.failures.items()]
    for comparison in report.comparisons:
        where = f"{comparison.model}, {comparison.threads} thread{'s' * (comparison.threads > 1)}"
        lines += [f"{where}: {entry.reason}" for entry in comparison.entries if entry.state is not State.MEASURED]
    disturbed = sum(comparison.disturbed for comparison in report.comparisons)
    if disturbed:
        blocks = sum(len(entry.blocks) for comparison in report.comparisons for entry in comparison.entries)
        lines.append(
            f"others took CPU time during {disturbed} of {blocks} blocks, the least disturbed of their attempts: long calls "
            "suffer more than short ones, which fit into a time slice; for figures to rely on, measure when the machine is idle"
        )
    lines += report.notes
    for threads, peaks in _peaks(report).items():
        lines.append(f"peak with {threads} thread{'s' * (threads > 1)}: {median(peaks) / 1e9:.1f} GMAC/s")
    return lines


def _peaks(report: Report) -> dict[int, list[float]]:
    found: dict[int, list[float]] = {}
    for comparison in report.comparisons:
        found.setdefault(comparison.threads, []).extend(comparison.peaks)
    return {threads: peaks for threads, peaks in found.items() if peaks}


def grids(report: Report) -> list[Grid]:
    """Return a report's tables: every runtime, the way to the first answer, and any best peers."""
    return [detail(report), starting(report), *([summary(report)] if _has_peers(report) else [])]


def explanation(report: Report) -> list[str]:
    """Say how to read the tables."""
    return [EXPLANATION] if _has_peers(report) else []


def _has_peers(report: Report) -> bool:
    return any(len(comparison.entries) > 1 for comparison in report.comparisons)


def markdown(report: Report) -> str:
    """Write all of it in Markdown."""
    parts = [_list(heading(report)), *(grid.markdown() for grid in grids(report)), *explanation(report), _list(remarks(report))]
    return "\n\n".join(filter(None, parts))


def _list(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)
