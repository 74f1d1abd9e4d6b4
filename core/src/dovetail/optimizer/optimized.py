"""The optimizer's result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ..contract.interfaces import MemoryDomain
from ..graph.element_types import DType
from ..graph.graph import Graph
from ..graph.layer import OutputSlot
from ..graph.tensor import Dimension, Quantization
from ..ground.errors import BackendError, ErrorCode, GraphError, PlacementError
from ..ground.fixed_to_process import FixedToProcess
from ..ground.limits import limited
from ..ground.logs import Log
from ..ground.records import NamedTuple, Record
from .candidate import Assigned, GivenBack
from .open_sizes import OpenSizes
from .passes.fix_inputs import Shapes, Values
from .placement import Placement
from .report_words import listed
from .request import CompileRequest, DebugCallback
from .source import NetworkSource

if TYPE_CHECKING:
    from .passes.share_constants import SharedConstants

_log = Log("dovetail.optimizer")


class TensorSpec(NamedTuple):
    """An input or output of a network.

    Attributes:
        name: What the caller calls it.
        shape: As the original network has it, symbols included; the shape at hand where the
            original does not tell.
        dtype, quantization: Of its elements.
    """

    name: str
    shape: tuple[Dimension, ...]
    dtype: DType
    quantization: Quantization | None = None

    @property
    def sizes(self) -> tuple[int, ...]:
        """The shape as integers.

        Raises:
            GraphError: A size is open (`SHAPE_UNKNOWN`).
        """
        open_sizes = [size for size in self.shape if isinstance(size, str)]
        if open_sizes:
            raise GraphError(
                f"{self.name!r} has the open {'sizes' if len(open_sizes) > 1 else 'size'} {', '.join(open_sizes)}",
                code=ErrorCode.SHAPE_UNKNOWN,
                hint="each run may have another: look at `shape`, or at the arrays of a run",
                symbol=open_sizes[0],
            )
        return tuple(size for size in self.shape if not isinstance(size, str))


class OptimizedNetwork(FixedToProcess, Record, frozen=True, eq=False):
    """A network with a backend on every layer, ready to be loaded.

    Attributes:
        graph: Inputs, outputs, constants, the layers that compute, `MemoryCopy` and `Debug`; every
            info is concrete.
        assignment: The backend of each layer that runs, by name. None: the core runs it (`Debug`).
        partition_of: Index of each computing layer's partition.
        domains: Where each slot lives; constants in host memory, whatever backend reads them.
        placement: The report.
        name: Of the network.
        inputs: What the caller hands in, in order; inputs fixed by `values=` are left out.
        output_names: Of what the caller gets back, in order.
        tell_outputs: Returns `outputs`.
        debug: Called by `Debug` layers; None without.
        request: What was asked.
        source: Where the network comes from.
        private: Names of the layers that a backend put in the place of a part.
        shared: The constants of other results of the same network, for other sizes.
        oracle_failed: Whether one failed at a layer of constants, which may go well another time.
    """

    elsewhere = "pickle the dovetail.Network that it was made of, or its placement, and optimize again"

    graph: Graph
    assignment: Mapping[str, Assigned | None]
    partition_of: Mapping[str, int]
    domains: Mapping[OutputSlot, MemoryDomain]
    placement: Placement
    name: str
    inputs: tuple[TensorSpec, ...]
    output_names: tuple[str, ...]
    tell_outputs: Callable[[], tuple[TensorSpec, ...]]
    debug: DebugCallback | None
    request: CompileRequest
    source: NetworkSource
    private: frozenset[str]
    shared: SharedConstants | None
    oracle_failed: bool
    _compile: Callable[[NetworkSource, CompileRequest, SharedConstants | None], OptimizedNetwork | OpenSizes]

    def __repr__(self) -> str:
        return f"<OptimizedNetwork: {self.placement.summary()}>"

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """What the caller gets back, in order."""
        return self.tell_outputs()

    def replan(self, shapes: Shapes | None = None, values: Values | None = None) -> OptimizedNetwork:
        """Optimize the original network again, with the same arguments but for these.

        Args:
            shapes: In the place of those given before; None keeps them.
            values: Added to those given before.
        """
        return complete(self.replan_as_far_as_known(shapes, values))

    def replan_as_far_as_known(
        self, shapes: Shapes | None = None, values: Values | None = None
    ) -> OptimizedNetwork | OpenSizes:
        """Do what `replan` does, or return what is open: only a run brings it."""
        return self._again(self.request.but(shapes=shapes, values={**self.request.values, **(values or {})}))

    def give_back(self, layer: str, failure: BackendError) -> OptimizedNetwork:
        """Optimize the original network again, with a part barred from a backend.

        The backend claimed the part and could not compile it.

        Args:
            layer: Name of the private layer that stands for the part.
            failure: What the backend failed with.

        Raises:
            BackendError: The failure itself, where the caller forbids fallback or named no other
                backend.
            PlacementError: No other backend takes the layers of the part.
        """
        assigned, sources = self.assignment[layer], self.graph.layer(layer).sources
        assert assigned is not None  # private layers belong to a backend
        part = GivenBack(assigned.label, sources, failure.message)
        known = {(one.backend, name) for one in self.request.given_back for name in one.sources}
        if not self.request.fallback or known.issuperset((part.backend, name) for name in sources):
            raise failure
        try:
            placed = complete(self._again(self.request.but(given_back=(*self.request.given_back, part))))
        except PlacementError as error:
            asked = {refusal.backend for several in error.details["refusals"].values() for refusal in several}
            if asked <= {assigned.label}:
                raise failure from None
            raise error from failure
        text = "backend %s could not compile %s, which is placed anew: %s"
        _log.warning(text, assigned.label, listed(sources), part.reason)
        return placed

    def _again(self, request: CompileRequest) -> OptimizedNetwork | OpenSizes:
        with limited(request.limits, joining=True):
            return self._compile(self.source, request.replaced(limits=None), self.shared)


def complete(made: OptimizedNetwork | OpenSizes) -> OptimizedNetwork:
    """Return an optimized network, or raise what is open."""
    if isinstance(made, OpenSizes):
        raise made.error
    return made
