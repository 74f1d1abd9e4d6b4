"""Level 3: graphs shared with another backend, copies between memories, the placement report."""

from __future__ import annotations

import json

import numpy as np

from dovetail import HOST, Device, LoadedNetwork, PlacementError
from dovetail.optimizer.assignment import is_workload

from ..checks import check
from ..drawing import RandomGraph, Style
from ..endings import ConformanceFailure, NotApplicable
from ..numpy_backend import NAME, NumpyBackend
from ..random_graphs import DTYPES
from ..subject import Subject
from ..trial_graphs import Judge, accepts, describe, draw_for, random_graphs, run, styles_of

GRAPHS = 12


@check(level=3, title="takes turns with another backend", seconds=300)
def alternation_is_right(subject: Subject) -> None:
    """Require every other layer, by chance, from the kit's NumPy backend.

    It computes in the same memory, and in memory of its own.

    Troubleshooting: a tensor may come from another backend, in host memory that is aligned to its
    element only. Where the backend has memory of its own, `create_copy` must copy both ways, in the
    layout that the core knows (C order), also for tensors at an offset in an allocation; an
    asynchronous backend must be waited for through its queue.
    """
    shared = 0
    for number, graph in enumerate(random_graphs(subject, "alternation", GRAPHS)):
        random = subject.rng(f"{graph.network.name}/turns")
        theirs = [name for name in graph.layers if random.random() < 0.5]
        other = NumpyBackend(private=bool(number % 2))
        for passes in (False, True):
            net = subject.load(
                graph.network, extra_backends=[other], fallback=True, passes=passes, require=dict.fromkeys(theirs, NAME)
            )
            for feeds in (graph.feeds, graph.more_feeds(random)):
                Judge(graph, f"the graph shared with NumPy (layers {', '.join(theirs) or 'none'})").check(
                    run(net, feeds), feeds
                )
            _check_report(subject, graph, net)
            places = {row.backend for row in net.placement.layers}
            shared += {subject.id, NAME} <= places
            net.unload()
    if not shared:
        raise NotApplicable("no graph was shared: each had a single layer")


@check(level=3, title="leaves what it refuses to another backend, with a reason")
def refused_layers_fall_back(subject: Subject) -> None:
    """Run graphs of which the backend refuses some layers: NumPy runs these, the report says why.

    Troubleshooting: `supports` must refuse what cannot be run, with a stable code and a sentence;
    the core then places the layer on the next backend. A layer that was given back by
    `optimize_subgraph` needs a reason as well.
    """
    other = NumpyBackend()
    fell_back = 0
    styles = [style for style, _ in styles_of(subject)]
    strange = [Style(dtype, None, 8) for dtype in DTYPES if all(style.dtype is not dtype for style in styles)]
    tried = [*styles, *(Style(style.dtype, style.layout, 5, style.batch) for style in styles[:2]), *strange]
    for number in range(2 * GRAPHS):
        graph = draw_for(
            subject,
            tried[number % len(tried)],
            subject.rng(f"refused/{number}"),
            wanted=lambda layer: other.supports(layer, None, Device()).supported,
        )
        if not graph.layers:
            continue
        graph.network.name = f"refused_{number}"
        subject.step(f"graph {number} ({graph.style})")
        net = subject.load(graph.network, extra_backends=[other], fallback=True)
        Judge(graph, "the graph with layers that it refuses").check(run(net, graph.feeds))
        _check_report(subject, graph, net)
        fell_back += len(net.placement.fallbacks)
        subject.count(run=sum(row.backend == subject.id for row in net.placement.layers), refused=len(net.placement.fallbacks))
        refused = [layer for layer in graph.network if is_workload(layer) and not accepts(subject)(layer)]
        net.unload()
        if refused:
            _check_no_silent_fallback(subject, graph, [layer.name for layer in refused])
    if not fell_back:
        raise NotApplicable("it refuses none of the layers that random graphs are made of")


def _check_no_silent_fallback(subject: Subject, graph: RandomGraph, refused: list[str]) -> None:
    try:
        subject.load(graph.network, passes=False).unload()
    except PlacementError as error:
        told = error.details.get("refusals", {})
        missing = [name for name in refused if name not in told]
        if missing:
            raise ConformanceFailure(f"refused layers {missing} are not told of: {error}", told=list(told)) from error
        return
    raise ConformanceFailure(
        f"without another backend the network loads although supports() refuses {', '.join(refused)}", layers=describe(graph)
    )


def _check_report(subject: Subject, graph: RandomGraph, net: LoadedNetwork) -> None:
    """Check the placement report of a network.

    Every layer has a row or was folded, every fallback has a code and a text, every copy joins two
    different memories.
    """
    placement = net.placement
    covered = {name for row in placement.layers for name in row.sources} | set(placement.folded)
    outputs = {slot.source.layer for layer in graph.network.outputs for slot in layer.inputs if slot.source is not None}
    lost = [layer.name for layer in outputs if is_workload(layer) and layer.name not in covered]
    if lost:
        raise ConformanceFailure(f"the placement report says nothing of {', '.join(lost)}:\n{placement.explain()}")
    for row in placement.layers:
        if row.reason == "fallback" and not row.refusals:
            raise ConformanceFailure(f"layer {row.name!r} fell back and nobody says why:\n{placement.explain()}")
        for refusal in row.refusals:
            if not refusal.code.strip() or not refusal.reason.strip() or refusal.code == "contract":
                raise ConformanceFailure(f"the refusal of layer {row.name!r} has no code and text of its own: {refusal}")
    json.loads(placement.to_json())
    domains = set(subject.backend.memory_domains(subject.target.device))
    for copy in placement.copies:
        if copy.source == copy.target or (domains.isdisjoint((copy.source, copy.target)) and copy.backend == subject.id):
            raise ConformanceFailure(f"copy {copy.name!r} from {copy.source} to {copy.target} makes no sense")


@check(level=3, title="copies tensors between its memory and the host's unchanged")
def copies_are_exact(subject: Subject) -> None:
    """Send tensors through the backend's memory and back between NumPy layers; compare bytes.

    Where the backend imports the host's memory, tensors are handed over in place.

    Troubleshooting: look at `create_copy`: direction, number of bytes (`info.nbytes`, not the
    number of elements), offsets (`byte_offset` of the tensor in device memory), and that the copy
    is enqueued on the queue of the run. In imported memory: what a step wrote is visible to the
    host when the wait ends, and an address is of another tensor after it.
    """
    domains = {domain for domain in subject.backend.memory_domains(subject.target.device) if domain != HOST}
    if not domains:
        raise NotApplicable("it works in host memory, and nothing is copied")
    imports = HOST in subject.backend.importable_domains(subject.target.device)
    crossed = 0
    for graph in random_graphs(subject, "copies", 6):
        outer = NumpyBackend()
        ends = {slot.source.layer.name for layer in graph.network.outputs for slot in layer.inputs if slot.source is not None}
        theirs = sorted(ends & set(graph.layers))
        net = subject.load(
            graph.network, extra_backends=[outer], fallback=True, passes=False, require=dict.fromkeys(theirs, NAME)
        )
        into = [copy for copy in net.placement.copies if copy.target in domains]
        back = [copy for copy in net.placement.copies if copy.source in domains]
        crossed += len(into) + len(back)
        mine = any(row.backend == subject.id for row in net.placement.layers)
        if mine and not into and not imports:
            raise ConformanceFailure(
                f"layers run on {subject.id} in its own memory, and nothing was copied there:\n{net.placement.explain()}"
            )
        for feeds in (graph.feeds, {name: np.ascontiguousarray(value[::-1]) for name, value in graph.feeds.items()}):
            Judge(graph, "the graph that goes in and out of its memory").check(run(net, feeds), feeds)
        net.unload()
    if not crossed and not imports:
        raise NotApplicable("no graph crossed between memories")
