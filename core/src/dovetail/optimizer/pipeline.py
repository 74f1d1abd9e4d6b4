"""The order of the passes, in one list."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

from ..graph.element_types import DType
from ..graph.graph import Graph
from ..graph.layer import Layer
from ..ground.errors import ErrorCode, GraphError, OptionError
from ..ground.limits import budget
from ..ground.records import NamedTuple, Record, field
from . import passes
from .assignment import Assigner
from .candidate import Assigned
from .copies import InsertCopies
from .folding import FoldingBudget
from .macs import Macs
from .open_sizes import OpenSizes
from .passes.base import Pass
from .passes.fix_inputs import open_symbols
from .request import CompileRequest
from .substitution import OptimizeSubgraphs

if TYPE_CHECKING:
    from .choosing import Chooser
    from .constant_layers import ConstantLayers
    from .passes.share_constants import SharedConstants

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
        constants: Has layers of constants computed that the core cannot evaluate; None: nobody
            does.
        macs: Multiply-accumulates of the layers before backends put their own in the place of some.
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
    constants: ConstantLayers | None = None
    macs: Macs = field(default_factory=Macs)

    @property
    def offers_layers_apart(self) -> bool:
        """Whether each layer is offered to its backend as a part of its own."""
        return not self.request.passes if self.request.apart is None else self.request.apart

    def infer_and_fold(self, *, keep_dequantize: bool = False) -> Pass:
        """Create the pass that infers shapes and folds."""
        return passes.InferAndFold(keep_dequantize=keep_dequantize, folding=self.folding, constants=self.constants)

    def share_constants(self) -> Pass:
        """Create the pass that shares constants with earlier plans."""
        assert self.shared is not None  # the step runs only then
        return passes.ShareConstants(self.shared)

    def take_choices(self) -> Pass:
        """Create the pass that takes what was tuned; its notes on layers go into the report."""
        assert self.chooser is not None  # the step runs only then
        from .choosing import TakeChoices

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

    make: tuple[Making, ...]
    when: Callable[[Compilation], bool]


class Making(NamedTuple):
    """How a pass is created, and imported.

    Attributes:
        make: Creates it.
        kinds: It runs only where a graph has layers of one of these; none: always.
    """

    make: Callable[[Compilation], Pass]
    kinds: frozenset[str] = frozenset()


def _of(*kinds: str) -> Callable[[Callable[[Compilation], Pass]], Making]:
    return lambda make: Making(make, frozenset(f"dovetail.{kind}" for kind in kinds))


def _always(context: Compilation) -> bool:
    return True


def _optional(context: Compilation) -> bool:
    return context.request.passes


def _reduced_by_option(dtype: DType) -> Step:
    """Return the step that converts layers for backends whose options ask for it."""
    making = Making(lambda c: passes.ReduceFloat(dtype, c.assigner, by_option=True))
    return Step((making,), lambda c: bool(c.assigner.reducing(dtype)))


_PRODUCTS = ("Convolution2d", "DepthwiseConvolution2d", "TransposeConvolution2d", "MatMul")

FIX_SIZES: tuple[Step, ...] = (
    Step((Making(lambda c: passes.Validate()),), _always),
    Step((Making(lambda c: passes.DropUnused()),), _optional),
    Step((Making(lambda c: passes.FixShapes(c.request.shapes)),), _always),
    Step((Making(lambda c: passes.FixValues(c.request.values)),), _always),
)
"""What `optimize` does first; sizes that are open then stay open until a run brings them."""

WITH_SIZES: tuple[Step, ...] = (
    Step((Making(lambda c: c.infer_and_fold(keep_dequantize=bool(c.computing_integers))),), _always),
    Step((Making(lambda c: passes.IntegerLayers(c.accepts_integers, c.home)),), lambda c: bool(c.computing_integers)),
    Step((Making(lambda c: c.infer_and_fold()),), lambda c: bool(c.computing_integers)),
    Step((_of(*_PRODUCTS)(lambda c: passes.RealWords(c.home)),), _optional),
    Step(
        (
            Making(lambda c: passes.DropUnused()),
            _of("Permute")(lambda c: passes.InversePermutes()),
            _of("Reshape", "ExpandDims", "Squeeze", "Flatten")(lambda c: passes.MergeReshapes()),
            _of("Permute")(lambda c: passes.PermuteAsReshape()),
            Making(lambda c: passes.RemoveIdentities()),
            _of("Pad")(lambda c: passes.FoldPad()),
            _of("BatchNormalization")(lambda c: passes.FoldBatchNormalization()),
        ),
        _optional,
    ),
    Step(
        (Making(lambda c: passes.ReduceFloat(c.request.reduced_dtype or DType.FLOAT16, c.assigner)),),
        lambda c: bool(c.request.reduced_dtype),
    ),
    _reduced_by_option(DType.FLOAT16),
    _reduced_by_option(DType.BFLOAT16),
    Step((_of("Constant")(lambda c: passes.MergeConstants()),), _optional),
    Step((Making(lambda c: c.share_constants()),), lambda c: c.shared is not None),
    Step((Making(lambda c: AssignBackends(c.assigner, c.macs)),), _always),
    Step((_of("Activation")(lambda c: passes.FuseActivation(c.assigner)),), _optional),
    Step((Making(lambda c: RequireHomes(c.assigner)),), _always),
    Step((Making(lambda c: OptimizeSubgraphs(c.assigner, fallback=c.request.fallback, apart=c.offers_layers_apart)),), _always),
    Step((Making(lambda c: c.take_choices()),), lambda c: c.chooser is not None),
    Step((Making(lambda c: passes.DropUnused()),), _optional),
    Step((Making(lambda c: passes.InsertDebug()),), lambda c: bool(c.request.debug)),
    Step((Making(lambda c: c.insert_copies()),), _always),
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

    def __init__(self, assigner: Assigner, macs: Macs) -> None:
        self.assigner = assigner
        self.macs = macs

    def run(self, graph: Graph) -> int:
        self.macs.count(graph)
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


def open_at_once(graph: Graph, request: CompileRequest) -> OpenSizes | None:
    """Return what stays open whatever the passes do; the graph is only looked at, if that.

    Where nothing is given, no symbol has a size; a copy to find that out would be for nothing.

    Raises:
        GraphError: It cannot be optimized at all; see `Validate`.
    """
    if request.shapes or request.values:
        return None
    unknown = open_symbols(graph)
    if unknown is None:
        return None
    passes.Validate().run(graph)
    return _open_sizes(unknown)


def _open_sizes(unknown: GraphError) -> OpenSizes:
    return OpenSizes(tuple(unknown.details["symbols"]), (), unknown)


def run_pipeline(graph: Graph, context: Compilation) -> OpenSizes | None:
    """Run both lists on a graph, in place, as far as its sizes are known.

    `context.counts` says then what each pass changed.

    Returns:
        What is open; None if nothing is.
    """
    if context.constants is not None:
        context.constants.begin(graph, context.request.values)
    _run(FIX_SIZES, graph, context)
    unknown = open_symbols(graph)
    if unknown is not None:
        return _open_sizes(unknown)
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
            kinds = {layer.descriptor.kind for layer in graph} if any(making.kinds for making in step.make) else set()
            for making in step.make:
                if making.kinds and making.kinds.isdisjoint(kinds):
                    continue
                budget().check_time()
                one = making.make(context)
                made = one.run(graph)
                counts[one.name] = counts.get(one.name, 0) + made
                changes += made
            if not changes:
                break
