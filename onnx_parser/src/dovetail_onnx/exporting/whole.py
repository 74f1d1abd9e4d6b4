"""Export a whole network, with the names of its inputs and outputs and the sizes that are open."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count

import numpy as np
import onnx
from onnx import numpy_helper

from dovetail import Network
from dovetail.contract.subgraph import SubgraphView
from dovetail.graph.descriptor import Constant, Input, Output
from dovetail.graph.layer import OutputSlot
from dovetail.ground.errors import DovetailError, ErrorCode, ModelError

from ..tensors import CODES
from .part import export

_TRIALS = (2, 3)
"""Sizes that open symbols take in the two exports that are compared; the next symbol one more."""


def export_network(
    sized: Callable[[Mapping[str, int]], Network], symbols: Sequence[str] = (), sizes: Mapping[str, int] | None = None
) -> onnx.ModelProto:
    """Return a network as an ONNX model.

    An export has all sizes known. Sizes stay open where two exports with other sizes have the same
    nodes and constants, apart from the shapes that elements are reshaped to, of which ONNX infers
    one size.

    Args:
        sized: Returns the network with these sizes of its symbols.
        symbols: What is open.
        sizes: What the symbols are where they cannot stay open; default 1.

    Raises:
        UnsupportedModelError: ONNX cannot say some layers; `details["unsupported"]` lists them.
        ModelError: It takes more than protobuf holds (`MODEL_UNSUPPORTED`), or has an input or a
            constant for an output.
        DovetailError: Whatever `sized` reports with `sizes`.
    """
    if symbols:
        trials = [{symbol: trial + 2 * at for at, symbol in enumerate(symbols)} for trial in _TRIALS]
        try:
            first, second = (_exported(sized(trial)) for trial in trials)
        except DovetailError as error:
            if error.code is ErrorCode.MODEL_UNSUPPORTED:
                raise
        else:
            if _opened(first, second, trials):
                return first
    return _exported(sized({**dict.fromkeys(symbols, 1), **(sizes or {})}))


def _exported(network: Network) -> onnx.ModelProto:
    """Export a network whose sizes are known, with the names of its inputs and outputs."""
    members = [one for one in network.topological_order() if not isinstance(one.descriptor, Input | Output | Constant)]
    view = SubgraphView(network, members)
    made = export(view)
    model = onnx.ModelProto.FromString(made.to_bytes())
    values = dict(zip(view.outputs, made.outputs, strict=True))
    described = {info.name: info for info in model.graph.output}
    del model.graph.output[:]
    for layer in network.outputs:
        source = layer.inputs[0].source
        if source is None or source not in values:
            raise ModelError(
                f"output {layer.name!r} is an input or a constant",
                code=ErrorCode.MODEL_UNSUPPORTED,
                hint="choose what the network computes for its outputs",
            )
        info = onnx.ValueInfoProto()
        info.CopyFrom(described[values[source]])
        info.name = layer.name
        model.graph.output.append(info)
    _name_outputs(model, [(values[slot], name) for slot, name in _outputs(network)])
    known = {info.name for info in model.graph.input}
    for layer in network.inputs:
        if layer.name not in known:  # nobody reads it
            unread = layer.output.known_info
            model.graph.input.append(onnx.helper.make_tensor_value_info(layer.name, CODES[unread.dtype], unread.shape))
    return model


def _outputs(network: Network) -> list[tuple[OutputSlot, str]]:
    return [(layer.inputs[0].source, layer.name) for layer in network.outputs if layer.inputs[0].source is not None]


def _name_outputs(model: onnx.ModelProto, outputs: Sequence[tuple[str, str]]) -> None:
    """Give values the names of outputs; a second name of one value is that of a node of its own."""
    names: dict[str, str] = {}
    wanted = {name for _, name in outputs}
    taken = {name for node in model.graph.node for name in (*node.input, *node.output)} | wanted
    copies = []
    for value, name in outputs:
        if value in names:
            copies.append(onnx.helper.make_node("Identity", [names[value]], [name], name))
        names.setdefault(value, name)
    for value in sorted((taken & wanted) - set(names)):  # an inner value of that name gives way
        names[value] = next(name for number in count(2) if (name := f"{value}_{number}") not in taken)
    for node in model.graph.node:
        for field in (node.input, node.output):
            field[:] = [names.get(name, name) for name in field]
    for tensor in model.graph.initializer:
        tensor.name = names.get(tensor.name, tensor.name)
    model.graph.node.extend(copies)


def _opened(model: onnx.ModelProto, other: onnx.ModelProto, trials: Sequence[Mapping[str, int]]) -> bool:
    """Open the sizes of a model that another one of other sizes equals; False if it does not."""
    graph, twin = model.graph, other.graph
    if list(graph.node) != list(twin.node) or len(graph.initializer) != len(twin.initializer):
        return False
    shapes = {node.input[1] for node in graph.node if node.op_type == "Reshape"}
    shapes -= {name for node in graph.node for at, name in enumerate(node.input) if (node.op_type, at) != ("Reshape", 1)}
    for mine, theirs in zip(graph.initializer, twin.initializer, strict=True):
        if mine == theirs:
            continue
        sizes, others = (numpy_helper.to_array(tensor) for tensor in (mine, theirs))
        if mine.name not in shapes or sizes.shape != others.shape or np.count_nonzero(sizes != others) != 1 or -1 in sizes:
            return False
        mine.CopyFrom(numpy_helper.from_array(np.where(sizes == others, sizes, -1), mine.name))
    for infos, twins in ((graph.input, twin.input), (graph.output, twin.output)):
        for info, same in zip(infos, twins, strict=True):
            _open_sizes(info, same, trials)
    return True


def _open_sizes(info: onnx.ValueInfoProto, other: onnx.ValueInfoProto, trials: Sequence[Mapping[str, int]]) -> None:
    """Name the sizes that differ: by the symbol that they are, or not at all."""
    dimensions = zip(info.type.tensor_type.shape.dim, other.type.tensor_type.shape.dim, strict=True)
    for mine, theirs in dimensions:
        found = (mine.dim_value, theirs.dim_value)
        if found[0] != found[1]:
            symbol = next((one for one in trials[0] if found == (trials[0][one], trials[1][one])), None)
            mine.Clear()
            if symbol is not None:
                mine.dim_param = symbol
