"""The placement report as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from ..ground.cell_widths import cell_width, padded
from ..ground.text_tables import shortened, table_width, terminal_width, text_table, wrapped
from ..ground.units import count_text
from .candidate import Absent
from .copies import CopyReport
from .report_words import MAX_NAMED, constants_in_words, listed, place_name, short_name, some_of
from .reports import BackendTotal, ConstantsReport, Crossing, DeviceReport, LayerReport, LeftReport, PartitionReport

_REASONS = {"private": "first choice", "core": "the core runs it"}
"""What is told in other words than `LayerReport.reason` has."""
_NARROW = 28
"""Columns of the name of a layer where there are few."""


class Explained(Protocol):
    """What is told of: `Placement`, which says what these are."""

    def summary(self) -> str: ...
    def totals(self) -> tuple[BackendTotal, ...]: ...
    @property
    def layers(self) -> tuple[LayerReport, ...]: ...
    @property
    def partitions(self) -> tuple[PartitionReport, ...]: ...
    @property
    def copies(self) -> tuple[CopyReport, ...]: ...
    @property
    def passes(self) -> tuple[tuple[str, int], ...]: ...
    @property
    def absent(self) -> tuple[Absent, ...]: ...
    @property
    def folded(self) -> tuple[str, ...]: ...
    @property
    def devices(self) -> tuple[DeviceReport, ...]: ...
    @property
    def deleted(self) -> tuple[tuple[str, str], ...]: ...
    @property
    def constants(self) -> tuple[ConstantsReport, ...]: ...
    @property
    def left_constant(self) -> tuple[LeftReport, ...]: ...
    @property
    def fallbacks(self) -> tuple[LayerReport, ...]: ...
    @property
    def crossing(self) -> Crossing: ...


def explanation(placement: Explained, width: int | None) -> str:
    """Return what `Placement.explain` returns."""
    width = terminal_width() if width is None else width
    blocks = [
        _wrapped(placement.summary(), width),
        "\n".join(_wrapped(str(device), width) for device in placement.devices),
        _layers(placement, width),
        _totals(placement, width),
        _partitions(placement, width),
        _copies(placement, width),
    ]
    done = ", ".join(f"{name} {count}" for name, count in placement.passes if count)
    blocks.append(_wrapped(f"passes: {done or 'nothing to change'}", width))
    if placement.folded:
        by = dict(placement.deleted)
        names = [f"{short_name(name)} (deleted by {by[name]})" if name in by else short_name(name) for name in placement.folded]
        blocks.append(
            _wrapped(f"folded away: {some_of(names)}{f', {len(names)} in all' if len(names) > MAX_NAMED else ''}", width)
        )
    blocks += [_wrapped(line, width) for line in constants_in_words(placement.constants, placement.left_constant)]
    blocks += [_wrapped(f"absent: {one.request} ({one.state}): {one.reason}", width) for one in placement.absent]
    blocks.append(_wrapped(_fallbacks(placement), width))
    return "\n\n".join(block for block in blocks if block)


def _layers(placement: Explained, width: int) -> str:
    """Build the table of layers.

    It has those of the less important columns that there is room for.
    """
    columns = {
        "layer": [short_name(row.name) for row in placement.layers],
        "computes": [_computes(row) for row in placement.layers],
        "output": [row.output for row in placement.layers],
        "MACs": [count_text(row.macs) if row.macs else "" for row in placement.layers],
        "backend": [place_name(row.backend, row.device) for row in placement.layers],
        "partition": ["" if row.partition is None else str(row.partition) for row in placement.layers],
        "why": [_why(row) for row in placement.layers],
        "kind": [row.kind.removeprefix("dovetail.") for row in placement.layers],
        "stands for": ["" if row.sources == (row.name,) else listed(row.sources) for row in placement.layers],
    }
    optional = [name for name in ("MACs", "output", "kind", "stands for") if any(columns[name])]
    shown = ["layer", "computes", "backend", *(["partition"] if len(placement.partitions) > 1 else []), "why"]
    for name in optional:
        more = [column for column in columns if column in (*shown, name)]
        if table_width(_rows(columns, more)) <= width:
            shown = more
    if table_width(_rows(columns, shown)) > width:
        columns["layer"] = [shortened(name, _NARROW) for name in columns["layer"]]
    right = [shown.index(name) for name in ("MACs", "partition") if name in shown]
    notes: list[Sequence[str]] = [()]
    notes += [[*map(str, row.refusals), *_aligned(row.steps)] for row in placement.layers]
    return text_table(_rows(columns, shown), width, wrap=(shown.index("computes"),), right=right, notes=notes)


def _rows(columns: dict[str, list[str]], names: Sequence[str]) -> list[Sequence[str]]:
    return [tuple(names), *zip(*(columns[name] for name in names), strict=True)]


def _computes(row: LayerReport) -> str:
    return "; ".join(filter(None, (row.words or row.kind, row.tuned)))


def _why(row: LayerReport) -> str:
    return _REASONS.get(row.reason, row.reason)


def _totals(placement: Explained, width: int) -> str:
    totals = placement.totals()
    macs = sum(one.macs for one in totals)
    rows = [("backend", "layers", "MACs", "of all", "bytes in", "bytes out")]
    for one in totals:
        share = f"{one.macs / macs:.1%}" if macs else ""
        rows.append(
            (one.label, str(one.layers), count_text(one.macs), share, count_text(one.bytes_in), count_text(one.bytes_out))
        )
    return text_table(rows, width, right=range(1, 6)) if totals else ""


def _partitions(placement: Explained, width: int) -> str:
    rows = [("partition", "backend", "layers")]
    for part in placement.partitions:
        shown = part.layers if len(part.layers) <= 4 else (*part.layers[:2], "...", part.layers[-1])
        names = ", ".join(map(short_name, shown))
        rows.append((str(part.index), place_name(part.backend, part.device), f"{len(part.layers)}: {names}"))
    return text_table(rows, width, wrap=(2,)) if placement.partitions else ""


def _copies(placement: Explained, width: int) -> str:
    measured = any(copy.milliseconds is not None for copy in placement.copies)
    rows = [("copy", "from", "to", "by", "bytes", *(("ms",) if measured else ()), "why")]
    for copy in placement.copies:
        took = "-" if copy.milliseconds is None else f"{copy.milliseconds:.3f}"
        row = (short_name(copy.tensor), str(copy.source), str(copy.target), _copier(copy), str(copy.nbytes))
        rows.append((*row, *((took,) if measured else ()), copy.reason))
    if not placement.copies:
        return ""
    right = (4, 5) if measured else (4,)
    return f"{text_table(rows, width, wrap=(len(rows[0]) - 1,), right=right)}\neach run copies {placement.crossing}"


def _copier(copy: CopyReport) -> str:
    return "core, mapped" if copy.mapped else copy.backend or "core"


def _fallbacks(placement: Explained) -> str:
    fallbacks = placement.fallbacks
    if not fallbacks:
        return "fallback: none, every layer runs on its first choice"
    count = Counter(place_name(row.backend, row.device) for row in fallbacks)
    places = ", ".join(f"{number} to {place}" for place, number in count.items())
    names = some_of([short_name(row.name) for row in fallbacks])
    return f"fallback: {len(fallbacks)} of {len(placement.layers)} layers fell back ({places}): {names}"


def _aligned(steps: Sequence[tuple[str, str]]) -> list[str]:
    """Return the steps of a layer as lines, their words below one another."""
    names = [shortened(short_name(name), _NARROW) for name, _ in steps]
    width = max(map(cell_width, names), default=0)
    return [f"{padded(name, width)}  {words}" for name, (_, words) in zip(names, steps, strict=True)]


def _wrapped(text: str, width: int) -> str:
    return "\n".join(wrapped(text, width, indent=2))
