"""Kinds that the optimizer inserts and the core, or the backend that owns the memory, runs."""

from __future__ import annotations

from collections.abc import Sequence

from ..contract.interfaces import MemoryDomain
from ..graph.descriptor import Descriptor, Infos, descriptor_class
from ..graph.tensor import TensorInfo
from ..layers.shape_rules import present


@descriptor_class
class MemoryCopy(Descriptor, kind="dovetail.MemoryCopy"):
    """The same tensor in another memory domain.

    `IWorkloadFactory.create_copy` of the backend that it is assigned to makes it.
    """

    source: MemoryDomain
    target: MemoryDomain

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        return [present(inputs, 0)]


@descriptor_class
class Debug(Descriptor, kind="dovetail.Debug"):
    """The same tensor, shown to `OptimizedNetwork.debug` as (layer, index, array) on its way.

    The core runs it, on the host.

    Attributes:
        layer: Name of the layer that produced the tensor.
        index: Which of its outputs.
    """

    layer: str
    index: int = 0

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        return [present(inputs, 0)]
