"""Level 4, memory: what a backend may read and write, must write, and must give back."""

from __future__ import annotations

import gc
import hashlib
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

import numpy as np

from dovetail import Constant, DovetailError, ErrorCode, Runtime
from dovetail.graph.graph import Graph

from ..cases import Array
from ..checks import check
from ..drawing import RandomGraph
from ..endings import ConformanceFailure, NotApplicable
from ..failing_memory import failing_allocations
from ..subject import Subject
from ..trial_graphs import Judge, describe, one_graph, random_graphs, run, same_bits, single_layers
from ..usage import allocated_bytes, resident_bytes, usage

_GUARD = 4096
"""Bytes before and behind an array that is watched."""
_LOADS = 50
_ROUNDS = 3
"""A leak goes on. An allocator that takes memory once, or a system that pages some in, does not."""
_NOISE = 2 << 20
"""Bytes by which the memory of a process may grow in a round."""


def _graphs(subject: Subject) -> Iterator[RandomGraph]:
    return chain(single_layers(subject), random_graphs(subject, "memory", 6))


def _guarded(shape: tuple[int, ...], dtype: np.dtype[Any], fill: int, shift: int = 0) -> tuple[Array, Array]:
    """Return a buffer of `fill` and an array in its middle, `shift` elements further on."""
    nbytes = int(np.prod(shape)) * dtype.itemsize
    buffer = np.full(2 * _GUARD + nbytes + 64, fill, np.uint8)
    begin = _GUARD + shift * dtype.itemsize
    return buffer, buffer[begin : begin + nbytes].view(dtype).reshape(shape)


def _bound(subject: Subject, graph: RandomGraph, fill: int) -> tuple[dict[str, Array], dict[str, Array]]:
    """Run with outputs that were filled before; return the buffers around them and the outputs."""
    net = subject.load(graph.network)
    made = {spec.name: _guarded(spec.shape, spec.dtype.numpy, fill, 1) for spec in net.plan.outputs.specs}
    binding = net.bind(graph.feeds, {name: array for name, (_, array) in made.items()})
    binding.run(timeout=30)
    net.unload()
    return {name: buffer for name, (buffer, _) in made.items()}, {name: array for name, (_, array) in made.items()}


@check(level=4, title="writes every element of its outputs", seconds=300)
def outputs_are_written(subject: Subject) -> None:
    """Run into outputs that hold 0xA5, then 0x5A: what shows through was not written.

    Troubleshooting: fresh memory often holds zeros, which hides this. Look at the last elements of
    odd sizes, at padding, at early returns for empty or masked parts; an output is never
    initialised by the core.
    """
    for graph in _graphs(subject):
        _, first = _bound(subject, graph, 0xA5)
        _, second = _bound(subject, graph, 0x5A)
        for name, array in first.items():
            kept = (array.reshape(-1).view(np.uint8) == 0xA5) & (second[name].reshape(-1).view(np.uint8) == 0x5A)
            elements = kept.reshape(-1, array.itemsize).all(axis=1) if array.size else kept
            if elements.any():
                raise ConformanceFailure(
                    f"{int(elements.sum())} of {array.size} elements of output {name!r} were not written, first at "
                    f"{[int(i) for i in np.unravel_index(int(np.argmax(elements)), array.shape)]}\n{describe(graph)}"
                )
        Judge(graph, "outputs that the caller provides").check(first)


@check(level=4, title="writes nothing beside its outputs", seconds=300)
def writes_stay_inside(subject: Subject) -> None:
    """Bind outputs in the middle of larger buffers and look at what lies around them.

    Troubleshooting: an output of the network lies in the caller's array, aligned to its element
    only and with no room behind it: a vectorised loop must treat the last elements by themselves.
    """
    for graph in _graphs(subject):
        buffers, arrays = _bound(subject, graph, 0xA5)
        for name, buffer in buffers.items():
            begin = _GUARD + arrays[name].itemsize
            outside = np.r_[buffer[:begin], buffer[begin + arrays[name].nbytes :]] != 0xA5
            if outside.any():
                at = int(np.argmax(outside))
                place = f"{begin - at} bytes before" if at < begin else f"{at - begin} bytes behind the end of"
                raise ConformanceFailure(
                    f"{int(outside.sum())} bytes around output {name!r} were written, first {place} it\n{describe(graph)}"
                )


@check(level=4, title="computes with nothing beside its inputs", seconds=300)
def reads_stay_inside(subject: Subject) -> None:
    """Run with inputs amid zeros, and amid bytes 0xFF, which are NaN: the result must not change.

    Troubleshooting: a kernel reads past the end of an input, or before it, and lets what it finds
    into the result. Look at padding, at the last vector of a row, and at sizes that were taken from
    another tensor.
    """
    for graph in _graphs(subject):
        results = []
        for fill in (0x00, 0xFF):
            feeds = {}
            for name, value in graph.feeds.items():
                _, feeds[name] = _guarded(value.shape, value.dtype, fill)
                feeds[name][...] = value
            net = subject.load(graph.network)
            results.append(run(net, feeds))
            net.unload()
        for result in results:
            Judge(graph, "inputs with other bytes around them").check(result)
        name = same_bits(*results)
        if name and subject.backend.capabilities().deterministic:
            raise ConformanceFailure(f"output {name!r} changes with the bytes around the inputs\n{describe(graph)}")


@check(level=4, title="leaves inputs and constants as they are", seconds=300)
def inputs_and_constants_are_kept(subject: Subject) -> None:
    """Compare checksums of inputs and constants before and after loading, and after three runs.

    Troubleshooting: constants are shared by all runs and by other networks, inputs belong to the
    caller: a kernel may write to neither. Only an input for which the workload declared
    DOVETAIL_ALIAS_IN_PLACE may be written, and only where its address equals that of the output.
    What is packed or transposed goes into memory of the workload's own.
    """
    for graph in _graphs(subject):
        before = _checksums(graph.network, graph.feeds)
        optimized = subject.optimize(graph.network)
        inside = _checksums(optimized.graph, {})
        with Runtime() as runtime:
            net = runtime.load(optimized)
            _compare(graph, before, _checksums(graph.network, graph.feeds), "loading")
            _compare(graph, inside, _checksums(optimized.graph, {}), "loading")
            for _ in range(3):
                run(net, graph.feeds)
            _compare(graph, before, _checksums(graph.network, graph.feeds), "running")
            _compare(graph, inside, _checksums(optimized.graph, {}), "running")


def _checksums(network: Graph, feeds: Mapping[str, Array]) -> dict[str, str]:
    constants = {
        f"constant {layer.name!r}": layer.descriptor.value for layer in network if isinstance(layer.descriptor, Constant)
    }
    arrays = {**{f"input {name!r}": value for name, value in feeds.items()}, **constants}
    return {name: hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest() for name, array in arrays.items()}


def _compare(graph: RandomGraph, before: Mapping[str, str], after: Mapping[str, str], during: str) -> None:
    changed = [name for name in before if before[name] != after[name]]
    if changed:
        raise ConformanceFailure(f"{', '.join(changed)} changed while {during}\n{describe(graph)}", changed=changed)


@check(level=4, title="takes inputs that are unaligned, strided or read-only", seconds=300)
def unusual_inputs_are_taken(subject: Subject) -> None:
    """Run with inputs of every alignment and memory order.

    They lie at every element of a cache line, are read-only, reversed, in Fortran order and cut out
    of larger arrays.

    Troubleshooting: an input of the network is the caller's own array, aligned to its element and
    no more: use loads that take any address, or ask for a workspace and copy. Arrays that are not
    C-contiguous are copied by the core and arrive aligned.
    """
    for graph in _graphs(subject):
        net = subject.load(graph.network)
        expected = run(net, graph.feeds)
        Judge(graph, "plain inputs").check(expected)
        for name, feeds in _unusual(graph.feeds):
            result = run(net, feeds)
            Judge(graph, f"inputs that are {name}").check(result)
            different = same_bits(expected, result)
            if different and subject.backend.capabilities().deterministic:
                raise ConformanceFailure(
                    f"output {different!r} has other bits with inputs that are {name}; the backend says that it is "
                    f"deterministic\n{describe(graph)}"
                )
        net.unload()


def _unusual(feeds: Mapping[str, Array]) -> Iterator[tuple[str, dict[str, Array]]]:
    for shift in (1, 3, 5):
        moved = {}
        for name, value in feeds.items():
            _, moved[name] = _guarded(value.shape, value.dtype, 0, shift)
            moved[name][...] = value
        yield f"{shift} elements off a 64-byte boundary", moved
    bytewise = {}
    for name, value in feeds.items():
        buffer = np.empty(value.nbytes + 1, np.uint8)
        bytewise[name] = buffer[1:].view(value.dtype).reshape(value.shape)
        bytewise[name][...] = value
    yield "one byte off", bytewise
    fixed = {name: value.copy() for name, value in feeds.items()}
    for value in fixed.values():
        value.flags.writeable = False
    yield "read-only", fixed
    yield "in Fortran order", {name: np.asfortranarray(value) for name, value in feeds.items()}
    yield "every second element", {name: np.repeat(value, 2, axis=-1)[..., ::2] for name, value in feeds.items()}
    yield "reversed", {name: np.ascontiguousarray(value[::-1])[::-1] for name, value in feeds.items()}


@check(level=4, title="survives a failing allocation")
def failing_allocations_are_survived(subject: Subject) -> None:
    """Let the first, second, ... allocation of a run fail: OUT_OF_MEMORY, then the network runs.

    Troubleshooting: `create_run` and `queue_create` must undo what they did before they return an
    error; `allocate` raises MemoryError. Nothing of the failed run may be kept for the next one.
    """
    if subject.target.device:
        raise NotApplicable("what stands in for the backend is asked for its device 0 alone")
    graph = one_graph(subject, "allocation")
    failed = 0
    with failing_allocations(subject) as (backend, allocations):
        runtime = subject.runtime()
        options = {"options": {subject.id: subject.options}} if subject.options else {}
        asked = {"backends": [backend], "oracle": False, **options}
        other = runtime.load(graph.network, optimize=asked)
        before = run(other, graph.feeds)
        for number in range(8):
            net = runtime.load(graph.network, optimize=asked)
            allocations.fail_at(number)
            try:
                run(net, graph.feeds)
            except DovetailError as error:
                if error.code is not ErrorCode.OUT_OF_MEMORY:
                    raise ConformanceFailure(f"allocation {number} failed, expected OUT_OF_MEMORY, got: {error}") from error
                failed += 1
            finally:
                allocations.fail_at(None)
            Judge(graph, f"after allocation {number} had failed").check(run(net, graph.feeds))
            net.unload()
        if same_bits(before, run(other, graph.feeds)) and subject.backend.capabilities().deterministic:
            raise ConformanceFailure("a network loaded before gives other results after an allocation failed")
    if not failed:
        raise NotApplicable("its graphs need no memory between layers")


@check(level=4, title="gives everything back when a network is unloaded", seconds=300)
def loading_leaks_nothing(subject: Subject) -> None:
    """Load, run and unload 50 times: memory, files and threads must not grow.

    Half of the times are in a runtime of their own. Where memory grows, it is done again, up to
    three times.

    Troubleshooting: `release(state)` must free all that `create_workload` allocated, `release_run`
    what `create_run` did; the context's `close` ends threads and closes files. Look for caches
    without a limit and for reference cycles over extension types that the collector does not see.
    """
    graph = max(random_graphs(subject, "leaks", 6), key=lambda graph: _constant_bytes(graph.network))

    def once(number: int) -> None:
        with Runtime(threads=2) as runtime:
            net = subject.load(graph.network, runtime=runtime if number % 2 else shared)
            run(net, graph.feeds)
            net.unload()

    shared = subject.runtime(threads=2)
    for number in range(20):
        once(number)
    counted = usage()
    growths: list[int] = []
    for _ in range(_ROUNDS):
        resident, allocated = [], []
        for number in range(_LOADS):
            once(number)
            gc.collect()
            resident.append(resident_bytes())
            allocated.append(allocated_bytes())
        if not growths:
            _check_counts(counted, usage())
        part = _LOADS // 3
        growths.append(max(min(held[-part:]) - min(held[:part]) for held in (resident, allocated)))
        if growths[-1] <= _NOISE:
            return
    per_load = min(growths) / (_LOADS - part)
    raise ConformanceFailure(
        f"memory grew by {min(growths) >> 10} KiB over {_LOADS - part} loads, {per_load / 1024:.0f} KiB each, in each of "
        f"{_ROUNDS} rounds; at most {_NOISE >> 10} KiB is noise",
        growth=min(growths),
    )


def _check_counts(before: Mapping[str, int], after: Mapping[str, int]) -> None:
    more = {name: after[name] - before[name] for name in ("open files", "threads") if name in before}
    grown = {name: count for name, count in more.items() if count > 2}
    if grown:
        told = ", ".join(f"{count} {name}" for name, count in grown.items())
        raise ConformanceFailure(f"after {_LOADS} loads there are more {told}", **grown)


def _constant_bytes(network: Graph) -> int:
    return sum(layer.descriptor.value.nbytes for layer in network if isinstance(layer.descriptor, Constant))
