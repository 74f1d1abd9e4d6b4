"""How often Python's collector runs while a network is made, and afterwards."""

from __future__ import annotations

import contextlib
import gc
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator

import numpy as np
import pytest

from dovetail.ground import gc_deferral
from dovetail.ground.gc_deferral import gc_deferred, network_dropped


@pytest.fixture(autouse=True)
def thresholds(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, int, int]]:
    assert not gc_deferral._under_way, "a test that ran before left a load on some thread"
    monkeypatch.setattr(gc_deferral, "_waiting", [0])  # not what tests before dropped
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield gc.get_threshold()
    gc.set_threshold(*before)


def test_it_runs_less_often_inside_and_as_before_afterwards(thresholds: tuple[int, int, int]) -> None:
    with gc_deferred():
        inside = gc.get_threshold()
    assert inside[0] > thresholds[0]
    assert inside[1] > thresholds[1]
    assert inside[2] == thresholds[2]
    assert gc.get_threshold() == thresholds


def test_it_is_as_before_after_an_error(thresholds: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="inside"), gc_deferred():
        raise ValueError("inside")
    assert gc.get_threshold() == thresholds


def test_it_is_as_before_when_the_collection_is_interrupted(
    thresholds: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(generation: int = 2) -> int:
        raise KeyboardInterrupt

    load = gc_deferred()
    load.__enter__()
    made = [[number] for number in range(2000)]
    with monkeypatch.context() as patch:
        patch.setattr(gc, "collect", interrupted)
        with pytest.raises(KeyboardInterrupt):
            load.__exit__(None, None, None)
    assert len(made) == 2000
    assert gc.get_threshold() == thresholds


def test_loads_that_overlap_leave_it_as_the_first_found_it(thresholds: tuple[int, int, int]) -> None:
    first, second = gc_deferred(), gc_deferred()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    assert gc.get_threshold() == thresholds


@pytest.mark.parametrize("own", [0, 1_000_000], ids=["off", "higher"])
def test_what_the_program_set_itself_stays(own: int) -> None:
    gc.set_threshold(own, 5, 5)
    with gc_deferred():
        assert gc.get_threshold() == (own, 5, 5)
    assert gc.get_threshold() == (own, 5, 5)


def test_what_is_set_inside_stays() -> None:
    with gc_deferred():
        gc.set_threshold(123, 4, 5)
    assert gc.get_threshold() == (123, 4, 5)


def test_what_was_put_off_counts(thresholds: tuple[int, int, int]) -> None:
    gc.collect()
    with gc_deferred():
        kept = [[index] for index in range(25 * thresholds[0])]
    assert len(kept) > gc.get_count()[0] < thresholds[0]
    assert 5 <= gc.get_count()[1] < 10  # of every eighth load the collector's own are among them
    assert gc.get_count()[2] == 2


def test_a_large_load_looks_once_at_what_it_makes() -> None:
    """Not at the whole heap again and again while it grows."""
    seen = []

    def look(phase: str, facts: dict[str, int]) -> None:
        if phase == "start":
            seen.append(facts["generation"])

    gc.collect()
    gc.callbacks.append(look)
    try:
        with gc_deferred():
            kept = [[index] for index in range(500_000)]
            inside = list(seen)
    finally:
        gc.callbacks.remove(look)
    assert len(kept) == 500_000
    assert 10 < inside.count(0) < 100
    assert set(inside) == {0}
    assert 0 < seen.count(1) <= 10  # at the end, the first looks at all
    assert seen.count(2) <= 1  # of every eighth load


def test_garbage_of_a_load_is_gone_when_it_is_done() -> None:
    class Node:
        itself: Node
        layers: list[list[int]]

    with gc_deferred():
        node = Node()
        node.itself, node.layers = node, [[index] for index in range(100_000)]
        dropped = weakref.ref(node)
        del node
    assert dropped() is None


def test_two_threads_leave_it_as_they_found_it(thresholds: tuple[int, int, int]) -> None:
    barrier = threading.Barrier(2)
    failures: list[BaseException] = []

    def load(seed: int) -> None:
        try:
            for number in range(200):
                barrier.wait(timeout=60)
                with contextlib.suppress(ValueError), gc_deferred():
                    kept = [[index] for index in range((seed * 37 + number * 101) % 3000)]
                    if len(kept) % 3 == 0:
                        raise ValueError
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=load, args=(seed,)) for seed in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert gc.get_threshold() == thresholds
    assert gc.isenabled()


def test_what_the_host_froze_stays_frozen() -> None:
    code = """
import gc
from dovetail.ground.gc_deferral import gc_deferred
gc.freeze()
frozen = gc.get_freeze_count()
for _ in range(20):
    with gc_deferred():
        kept = [[index] for index in range(20_000)]
assert gc.get_freeze_count() == frozen > 1000, (gc.get_freeze_count(), frozen)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_network_that_is_dropped_waits_with_its_layers() -> None:
    """Its cycles need the collector; the more layers, the sooner the next load looks for it."""
    code = """
import gc
gc.disable()
import dovetail
from dovetail.ground import gc_deferral
network = dovetail.Network("chain")
x = network.input("x", (4,))
for number in range(50):
    x = network.tanh(x)
network.output(x, "y")
loaded = dovetail.load(network, ["CpuRef"])
before = gc_deferral._waiting[0]
loaded.unload()
del loaded
assert gc_deferral._waiting[0] - before > 50 * 4_000, gc_deferral._waiting
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_networks_that_wait_to_be_found_are_looked_for() -> None:
    gc.collect()
    dropped = []
    for nbytes in (40 << 20, 40 << 20, 1 << 20):
        with gc_deferred():
            weights = np.zeros(1)
            node: list[object] = [weights]
            node.append(node)
            dropped.append(weakref.ref(weights))
        gc.collect(1)  # it is old
        del node, weights
        network_dropped(0, nbytes)
    assert [ref() is not None for ref in dropped] == [False, False, True]


_ONLY_LOADS = """
import gc, weakref
from dovetail.ground.gc_deferral import gc_deferred
class Node: ...
gc.set_threshold(700, 10, 10)
dropped = []
for _ in range(400):
    with gc_deferred():
        node = Node()
        node.itself, node.layers = node, [[index] for index in range(2_000)]
        dropped.append(weakref.ref(node))
print(sum(ref() is not None for ref in dropped))
"""


def test_what_a_program_drops_that_only_loads_is_found() -> None:
    done = subprocess.run([sys.executable, "-c", _ONLY_LOADS], capture_output=True, text=True, check=True, timeout=60)
    assert int(done.stdout) < 200  # all 400 if nobody looks at the oldest generation


def test_a_collector_that_is_off_is_not_called() -> None:
    gc.collect()
    gc.disable()
    try:
        with gc_deferred():
            kept = [[index] for index in range(3_000)]
        assert gc.get_count()[0] >= len(kept)
    finally:
        gc.enable()


def test_many_short_loads_on_threads_leave_the_threshold(thresholds: tuple[int, int, int]) -> None:
    """Also while one of them lets the collector look at what is due, at a threshold of its own."""

    def load() -> None:
        for _ in range(60):
            with gc_deferred():
                kept = [[index] for index in range(1_500)]
            assert len(kept) == 1_500
            del kept  # here: those that are dropped inside the next would not count

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=load) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert gc.get_threshold() == thresholds


def test_a_load_that_starts_at_the_momentary_threshold_does_not_keep_it(thresholds: tuple[int, int, int]) -> None:
    later: list[contextlib.AbstractContextManager[None]] = []

    def look(phase: str, facts: dict[str, int]) -> None:
        if gc.get_threshold()[0] == 1 and not later:
            later.append(gc_deferred())
            later[0].__enter__()

    gc.callbacks.append(look)
    try:
        for _ in range(40):
            with gc_deferred():
                kept = [[index] for index in range(8_000)]
            assert len(kept) == 8_000
            del kept  # here: those that are dropped inside the next would not count
    finally:
        gc.callbacks.remove(look)
    assert later, "no load started while the collector looked at what is due"
    assert gc.get_threshold()[0] > thresholds[0]
    later[0].__exit__(None, None, None)
    assert gc.get_threshold() == thresholds


class _Interrupting:
    """The collector's module, with a handler that raises after the call of that number.

    Calls of any of its functions count.
    """

    def __init__(self, number: int) -> None:
        self.left = number

    def __getattr__(self, name: str) -> object:
        function = getattr(gc, name)

        def called(*arguments: int) -> object:
            result = function(*arguments)
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
            return result

        return called


def test_it_is_as_before_wherever_a_handler_raises(thresholds: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted = 0
    for number in range(1, 100):
        with monkeypatch.context() as patch:
            host = _Interrupting(number)
            patch.setattr(gc_deferral, "gc", host)
            patch.setattr(gc_deferral, "_loads", [gc_deferral._LOADS - 1])  # what is due is looked at, too
            try:
                with gc_deferred():
                    kept = [[index] for index in range(3_000)]
                    assert len(kept) == 3_000
            except KeyboardInterrupt:
                interrupted += 1
        assert gc.get_threshold() == thresholds, number
        with gc_deferred():
            assert gc.get_threshold()[0] > thresholds[0]  # the next one is not in the way of the last
        assert gc.get_threshold() == thresholds, number
        if host.left > 0:
            break
    assert interrupted == number - 1 > 8


_FORKS = """
import gc, os, threading, warnings
from dovetail.ground.gc_deferral import gc_deferred
warnings.simplefilter("ignore")
gc.set_threshold(700, 10, 10)
inside, done = threading.Event(), threading.Event()
def load():
    with gc_deferred():
        inside.set()
        done.wait(60)
def forked():
    child = os.fork()
    if not child:
        before = gc.get_threshold()
        with gc_deferred():
            within = gc.get_threshold()
        os._exit(0 if (before, within[0] > 700, gc.get_threshold()) == ((700, 10, 10), True, (700, 10, 10)) else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
thread = threading.Thread(target=load, daemon=True)
thread.start()
inside.wait(60)
assert forked() == 0
with gc_deferred():
    child = os.fork()
    assert gc.get_threshold()[0] > 700
if not child:
    os._exit(0 if gc.get_threshold() == (700, 10, 10) else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
done.set()
thread.join()
assert gc.get_threshold() == (700, 10, 10)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")
def test_a_forked_child_has_the_threshold_of_the_host() -> None:
    subprocess.run([sys.executable, "-c", _FORKS], check=True, timeout=60)
