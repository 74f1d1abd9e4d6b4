"""Moves that several passes share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from ..graph.descriptor import Array, Constant, Input, Output
from ..graph.element_types import DType
from ..graph.graph import Graph
from ..graph.layer import InputSlot, Layer, OutputSlot
from ..graph.tensor import Quantization, TensorInfo
from ..ground.errors import ErrorCode, GraphError
from ..ground.pieces import holds
from ..layers import Cast

_FORGOTTEN = Constant(value=np.empty(0, np.uint8))


def merged_sources(*layers: Layer) -> tuple[str, ...]:
    """Names of the original layers that these stand for together, each once."""
    return tuple(dict.fromkeys(name for layer in layers for name in layer.sources))


class Heirs:
    """Collect what layers stand for while others vanish into them.

    Of a long chain, each name is written down once.
    """

    def __init__(self) -> None:
        self._names: dict[Layer, list[str]] = {}

    def inherit(self, heir: Layer, gone: Layer) -> None:
        """Let a layer stand for all that one before it, which is gone, stood for."""
        names = self._names.pop(gone, None)
        if names is None:
            names = list(gone.sources)
        names += self._names.get(heir, heir.sources)
        self._names[heir] = names

    def take_on(self, heir: Layer, gone: Layer) -> None:
        """Let a layer stand for all that one behind it, which is gone, stood for."""
        names = self._names.setdefault(heir, list(heir.sources))
        names += self._names.pop(gone, gone.sources)

    def settle(self) -> None:
        """Write it to the layers, each name once."""
        for layer, names in self._names.items():
            layer.sources = tuple(dict.fromkeys(names))
        self._names.clear()


def only_consumer(slot: OutputSlot) -> InputSlot | None:
    """Return the consumer of a slot that has exactly one."""
    return slot.consumers[0] if len(slot.consumers) == 1 else None


def producer(layer: Layer, index: int = 0) -> Layer | None:
    """Return the layer that feeds an input."""
    source = layer.inputs[index].source if index < len(layer.inputs) else None
    return None if source is None else source.layer


def constants_read(layer: Layer) -> list[Array | None] | None:
    """Return what a layer reads, None for inputs left out; None if that is not constants alone."""
    values: list[Array | None] = []
    for slot in layer.inputs:
        value = None
        if slot.source is not None:
            descriptor = slot.source.layer.descriptor
            if not isinstance(descriptor, Constant):
                return None
            value = descriptor.value
        values.append(value)
    return values


def reconnect(graph: Graph, target: InputSlot, source: OutputSlot) -> None:
    """Make an input slot read another output slot."""
    graph.disconnect(target)
    graph.connect(source, target)


def bypass(graph: Graph, layer: Layer) -> None:
    """Remove a layer with one output: what read it reads its first input."""
    source = layer.inputs[0].source
    if source is None:
        raise ValueError(f"layer {layer.name!r} has no input to read instead")
    graph.redirect(layer.output, source)
    graph.remove(layer)


def prune(graph: Graph, layers: Iterable[Layer | None]) -> int:
    """Remove those layers that nobody reads, then those that fed only them.

    Inputs and outputs stay.
    """
    removed = 0
    waiting = [layer for layer in layers if layer is not None]
    while waiting:
        layer = waiting.pop()
        if layer.name not in graph or graph.layer(layer.name) is not layer or isinstance(layer.descriptor, Input | Output):
            continue
        if any(slot.consumers for slot in layer.outputs):
            continue
        waiting.extend(slot.source.layer for slot in layer.inputs if slot.source is not None)
        graph.remove(layer)
        removed += 1
    return removed


def value_required(message: str, inputs: list[str], layer: Layer) -> GraphError:
    """Build the error for what only the value of a graph input decides."""
    return GraphError(
        message,
        code=ErrorCode.VALUE_REQUIRED,
        hint=f"give the value when optimizing: optimize(..., values={{{inputs[0]!r}: array}})",
        inputs=inputs,
        layer=layer.name,
    )


def inputs_behind(slots: Iterable[OutputSlot]) -> list[str]:
    """Name the graph inputs on which slots depend, in order of creation."""
    found: dict[Layer, None] = {}
    seen: set[Layer] = set()
    waiting = [slot.layer for slot in slots]
    while waiting:
        layer = waiting.pop()
        if layer in seen:
            continue
        seen.add(layer)
        if isinstance(layer.descriptor, Input):
            found[layer] = None
        waiting.extend(slot.source.layer for slot in layer.inputs if slot.source is not None)
    return [layer.name for layer in sorted(found, key=lambda member: member.id)]


def drop_constants(graph: Graph, constants: Iterable[Layer]) -> None:
    """Remove constants that nobody reads; release their arrays, whoever still holds the layers."""
    for layer in [layer for layer in constants if not layer.outputs[0].consumers]:
        graph.discard(layer)
        layer.descriptor = _FORGOTTEN


def release_constants(graph: Graph) -> None:
    """Release the arrays of a graph that has served; it is of no use afterwards.

    Its layers refer to one another, and would hold them until garbage is collected.
    """
    for layer in graph:
        if isinstance(layer.descriptor, Constant):
            layer.descriptor = _FORGOTTEN


def drop_unread_constants(graph: Graph) -> None:
    """Remove all constants that nobody reads."""
    drop_constants(graph, [layer for layer in graph if isinstance(layer.descriptor, Constant)])


def derived_constant(graph: Graph, value: Array, origin: Layer, name: str | None = None) -> OutputSlot:
    """Add a constant that was worked out from another layer and stands for the same sources."""
    slot = graph.constant(value, name=name or origin.name, copy=False)
    slot.layer.sources = origin.sources
    return slot


def quantized_constant(graph: Graph, origin: Layer, quantization: Quantization) -> OutputSlot:
    """Add a constant that shares the array of `origin` and says how it is quantized."""
    descriptor = origin.descriptor
    if not isinstance(descriptor, Constant):
        raise TypeError(f"layer {origin.name!r} is no constant")
    return graph.add(replace(descriptor), name=origin.name, quantization=quantization, sources_of=origin.sources).output


def narrowed(value: Array, dtype: DType) -> Array | None:
    """Convert float32 to the storage of float16 or bfloat16.

    Returns None if a finite element would become infinite.
    """
    with np.errstate(over="ignore"):
        result = Cast(dtype=dtype).evaluate([TensorInfo.of_array(value)], [value])
    if result is None:
        return None

    def fits(narrow: Array, wide: Array) -> Array:
        is_finite: Array = (narrow & 0x7FFF) != 0x7F80 if dtype is DType.BFLOAT16 else ~np.isinf(narrow)
        return is_finite | ~np.isfinite(wide)

    return result[0] if holds(fits, result[0], value) else None
