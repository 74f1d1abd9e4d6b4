"""The order of the passes, in one list."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from ..graph.graph import Graph
from ..graph.layer import Layer
from ..graph.tensor import DType
from ..ground.errors import ErrorCode, GraphError, OptionError
from ..ground.limits import budget
from ..ground.records import NamedTuple, Record, field
from .assignment import Assigner
from .candidate import Assigned
from .choosing import Chooser, TakeChoices
from .copies import InsertCopies
from .folding import FoldingBudget
from .open_sizes import OpenSizes
from .passes import (
    DropUnused,
    FixShapes,
    FixValues,
    FoldBatchNormalization,
    FoldPad,
    FuseActivation,
    InferAndFold,
    InsertDebug,
    IntegerLayers,
    InversePermutes,
    MergeConstants,
    MergeReshapes,
    Pass,
    PermuteAsReshape,
    ReduceFloat,
    RemoveIdentities,
    ShareConstants,
    Validate,
)
from .passes.fix_inputs import open_symbols
from .passes.share_constants import SharedConstants
from .request import CompileRequest
from .substitution import OptimizeSubgraphs

_MAX_ROUNDS = 8
"""Rounds of a repeated group.

Each pass shrinks the graph or keeps it, so that this is only a net under a faulty one.
"""


class Compilation(Record):
    """What the passes of one `optimize` call share.

    Attributes:
        request: What is asked.
        computing_integers: The backends for which integer layers are made.
        counts: Changes by name of pass, in order of their first run.
    """

    request: CompileRequest
    assigner: Assigner
    computing_integers: Sequence[Assigned] = ()
    chooser: Chooser | None = None
    shared: SharedConstants | None = None
    copies: InsertCopies | None = None
    tuned: dict[Layer, str] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    folding: FoldingBudget = field(default_factory=FoldingBudget)

    def share_constants(self) -> Pass:
        """Create the pass that shares constants with earlier plans."""
        assert self.shared is not None  # the step runs only then
        return ShareConstants(self.shared)

    def take_choices(self) -> Pass:
        """Create the pass that takes what was tuned; its notes on layers go into the report."""
        assert self.chooser is not None  # the step runs only then
        return TakeChoices(self.assigner, self.chooser, self.tuned, fallback=self.request.fallback)

    def insert_copies(self) -> Pass:
        """Create the pass that inserts copies and keep it: what it found goes into the result."""
        self.copies = InsertCopies(self.assigner.assigned)
        return self.copies

    def accepts_integers(self, layer: Layer) -> bool:
        """Say whether an integer layer goes to a backend for which it is to be made."""
        home = self.home(layer)
        return home is not None and self.assigner.candidates[home] in self.computing_integers

    def home(self, layer: Layer) -> int | None:
        """Return the place, in order of preference, of the backend a layer would go to, if any."""
        try:
            home = self.assigner.first_willing(layer)
        except OptionError:  # the layers that it stands for are required of different backends
            return None
        return None if home is None else self.assigner.candidates.index(home)


class Step(NamedTuple):
    """One place in the list.

    Attributes:
        make: Creates the passes; more than one are repeated until none of them changes anything.
        when: Says whether they run.
    """

    make: tuple[Callable[[Compilation], Pass], ...]
    when: Callable[[Compilation], bool]


def _always(context: Compilation) -> bool:
    return True


def _optional(context: Compilation) -> bool:
    return context.request.passes


FIX_SIZES: tuple[Step, ...] = (
    Step((lambda c: Validate(),), _always),
    Step((lambda c: DropUnused(),), _optional),
    Step((lambda c: FixShapes(c.request.shapes),), _always),
    Step((lambda c: FixValues(c.request.values),), _always),
)
"""What `optimize` does first; sizes that are open then stay open until a run brings them."""

WITH_SIZES: tuple[Step, ...] = (
    Step((lambda c: InferAndFold(keep_dequantize=bool(c.computing_integers), folding=c.folding),), _always),
    Step((lambda c: IntegerLayers(c.accepts_integers, c.home),), lambda c: bool(c.computing_integers)),
    Step((lambda c: InferAndFold(folding=c.folding),), lambda c: bool(c.computing_integers)),
    Step(
        (
            lambda c: DropUnused(),
            lambda c: InversePermutes(),
            lambda c: MergeReshapes(),
            lambda c: PermuteAsReshape(),
            lambda c: RemoveIdentities(),
            lambda c: FoldPad(),
            lambda c: FoldBatchNormalization(),
        ),
        _optional,
    ),
    Step(
        (lambda c: ReduceFloat(c.request.reduced_dtype or DType.FLOAT16, c.assigner),),
        lambda c: bool(c.request.reduced_dtype),
    ),
    Step((lambda c: MergeConstants(),), _optional),
    Step((lambda c: c.share_constants(),), lambda c: c.shared is not None),
    Step((lambda c: AssignBackends(c.assigner),), _always),
    Step((lambda c: FuseActivation(c.assigner),), _optional),
    Step((lambda c: RequireHomes(c.assigner),), _always),
    Step((lambda c: OptimizeSubgraphs(c.assigner, fallback=c.request.fallback, apart=not c.request.passes),), _always),
    Step((lambda c: c.take_choices(),), lambda c: c.chooser is not None),
    Step((lambda c: DropUnused(),), _optional),
    Step((lambda c: InsertDebug(),), lambda c: bool(c.request.debug)),
    Step((lambda c: c.insert_copies(),), _always),
)
"""What `optimize` does then, in order.

With ``passes=False`` only the steps that a network needs to run at all.
"""


PIPELINE = (*FIX_SIZES, *WITH_SIZES)
"""All of it."""


class AssignBackends(Pass):
    """Give each layer the first backend that takes it.

    Layers that find none are reported after activations are folded.
    """

    name: ClassVar[str] = "assign_backends"

    def __init__(self, assigner: Assigner) -> None:
        self.assigner = assigner

    def run(self, graph: Graph) -> int:
        return self.assigner.assign_all(graph)


class RequireHomes(Pass):
    """Refuse a graph in which a layer has no backend.

    Raises:
        PlacementError: Names all such layers.
    """

    name: ClassVar[str] = "require_homes"

    def __init__(self, assigner: Assigner) -> None:
        self.assigner = assigner

    def run(self, graph: Graph) -> int:
        if any(self.assigner.is_homeless(layer) for layer in graph):
            self.assigner.require_homes(graph.topological_order())
        return 0


def run_pipeline(graph: Graph, context: Compilation) -> OpenSizes | None:
    """Run both lists on a graph, in place, as far as its sizes are known.

    `context.counts` says then what each pass changed.

    Returns:
        What is open; None if nothing is.
    """
    _run(FIX_SIZES, graph, context)
    unknown = open_symbols(graph)
    if unknown is not None:
        return OpenSizes(tuple(unknown.details["symbols"]), (), unknown)
    try:
        _run(WITH_SIZES, graph, context)
    except GraphError as error:  # known only once what the value decides is reached
        if error.code is not ErrorCode.VALUE_REQUIRED:
            raise
        return OpenSizes((), tuple(error.details.get("inputs", ())), error)
    return None


def _run(steps: Sequence[Step], graph: Graph, context: Compilation) -> None:
    counts = context.counts
    for step in steps:
        if not step.when(context):
            continue
        for _ in range(_MAX_ROUNDS if len(step.make) > 1 else 1):
            changes = 0
            for make in step.make:
                budget().check_time()
                one = make(context)
                made = one.run(graph)
                counts[one.name] = counts.get(one.name, 0) + made
                changes += made
            if not changes:
                break
