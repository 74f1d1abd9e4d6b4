"""Level 3: whole graphs, against NumPy in float64; optimized and fused against layer by layer."""

from __future__ import annotations

from dovetail import PlacementError

from ..checks import check
from ..endings import ConformanceFailure, NotApplicable
from ..subject import Subject
from ..trial_graphs import Judge, first_difference, random_graphs, run, same_bits

GRAPHS = 40


@check(level=3, title="computes random graphs, layer by layer", seconds=300)
def graphs_are_right(subject: Subject) -> None:
    """Run random graphs without any rewriting, three times with different inputs.

    Troubleshooting: each layer alone was right at level 2. Look at what layers share: an output
    with several readers, a layer that overwrites an input which another one still reads,
    `dovetail_alias` permissions that are not true, strides taken from another tensor, state that is
    kept in the backend instead of in the workload.
    """
    _compare(subject, "mixed", passes=False)


@check(level=3, title="computes random graphs as the optimizer rewrites them", seconds=300)
def optimized_graphs_are_right(subject: Subject) -> None:
    """Run the same graphs with all passes, and with whatever `optimize_subgraph` makes of them.

    Troubleshooting: if the failure says that the graph is right layer by layer, then the fault is
    in a layer with a fused activation or a folded operand that `supports` accepted, or in
    `optimize_subgraph`: compare the parts that it names with `dovetail explain`, and check the
    order of the replacement's inputs and outputs.
    """
    _compare(subject, "mixed", passes=True)


@check(level=3, title="computes deep chains", seconds=300)
def deep_chains_are_right(subject: Subject) -> None:
    """Run chains of up to 40 layers.

    Troubleshooting: a chain keeps two tensors alive that take turns in memory. A workload that
    reads its input after it wrote its output, or that keeps a pointer from its first run, is right
    alone and wrong here.
    """
    _compare(subject, "deep", passes=True, count=6)


@check(level=3, title="computes branches that part and join", seconds=300)
def diamonds_are_right(subject: Subject) -> None:
    """Run graphs of branches that begin at one tensor and are added or joined.

    Troubleshooting: the tensor where branches part is read twice. A part given to
    `optimize_subgraph` may have an output that is also read inside the part: it is listed in
    `view.outputs`, and the replacement must provide it.
    """
    _compare(subject, "diamond", passes=True, count=8)


def _compare(subject: Subject, form: str, *, passes: bool, count: int = GRAPHS) -> None:
    for graph in random_graphs(subject, f"graphs_{form}", count, form=form):
        judge = Judge(graph, "the graph as optimized" if passes else "the graph layer by layer")
        net = subject.load(graph.network, passes=passes)
        for number in range(3):
            feeds = graph.feeds if number == 0 else graph.more_feeds(subject.rng(f"{graph.network.name}/feeds{number}"))
            problem = judge.problem(run(net, feeds), feeds)
            if problem and passes:
                plain = subject.load(graph.network, passes=False)
                is_right = not judge.problem(run(plain, feeds), feeds)
                plain.unload()
                told = "it is right layer by layer" if is_right else "it is wrong layer by layer too"
                raise ConformanceFailure(f"the graph as optimized ({told}): {problem}")
            if problem:
                raise ConformanceFailure(f"{judge.title}: {problem}")
        net.unload()


@check(level=3, title="gives the same bits each time")
def graphs_are_repeatable(subject: Subject) -> None:
    """Run graphs five times with the same inputs, in two loaded networks.

    Only a backend that says that it is deterministic is checked.

    Troubleshooting: sums must be formed in an order that does not depend on threads or on
    addresses; results must not depend on the alignment of arrays. A backend that cannot promise
    this says `Capabilities(deterministic=False)`.
    """
    if not subject.backend.capabilities().deterministic:
        raise NotApplicable("it says that it is not deterministic")
    for graph in random_graphs(subject, "repeatable", 6):
        nets = [subject.load(graph.network) for _ in range(2)]
        first = run(nets[0], graph.feeds)
        for number in range(5):
            again = run(nets[number % 2], graph.feeds)
            name = same_bits(first, again)
            if name:
                raise ConformanceFailure(
                    f"output {name!r} of graph {graph.network.name!r} differs from run to run, first at "
                    f"{first_difference(first[name], again[name])}; the backend says that it is deterministic"
                )
        for net in nets:
            net.unload()


@check(level=3, title="plans again when the batch changes")
def symbolic_batch_is_planned_again(subject: Subject) -> None:
    """Load networks whose batch is open, and run them with 2, 1, 3 and again 2.

    Troubleshooting: nothing of a layer's sizes may be kept across plans; `supports` is asked anew
    for each size, and a workload is created for the sizes of its own layer. A batch that the
    backend refuses is no failure, as long as it takes two.
    """
    tried = 0
    for graph in random_graphs(subject, "batch", 6, form="batchwise"):
        net = subject.load(graph.symbolic())
        judge = Judge(graph, "the graph with an open batch")
        sizes = []
        for size in (2, 1, 3, 2):
            feeds = {
                name: value[:size] if size <= len(value) else value[[i % len(value) for i in range(size)]]
                for name, value in graph.feeds.items()
            }
            try:
                results = run(net, feeds)
            except PlacementError:
                continue  # not with this batch
            judge.check(results, feeds)
            sizes.append(size)
        tried += len(set(sizes)) > 1
        net.unload()
    if not tried:
        raise NotApplicable("it takes no graph with two different batches")
