"""What a network is made of: layers, shapes, parameters, multiply-accumulates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dovetail import Constant, DovetailError, ErrorCode, GraphError, Layer
from dovetail.graph.descriptor import Input, Output
from dovetail.graph.expressions import Expression
from dovetail.graph.graph import Graph
from dovetail.graph.symbolic_inference import SymbolicInference

if TYPE_CHECKING:
    from dovetail import Network, TensorInfo


@dataclass(frozen=True, slots=True)
class TensorSummary:
    """An input, an output or a state; the shape is None while it depends on open sizes."""

    name: str
    dtype: str | None
    shape: tuple[int | str, ...] | None


@dataclass(frozen=True, slots=True)
class LayerSummary:
    """One layer that computes.

    Attributes:
        name, kind: The layer's.
        reads: Names of the layers whose results it reads, constants left out.
        outputs: What it produces; None where the shape is not known.
        parameters, parameter_bytes: Elements and bytes of the constants that it is the first to
            read.
        macs: Multiply-accumulates, None if shapes are not known.
    """

    name: str
    kind: str
    reads: tuple[str, ...]
    outputs: tuple[TensorInfo | None, ...]
    parameters: int
    parameter_bytes: int
    macs: int | None


@dataclass(frozen=True, slots=True)
class NetworkSummary:
    """A whole network.

    Attributes:
        inputs, outputs: What a run is fed and returns.
        states: What it remembers from one run to the next, which is neither.
        open_reason: Why sizes are open, if any are.
        assumed: The sizes that the multiply-accumulates were counted for, by open symbol.
    """

    name: str
    inputs: tuple[TensorSummary, ...]
    outputs: tuple[TensorSummary, ...]
    layers: tuple[LayerSummary, ...]
    open_reason: str = ""
    assumed: Mapping[str, int] = field(default_factory=dict)
    states: tuple[TensorSummary, ...] = ()

    @property
    def parameters(self) -> int:
        """Elements of all constants."""
        return sum(layer.parameters for layer in self.layers)

    @property
    def parameter_bytes(self) -> int:
        """Bytes of all constants."""
        return sum(layer.parameter_bytes for layer in self.layers)

    @property
    def macs(self) -> int | None:
        """Multiply-accumulates of one run, None if shapes are not known."""
        counts = [layer.macs for layer in self.layers]
        return None if None in counts else sum(count for count in counts if count is not None)

    def kinds(self) -> dict[str, int]:
        """Number of layers of each kind, most frequent first."""
        counts: dict[str, int] = {}
        for layer in self.layers:
            counts[layer.kind] = counts.get(layer.kind, 0) + 1
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


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
    for step in (FixShapes(shapes), InferAndFold(keep_dequantize=True), DropUnused()):
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
                slot.info = None if info is None else info.with_shape([_shown(size) for size in info.shape])
        return graph
    return None


def _shown(size: int | str) -> int | str:
    if not isinstance(size, Expression):
        return size
    return str(size) if size.is_known else "?"


def summarize(
    graph: Graph, open_reason: str = "", sized: Graph | None = None, assumed: Mapping[str, int] | None = None
) -> NetworkSummary:
    """Describe a network in topological order.

    Args:
        graph: The network, as `with_known_shapes` returns it.
        open_reason: Why sizes are open.
        sized: The same with sizes for what is open: multiply-accumulates are counted there.
        assumed: These sizes.
    """
    counted: set[Layer] = set()
    twins = {layer.name: layer for layer in sized} if sized is not None else None
    layers = []
    for layer in graph.topological_order():
        if isinstance(layer.descriptor, Input | Output | Constant):
            continue
        parameters, nbytes = _parameters(layer, counted)
        layers.append(
            LayerSummary(
                layer.name,
                layer.kind,
                tuple(dict.fromkeys(s.source.name for s in layer.inputs if s.source and not _is_constant(s.source.layer))),
                tuple(slot.info for slot in layer.outputs),
                parameters,
                nbytes,
                macs_of(layer, twins),
            )
        )
    remembered = {state.output for state in graph.states.values()}
    inputs = [_tensor(layer.name, layer.outputs[0].info) for layer in graph.inputs]
    outputs = tuple(_tensor(one.name, one.inputs[0].info) for one in graph.outputs if one.name not in remembered)
    fed, states = ([one for one in inputs if (one.name in graph.states) is is_state] for is_state in (False, True))
    return NetworkSummary(
        graph.name, tuple(fed), outputs, tuple(layers), open_reason, dict(assumed or {}), states=tuple(states)
    )


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


def _parameters(layer: Layer, counted: set[Layer]) -> tuple[int, int]:
    elements = nbytes = 0
    for slot in layer.inputs:
        constant = slot.source.layer if slot.source is not None else None
        if constant is not None and isinstance(constant.descriptor, Constant) and constant not in counted:
            counted.add(constant)
            elements += constant.descriptor.value.size
            nbytes += constant.descriptor.value.nbytes
    return elements, nbytes


def macs_of(layer: Layer, twins: Mapping[str, Layer] | None = None) -> int | None:
    """Count the multiply-accumulates of a layer.

    Args:
        layer: With the shapes of what it reads and makes.
        twins: Layers with all sizes known, by name, to count there.

    Returns:
        None if a shape is not known.
    """
    if twins is not None:
        if layer.name not in twins:  # with all sizes known, it is folded: no run computes it
            return 0
        layer = twins[layer.name]
    infos = [slot.info for slot in layer.outputs]
    known = [info for info in infos if info is not None and info.is_concrete]
    if len(known) != len(infos) or any(info is not None and not info.is_concrete for info in layer.input_infos):
        return None
    return layer.descriptor.macs(layer.input_infos, known)


def _is_constant(layer: Layer) -> bool:
    return isinstance(layer.descriptor, Constant)


def _tensor(name: str, info: TensorInfo | None) -> TensorSummary:
    return TensorSummary(name, str(info.dtype), info.shape) if info is not None else TensorSummary(name, None, None)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
