"""Optimize a network and split it among backends.

The order of the passes stands in `pipeline.py`, each pass in a module of its own in `passes`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..contract.backend_calls import backend_call, checked
from ..graph.descriptor import Array, Constant, Input, Output
from ..graph.graph import Graph
from ..graph.graph_limits import check_graph
from ..graph.layer import Layer
from ..graph.tensor import TensorInfo
from ..ground import settings
from ..ground.errors import ErrorCode, GraphError, OptionError
from ..ground.late_names import late_names
from ..ground.limits import limited, watched
from ..ground.logs import Log
from ..ground.progress import listening
from ..ground.records import NamedTuple
from ..layers.kind_words import kind_in_words
from .assignment import Assigner, is_workload
from .candidate import Absent, Assigned, GivenBack, Refusal
from .candidates import BackendLike, let_go, resolve
from .constraints import Constraints
from .copies import CopyReport
from .core_kinds import Debug, MemoryCopy
from .folding import FoldingBudget
from .open_sizes import OpenSizes
from .optimized import OptimizedNetwork, TensorSpec, complete
from .options import build_options
from .partition import partition
from .pipeline import PIPELINE, Compilation, open_at_once, run_pipeline
from .placement import Placement
from .policy import Answer, Answers, FirstWilling, PlacementPolicy
from .reports import BackendTotal, DeviceReport, LayerReport, PartitionReport
from .request import CompileRequest
from .source import NetworkSource
from .symbolic import name_symbols, output_spec

__all__ = [
    "PIPELINE",
    "Absent",
    "Answer",
    "Answers",
    "Assigned",
    "BackendTotal",
    "Chooser",
    "CompileRequest",
    "CopyReport",
    "Debug",
    "FirstWilling",
    "GivenBack",
    "LayerReport",
    "MemoryCopy",
    "NetworkSource",
    "OpenSizes",
    "OptimizedNetwork",
    "PartitionReport",
    "Placement",
    "PlacementPolicy",
    "Refusal",
    "SharedConstants",
    "TensorSpec",
    "build_options",
    "compile_network",
    "optimize",
    "require_network",
]

if TYPE_CHECKING:
    from .choosing import Chooser as Chooser
    from .constant_layers import ConstantLayers
    from .passes.share_constants import SharedConstants as SharedConstants
else:
    __getattr__, __dir__ = late_names(__name__, {"choosing": ("Chooser",), "passes.share_constants": ("SharedConstants",)})

_log = Log("dovetail.optimizer")
_UNASSIGNED = (Input, Output, Constant)
_FOLDED = {"dovetail.BatchNormalization": "batch norm", "dovetail.Pad": "padding"}
"""What passes of the core fold into other layers, by kind, in words."""


def optimize(network: Graph, backends: Sequence[BackendLike] | BackendLike | None = None, **wanted: Any) -> OptimizedNetwork:
    """Do what `dovetail.optimize` does, with its arguments and errors.

    Layers of constants that the core cannot evaluate are left to runs, unless an `oracle` that
    computes them is among what is asked.
    """
    return complete(
        compile_network(NetworkSource(require_network(network)), CompileRequest.of({"backends": backends, **wanted}))
    )


def compile_network(
    source: NetworkSource, request: CompileRequest, shared: SharedConstants | None = None
) -> OptimizedNetwork | OpenSizes:
    """Do what `optimize` does, with a network whose weights may be consumed.

    Args:
        source: The network.
        request: What is asked.
        shared: The constants of other results of this network, for other sizes: equal ones become
            the same arrays.

    Returns:
        The optimized network, or what is open: only a run brings it.
    """
    ready, absent = resolve(request.backends, request.options, request.registry, request.isolate)
    try:
        return _compiled(source, request, shared, ready, absent)
    except BaseException:
        let_go(ready)
        raise


def _compiled(
    source: NetworkSource,
    request: CompileRequest,
    shared: SharedConstants | None,
    ready: Sequence[Assigned],
    absent: Sequence[Absent],
) -> OptimizedNetwork | OpenSizes:
    network = source.take()
    requests = [*(one.request for one in ready), *(one.request for one in absent)]
    constraints = Constraints(network, requests, request.require, request.forbid, fallback=request.fallback)
    assigner = Assigner(ready, constraints, request.policy, request.given_back)
    context = Compilation(request, assigner, _computing_integers(network, assigner, request), _chooser(request), shared)
    context.constants = _constants(request, context.folding)
    name, declared = network.name, _Declared.of(network)
    with listening(request.progress), limited(request.limits) as budget:
        check_graph(budget, network)
        unknown = open_at_once(network, request)
        if unknown is not None:
            return unknown
        graph = network if source.is_consumable else network.copy()
        try:
            unknown = run_pipeline(graph, context)
        except GraphError as error:
            if graph is not network and error.code in (ErrorCode.SHAPE_MISMATCH, ErrorCode.ATTRIBUTE_INVALID):
                name_symbols(error, network)
            raise

    if unknown is not None:
        return unknown
    order = graph.topological_order()
    homes = context.assigner.assigned
    parts = partition(order, homes)
    partition_of = {layer.name: number for number, (_, layers) in enumerate(parts) for layer in layers}
    reported = [layer for layer in watched(order) if _is_reported(layer)]
    words = _words(reported, assigner, declared)
    macs = context.macs.by_layer(reported)
    folded = declared.folded(order)
    copies = context.copies
    assert copies is not None  # the last step of the pipeline always runs
    return OptimizedNetwork(
        graph=graph,
        assignment={
            layer.name: copies.copiers.get(layer) if layer in copies.copiers else homes.get(layer)
            for layer in watched(order)
            if not isinstance(layer.descriptor, _UNASSIGNED)
        },
        partition_of=partition_of,
        domains=copies.domains,
        placement=Placement(
            name,
            tuple(_layer_report(layer, context, partition_of, words, macs) for layer in reported),
            tuple(
                PartitionReport(number, str(home.request.id), home.request.device, tuple(layer.name for layer in layers))
                for number, (home, layers) in enumerate(parts)
            ),
            tuple(copies.reports),
            tuple(context.counts.items()),
            (*absent, *assigner.absent),
            folded,
            tuple(DeviceReport(one.label, one.device) for one in assigner.opened),
            tuple((name, assigner.deleted[name]) for name in folded if name in assigner.deleted),
            () if context.constants is None else context.constants.reports(),
            () if context.constants is None else context.constants.left(order),
        ),
        name=name,
        inputs=tuple(declared.inputs[layer.name] for layer in graph.inputs),
        output_names=tuple(source.labels.get(layer.name, layer.name) for layer in graph.outputs),
        tell_outputs=_specs_of_outputs(graph, source, declared),
        debug=_log_tensor if request.debug is True else request.debug or None,
        request=request.replaced(progress=None, limits=budget.limits),
        source=source,
        private=frozenset(layer.name for layer in order if assigner.is_private(layer)),
        shared=shared,
        oracle_failed=context.constants is not None and context.constants.failed,
        _compile=compile_network,
    )


def require_network(given: object) -> Graph:
    """Return a network, and refuse anything else.

    Raises:
        OptionError: It is not.
    """
    if not isinstance(given, Graph):
        raise OptionError(
            f"{type(given).__name__!r} is not a network",
            code=ErrorCode.OPTION_INVALID,
            hint="give a dovetail.Network, such as dovetail.parse(path) returns, or to dovetail.load the path of a model file",
        )
    return given


def _is_reported(layer: Layer) -> bool:
    return is_workload(layer) or isinstance(layer.descriptor, Debug)


def _computing_integers(network: Graph, assigner: Assigner, request: CompileRequest) -> Sequence[Assigned]:
    """Return the backends for which integer layers are made: those that want them, all or none."""
    wanted = request.integer_layers if request.passes else bool(request.integer_layers)
    if wanted is False or not any(layer.kind == "dovetail.Quantize" for layer in network.layers):
        return ()
    return assigner.candidates if wanted else assigner.able("integers")


def _chooser(request: CompileRequest) -> Chooser | None:
    if not request.passes:
        return None
    if request.tuned is True:
        if not settings.tuning() or not settings.has_kept("tuning"):
            return None  # so that loads need not import what reads findings
        from .tuned_choices import StoredChoices

        return StoredChoices(request.threads)
    return request.tuned or None


def _constants(request: CompileRequest, folding: FoldingBudget) -> ConstantLayers | None:
    """Return what has layers of constants computed; None where nobody was given who would."""
    if not request.passes or isinstance(request.oracle, bool):
        return None
    from .constant_layers import ConstantLayers

    return ConstantLayers(request.oracle, folding)


def _layer_report(
    layer: Layer,
    context: Compilation,
    partition_of: dict[str, int],
    words: Mapping[Layer, str],
    macs: Mapping[Layer, int],
) -> LayerReport:
    assigner = context.assigner
    home = assigner.assigned.get(layer)
    refusals = tuple(assigner.refusals.get(layer, ()))
    return LayerReport(
        layer.name,
        layer.kind,
        None if home is None else str(home.request.id),
        None if home is None else home.request.device,
        partition_of.get(layer.name),
        layer.sources,
        _reason(layer, home, refusals, assigner),
        refusals,
        context.tuned.get(layer, ""),
        words[layer],
        _steps(layer, assigner),
        ", ".join(str(slot.info) for slot in layer.outputs[:2]) + (", ..." if len(layer.outputs) > 2 else ""),
        macs.get(layer, 0),
    )


def _steps(layer: Layer, assigner: Assigner) -> tuple[tuple[str, str], ...]:
    """Return what a backend says of the steps inside a private layer of its own."""
    home = assigner.assigned.get(layer)
    if home is None or not assigner.is_private(layer):
        return ()
    origin, method = f"backend {home.label}, layer {layer.name!r} ({layer.kind})", "steps_in_words"
    with backend_call(origin, method):
        steps = tuple(layer.descriptor.steps_in_words())
    for step in steps:
        for text in checked(origin, method, step, tuple):
            checked(origin, method, text, str)
    return steps


def _words(order: Sequence[Layer], assigner: Assigner, declared: _Declared) -> dict[Layer, str]:
    """Return what backends say of their private layers, and the core of others and what it folded.

    No backend ever saw what was folded. Of several layers that stand for what was folded the last
    one tells of it.
    """
    words: dict[Layer, str] = {}
    for layer in order:
        home = assigner.assigned.get(layer)
        if home is not None and assigner.is_private(layer):
            origin = f"backend {home.label}, layer {layer.name!r} ({layer.kind})"
            with backend_call(origin, "in_words"):
                words[layer] = checked(origin, "in_words", home.backend.in_words(layer), str)
        words[layer] = words.get(layer) or kind_in_words(layer)
    last = {name: layer for layer in order for name in layer.sources if name in declared.kinds} if declared.kinds else {}
    for layer in dict.fromkeys(last.values()):
        if layer in words:
            kinds = {declared.kinds[name] for name in layer.sources if last.get(name) is layer}
            words[layer] += "".join(f", {said} folded in" for kind, said in _FOLDED.items() if kind in kinds)
    return words


def _reason(layer: Layer, home: Assigned | None, refusals: Sequence[Refusal], assigner: Assigner) -> str:
    if home is None:
        return "core"
    if assigner.constraints.required(layer) is not None:
        return "required"
    if refusals:
        return "fallback"
    if assigner.is_private(layer):
        return "private"
    return "first choice" if home is assigner.candidates[0] else "policy"


class _Declared(NamedTuple):
    """What the original network says, which may be gone when it is asked for.

    Attributes:
        inputs: By name, sizes as symbols where they are open.
        outputs: By name; None where it is not known before sizes are.
        has_symbols: Whether sizes of inputs are open.
        working: Name and sources of each layer that computes.
        kinds: Kinds of layers that the core may fold away, by name.
    """

    inputs: Mapping[str, TensorSpec]
    outputs: Mapping[str, TensorInfo | None]
    has_symbols: bool
    working: Sequence[tuple[str, tuple[str, ...]]]
    kinds: Mapping[str, str]

    @classmethod
    def of(cls, network: Graph) -> _Declared:
        return cls(
            {layer.name: _spec(layer.name, layer.output.known_info) for layer in network.inputs},
            {layer.name: layer.inputs[0].info if layer.inputs else None for layer in network.outputs},
            any(not layer.output.known_info.is_concrete for layer in network.inputs),
            [(layer.name, layer.sources) for layer in network if is_workload(layer)],
            {layer.name: layer.kind for layer in network if layer.kind in _FOLDED},
        )

    def folded(self, order: Sequence[Layer]) -> tuple[str, ...]:
        """Name the layers of which nothing computes any more."""
        several = {id(layer.sources): layer.sources for layer in order if not isinstance(layer.descriptor, Constant)}
        kept = {name for sources in several.values() for name in sources}  # many layers may stand for the whole of a part
        return tuple(name for name, sources in self.working if not kept.issuperset(sources))


def _specs_of_outputs(graph: Graph, source: NetworkSource, declared: _Declared) -> Callable[[], tuple[TensorSpec, ...]]:
    """Return what tells the outputs of an optimized graph: in terms of symbols, if it has some."""
    planned = {layer.name: layer.inputs[0].info for layer in graph.outputs}
    labels, outputs = source.labels, declared.outputs
    infos = source.output_infos_later() if declared.has_symbols else lambda: outputs

    def tell() -> tuple[TensorSpec, ...]:
        known = infos()
        return tuple(output_spec(labels.get(name, name), known[name], info) for name, info in planned.items())

    return tell


def _spec(name: str, info: Any) -> TensorSpec:
    return TensorSpec(name, info.shape, info.dtype, info.quantization)


def _log_tensor(name: str, index: int, array: Array) -> None:
    if array.size and array.dtype.kind in "fiu":
        _log.info(
            "%s:%d %s %s min %g max %g mean %g", name, index, array.dtype, array.shape, array.min(), array.max(), array.mean()
        )
    else:
        _log.info("%s:%d %s %s", name, index, array.dtype, array.shape)
