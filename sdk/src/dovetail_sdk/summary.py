"""What a network is made of, once sizes are known as far as they can be: as data, and drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dovetail import Constant, DovetailError, ErrorCode, GraphError, Layer
from dovetail.graph.descriptor import Input, Output
from dovetail.graph.graph import Graph
from dovetail.graph.summary import NetworkSummary as NetworkSummary
from dovetail.graph.summary import TensorSummary as TensorSummary
from dovetail.graph.summary import shown_size
from dovetail.graph.summary import summarize as summarize
from dovetail.graph.symbolic_inference import SymbolicInference

if TYPE_CHECKING:
    from dovetail import Network


_TRIALS = (2, 16, 64, 224)
"""First of the sizes that symbols are given, to see what is folded.

Later ones serve where small sizes do not get through."""


def with_known_shapes(network: Network, shapes: Mapping[str, Any]) -> tuple[Graph, str]:
    """Return a copy with shapes inferred and constants folded, and why sizes are still open.

    Raises:
        DovetailError: The shapes that were given do not fit, or the network is wrong.
    """
    reason = ""
    try:
        graph: Graph = _inferred(network, shapes)
    except GraphError as error:
        if error.code not in (ErrorCode.SHAPE_UNKNOWN, ErrorCode.VALUE_REQUIRED):
            raise
        graph, reason = _with_symbols(network, shapes) or network, error.message
    graph.states = network.states  # which the optimizer has no use for
    return graph, reason


def open_symbols(network: Network, shapes: Mapping[str, Any]) -> list[str]:
    """Name the open symbolic sizes of the inputs, as they come.

    Open are those fixed neither by name nor by the whole shape of an input.
    """
    fixed = {size for layer in network.inputs if layer.name in shapes for size in layer.output.shape} | {*shapes}
    sizes = dict.fromkeys(size for layer in network.inputs for size in layer.output.shape)
    return [size for size in sizes if isinstance(size, str) and size not in fixed]


def with_sizes_of_one(network: Network, shapes: Mapping[str, Any]) -> tuple[Graph | None, dict[str, int]]:
    """Return a copy whose open symbols are 1, for `summarize` to count by, and these.

    None stands for the copy if 1 does not get through it.
    """
    assumed = dict.fromkeys(open_symbols(network, shapes), 1)
    try:
        return (_inferred(network, {**shapes, **assumed}), assumed) if assumed else (None, {})
    except DovetailError:
        return None, {}


def _inferred(network: Network, shapes: Mapping[str, Any]) -> Graph:
    from dovetail.optimizer.passes import DropUnused, FixShapes, InferAndFold

    graph = network.copy()
    for step in (FixShapes(shapes), InferAndFold(keep_dequantize=True, late=True), DropUnused()):
        step.run(graph)
    return graph


def _with_symbols(network: Network, shapes: Mapping[str, Any]) -> Graph | None:
    """Return the layers left for some sizes, with shapes in terms of the open symbols.

    "?" stands where a value decides.
    """
    from dovetail.optimizer.passes import FixShapes

    symbols = sorted(open_symbols(network, shapes))
    for start in _TRIALS:
        try:
            graph = _inferred(network, {**shapes, **{symbol: start + i for i, symbol in enumerate(symbols)}})
        except DovetailError:
            continue
        whole = network.copy()
        FixShapes(shapes).run(whole)
        inference = SymbolicInference()
        for layer in graph:
            slots = whole.layer(layer.name).outputs if layer.name in whole else []
            for slot, known in zip(layer.outputs, slots, strict=False):
                info = inference.info(known)
                slot.info = None if info is None else info.with_shape([shown_size(size) for size in info.shape])
        return graph
    return None


def as_dict(summary: NetworkSummary) -> dict[str, Any]:
    """Return a summary in JSON's terms."""

    def tensor(one: TensorSummary) -> dict[str, Any]:
        return {"name": one.name, "dtype": one.dtype, "shape": list(one.shape) if one.shape is not None else None}

    return {
        "name": summary.name,
        "inputs": [tensor(one) for one in summary.inputs],
        "outputs": [tensor(one) for one in summary.outputs],
        "states": [tensor(one) for one in summary.states],
        "layers": [
            {
                "name": layer.name,
                "kind": layer.kind,
                "reads": list(layer.reads),
                "outputs": [{"dtype": str(o.dtype), "shape": list(o.shape)} if o is not None else None for o in layer.outputs],
                "parameters": layer.parameters,
                "parameter_bytes": layer.parameter_bytes,
                "macs": layer.macs,
            }
            for layer in summary.layers
        ],
        "parameters": summary.parameters,
        "parameter_bytes": summary.parameter_bytes,
        "macs": summary.macs,
        "open_reason": summary.open_reason or None,
        "assumed": dict(summary.assumed),
    }


def as_dot(graph: Graph) -> str:
    """Draw a network in Graphviz's language; constants are left out."""
    lines = [f"digraph {_quoted(graph.name)} {{", "  node [shape=box, fontname=sans];"]
    for layer in graph.topological_order():
        if _is_constant(layer):
            continue
        label = _quoted(layer.kind.removeprefix("dovetail.") + "\n" + layer.name)
        rounded = ", style=rounded" if isinstance(layer.descriptor, Input | Output) else ""
        lines.append(f"  {layer.id} [label={label}{rounded}];")
        for slot in layer.inputs:
            if slot.source is not None and not _is_constant(slot.source.layer):
                flow = f" [label={_quoted(str(slot.info))}]" if slot.info is not None else ""
                lines.append(f"  {slot.source.layer.id} -> {layer.id}{flow};")
    return "\n".join([*lines, "}"])


def _is_constant(layer: Layer) -> bool:
    return isinstance(layer.descriptor, Constant)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
