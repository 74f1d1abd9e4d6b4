"""Level 5: how fast, beside the backend that serves as the measure; a report, never a failure."""

from __future__ import annotations

import statistics
import time
from itertools import chain

from dovetail import BackendError, IBackend, LoadedNetwork
from dovetail.discovery.registry import default_registry

from ..checks import check
from ..drawing import RandomGraph
from ..endings import NotApplicable
from ..random_graphs import large_chain
from ..subject import Subject
from ..trial_graphs import accepts, random_graphs, run, single_layers, styles_of

MEASURE = "CpuRef"
"""Id of the backend that others are compared with, where it is installed."""
_ROUNDS = 15


@check(level=5, title="is compared with CpuRef, kind by kind", seconds=600)
def kinds_are_timed(subject: Subject) -> None:
    """Time a network of one layer for each kind and element type on both backends, alternating.

    Troubleshooting: this reports and never fails. A small layer shows what calling the backend
    costs, not what it computes: compare with the graphs.
    """
    measure = _measure(subject)
    for graph in single_layers(subject):
        layer = graph.network.layer(graph.layers[0])
        _report(subject, measure, graph, f"{layer.kind.removeprefix('dovetail.')} of {layer.output_infos[0]}")


@check(level=5, title="is compared with CpuRef on whole graphs", seconds=600)
def graphs_are_timed(subject: Subject) -> None:
    """Time random graphs on both backends, alternating.

    Troubleshooting: this reports and never fails. If a graph is slower than the sum of its layers,
    look at copies and at waits between backends: `dovetail explain`.
    """
    measure = _measure(subject)
    large = [large_chain(style, accepts(subject), subject.rng(f"performance/{style}"), 64) for style, _ in styles_of(subject)]
    for graph in chain(random_graphs(subject, "performance", 6), (graph for graph in large if graph.layers)):
        _report(
            subject,
            measure,
            graph,
            f"a graph of {len(graph.layers)} layers ({graph.style}, {_elements(graph)} elements at most)",
        )


def _elements(graph: RandomGraph) -> int:
    return max(slot.known_info.elements for name in graph.layers for slot in graph.network.layer(name).outputs)


def _measure(subject: Subject) -> IBackend:
    if subject.id == MEASURE:
        raise NotApplicable(f"it is {MEASURE}")
    try:
        return default_registry().get(MEASURE)
    except BackendError as error:
        raise NotApplicable(f"{MEASURE} is not installed: {error.message}") from error


def _report(subject: Subject, measure: IBackend, graph: RandomGraph, what: str) -> None:
    mine = subject.load(graph.network)
    try:
        theirs = subject.runtime().load(graph.network, optimize={"backends": [measure], "oracle": False})
    except BackendError as error:
        subject.note(f"{what}: {MEASURE} cannot run it: {error.message}")
        return
    ours, reference = _interleaved(mine, theirs, graph)
    mine.unload()
    theirs.unload()
    subject.note(f"{what}: {ours * 1e6:.0f} µs, {MEASURE} {reference * 1e6:.0f} µs, {reference / ours:.2f} times as fast")


def _interleaved(mine: LoadedNetwork, theirs: LoadedNetwork, graph: RandomGraph) -> tuple[float, float]:
    """Return the median seconds of each; they alternate, so that other load meets both."""
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(_ROUNDS + 2):
        for net, seconds in zip((mine, theirs), times, strict=True):
            began = time.perf_counter()
            run(net, graph.feeds)
            if number >= 2:  # the first ones allocate
                seconds.append(time.perf_counter() - began)
    return statistics.median(times[0]), statistics.median(times[1])
