"""The picture of how far two networks, or two ways to run one, are apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .network import ENDS, Told, boxes, command_line
from .page import Metric, Page

if TYPE_CHECKING:
    from dovetail import Layer
    from dovetail.graph.graph import Graph

    from ..comparison import Comparison, Row

UNCOMPARED = "not compared"
"""The group of layers that the two do not share, or that are constant."""
_METRICS = (
    Metric("relative", "max error / max magnitude"),
    Metric("max_abs", "max abs error"),
)


def difference_page(graph: Graph, comparison: Comparison, lines: Sequence[str]) -> Page:
    """Return the page of `dovetail diff`.

    Args:
        graph: Network A, with shapes as far as they are known.
        comparison: What was found.
        lines: That sum it up.
    """
    rows: dict[str, list[Row]] = {}
    for row in (*comparison.layers, *comparison.other_shapes):
        rows.setdefault(row.names[0], []).append(row)

    def tell(layer: Layer) -> Told:
        own = [row for slot in layer.outputs for row in rows.get(slot.name, ())]
        if not own:
            return Told(UNCOMPARED)
        marks = ["parts first"] if comparison.parting in {slot.name for slot in layer.outputs} else []
        marks += ["beyond the tolerance"] if any(row.is_beyond for row in own) else []
        return Told(_where(own[0]), [detail for row in own for detail in _details(row)], _values(own), marks)

    nodes, edges = boxes(graph, tell)
    groups = dict.fromkeys(node.group for node in nodes if node.group not in (UNCOMPARED, ENDS))
    return Page(
        f"{comparison.a.model.name} and {comparison.b.model.name} compared",
        command_line(),
        lines,
        [*groups, UNCOMPARED, ENDS],
        "backends",
        nodes,
        edges,
        _METRICS,
        [("outputs", [f"{row.label}: {_sentence(row)}" for row in comparison.outputs])],
        plain=[UNCOMPARED, ENDS],
    )


def _where(row: Row) -> str:
    return row.backends[0] if row.backends[0] == row.backends[1] else f"{row.backends[0]} and {row.backends[1]}"


def _sentence(row: Row) -> str:
    found = row.difference
    if found is None:
        return row.verdict
    errors = f"max abs error {found.max_abs:.3g}, mean {found.mean_abs:.3g}, SNR {found.snr:.1f} dB, cosine {found.cosine:.6f}"
    return "; ".join(filter(None, (errors if found.max_abs or found.unlike else "exact", row.verdict)))


def _details(row: Row) -> list[tuple[str, str]]:
    return [
        (f"{row.label}: A on {row.backends[0]}, B on {row.backends[1]}", _sentence(row)),
        ("tolerance", f"{row.tolerance:g} of the largest magnitude" if row.tolerance else "equal"),
    ]


def _values(rows: Sequence[Row]) -> dict[str, float]:
    found = [row.difference for row in rows if row.difference is not None]
    if not found:
        return {}
    worst = max(found, key=lambda one: one.max_abs)
    values = {"max_abs": worst.max_abs}
    return values | ({"relative": worst.max_abs / worst.magnitude} if worst.magnitude else {})
