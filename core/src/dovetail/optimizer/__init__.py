"""Optimize a network and split it among backends.

The order of the passes stands in `pipeline.py`, each pass in a module of its own in `passes`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ..graph.descriptor import Array, Constant, Input, Output
from ..graph.graph import Graph
from ..graph.graph_limits import check_graph
from ..graph.layer import Layer
from ..graph.tensor import DType, TensorInfo
from ..ground.errors import ErrorCode, OptionError
from ..ground.limits import Limits, limited, watched
from ..ground.logs import Log
from ..ground.progress import Listener, listening
from ..layers import Quantize
from .assignment import Assigned, Assigner, Refusal, is_workload
from .candidates import Absent, BackendLike, Options, Registry, resolve
from .choosing import Chooser
from .copies import CopyReport
from .core_kinds import Debug, MemoryCopy
from .optimized import DebugCallback, OptimizedNetwork, TensorSpec
from .options import build_options
from .partition import partition
from .passes.fix_inputs import Shapes, Values
from .passes.share_constants import SharedConstants
from .pipeline import PIPELINE, Compilation, run_pipeline
from .placement import LayerReport, PartitionReport, Placement
from .wishes import Forbid, Require, Wishes

__all__ = [
    "PIPELINE",
    "Absent",
    "Assigned",
    "Chooser",
    "CopyReport",
    "Debug",
    "LayerReport",
    "MemoryCopy",
    "OptimizedNetwork",
    "PartitionReport",
    "Placement",
    "Refusal",
    "SharedConstants",
    "TensorSpec",
    "build_options",
    "optimize",
    "require_network",
]

_log = Log("dovetail.optimizer")
_UNASSIGNED = (Input, Output, Constant)
_REDUCED = {DType.FLOAT16.label: DType.FLOAT16, DType.BFLOAT16.label: DType.BFLOAT16}


def optimize(
    network: Graph,
    backends: Sequence[BackendLike] | BackendLike | None = None,
    *,
    shapes: Shapes | None = None,
    values: Values | None = None,
    require: Require | None = None,
    forbid: Forbid | None = None,
    fallback: bool = True,
    options: Options | None = None,
    reduce_float: str | DType | None = None,
    integer_layers: bool | None = None,
    debug: DebugCallback | bool | None = None,
    passes: bool = True,
    tuned: bool | Chooser = True,
    threads: int | None = None,
    registry: Registry | None = None,
    progress: Listener | None = None,
    reparse: Callable[[], Graph] | None = None,
    shared: SharedConstants | None = None,
    limits: Limits | None = None,
) -> OptimizedNetwork:
    """Optimize a network and give every layer a backend; the network itself is not changed, unless `reparse` is given.

    Args:
        network: What a parser or the builder made.
        backends: Ids in order of preference, ``"AcmeNpu:1"`` for a device, ``"AcmeNpu?"`` if it may be absent, or backends
            themselves. Default: those that the registry prefers.
        shapes: Sizes of symbolic dimensions, ``{"N": 4}``, or whole shapes by input, ``{"image": (4, 3, 224, 224)}``.
        values: Inputs that are known beforehand; they become constants.
        require: Backend by layer name, glob over names, or kind.
        forbid: The same, with one backend or several.
        fallback: False: every layer runs on the first backend, apart from required ones, and a backend that raises is an error.
        options: Options by backend id.
        reduce_float: ``"float16"`` or ``"bfloat16"``: convert the layers whose backend asks for it.
        integer_layers: Turn dequantize - compute - quantize into integer layers, whose results differ by at most 1 in the last
            place, where a backend takes them; False: execute literally. Default: for backends that are faster so.
        debug: Called with (layer, index, array) for every tensor on its way; True logs a line for each.
        passes: False: only what is needed to run at all.
        tuned: Compute layers in the ways that `dovetail tune` found fastest on this machine, where it was run.
        threads: CPU threads that the network will have, for these; default: all usable cores.
        registry: Where ids are looked up; default: that of the process.
        progress: Called with (backend id, fraction, what) while backends compile; what it raises ends the optimization.
        reparse: Makes the network again, as from its file. The network itself is then optimized, not a copy, and its weights
            are in memory once: nobody else may need it. It is made again where the result is asked to plan anew.
        limits: How much it may take; the same when the result is asked to plan anew.
        shared: The constants of other results of this network, for other sizes: equal ones become the same arrays.

    Raises:
        GraphError: The network is wrong, or sizes or values are missing (`SHAPE_UNKNOWN`, `VALUE_REQUIRED`).
        BackendUnavailableError: A backend that was asked for is not ready.
        OptionError: A name in one of the arguments means nothing, or its value does not fit.
        PlacementError: Layers have no backend; all are listed, with what each backend said.
        BackendError: A backend broke its contract.
        LimitError: It asks for more than its limits allow (`LIMIT_EXCEEDED`), or takes longer (`TIMEOUT`).
    """
    require_network(network)
    dtype = _reduced_dtype(reduce_float)
    ready, absent = resolve(backends, options, registry)
    requests = [*(one.request for one in ready), *(one.request for one in absent)]
    wishes = Wishes(network, requests, require, forbid, fallback=fallback)
    assigner = Assigner(ready, wishes)
    context = Compilation(
        assigner,
        shapes=shapes or {},
        values=values or {},
        reduce_float=dtype,
        computing_integers=_computing_integers(network, assigner, integer_layers if passes else bool(integer_layers)),
        debug=bool(debug),
        fallback=fallback,
        passes=passes,
        chooser=_chooser(tuned, threads) if passes else None,
        shared=shared,
    )
    source: Callable[[], Graph] = reparse or (lambda: network)
    name, declared = network.name, _Declared.of(network)
    with listening(progress), limited(limits) as budget:
        check_graph(budget, network)
        graph = network.copy() if reparse is None else network
        counts = run_pipeline(graph, context)

    def again(new_shapes: Shapes | None, new_values: Values | None) -> OptimizedNetwork:
        with limited(budget.limits, joining=True):
            return optimize(
                source(),
                backends,
                shapes=shapes if new_shapes is None else new_shapes,
                values={**(values or {}), **(new_values or {})},
                require=require,
                forbid=forbid,
                fallback=fallback,
                options=options,
                reduce_float=dtype,
                integer_layers=integer_layers,
                debug=debug,
                passes=passes,
                tuned=tuned,
                threads=threads,
                registry=registry,
                shared=shared,
            )

    order = graph.topological_order()
    homes = context.assigner.assigned
    parts = partition(order, homes)
    partition_of = {layer.name: number for number, (_, layers) in enumerate(parts) for layer in layers}
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
            tuple(_layer_report(layer, context, partition_of) for layer in watched(order) if _is_reported(layer)),
            tuple(
                PartitionReport(number, str(home.request.id), home.request.device, tuple(layer.name for layer in layers))
                for number, (home, layers) in enumerate(parts)
            ),
            tuple(copies.reports),
            tuple(counts),
            tuple(absent),
            declared.folded(order),
        ),
        name=name,
        inputs=tuple(declared.inputs[layer.name] for layer in graph.inputs),
        outputs=tuple(declared.output(layer) for layer in graph.outputs),
        debug=_log_tensor if debug is True else debug or None,
        _source=source,
        _again=again,
    )


def require_network(given: object) -> None:
    """Refuse what is no network.

    Raises:
        OptionError: It is not.
    """
    if not isinstance(given, Graph):
        raise OptionError(
            f"{type(given).__name__!r} is not a network",
            code=ErrorCode.OPTION_INVALID,
            hint="give a dovetail.Network, such as dovetail.parse(path) returns, or to dovetail.load the path of a model file",
        )


def _reduced_dtype(wanted: str | DType | None) -> DType | None:
    if wanted is None:
        return None
    label = wanted.label if isinstance(wanted, DType) else wanted
    if label not in _REDUCED:
        raise OptionError(
            f"reduce_float is {label!r}",
            code=ErrorCode.OPTION_INVALID,
            hint=f"give {' or '.join(map(repr, _REDUCED))}, or leave it out",
        )
    return _REDUCED[label]


def _is_reported(layer: Layer) -> bool:
    return is_workload(layer) or isinstance(layer.descriptor, Debug)


def _computing_integers(network: Graph, assigner: Assigner, wanted: bool | None) -> Sequence[Assigned]:
    """Return the backends for which integer layers are made: those that want them, all or none."""
    if wanted is False or not any(isinstance(layer.descriptor, Quantize) for layer in network.layers):
        return ()
    return assigner.candidates if wanted else assigner.able("integers")


def _chooser(tuned: bool | Chooser, threads: int | None) -> Chooser | None:
    if tuned is True:
        from .tuned_choices import StoredChoices, is_in_use

        return StoredChoices(threads) if is_in_use() else None
    return tuned or None


def _layer_report(layer: Layer, context: Compilation, partition_of: dict[str, int]) -> LayerReport:
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
    )


def _reason(layer: Layer, home: Assigned | None, refusals: Sequence[Refusal], assigner: Assigner) -> str:
    if home is None:
        return "core"
    if assigner.wishes.required(layer) is not None:
        return "required"
    if refusals:
        return "fallback"
    return "private" if assigner.is_private(layer) else "first choice"


class _Declared(NamedTuple):
    """What the original network says, which may be gone when it is asked for.

    Attributes:
        inputs: By name, sizes as symbols where they are open.
        outputs: By name; None where it is not known before sizes are.
        working: Name and sources of each layer that computes.
    """

    inputs: Mapping[str, TensorSpec]
    outputs: Mapping[str, TensorInfo | None]
    working: Sequence[tuple[str, tuple[str, ...]]]

    @classmethod
    def of(cls, network: Graph) -> _Declared:
        return cls(
            {layer.name: _spec(layer.name, layer.output.known_info) for layer in network.inputs},
            {layer.name: layer.inputs[0].info if layer.inputs else None for layer in network.outputs},
            [(layer.name, layer.sources) for layer in network if is_workload(layer)],
        )

    def output(self, layer: Layer) -> TensorSpec:
        return _spec(layer.name, self.outputs[layer.name] or layer.inputs[0].info)

    def folded(self, order: Sequence[Layer]) -> tuple[str, ...]:
        """Name the layers of which nothing computes any more."""
        several = {id(layer.sources): layer.sources for layer in order if not isinstance(layer.descriptor, Constant)}
        kept = {name for sources in several.values() for name in sources}  # many layers may stand for the whole of a part
        return tuple(name for name, sources in self.working if not kept.issuperset(sources))


def _spec(name: str, info: Any) -> TensorSpec:
    return TensorSpec(name, info.shape, info.dtype, info.quantization)


def _log_tensor(name: str, index: int, array: Array) -> None:
    if array.size and array.dtype.kind in "fiu":
        _log.info(
            "%s:%d %s %s min %g max %g mean %g", name, index, array.dtype, array.shape, array.min(), array.max(), array.mean()
        )
    else:
        _log.info("%s:%d %s %s", name, index, array.dtype, array.shape)
