"""Level 1: networks come and go in every order, and leave nothing behind."""

from __future__ import annotations

import gc
import logging
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dovetail import HOST, DovetailError, ErrorCode, Network

from ..checks import check
from ..endings import ConformanceFailure, NotApplicable
from ..samples import accepted, arrays_of, run_and_judge
from ..subject import RUN_SECONDS, Subject
from ..subprocess_checks import SUBPROCESS_CHECKS, subprocess_check
from ..trials import Batch
from ..usage import usage
from .contract import _Stranger

_CYCLES_SECONDS = 4.0
_WARM_UP = 12
_FEWEST, _MOST = 12, 400
_BYTES_PER_LOAD = 16 * 1024
"""Growth per load that counts as a leak.

Below lies the noise of allocators over the cycles that there is time for."""


@check(level=1, title="can be loaded, unloaded and loaded again")
def reloads(subject: Subject) -> None:
    """Load, run and unload a network three times in one runtime; results are right each time.

    Troubleshooting: State of a loaded network belongs to its factory and workloads, not to the
    backend or its module.
    """
    batch = Batch(accepted(subject))
    for round in range(3):
        with subject.load(batch.network) as loaded:
            subject.count(run=len(batch.trials))
            run_and_judge(loaded, batch, f"load {round + 1}")


@check(level=1, title="keeps two networks apart, whichever goes first")
def networks_are_apart(subject: Subject) -> None:
    """Load two networks, unload them in both orders, and run the other one in between.

    Troubleshooting: Releasing one workload must not free what another one uses: count references to
    what is shared.
    """
    trials = accepted(subject)
    one, two = Batch(trials), Batch(trials[::-1])
    for first_goes in (True, False):
        loaded = [subject.load(one.network), subject.load(two.network)]
        run_and_judge(loaded[0], one, "the first of two networks")
        run_and_judge(loaded[1], two, "the second of two networks")
        gone, stays = (0, 1) if first_goes else (1, 0)
        loaded[gone].unload()
        run_and_judge(loaded[stays], (one, two)[stays], f"after network {gone + 1} of two was unloaded")
        loaded[stays].unload()


@check(level=1, title="works in two runtimes at once")
def runtimes_are_apart(subject: Subject) -> None:
    """Load a network in two runtimes, close one, go on with the other.

    Troubleshooting: Each runtime makes a context of its own. A device that can be opened once only
    is shared behind the contexts, by reference count.
    """
    batch = Batch(accepted(subject))
    runtimes = [subject.runtime(threads=1), subject.runtime()]
    loaded = [subject.load(batch.network, runtime=runtime) for runtime in runtimes]
    for number in (0, 1, 0):
        run_and_judge(loaded[number], batch, f"in runtime {number + 1} of two")
    runtimes[0].close()
    run_and_judge(loaded[1], batch, "in the second runtime, after the first was closed")


@check(level=1, title="is taken down in any order")
def teardown_in_any_order(subject: Subject) -> None:
    """Drop network, runtime and bindings in every order; later use fails with an error of its own.

    Troubleshooting: `release` of workloads, `release` of memory, `release_run` and `close` of the
    context come in this order when a runtime closes; a destructor must not call into a context that
    is closed.
    """
    batch = Batch(accepted(subject, 4))
    arrays = arrays_of(batch)
    with _listening() as complaints:
        for order in ("network, runtime", "runtime", "runtime, with a binding", "dropped", "dropped in a cycle"):
            subject.step(order)
            runtime = subject.runtime()
            loaded = subject.load(batch.network, runtime=runtime)
            binding = loaded.bind(arrays)
            binding.run(timeout=RUN_SECONDS)
            if order == "network, runtime":
                loaded.unload()
                _require_refusal(lambda one=loaded: one.run(arrays), ErrorCode.NETWORK_UNLOADED, order)  # type: ignore[misc]  # binds the loop's
                runtime.close()
            elif order.startswith("runtime"):
                if "binding" not in order:
                    del binding
                runtime.close()
                _require_refusal(lambda one=loaded: one.run(arrays), ErrorCode.NETWORK_UNLOADED, order)  # type: ignore[misc]  # binds the loop's
            else:
                subject.forget(runtime)
                cycle: list[object] = [runtime, loaded, binding] if "cycle" in order else []
                cycle.append(cycle)
                del cycle, binding
            del loaded, runtime
            gc.collect()
    if complaints:
        raise ConformanceFailure("the backend raised while it was being told: " + "; ".join(complaints))


def _require_refusal(action: Callable[[], object], code: ErrorCode, when: str) -> None:
    try:
        action()
    except DovetailError as error:
        if error.code is code:
            return
        raise ConformanceFailure(f"{when}: a run afterwards raised {error.code}, expected {code}: {error}") from error
    raise ConformanceFailure(f"{when}: a run afterwards was not refused")


@contextmanager
def _listening() -> Iterator[list[str]]:
    """Collect what the core logs of backends' hooks that raised: such errors reach no caller."""
    complaints: list[str] = []

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            cause = record.exc_info[1] if record.exc_info else None
            complaints.append(f"{record.getMessage()}{f': {cause!r}' if cause else ''}")

    ear, logger = Ear(logging.ERROR), logging.getLogger("dovetail")
    logger.addHandler(ear)
    try:
        yield complaints
    finally:
        logger.removeHandler(ear)


@check(level=1, title="survives a network that cannot be loaded")
def failed_loads_leave_nothing(subject: Subject) -> None:
    """Try to load a network with a layer that nobody has, then load one that is right.

    Troubleshooting: A load may fail at any point after `before_load`; `after_load` is then told the
    error. Undo there what was begun.
    """
    batch = Batch(accepted(subject, 4))
    bad = Network("cannot be loaded")
    x = bad.input("x", (2, 3))
    bad.output(bad.add(_Stranger(), x).output, "y")
    for _ in range(3):
        try:
            subject.load(bad).unload()
        except DovetailError as error:
            if error.code is not ErrorCode.NO_BACKEND_FOR_LAYER:
                raise ConformanceFailure(f"a network with a layer of no backend raised {error.code}: {error}") from error
        else:
            raise ConformanceFailure("a network with a layer that was made up for this check was loaded")
        with subject.load(batch.network) as loaded:
            run_and_judge(loaded, batch, "after a load that failed")


@check(level=1, title="gives back what a network used")
def loads_leak_nothing(subject: Subject) -> None:
    """Load, run and unload often; look at memory, Python objects, open files and threads.

    Troubleshooting: Free in `release` what `create_workload` allocated, in `release_run` what
    `create_run` did, in `close` what the context holds. In Python, look for lists and caches that
    only grow.
    """
    batch = Batch(accepted(subject, 4))
    arrays = arrays_of(batch)
    runtime = subject.runtime()

    def cycle() -> None:
        with subject.load(batch.network, runtime=runtime) as loaded:
            loaded.run(arrays, timeout=RUN_SECONDS)

    started = time.monotonic()
    for _ in range(_WARM_UP):
        cycle()
    each = (time.monotonic() - started) / _WARM_UP
    half = max(_FEWEST, min(_MOST, int(_CYCLES_SECONDS / 2 / max(each, 1e-4))))
    marks = [usage()]
    for _ in range(2):
        for _ in range(half):
            cycle()
        marks.append(usage())
    subject.count(run=2 * half + _WARM_UP)
    growth = {
        # What grows in both halves is a leak; a cache that fills up, or an arena that is added
        # once, grows in one.
        what: min(marks[1][what] - marks[0][what], marks[2][what] - marks[1][what]) / half
        for what in marks[0]
    }
    limits = {
        "bytes of memory": _BYTES_PER_LOAD,
        "allocated bytes": _BYTES_PER_LOAD,
        "Python objects": 0.9,
        "open files": 0.4,
        "threads": 0.4,
    }
    leaks = [f"{growth[what]:.1f} {what}" for what, limit in limits.items() if growth.get(what, 0) > limit]
    if leaks:
        raise ConformanceFailure(f"each load leaves behind {', '.join(leaks)} (over {2 * half} loads)", **growth)


@check(level=1, title="lets the interpreter end, whatever is still loaded", seconds=400)
def interpreter_ends(subject: Subject) -> None:
    """End a process in several ways while a network is loaded; its exit code stays 0.

    Troubleshooting: Modules and globals may be gone when destructors run. Do not join threads or
    call into a driver from a destructor of a static object; the operating system takes back what a
    process held.
    """
    accepted(subject, 1)
    for name in SUBPROCESS_CHECKS:
        if name != "fork":
            subject.step(name)
            _expect(subject, name, "loaded")


@check(level=1, title="works after a fork, or says why not")
def survives_fork(subject: Subject) -> None:
    """Fork a process in which a network is loaded; run it in both.

    Troubleshooting: A backend on host memory must not keep threads or locks of its own that a fork
    leaves behind; the core's pool comes back by itself. For a device the core refuses runs in the
    child with FORKED: say by `memory_domains` or `capabilities` that it is one. It also refuses
    them where the backend runs in a process of its own, which is the parent's.
    """
    if not hasattr(os, "fork"):
        raise NotApplicable("this system has no fork")
    optimized = subject.optimize(Batch(accepted(subject, 1)).network)
    is_isolated = any(one is not None and getattr(one.backend, "is_isolated", False) for one in optimized.assignment.values())
    is_device = (
        any(domain != HOST for domain in subject.backend.memory_domains(subject.target.device))
        or subject.backend.capabilities().asynchronous
    )
    _expect(subject, "fork", "forked" if is_device or is_isolated else "works")


def _expect(subject: Subject, name: str, expected: str) -> None:
    if subject.target.name is None:
        raise NotApplicable("it was handed over as an object, which another process cannot find")
    try:
        ended = subprocess_check(subject, name)
    except subprocess.TimeoutExpired as error:
        raise ConformanceFailure(f"a process that {name} did not end within {error.timeout:g} s") from error
    if ended.code or ended.said != expected:
        said = ended.said or "nothing"
        raise ConformanceFailure(
            f"subprocess check {name!r}: exit code {ended.code}, it said {said!r}; expected 0 and {expected!r}\n{ended.printed}"
        )
