"""What a network is made of: layers, shapes, parameters, multiply-accumulates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..ground.errors import GraphError
from ..ground.host_exceptions import is_of_host
from .descriptor import Constant, Input, Output
from .expressions import Expression
from .graph import Graph
from .layer import Layer, OutputSlot
from .symbolic_inference import SymbolicInference
from .tensor import TensorInfo

_MOST_INFERRED = 20_000
"""Layers of a network up to which sizes that are not known yet are worked out."""


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


def summarize(
    graph: Graph, open_reason: str = "", sized: Graph | None = None, assumed: Mapping[str, int] | None = None
) -> NetworkSummary:
    """Describe a network in topological order.

    Args:
        graph: The network, with its shapes inferred.
        open_reason: Why sizes are open.
        sized: The same with sizes for what is open: multiply-accumulates are counted there.
        assumed: These sizes.
    """
    twins = {layer.name: layer for layer in sized} if sized is not None else None

    def macs(layer: Layer) -> int | None:
        if twins is not None:
            if layer.name not in twins:  # with all sizes known, it is folded: no run computes it
                return 0
            layer = twins[layer.name]
        return macs_of(layer)

    found = _summarized(graph, graph.topological_order(), lambda slot: slot.info, macs)
    return replace(found, open_reason=open_reason, assumed=dict(assumed or {}))


def summarize_as_it_stands(graph: Graph) -> NetworkSummary:
    """Describe a network that may be under construction, and is not changed.

    Open sizes are said in terms of the inputs' symbols, "?" where a value decides;
    multiply-accumulates are counted for symbols of 1.
    """
    inference = SymbolicInference() if len(graph) <= _MOST_INFERRED else None
    try:
        order: Iterable[Layer] = graph.topological_order()
    except GraphError:  # there is a cycle, in which nothing can be worked out
        order, inference = graph.layers, None

    def known(slot: OutputSlot | None) -> TensorInfo | None:
        if slot is None or slot.info is not None or inference is None:
            return None if slot is None else slot.info
        return inference.info(slot)

    def shown(slot: OutputSlot) -> TensorInfo | None:
        info = known(slot)
        return None if info is None else info.with_shape([shown_size(size) for size in info.shape])

    def macs(layer: Layer) -> int | None:
        try:
            inputs = [_with_ones(known(slot.source)) for slot in layer.inputs]
            return _macs(layer, inputs, [_with_ones(known(slot)) for slot in layer.outputs])
        except Exception as error:  # a kind from elsewhere, or layers that are not joined yet
            if is_of_host(error):
                raise
            return None

    found = _summarized(graph, order, shown, macs)
    symbols = (size for layer in graph.inputs for size in layer.outputs[0].known_info.shape if isinstance(size, str))
    return replace(found, assumed=dict.fromkeys(symbols, 1))


def _summarized(
    graph: Graph,
    order: Iterable[Layer],
    info: Callable[[OutputSlot], TensorInfo | None],
    macs: Callable[[Layer], int | None],
) -> NetworkSummary:
    counted: set[Layer] = set()
    layers = []
    for layer in order:
        if isinstance(layer.descriptor, Input | Output | Constant):
            continue
        parameters, nbytes = _parameters(layer, counted)
        layers.append(
            LayerSummary(
                layer.name,
                layer.kind,
                tuple(dict.fromkeys(s.source.name for s in layer.inputs if s.source and not _is_constant(s.source.layer))),
                tuple(map(info, layer.outputs)),
                parameters,
                nbytes,
                macs(layer),
            )
        )
    remembered = {state.output for state in graph.states.values()}
    inputs = [_tensor(layer.name, layer.outputs[0], info) for layer in graph.inputs]
    outputs = tuple(
        _tensor(one.name, one.inputs[0].source if one.inputs else None, info)
        for one in graph.outputs
        if one.name not in remembered
    )
    fed, states = ([one for one in inputs if (one.name in graph.states) is is_state] for is_state in (False, True))
    return NetworkSummary(graph.name, tuple(fed), outputs, tuple(layers), states=tuple(states))


def _parameters(layer: Layer, counted: set[Layer]) -> tuple[int, int]:
    elements = nbytes = 0
    for slot in layer.inputs:
        constant = slot.source.layer if slot.source is not None else None
        if constant is not None and isinstance(constant.descriptor, Constant) and constant not in counted:
            counted.add(constant)
            elements += constant.descriptor.elements
            nbytes += constant.descriptor.nbytes
    return elements, nbytes


def macs_of(layer: Layer) -> int | None:
    """Count the multiply-accumulates of a layer; None if a shape is not known."""
    return _macs(layer, layer.input_infos, [slot.info for slot in layer.outputs])


def _macs(layer: Layer, inputs: Sequence[TensorInfo | None], outputs: Sequence[TensorInfo | None]) -> int | None:
    known = [info for info in outputs if info is not None and info.is_concrete]
    if len(known) != len(outputs) or any(info is not None and not info.is_concrete for info in inputs):
        return None
    return layer.descriptor.macs(inputs, known)


class _Ones(dict[str, int]):
    """Sizes of symbols: each is 1."""

    def __missing__(self, name: str) -> int:
        return 1


def _with_ones(info: TensorInfo | None) -> TensorInfo | None:
    """Return the same where each symbol is 1; None if a size is not known even then."""
    if info is None:
        return None
    sizes: list[int] = []
    for size in info.shape:
        if isinstance(size, Expression):
            try:
                sizes.append(size.evaluate(_Ones()))
            except KeyError:
                return None
        else:
            sizes.append(1 if isinstance(size, str) else size)
    return info.with_shape(sizes)


def shown_size(size: int | str) -> int | str:
    """Return what stands for a size in a summary: "?" for one that only a value decides."""
    if not isinstance(size, Expression):
        return size
    return str(size) if size.is_known else "?"


def _is_constant(layer: Layer) -> bool:
    return isinstance(layer.descriptor, Constant)


def _tensor(name: str, slot: OutputSlot | None, info: Callable[[OutputSlot], TensorInfo | None]) -> TensorSummary:
    found = None if slot is None else info(slot)
    return TensorSummary(name, str(found.dtype), found.shape) if found is not None else TensorSummary(name, None, None)
