"""Show a graph: as Graphviz text, or as JSON."""

from __future__ import annotations

import json
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

from ..graph.descriptor import Constant, Input, Output
from ..graph.graph import Graph
from ..graph.layer import Layer
from ..graph.tensor import DType, OpaqueLayout, Quantization, TensorInfo

if TYPE_CHECKING:
    from .placement import Placement

_COLOURS = ("#cfe8ff", "#ffe3c2", "#d8f2d0", "#f3d6f5", "#fff3b0", "#d7dbe0", "#ffd6d6", "#d0f0ee")


def to_dot(graph: Graph, placement: Placement | None = None, *, constants: bool = False) -> str:
    """Return the graph in the DOT language: ``dot -Tsvg``.

    Args:
        graph: What to draw.
        placement: Colours each layer by its backend and names it.
        constants: Draw constants too; else they are named in the layers that read them.
    """
    rows = {} if placement is None else {row.name: row for row in placement.layers}
    backends = list(dict.fromkeys(row.backend for row in rows.values() if row.backend))
    lines = [
        f"digraph {_quoted(graph.name)} {{",
        "  rankdir=TB;",
        "  node [shape=box, style=filled, fillcolor=white, fontsize=10];",
    ]
    for layer in graph.topological_order():
        if isinstance(layer.descriptor, Constant) and not constants:
            continue
        row = rows.get(layer.name)
        text = [layer.name, layer.kind]
        colour = "white"
        if row is not None and row.backend:
            text.append(row.backend if row.partition is None else f"{row.backend}, partition {row.partition}")
            colour = _COLOURS[backends.index(row.backend) % len(_COLOURS)]
        elif isinstance(layer.descriptor, Input | Output):
            colour = "#eeeeee"
        label = "\n".join([*text, *_constant_lines(layer, constants)])
        lines.append(f"  {_quoted(layer.name)} [label={_quoted(label)}, fillcolor={_quoted(colour)}];")
    for layer in graph.topological_order():
        for slot in layer.inputs:
            if slot.source is not None and (constants or not isinstance(slot.source.layer.descriptor, Constant)):
                info = "?" if slot.source.info is None else str(slot.source.info)
                lines.append(f"  {_quoted(slot.source.layer.name)} -> {_quoted(layer.name)} [label={_quoted(info)}];")
    return "\n".join([*lines, "}", ""])


def _constant_lines(layer: Layer, drawn: bool) -> list[str]:
    return [
        f"{slot.name}: {slot.source.info}"
        for slot in layer.inputs
        if not drawn and slot.source is not None and isinstance(slot.source.layer.descriptor, Constant)
    ]


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def to_dict(graph: Graph) -> dict[str, Any]:
    """Return the graph as plain data: kinds, attributes, infos and connections; arrays only as shape and dtype."""
    return {
        "name": graph.name,
        "inputs": [layer.name for layer in graph.inputs],
        "outputs": [layer.name for layer in graph.outputs],
        "layers": [_layer_dict(layer) for layer in graph.topological_order()],
    }


def to_json(graph: Graph, indent: int | None = None) -> str:
    """Return `to_dict` as JSON text."""
    return json.dumps(to_dict(graph), indent=indent)


def _layer_dict(layer: Layer) -> dict[str, Any]:
    return {
        "name": layer.name,
        "kind": layer.kind,
        "version": layer.descriptor.version,
        "attributes": {name: _plain(value) for name, value in layer.descriptor.attributes().items()},
        "sources": list(layer.sources),
        "inputs": [
            {"name": slot.name, "from": None if slot.source is None else [slot.source.layer.name, slot.source.index]}
            for slot in layer.inputs
        ],
        "outputs": [None if slot.info is None else _plain(slot.info) for slot in layer.outputs],
    }


def _plain(value: Any) -> Any:
    """Return a value as JSON has it; what JSON has no number for (infinities, NaN) becomes a string."""
    if isinstance(value, DType):
        return value.label
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, bool | str | None):
        return value
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else str(value)
    if isinstance(value, np.ndarray):
        return {"shape": list(value.shape), "dtype": str(value.dtype)}
    if isinstance(value, TensorInfo):
        plain: dict[str, Any] = {"shape": list(value.shape), "dtype": value.dtype.label}
        if value.quantization is not None:
            plain["quantization"] = _plain(value.quantization)
        if value.opaque is not None:
            plain["opaque"] = _plain(value.opaque)
        return plain
    if isinstance(value, Quantization):
        return {"scale": list(value.scale), "zero_point": list(value.zero_point), "axis": value.axis}
    if isinstance(value, OpaqueLayout):
        return {"tag": value.tag, "nbytes": value.nbytes, "alignment": value.alignment}
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    return str(value)
