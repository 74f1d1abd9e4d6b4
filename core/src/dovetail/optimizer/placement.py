"""The placement report: where each layer went, and why."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from ..contract.interfaces import HOST
from ..ground.records import NamedTuple
from .candidate import BY_THE_CALLER, Absent, Refusal
from .copies import CopyReport
from .report_words import counted, place_name
from .reports import BackendTotal, ConstantsReport, Crossing, DeviceReport, LayerReport, LeftReport, PartitionReport


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
        constants: Layers of constants, among `folded`, that an oracle computed.
        left_constant: Layers of constants that each run computes.
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
    constants: tuple[ConstantsReport, ...] = ()
    left_constant: tuple[LeftReport, ...] = ()

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
        busy = {place_name(row.backend, row.device) for row in self.layers}
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
        counts = Counter(place_name(row.backend, row.device) for row in self.layers)
        places = ", ".join(f"{place} ({count})" for place, count in counts.items()) or "none"
        nbytes = sum(copy.nbytes for copy in self.copies)
        copies = f"{counted(len(self.copies), 'copy', 'copies')}{f' of {nbytes} bytes' if self.copies else ''}"
        return (
            f"network {self.network!r}: {counted(len(self.layers), 'layer')} on {places}; "
            f"{counted(len(self.fallbacks), 'fallback')}; {counted(len(self.partitions), 'partition')}; {copies}"
        )

    def totals(self) -> tuple[BackendTotal, ...]:
        """Sum up what each backend does, in the order in which they first run."""
        found: dict[str, BackendTotal] = {}
        for row in self.layers:
            label = place_name(row.backend, row.device)
            one = found.setdefault(label, BackendTotal(label))
            found[label] = one._replace(layers=one.layers + 1, macs=one.macs + row.macs)
        for copy in self.copies:
            for domain, field in ((copy.target, "bytes_in"), (copy.source, "bytes_out")):
                label = "" if domain == HOST else place_name(domain.owner, domain.device)
                if label in found:
                    found[label] = found[label]._replace(**{field: getattr(found[label], field) + copy.nbytes})
        return tuple(found.values())

    def explain(self, width: int | None = None) -> str:
        """Return the report as text.

        It has a table of layers, what each computes and how, where, and why: what the backends
        before said of it; sums for each backend; partitions, copies, passes, and what fell back.

        Args:
            width: Columns that it fits. In few columns, what can be left out is: `to_dict` has all.
                None: those of the terminal that standard output is; else as many as it takes.
        """
        from .explanation import explanation

        return explanation(self, width)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return {
            "network": self.network,
            "layers": [row._asdict() | {"refusals": [one._asdict() for one in row.refusals]} for row in self.layers],
            "partitions": [part.as_dict() for part in self.partitions],
            "copies": [{**copy._asdict(), "source": str(copy.source), "target": str(copy.target)} for copy in self.copies],
            "crossing": self.crossing._asdict(),
            "totals": [one._asdict() for one in self.totals()],
            "passes": [{"name": name, "changes": changes} for name, changes in self.passes],
            "absent": [{"request": str(one.request), "state": one.state, "reason": one.reason} for one in self.absent],
            "folded": list(self.folded),
            "deleted": [{"layer": name, "backend": backend} for name, backend in self.deleted],
            "constants": [{"oracle": one.oracle, "layers": list(one.layers)} for one in self.constants],
            "left_constant": [one._asdict() for one in self.left_constant],
            "devices": [{"backend": one.label, **one.device.identity} for one in self.devices],
        }

    def to_json(self, indent: int | None = None) -> str:
        """Return the report as JSON text."""
        return json.dumps(self.to_dict(), indent=indent)
