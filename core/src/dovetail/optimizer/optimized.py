"""The optimizer's result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ..contract.interfaces import MemoryDomain
from ..graph.descriptor import Array
from ..graph.graph import Graph
from ..graph.layer import OutputSlot
from ..graph.tensor import Dimension, DType, Quantization
from .assignment import Assigned
from .passes.fix_inputs import Shapes, Values
from .placement import Placement

DebugCallback = Callable[[str, int, Array], None]
"""Called with a layer's name, the index of its output, and the tensor, valid during the call alone."""


class TensorSpec(NamedTuple):
    """An input or output of a network.

    Attributes:
        name: What the caller calls it.
        shape: As the original network has it, symbols included; the shape at hand where the original does not tell.
        dtype, quantization: Of its elements.
    """

    name: str
    shape: tuple[Dimension, ...]
    dtype: DType
    quantization: Quantization | None = None


@dataclass(frozen=True, slots=True, eq=False)
class OptimizedNetwork:
    """A network with a backend on every layer, ready to be loaded.

    Attributes:
        graph: Inputs, outputs, constants, the layers that compute, `MemoryCopy` and `Debug`; every info is concrete.
        assignment: The backend of each layer that runs, by name. None: the core runs it (`Debug`).
        partition_of: Index of each computing layer's partition.
        domains: Where each slot lives; constants in host memory, whatever backend reads them.
        placement: The report.
        name: Of the network.
        inputs, outputs: What the caller hands in and gets back, in order; inputs fixed by `values=` are left out.
        debug: Called by `Debug` layers; None without.
    """

    graph: Graph
    assignment: Mapping[str, Assigned | None]
    partition_of: Mapping[str, int]
    domains: Mapping[OutputSlot, MemoryDomain]
    placement: Placement
    name: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    debug: DebugCallback | None
    _source: Callable[[], Graph]
    _again: Callable[[Shapes | None, Values | None], OptimizedNetwork]

    def __repr__(self) -> str:
        return f"<OptimizedNetwork: {self.placement.summary()}>"

    @property
    def source(self) -> Graph:
        """The original network, unchanged; made again, as from its file, where it became `graph`."""
        return self._source()

    def replan(self, shapes: Shapes | None = None, values: Values | None = None) -> OptimizedNetwork:
        """Optimize the original network again, with the same arguments but for these.

        Args:
            shapes: In the place of those given before; None keeps them.
            values: Added to those given before.
        """
        return self._again(shapes, values)
