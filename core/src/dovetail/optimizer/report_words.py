"""How reports write names, places and numbers of things."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .reports import ConstantsReport, LeftReport

_MAX_NAME = 48
"""Columns of a name in a table."""
_MAX_LISTED = 4
"""Layers that are named one by one."""
MAX_NAMED = 8
"""Layers that `some_of` names."""


def listed(names: Sequence[str]) -> str:
    """Name some layers, of many the first and the last."""
    if len(names) <= _MAX_LISTED:
        return ", ".join(map(short_name, names))
    return f"{short_name(names[0])} ... {short_name(names[-1])}, {len(names)} in all"


def some_of(names: Sequence[str]) -> str:
    """Name some layers, of many the first."""
    return ", ".join(names[:MAX_NAMED]) + (", ..." if len(names) > MAX_NAMED else "")


def constants_in_words(computed: Iterable[ConstantsReport], left: Iterable[LeftReport]) -> list[str]:
    """Say which layers of constants an oracle computed, and which are left to the runs, and why."""
    lines = []
    for one in computed:
        names = some_of([short_name(name) for name in one.layers])
        lines.append(f"constants folded by {one.oracle}: {counted(len(one.layers), 'layer')}: {names}")
    by_reason: dict[str, list[str]] = {}
    for row in left:
        by_reason.setdefault(row.reason, []).append(short_name(row.layer))
    return lines + [f"constant, yet computed by each run: {some_of(names)}: {why}" for why, names in by_reason.items()]


def short_name(name: str) -> str:
    """Return a name that fits into a table: its end, by which layers of one model differ.

    Of names that converters joined by semicolons, that of the last operator of a fused layer, which
    they put first.
    """
    from ..ground.cell_widths import cell_width, last_cells

    if cell_width(name) <= _MAX_NAME:
        return name
    first, joined, last = name.partition(" ... ")
    if joined:
        return f"{short_name(first)}{joined}{short_name(last)}"
    first, fused, _ = name.partition(";")
    end = ";..." if fused else ""
    room = _MAX_NAME - len(end)
    return f"{first if cell_width(first) <= room else f'...{last_cells(first, room - 3)}'}{end}"


def place_name(backend: str | None, device: int | None) -> str:
    """Name a backend and its device: "CpuRef", "GpuAcc:1"; "core" for none."""
    return "core" if backend is None else f"{backend}:{device}" if device else backend


def counted(number: int, one: str, many: str | None = None) -> str:
    """Write a number of things: "no layers", "1 layer", "2 layers"."""
    return f"{number or 'no'} {one if number == 1 else many or one + 's'}"
