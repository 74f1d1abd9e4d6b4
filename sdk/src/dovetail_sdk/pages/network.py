"""The picture of a network: its layers as boxes, its tensors as arrows."""

from __future__ import annotations

import math
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dovetail import Constant, DType
from dovetail.graph.descriptor import Input, Output
from dovetail.layers.kind_words import kind_in_words

from .page import Edge, Metric, Node, Page

if TYPE_CHECKING:
    from dovetail import Layer
    from dovetail.graph.graph import Graph

    from ..summary import NetworkSummary

ENDS = "inputs and outputs"
"""The group of what a network is fed, and returns."""
_MOST_KINDS = 7
"""Kinds of layers with a colour of their own."""
_MOST_TEXT = 400
"""Characters of an attribute's value that are shown."""


@dataclass(frozen=True, slots=True)
class Told:
    """What a page tells of a layer beside what the layer itself does; see `Node`."""

    group: str
    details: Sequence[tuple[str, str]] = ()
    values: Mapping[str, float] = field(default_factory=dict)
    marks: Sequence[str] = ()


def boxes(
    graph: Graph, tell: Callable[[Layer], Told], is_drawn: Callable[[Layer], bool] = lambda layer: False
) -> tuple[list[Node], list[Edge]]:
    """Draw a network in topological order.

    Constants, and layers of constants alone, are told with the layers that read them.

    Args:
        graph: The network, with shapes as far as they are known.
        tell: Returns what is told of a layer; it is called in order of the boxes.
        is_drawn: Whether a layer of constants alone has a box all the same.
    """
    nodes, edges = [], []
    constant: set[Layer] = set()
    for layer in graph.topological_order():
        is_fed = isinstance(layer.descriptor, Input | Output) or any(
            slot.source is not None and slot.source.layer not in constant for slot in layer.inputs
        )
        if not is_fed:
            constant.add(layer)
            if isinstance(layer.descriptor, Constant) or not is_drawn(layer):
                continue
            constant.remove(layer)
        is_end = isinstance(layer.descriptor, Input | Output)
        told = Told(ENDS) if is_end else tell(layer)
        nodes.append(
            Node(
                layer.name,
                told.group,
                layer.kind.rpartition(".")[2].lower() if is_end else kind_in_words(layer),
                layer.name,
                _infos(layer.inputs if isinstance(layer.descriptor, Output) else layer.outputs),
                [*told.details, *(() if is_end else _of_itself(layer, constant))],
                {key: float(value) for key, value in told.values.items() if math.isfinite(value)},
                told.marks,
            )
        )
        for slot in layer.inputs:
            if slot.source is not None and slot.source.layer not in constant:
                edges.append(Edge(slot.source.layer.name, layer.name, "" if slot.info is None else str(slot.info)))
    return nodes, edges


def network_page(graph: Graph, summary: NetworkSummary, lines: Sequence[str]) -> Page:
    """Return the page of `dovetail show`.

    Args:
        graph: With shapes, as far as they are known.
        summary: Of it.
        lines: That sum it up.
    """
    common = [kind for kind, _ in Counter(layer.kind for layer in summary.layers).most_common(_MOST_KINDS)]
    groups = {kind: kind.removeprefix("dovetail.") for kind in common}
    rows = {layer.name: layer for layer in summary.layers}
    counted: set[str] = set()

    def parameters(layer: Layer) -> int:
        """Count the parameters of a layer, and of what it reads that has no box."""
        if layer.name in counted or layer.name not in rows:
            return 0
        counted.add(layer.name)
        return rows[layer.name].parameters + sum(parameters(slot.source.layer) for slot in layer.inputs if slot.source)

    def tell(layer: Layer) -> Told:
        macs = rows[layer.name].macs
        values = {"parameters": parameters(layer), **({} if macs is None else {"macs": macs})}
        return Told(groups.get(layer.kind, "other kinds"), values={key: value for key, value in values.items() if value})

    nodes, edges = boxes(graph, tell)
    return Page(
        f"network {summary.name!r}",
        command_line(),
        lines,
        [*groups.values(), "other kinds", ENDS],
        "kind",
        nodes,
        edges,
        [Metric("macs", "multiply-accumulates", 4), Metric("parameters", "parameters", 4)],
        plain=["other kinds", ENDS],
    )


def command_line() -> str:
    """Return the command that is running, as a shell takes it."""
    return shlex.join(["dovetail", *sys.argv[1:]])


def _of_itself(layer: Layer, constant: set[Layer]) -> list[tuple[str, str]]:
    constants = [
        f"{name}: {slot.info or '?'}{_made(slot.source.layer)}"
        for name, slot in zip(_names(layer), layer.inputs, strict=False)
        if slot.source is not None and slot.source.layer in constant
    ]
    attributes = [f"{name}: {_value(value)}" for name, value in layer.descriptor.attributes().items() if value is not None]
    told = [("kind", f"{layer.kind}, version {layer.descriptor.version}")]
    told += [("attributes", "\n".join(attributes))] if attributes else []
    told += [("constants", "\n".join(constants))] if constants else []
    return told


def _made(layer: Layer) -> str:
    """Say what makes a constant, if it is no plain one."""
    if isinstance(layer.descriptor, Constant):
        return ""
    read = next((slot.info for slot in layer.inputs if slot.info is not None), None)
    return f", by {kind_in_words(layer)}{f' of {read}' if read is not None else ''}"


def _names(layer: Layer) -> list[str]:
    names = [*layer.descriptor.input_names]
    return names + [f"{names[-1]} {number}" for number in range(1, len(layer.inputs))] if layer.descriptor.variadic else names


def _infos(slots: Sequence[Any]) -> str:
    return ", ".join("?" if slot.info is None else str(slot.info) for slot in slots)


def _value(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype} array of shape {list(value.shape)}"
    text = str(value if isinstance(value, DType) else getattr(value, "value", value))
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}..."
