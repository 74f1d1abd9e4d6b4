"""The placement report: where each layer went, and why."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ..contract.device import Device
from ..contract.interfaces import HOST
from ..ground.records import NamedTuple, Record
from .candidate import BY_THE_CALLER, Absent, Refusal
from .copies import CopyReport

_MAX_NAME = 48
"""Characters of a name in a table."""
_MAX_LISTED = 4
"""Layers that are named one by one."""


class LayerReport(NamedTuple):
    """One layer of the optimized network.

    Attributes:
        name, kind: As in `OptimizedNetwork.graph`.
        backend: Id; None where the core runs it.
        device: Index of the device; None where the core runs it.
        partition: Index into `Placement.partitions`; None where the core runs it.
        sources: Layers of the original network that it stands for.
        reason: Why it is there: "first choice", "required", "fallback", "private" (made by its
            backend), "core".
        refusals: What the backends before this one said, of this layer or of those that it
            replaces.
        words: What it computes and how, in the words of its backend, if it is private.
        tuned: How it is computed, if that was chosen by measuring on this machine: "tuned: direct,
            not winograd".
        steps: What its steps are, in the words of its backend: (name, words).
    """

    name: str
    kind: str
    backend: str | None
    device: int | None
    partition: int | None
    sources: tuple[str, ...]
    reason: str
    refusals: tuple[Refusal, ...] = ()
    tuned: str = ""
    words: str = ""
    steps: tuple[tuple[str, str], ...] = ()


class PartitionReport(Record, frozen=True):
    """Layers of one backend that form one convex piece.

    `index` is also the order in which they can run.
    """

    index: int
    backend: str
    device: int
    layers: tuple[str, ...]


class DeviceReport(NamedTuple):
    """A device that was asked about layers, as its backend states it.

    Attributes:
        label: Id of the backend, and the device where it is not the first.
        device: What is known of it without opening it.
    """

    label: str
    device: Device

    def __str__(self) -> str:
        return f"device {self.label}: {self.device.description}"


class Crossing(NamedTuple):
    """Bytes that one run copies from host memory to devices, and back."""

    to_devices: int
    to_host: int

    def __str__(self) -> str:
        return f"{self.to_devices} bytes to devices, {self.to_host} bytes to the host"


class Placement(NamedTuple):
    """What the optimizer did, as data; `explain` prints it.

    Attributes:
        network: Name of the network.
        layers: In an order in which they can run; inputs, outputs, constants and copies left out.
        partitions: In an order in which they can run.
        copies: Every copy between memories.
        passes: (name, number of changes), in order.
        absent: Backends that might be absent and are.
        folded: Layers of the original network, constants apart, that nothing stands for any more.
        devices: Those that were asked, in order of preference.
        deleted: (name, backend) of those of `folded` that a backend dropped because they compute
            nothing, which is its word alone.
    """

    network: str
    layers: tuple[LayerReport, ...]
    partitions: tuple[PartitionReport, ...] = ()
    copies: tuple[CopyReport, ...] = ()
    passes: tuple[tuple[str, int], ...] = ()
    absent: tuple[Absent, ...] = ()
    folded: tuple[str, ...] = ()
    devices: tuple[DeviceReport, ...] = ()
    deleted: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        return f"<Placement of {self.summary()}>"

    def __str__(self) -> str:
        return self.explain()

    @property
    def fallbacks(self) -> tuple[LayerReport, ...]:
        """Layers that a preferred backend refused or gave back."""
        return tuple(layer for layer in self.layers if layer.reason == "fallback")

    def remarks(self, network: str) -> list[tuple[str, bool, str]]:
        """Return what a log says where layers are not placed as it was asked for.

        Args:
            network: Its name.

        Returns:
            (what it is about, whether it is a warning, sentence).
        """
        found = [
            (str(one.request), True, f"network {network!r} does without {one.request}: {one.reason}") for one in self.absent
        ]
        for row, refusal in self.idle:
            told = f"backend {refusal.backend} runs none of its layers; of {row.name!r} it says: {refusal.reason}"
            found.append((refusal.backend, True, f"network {network!r}: {told}"))
        if self.fallbacks:
            found.append(("", False, f"{self.summary()}; placement.explain() says why"))
        return found

    @property
    def idle(self) -> tuple[tuple[LayerReport, Refusal], ...]:
        """For each backend asked for that runs no layer: the first layer it refused, and why."""
        busy = {_label(row.backend, row.device) for row in self.layers}
        first: dict[str, tuple[LayerReport, Refusal]] = {}
        for row in self.layers:
            for refusal in row.refusals:
                if refusal.backend not in busy and refusal.code not in BY_THE_CALLER:
                    first.setdefault(refusal.backend, (row, refusal))
        return tuple(first.values())

    def layer(self, name: str) -> LayerReport:
        """Return the row of a layer, by its name or that of an original layer it stands for.

        Raises:
            KeyError: There is none.
        """
        for matches in (lambda row: row.name == name, lambda row: name in row.sources):
            for row in self.layers:
                if matches(row):
                    return row
        raise KeyError(name)

    @property
    def crossing(self) -> Crossing:
        """Bytes that each run copies between the host and devices, and back."""
        return Crossing(
            sum(copy.nbytes for copy in self.copies if copy.source == HOST),
            sum(copy.nbytes for copy in self.copies if copy.target == HOST),
        )

    def with_copy_times(self, milliseconds: Mapping[str, float]) -> Placement:
        """Return it with measured times of copies, by name of the copy."""
        copies = tuple(copy._replace(milliseconds=milliseconds.get(copy.name)) for copy in self.copies)
        return self._replace(copies=copies)

    def summary(self) -> str:
        """Say it in one line."""
        counts = Counter(_label(row.backend, row.device) for row in self.layers)
        places = ", ".join(f"{place} ({count})" for place, count in counts.items()) or "none"
        nbytes = sum(copy.nbytes for copy in self.copies)
        copies = f"{_count(len(self.copies), 'copy', 'copies')}{f' of {nbytes} bytes' if self.copies else ''}"
        return (
            f"network {self.network!r}: {_count(len(self.layers), 'layer')} on {places}; "
            f"{_count(len(self.fallbacks), 'fallback')}; {_count(len(self.partitions), 'partition')}; {copies}"
        )

    def explain(self) -> str:
        """Return the report as text.

        It has a table of layers, each refusal, partitions, copies, passes, and what fell back.
        """
        blocks = [
            self.summary(),
            "\n".join(map(str, self.devices)),
            self._layer_table(),
            self._partition_table(),
            self._copy_table(),
        ]
        done = ", ".join(f"{name} {count}" for name, count in self.passes if count)
        blocks.append(f"passes: {done or 'nothing to change'}")
        if self.folded:
            by = dict(self.deleted)
            names = [f"{name} (deleted by {by[name]})" if name in by else name for name in self.folded]
            blocks.append(f"folded away: {', '.join(names)}")
        blocks += [f"absent: {one.request} ({one.state}): {one.reason}" for one in self.absent]
        blocks.append(self._fallback_line())
        return "\n\n".join(block for block in blocks if block)

    def _layer_table(self) -> str:
        rows = [("layer", "kind", "backend", "partition", "stands for", "why")]
        notes: list[Sequence[str]] = [()]
        for row in self.layers:
            covers = "" if row.sources == (row.name,) else listed(row.sources)
            where = _label(row.backend, row.device)
            part = "" if row.partition is None else str(row.partition)
            why = "; ".join(filter(None, (": ".join(filter(None, (row.reason, row.words))), row.tuned)))
            rows.append((_short(row.name), row.kind.removeprefix("dovetail."), where, part, covers, why))
            notes.append([*map(str, row.refusals), *_aligned(row.steps)])
        return _table(rows, notes)

    def _partition_table(self) -> str:
        rows = [("partition", "backend", "layers")]
        for part in self.partitions:
            shown = part.layers if len(part.layers) <= 4 else (*part.layers[:2], "...", part.layers[-1])
            rows.append(
                (str(part.index), _label(part.backend, part.device), f"{len(part.layers)}: {', '.join(map(_short, shown))}")
            )
        return _table(rows) if self.partitions else ""

    def _copy_table(self) -> str:
        measured = any(copy.milliseconds is not None for copy in self.copies)
        rows = [("copy", "from", "to", "by", "bytes", *(("ms",) if measured else ()), "why")]
        for copy in self.copies:
            took = "-" if copy.milliseconds is None else f"{copy.milliseconds:.3f}"
            row = (_short(copy.tensor), str(copy.source), str(copy.target), _copier(copy), str(copy.nbytes))
            rows.append((*row, *((took,) if measured else ()), copy.reason))
        return f"{_table(rows)}\neach run copies {self.crossing}" if self.copies else ""

    def _fallback_line(self) -> str:
        if not self.fallbacks:
            return "fallback: none, every layer runs on its first choice"
        count = Counter(_label(row.backend, row.device) for row in self.fallbacks)
        places = ", ".join(f"{number} to {place}" for place, number in count.items())
        names = ", ".join(row.name for row in self.fallbacks[:8]) + (", ..." if len(self.fallbacks) > 8 else "")
        return f"fallback: {len(self.fallbacks)} of {len(self.layers)} layers fell back ({places}): {names}"

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return {
            "network": self.network,
            "layers": [row._asdict() | {"refusals": [one._asdict() for one in row.refusals]} for row in self.layers],
            "partitions": [part.as_dict() for part in self.partitions],
            "copies": [{**copy._asdict(), "source": str(copy.source), "target": str(copy.target)} for copy in self.copies],
            "crossing": self.crossing._asdict(),
            "passes": [{"name": name, "changes": changes} for name, changes in self.passes],
            "absent": [{"request": str(one.request), "state": one.state, "reason": one.reason} for one in self.absent],
            "folded": list(self.folded),
            "deleted": [{"layer": name, "backend": backend} for name, backend in self.deleted],
            "devices": [{"backend": one.label, **one.device.identity} for one in self.devices],
        }

    def to_json(self, indent: int | None = None) -> str:
        """Return the report as JSON text."""
        return json.dumps(self.to_dict(), indent=indent)


def _aligned(steps: Sequence[tuple[str, str]]) -> list[str]:
    """Return the steps of a layer as lines, their words below one another."""
    names = [_short(name) for name, _ in steps]
    width = max(map(len, names), default=0)
    return [f"{name.ljust(width)}  {words}" for name, (_, words) in zip(names, steps, strict=True)]


def listed(names: Sequence[str]) -> str:
    """Name some layers, of many the first and the last."""
    if len(names) <= _MAX_LISTED:
        return ", ".join(map(_short, names))
    return f"{_short(names[0])} ... {_short(names[-1])}, {len(names)} in all"


def _short(name: str) -> str:
    """Return a name that fits into a table: its end, by which layers of one model differ.

    Of names that converters joined by semicolons, that of the last operator of a fused layer, which
    they put first.
    """
    if len(name) <= _MAX_NAME:
        return name
    first, joined, last = name.partition(" ... ")
    if joined:
        return f"{_short(first)}{joined}{_short(last)}"
    first, fused, _ = name.partition(";")
    end = ";..." if fused else ""
    room = _MAX_NAME - len(end)
    return f"{first if len(first) <= room else f'...{first[3 - room :]}'}{end}"


def _copier(copy: CopyReport) -> str:
    return "core, mapped" if copy.mapped else copy.backend or "core"


def _label(backend: str | None, device: int | None) -> str:
    return "core" if backend is None else f"{backend}:{device}" if device else backend


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number or 'no'} {one if number == 1 else many or one + 's'}"


def _table(rows: Sequence[Sequence[str]], notes: Sequence[Sequence[str]] = ()) -> str:
    """Align columns; `notes` stand indented below their row."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for number, row in enumerate(rows):
        lines.append("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        lines += [f"    {note}" for note in (notes[number] if number < len(notes) else ())]
    return "\n".join(lines)
