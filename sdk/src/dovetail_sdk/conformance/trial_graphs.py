"""Which graphs a backend is tried on, and how what came out is judged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from dovetail import Layer, LoadedNetwork

from .cases import Array
from .drawing import Accepts, RandomGraph, Style
from .endings import ConformanceFailure, NotApplicable
from .evaluation import complaint, evaluate
from .random_graphs import draw, known_styles, single_layer
from .subject import RUN_SECONDS, Subject

_STYLES: dict[int, tuple[object, list[tuple[Style, tuple[str, ...]]]]] = {}


def styles_of(subject: Subject) -> list[tuple[Style, tuple[str, ...]]]:
    """Return the styles in which a backend takes layers, with their blocks' names, richest first.

    Raises:
        NotApplicable: It takes none of the layers that graphs are made of.
    """
    key = id(subject.backend)
    if key not in _STYLES or _STYLES[key][0] is not subject.backend:
        _STYLES.clear()  # the answers of one backend at a time; the entry keeps the backend, so that its id stays its own
        _STYLES[key] = (subject.backend, known_styles(accepts(subject)))
    styles = _STYLES[key][1]
    if not styles:
        raise NotApplicable("it takes none of the layers that random graphs are made of")
    return styles


def accepts(subject: Subject) -> _Accepts:
    """Return a function that asks the backend about a layer."""
    return _Accepts(subject)


class _Accepts:
    def __init__(self, subject: Subject) -> None:
        self.subject = subject

    def __call__(self, layer: Layer) -> bool:
        return self.subject.ask(layer).supported


def draw_for(
    subject: Subject, style: Style, random: np.random.Generator, *, form: str = "mixed", wanted: Accepts | None = None
) -> RandomGraph:
    """Draw a graph of wanted layers, by default of those that the backend takes."""
    graph = draw(style, wanted or accepts(subject), random, form=form)
    graph.deviations = subject.deviations_of
    return graph


def random_graphs(
    subject: Subject, name: str, count: int, *, form: str = "mixed", style: Style | None = None
) -> Iterator[RandomGraph]:
    """Draw graphs that a backend takes whole, in one or all of its styles in turn; none is empty.

    Raises:
        NotApplicable: It takes too little for any graph of this form.
    """
    styles = [one for one, _ in styles_of(subject)] if style is None else [style]
    drawn = 0
    for number in range(3 * count):
        if drawn == count:
            return
        subject.require_time(f"{count - drawn} of {count} graphs")
        chosen = styles[number % len(styles)]
        graph = draw_for(subject, chosen, subject.rng(f"{name}/{number}"), form=form)
        if not graph.layers:
            continue
        graph.network.name = f"{name}_{number}"
        subject.step(f"graph {number} ({chosen}, {len(graph.layers)} layers)")
        subject.count(run=1)
        drawn += 1
        yield graph
    if not drawn:
        raise NotApplicable(f"no {form} graph can be made of the layers that it takes")


def single_layers(subject: Subject) -> Iterator[RandomGraph]:
    """Make a network of one layer for each kind of layer in each style that the backend takes.

    Raises:
        NotApplicable: It takes none.
    """
    for style, blocks in styles_of(subject):
        for block in blocks:
            graph = single_layer(style, block, accepts(subject), subject.rng(f"single/{style}/{block}"))
            if graph is not None:
                graph.deviations = subject.deviations_of
                graph.network.name = f"single_{block}"
                subject.step(f"one {block} of {style}")
                subject.count(run=1)
                yield graph


def one_graph(subject: Subject, name: str) -> RandomGraph:
    """Return a graph of several layers, in the richest style."""
    return max(random_graphs(subject, name, 4), key=lambda graph: len(graph.layers))


@dataclass(frozen=True, slots=True)
class Judge:
    """Compares the results of a graph with what they must be.

    Attributes:
        graph: What was run.
        title: How it is told in a failure.
    """

    graph: RandomGraph
    title: str

    def check(self, results: Mapping[str, Array], feeds: Mapping[str, Array] | None = None) -> None:
        """Compare every output.

        Raises:
            ConformanceFailure: One is wrong; names the output, the layer that makes it, and the
                graph.
        """
        problem = self.problem(results, feeds)
        if problem:
            raise ConformanceFailure(f"{self.title}: {problem}", layers=describe(self.graph))

    def problem(self, results: Mapping[str, Array], feeds: Mapping[str, Array] | None = None) -> str:
        """Say what is wrong, or nothing."""
        expected = evaluate(self.graph.network, self.graph.feeds if feeds is None else feeds, self.graph.deviations)
        for name, estimate in expected.items():
            source = self.graph.network.layer(name).inputs[0].source
            assert source is not None
            wrong = complaint(results[name], estimate, source.known_info)
            if wrong:
                return (
                    f"output {name!r}, made by {source.layer.kind} {source.layer.name!r}, {wrong}\n"
                    f"graph {self.graph.network.name!r} of {self.graph.style}:\n{describe(self.graph)}"
                )
        return ""


def describe(graph: RandomGraph) -> str:
    """List the layers of a graph, one a line."""
    lines = []
    for name in graph.layers:
        layer = graph.network.layer(name)
        sources = ", ".join("none" if slot.source is None else slot.source.name for slot in layer.inputs)
        lines.append(f"  {name} = {layer.kind.removeprefix('dovetail.')}({sources}) -> {layer.output_infos[0]}")
    return "\n".join(lines)


def run(net: LoadedNetwork, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Run a network, with a deadline so that a device which hangs is told apart from a slow one."""
    results: dict[str, Array] = net.run(dict(feeds), timeout=RUN_SECONDS)
    return results


def same_bits(a: Mapping[str, Array], b: Mapping[str, Array]) -> str:
    """Return the name of the first output whose bytes differ, or nothing."""
    return next((name for name in a if a[name].tobytes() != b[name].tobytes()), "")


def first_difference(a: Array, b: Array) -> list[int]:
    """Return the index of the first element that differs."""
    different = np.atleast_1d(a.view(np.uint8).reshape(*a.shape, -1) != b.view(np.uint8).reshape(*b.shape, -1))
    return [int(i) for i in np.argwhere(different)[0][: a.ndim]]
