"""The picture of where the layers of a network go, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dovetail.graph.summary import macs_of
from dovetail.optimizer.report_words import constants_in_words, counted, listed, place_name

from .network import ENDS, Told, boxes, command_line
from .page import Metric, Page

if TYPE_CHECKING:
    from dovetail import Layer
    from dovetail.graph.graph import Graph
    from dovetail.optimizer import CopyReport, LayerReport, Placement

FOLDED = "folded away"
"""The group of layers that no run computes."""
_MAX_ROWS = 8
"""Layers of the optimized network that are told with one of the original."""
_REASONS = {
    "first choice": "It is the first of the backends that were asked for.",
    "private": "It is the first of the backends that were asked for.",
    "fallback": "Backends that are preferred refused.",
    "required": "The caller requires it.",
    "policy": "The placement policy chose it.",
    "core": "The core runs it.",
}


def placement_page(graph: Graph, placement: Placement, milliseconds: Mapping[str, float] | None = None, line: str = "") -> Page:
    """Return the page of `dovetail explain`, or, with times, of `dovetail benchmark`.

    Args:
        graph: The original network, with shapes as far as they are known.
        placement: Where its layers go.
        milliseconds: What each layer of the optimized network took, by name, if it was measured.
        line: What else stands above the picture.
    """
    rows = _rows_by_source(placement)
    tell = _Teller(rows, _homes(graph, placement), milliseconds or {})
    own = {row.name for row in placement.layers}
    nodes, edges = boxes(graph, tell, lambda layer: layer.name in own)
    totals = placement.totals()
    metrics = [Metric("macs", "multiply-accumulates", 4)]
    if milliseconds:
        metrics.insert(0, Metric("milliseconds", "time, ms"))
    used = [one.label for one in totals]
    asked = [one.label for one in placement.devices]
    lists = [
        ("totals", [f"{one.label}: {counted(one.layers, 'layer')}, {one.macs:,} multiply-accumulates" for one in totals]),
        ("devices", [str(one) for one in placement.devices]),
        (
            "copies",
            [
                f"{copy.tensor}: {copy.nbytes:,} bytes from {copy.source} to {copy.target}, {copy.reason}"
                for copy in placement.copies
            ],
        ),
        ("passes", [f"{name}: {count}" for name, count in placement.passes if count]),
        ("constants", constants_in_words(placement.constants, placement.left_constant)),
        ("absent", [f"{one.request} ({one.state}): {one.reason}" for one in placement.absent]),
    ]
    return Page(
        f"what network {placement.network!r} takes" if milliseconds else f"where network {placement.network!r} runs",
        command_line(),
        [placement.summary(), *([line] if line else [])],
        [*dict.fromkeys([*asked, *used]), FOLDED, ENDS],
        "backend",
        nodes,
        edges,
        metrics,
        [(heading, lines) for heading, lines in lists if lines],
        plain=["core", FOLDED, ENDS],
    )


class _Teller:
    """Tells of each layer of the original network what became of it."""

    def __init__(
        self, rows: Mapping[str, list[LayerReport]], homes: Mapping[str, str], milliseconds: Mapping[str, float]
    ) -> None:
        self._rows, self._homes, self._milliseconds = rows, homes, milliseconds

    def __call__(self, layer: Layer) -> Told:
        rows = [row for name in (layer.sources or (layer.name,)) for row in self._rows.get(name, ())]
        rows = list({row.name: row for row in rows}.values())
        own_first = sorted(rows, key=lambda row: row.name != layer.name)
        rows = own_first[:_MAX_ROWS]
        if not rows:
            return Told(FOLDED, [("why", "Nothing computes it any more: constant, without effect, or part of another layer.")])
        own = next((row for row in rows if row.name == layer.name), rows[-1])
        label = place_name(own.backend, own.device)
        details = [
            ("becomes", "\n".join(_becomes(row) for row in rows)),
            ("where", f"{label}. {_REASONS.get(own.reason, own.reason)}"),
        ]
        refusals = dict.fromkeys(str(one) for row in rows for one in row.refusals)
        details += [("what backends before it said", "\n".join(refusals))] if refusals else []
        others = [name for name in dict.fromkeys(name for row in rows for name in row.sources) if name != layer.name]
        details += [("computed together with", listed(others))] if others else []
        here = [row for row in rows if self._homes.get(row.name) == layer.name]
        steps = [f"{name}: {words}" for row in rows for name, words in row.steps if row in here or name == layer.name]
        details += [("steps", "\n".join(steps))] if steps else []
        return Told(label, details, self._values(layer, here), ["fallback"] if own.reason == "fallback" else [])

    def _values(self, layer: Layer, here: list[LayerReport]) -> dict[str, float]:
        """Return the layer's own work, and the times that are told with it."""
        macs = macs_of(layer)
        values: dict[str, float] = {"macs": macs} if macs else {}
        took = [self._milliseconds[row.name] for row in here if row.name in self._milliseconds]
        return values | ({"milliseconds": sum(took)} if took else {})


def _copied(copy: CopyReport) -> str:
    return f"{copy.tensor}: {copy.nbytes:,} bytes from {copy.source} to {copy.target}, {copy.reason}"


def _becomes(row: LayerReport) -> str:
    return "; ".join(filter(None, (f"{row.words} ({row.kind.removeprefix('dovetail.')} {row.name!r})", row.tuned)))


def _homes(graph: Graph, placement: Placement) -> dict[str, str]:
    """Name the layer that each of the optimized network is told with, of those it stands for.

    That is the one of its name, else the one with the most work, else the last.
    """
    known = {layer.name: layer for layer in graph}
    found: dict[str, str] = {}
    for row in placement.layers:
        names = [name for name in row.sources if name in known]
        if names:
            most = max(reversed(names), key=lambda name: macs_of(known[name]) or 0)
            found[row.name] = row.name if row.name in names else most
    return found


def _rows_by_source(placement: Placement) -> dict[str, list[LayerReport]]:
    found: dict[str, list[LayerReport]] = {}
    for row in placement.layers:
        for name in row.sources:
            found.setdefault(name, []).append(row)
    return found
