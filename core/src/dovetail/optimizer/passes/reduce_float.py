"""Convert layers from float32 to float16 or bfloat16."""

from __future__ import annotations

from typing import ClassVar

from ...graph.descriptor import Constant
from ...graph.element_types import DType
from ...graph.graph import Graph
from ...graph.layer import InputSlot, Layer, OutputSlot
from ...ground.errors import GraphError
from ...layers import Cast
from ..assignment import Assigner
from ..candidate import Assigned
from ..rewriting import narrowed, prune, reconnect
from .base import Pass


class ReduceFloat(Pass):
    """Run float32 layers in a 16-bit type where the backend they go to asks for it.

    Casts stand only where the types meet. Inputs and outputs of the network keep their type. A
    layer stays as it is if a constant of it would become infinite, or if an attribute names its
    element type (casts, fills, dequantize). A cast up that is at once cast down again is never
    made: widening is exact.

    Args:
        dtype: FLOAT16 or BFLOAT16.
        assigner: Knows the backends. A layer is converted if the first that takes it has the
            capability and takes it converted.
        by_option: Only for backends whose own options ask for it.
    """

    name: ClassVar[str] = "reduce_float"

    def __init__(self, dtype: DType, assigner: Assigner, *, by_option: bool = False) -> None:
        self.dtype = dtype
        self.assigner = assigner
        self.by_option = by_option

    def run(self, graph: Graph) -> int:
        narrow: dict[OutputSlot, OutputSlot] = {}
        casts: list[Layer] = []
        changes = 0
        able = self.assigner.reducing(self.dtype) if self.by_option else self.assigner.able(self.dtype.label)
        for layer in graph.topological_order() if able else ():
            home = self.assigner.first_willing(layer) if _is_candidate(layer) else None
            if home in able and home is not None and self._convert(graph, layer, home, narrow):
                for slot in layer.outputs:
                    if slot.known_info.dtype is self.dtype and slot.consumers:
                        casts.append(_widen(graph, slot, narrow))
                changes += 1
        prune(graph, [*reversed(casts), *(slot.layer for slot in narrow.values())])
        return changes

    def _convert(self, graph: Graph, layer: Layer, home: Assigned, narrow: dict[OutputSlot, OutputSlot]) -> bool:
        before = [slot.source for slot in layer.inputs]
        infos = [slot.info for slot in layer.outputs]
        wanted: list[tuple[InputSlot, OutputSlot]] = []
        for slot in layer.inputs:
            if slot.source is not None and slot.source.known_info.dtype is DType.FLOAT32:
                source = self._narrow(graph, slot.source, narrow)
                if source is None:
                    return False
                wanted.append((slot, source))
        for slot, source in wanted:
            reconnect(graph, slot, source)
        try:
            graph.infer(layer)
            fits = all(not out.known_info.dtype.is_float or out.known_info.dtype is self.dtype for out in layer.outputs)
        except GraphError:
            fits = False
        if fits and self.assigner.refusal(layer, home) is None:
            return True
        for slot, old in zip(layer.inputs, before, strict=True):
            if old is not None and slot.source is not old:
                reconnect(graph, slot, old)
        for out, info in zip(layer.outputs, infos, strict=True):
            out.info = info
        return False

    def _narrow(self, graph: Graph, slot: OutputSlot, narrow: dict[OutputSlot, OutputSlot]) -> OutputSlot | None:
        if slot in narrow:
            return narrow[slot]
        if isinstance(slot.layer.descriptor, Constant):
            value = narrowed(slot.layer.descriptor.value, self.dtype)
            if value is None:
                return None
            result = graph.constant(value, name=slot.layer.name, dtype=self.dtype, copy=False)
        else:
            result = graph.add(Cast(dtype=self.dtype), slot, name=f"{slot.layer.name}.to_{self.dtype}").output
        result.layer.sources = slot.layer.sources
        narrow[slot] = result
        return result


def _is_candidate(layer: Layer) -> bool:
    if not layer.inputs or isinstance(layer.descriptor, Constant) or not layer.outputs:
        return False
    floats = [info.dtype for info in (*layer.input_infos, *layer.output_infos) if info is not None and info.dtype.is_float]
    names_dtype = any(isinstance(value, DType) for value in layer.descriptor.attributes().values())
    reads = any(info is not None and info.dtype is DType.FLOAT32 for info in layer.input_infos)
    return reads and not names_dtype and set(floats) == {DType.FLOAT32}


def _widen(graph: Graph, slot: OutputSlot, narrow: dict[OutputSlot, OutputSlot]) -> Layer:
    consumers = list(slot.consumers)
    cast = graph.add(Cast(dtype=DType.FLOAT32), slot, name=f"{slot.layer.name}.to_float32", sources_of=slot.layer.sources)
    for consumer in consumers:
        reconnect(graph, consumer, cast.output)
    narrow[cast.output] = slot
    return cast
