"""Level 4: many threads, deadlines, history, networks that come and go, errors that come late."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

import numpy as np

from dovetail import DovetailError, ErrorCode, LoadedNetwork, RunError, RunTimeoutError

from ..cases import Array
from ..checks import check
from ..drawing import RandomGraph
from ..endings import ConformanceFailure, NotApplicable
from ..random_graphs import large_chain
from ..subject import RUN_SECONDS, Subject
from ..trial_graphs import (
    Judge,
    accepts,
    describe,
    first_difference,
    one_graph,
    random_graphs,
    run,
    same_bits,
    single_layers,
    styles_of,
)

_THREADS = 8
_RUNS = 25
_GRACE = 0.5
"""Seconds after its deadline by which a run must end: 0.2 by contract, more for a busy machine."""


class _Expected:
    """What runs with certain feeds give in peace, to compare with what they give under stress."""

    def __init__(self, subject: Subject, graph: RandomGraph, net: LoadedNetwork, count: int) -> None:
        random = subject.rng(f"{graph.network.name}/expected")
        self.graph, self.is_exact = graph, subject.backend.capabilities().deterministic
        self.feeds = [graph.feeds, *(graph.more_feeds(random) for _ in range(count - 1))]
        self.results = [run(net, feeds) for feeds in self.feeds]
        for feeds, results in zip(self.feeds, self.results, strict=True):
            Judge(graph, "a run in peace").check(results, feeds)

    def check(self, number: int, results: Mapping[str, Array], title: str) -> None:
        """Compare.

        Raises:
            ConformanceFailure: They differ: in a bit, or for a backend that is not deterministic by
                more than rounding.
        """
        if not self.is_exact:
            return Judge(self.graph, title).check(results, self.feeds[number])
        name = same_bits(self.results[number], results)
        if name:
            wrong = Judge(self.graph, title).problem(results, self.feeds[number])
            at = first_difference(self.results[number][name], results[name])
            told = f"and it is wrong: {wrong}" if wrong else f"although it is right\n{describe(self.graph)}"
            raise ConformanceFailure(f"{title}: output {name!r} has other bits than alone, first at {at}, {told}")
        return None


@check(level=4, title="gives the same bits from eight threads as from one", seconds=300)
def threads_do_not_disturb_each_other(subject: Subject) -> None:
    """Run one network from eight threads at once, 25 times each, with different inputs.

    Troubleshooting: the state of a workload is read-only while it runs; what a run needs for itself
    goes into `workspace` or what `create_run` makes. A backend that can do only one run at a time
    sets `concurrency` to DOVETAIL_CONCURRENCY_NETWORK or _DEVICE, and the core takes a lock.
    """
    for graph in random_graphs(subject, "threads", 4):
        net = subject.load(graph.network)
        expected = _Expected(subject, graph, net, _THREADS)
        began = time.monotonic()

        def body(number: int, net: LoadedNetwork = net, expected: _Expected = expected, began: float = began) -> None:
            for _ in range(_RUNS):
                expected.check(number, run(net, expected.feeds[number]), f"{_THREADS} threads at once")
                if time.monotonic() - began > 20:
                    return

        _in_threads(_THREADS, body)
        net.unload()


def _in_threads(count: int, body: Callable[[int], None], seconds: float = 120) -> None:
    """Call a function with 0, 1, ... on threads that begin together; raise what one raised."""
    errors: list[BaseException] = []
    gate = threading.Barrier(count)

    def guarded(number: int) -> None:
        try:
            gate.wait()
            body(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    until = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(until - time.monotonic(), 0))
    if errors:
        raise errors[0]
    if any(thread.is_alive() for thread in threads):
        raise ConformanceFailure(f"after {seconds:g} s some of {count} threads still wait for their run to end")


@check(level=4, title="does not remember earlier runs")
def history_does_not_matter(subject: Subject) -> None:
    """Run with inputs A, with NaN or extremes, then A: both results of A must have the same bits.

    Troubleshooting: something of one run is left for the next one: an accumulator that is not
    cleared, a cache keyed by address, scratch memory that is read before it was written, a tensor
    in device memory that is only partly overwritten.
    """
    graphs = [*single_layers(subject), *random_graphs(subject, "history", 6)]
    for graph in graphs:
        net = subject.load(graph.network)
        expected = _Expected(subject, graph, net, 2)
        for poison in (_extreme(graph.feeds, low=False), _extreme(graph.feeds, low=True)):
            run(net, poison)
            expected.check(0, run(net, expected.feeds[0]), "a run after one with NaN or extreme values")
        expected.check(1, run(net, expected.feeds[1]), "a run after another one")
        expected.check(0, run(net, expected.feeds[0]), "a run after another one")
        net.unload()


def _extreme(feeds: Mapping[str, Array], *, low: bool) -> dict[str, Array]:
    def value(dtype: np.dtype[Any]) -> float:
        if dtype.kind == "f":
            return -np.inf if low else np.nan
        return np.iinfo(dtype).min if low else np.iinfo(dtype).max

    return {name: np.full_like(array, value(array.dtype)) for name, array in feeds.items()}


@check(level=4, title="ends a run soon after its deadline", seconds=300)
def deadlines_are_kept(subject: Subject) -> None:
    """Run long chains with deadlines that pass at start, early, half-way and late; then to the end.

    Troubleshooting: a kernel that takes long must poll `host->is_cancelled(call)` every millisecond
    or so and return DOVETAIL_CANCELLED; an asynchronous backend must give up what has not started
    when `queue_abort` is called, and a `queue_wait` afterwards must end soon. A run that was given
    up must leave nothing behind.
    """
    graph, net, seconds = _slow_chain(subject)
    expected = _whole_run(net, graph)
    passed = 0
    for part in (0.0, 0.1, 0.25, 0.5, 0.75):
        timeout = max(seconds * part, 1e-4)
        late = min(_overrun(net, graph, timeout) for _ in range(2))  # once may be the machine's fault
        passed += late >= 0
        if late > _GRACE:
            raise ConformanceFailure(
                f"a run with a deadline of {timeout * 1e3:.1f} ms ended {late:.2f} s after it, allowed are {_GRACE:g} s; "
                f"without a deadline it takes {seconds:.2f} s\n{describe(graph)}",
                late=late,
                timeout=timeout,
            )
        result = _whole_run(net, graph)
        if subject.backend.capabilities().deterministic and same_bits(expected, result):
            raise ConformanceFailure(f"after a run that missed its deadline the results differ\n{describe(graph)}")
    if not passed:
        subject.note(f"no deadline passed during a run of {seconds * 1e3:.1f} ms: nothing slow enough could be made")


def _slow_chain(subject: Subject) -> tuple[RandomGraph, LoadedNetwork, float]:
    """Return a chain that takes 30 ms or more, or else the slowest one, and how long it takes."""
    style = styles_of(subject)[0][0]
    found: tuple[RandomGraph, LoadedNetwork, float] | None = None
    for batch in (style.batch, 16, 128, 1024):
        graph = large_chain(style, accepts(subject), subject.rng(f"deadline/{batch}"), batch)
        if not graph.layers:
            break
        subject.step(f"a chain of {len(graph.layers)} layers, batch {batch}")
        net = subject.load(graph.network)
        net.run(graph.feeds, timeout=RUN_SECONDS)
        began = time.monotonic()
        net.run(graph.feeds, timeout=RUN_SECONDS)
        found = graph, net, time.monotonic() - began
        if found[2] > 0.03:
            break
    if found is None:
        raise NotApplicable("no chain can be made of the layers that it takes")
    return found


def _whole_run(net: LoadedNetwork, graph: RandomGraph) -> dict[str, Array]:
    results: dict[str, Array] = net.run(graph.feeds, timeout=RUN_SECONDS)
    return results


def _overrun(net: LoadedNetwork, graph: RandomGraph, timeout: float) -> float:
    """Return by how many seconds a run exceeded its deadline; -1 if it was done before."""
    began = time.monotonic()
    try:
        net.run(graph.feeds, timeout=timeout)
    except RunTimeoutError:
        return max(time.monotonic() - began - timeout, 0.0)
    late = time.monotonic() - began - timeout
    return late if late > _GRACE else -1.0


@check(level=4, title="runs two networks alternating")
def networks_do_not_disturb_each_other(subject: Subject) -> None:
    """Load two networks, the first twice; run them alternating, then from two threads at once.

    Troubleshooting: what belongs to one network is kept in the backend, in its context or in a
    global: tables keyed by the name of a layer, or a queue that is shared without a lock.
    """
    # Of one style, so that layers of one name differ in what they compute.
    graphs = list(random_graphs(subject, "interleaved", 6, style=styles_of(subject)[0][0]))
    first, second = sorted(graphs, key=lambda graph: len(graph.layers))[-2:] if len(graphs) > 1 else graphs * 2
    nets = [subject.load(first.network), subject.load(second.network), subject.load(first.network)]
    expected = [_Expected(subject, graph, net, 2) for graph, net in zip((first, second, first), nets, strict=True)]
    for turn in range(12):
        number = turn % 3
        feeds = expected[number].feeds[turn % 2]
        expected[number].check(turn % 2, run(nets[number], feeds), "networks alternating")

    def body(number: int) -> None:
        for turn in range(20):
            feeds = expected[number].feeds[turn % 2]
            expected[number].check(turn % 2, run(nets[number], feeds), "three networks at once")

    _in_threads(3, body)
    nets[0].unload()
    for number in (1, 2):
        expected[number].check(0, run(nets[number], expected[number].feeds[0]), "a run after another network was unloaded")


@check(level=4, title="gives the same results through submit and bind")
def all_ways_to_run_agree(subject: Subject) -> None:
    """Compare `run`, `submit`, and several bindings in flight whose inputs change in place.

    Troubleshooting: a binding has a context of its own, made by `create_run` once and used for
    every run; its arrays keep their addresses while their contents change. A workload that keeps
    values of its inputs from the first run shows here.
    """
    for graph in random_graphs(subject, "ways", 4):
        net = subject.load(graph.network)
        expected = _Expected(subject, graph, net, 4)
        futures: list[Future[dict[str, Array]]] = [net.submit(expected.feeds[i % 4], timeout=RUN_SECONDS) for i in range(16)]
        for i, future in enumerate(futures):
            expected.check(i % 4, future.result(RUN_SECONDS), "submit")
        bindings = [net.bind({name: value.copy() for name, value in graph.feeds.items()}) for _ in range(2)]
        for i in range(8):
            binding = bindings[i % 2]
            for name, array in binding.inputs.items():
                array[...] = expected.feeds[i % 4][name]
            expected.check(i % 4, binding.run(timeout=RUN_SECONDS), "a binding")
        net.unload()


@check(level=4, title="is unloaded while threads keep running it")
def unloading_waits_for_runs(subject: Subject) -> None:
    """Unload a network while four threads run it, five times.

    Runs that began end rightly, later ones are refused.

    Troubleshooting: the core frees workloads and memory only when no run is in flight. If this
    hangs, a run does not end; if it crashes, something of the network was freed in `before_unload`,
    or is shared with a thread of the backend's own.
    """
    graph = one_graph(subject, "unload")
    for _ in range(5):
        net = subject.load(graph.network)
        expected = _Expected(subject, graph, net, 4)
        done = [0] * 4

        def body(number: int, net: LoadedNetwork = net, expected: _Expected = expected, done: list[int] = done) -> None:
            while True:
                try:
                    results = run(net, expected.feeds[number])
                except RunError as error:
                    if error.code is ErrorCode.NETWORK_UNLOADED:
                        return
                    raise
                expected.check(number, results, "a run while the network is being unloaded")
                done[number] += 1

        errors: list[BaseException] = []

        def runners(body: Callable[[int], None] = body, errors: list[BaseException] = errors) -> None:
            try:
                _in_threads(4, body, 60)
            except BaseException as error:
                errors.append(error)

        helper = threading.Thread(target=runners, daemon=True)
        helper.start()
        until = time.monotonic() + 5
        while not all(done) and time.monotonic() < until and helper.is_alive():
            time.sleep(0.005)
        net.unload()
        helper.join(60)
        if errors:
            raise errors[0]


@check(level=4, title="tells of work that fails late in the run that caused it")
def late_errors_are_told(subject: Subject) -> None:
    """Load with the options under which enqueued work fails.

    A run must fail and name layers; the others are right.

    Troubleshooting: `queue_wait` returns the failure of enqueued work, once, with a text from
    `queue_error`. The options stand under `late_failure` in the manifest, such as {"fail_at": 1};
    `--late-failure`, or the attribute of the vendor's test class, tries others.
    """
    options = subject.settings.late_failure or subject.promises.late_failure
    if options is None:
        if subject.backend.capabilities().asynchronous:
            subject.note(
                "it enqueues work, and its manifest names no 'late_failure' options: whether it tells of work that fails "
                "on the device cannot be judged"
            )
        raise NotApplicable("no options are known under which enqueued work fails (late_failure in the manifest)")
    graph = one_graph(subject, "late")
    runtime = subject.runtime()
    healthy = subject.load(graph.network, runtime=runtime)
    expected = _Expected(subject, graph, healthy, 1)
    failing = subject.load(graph.network, runtime=runtime, options={subject.id: {**subject.options, **options}})
    failures = 0
    for number in range(3):
        try:
            expected.check(0, run(failing, graph.feeds), "a network some of whose runs fail")
        except RunError as error:
            failures += 1
            text = str(error)
            if error.code not in (ErrorCode.STEP_FAILED, ErrorCode.OUT_OF_MEMORY):
                raise ConformanceFailure(f"expected STEP_FAILED of run {number}, got: {error}") from error
            named = [name for name in graph.layers if name in text] or error.details.get("sources")
            if not named:
                raise ConformanceFailure(f"the error names no layer of the network: {text}") from error
        except DovetailError as error:
            raise ConformanceFailure(f"expected a RunError of run {number}, got: {error}") from error
        expected.check(0, run(healthy, graph.feeds), "another network after a late failure")
    if not failures:
        raise ConformanceFailure(f"three runs succeeded with the options {dict(options)}, which should make one fail")
    failing.unload()
    expected.check(0, run(healthy, graph.feeds), "another network after the failed one was unloaded")
