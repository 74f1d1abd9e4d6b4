"""Python's cyclic collector while a network is made."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_MANY = 10_000
"""Containers made since the last collection: a network of some hundred layers has about as many, and keeps them."""

_SELDOM = 500
"""Collections of these before what survived them is looked at again: five million containers, more than 50,000 layers leave."""

_HEAVY = 64 << 20
"""Bytes of networks that may wait for the collector, which knows the number of objects alone."""

_LAYER = 6 << 10
"""Bytes that a layer holds besides weights, with its slots, its workload and its steps: from 4 to 10 thousand were measured."""

_waiting = [0]

_LOADS = 8
"""After so many the collector may look at all that is old: who loads small networks does not wait for that each time."""

_loads = [0]


def network_dropped(layers: int, weights: int) -> None:
    """Note that a network is gone that the collector has to find, with its bytes of weights: layers and slots form cycles."""
    _waiting[0] += layers * _LAYER + weights


@contextmanager
def collecting_seldom() -> Iterator[None]:
    """Put collections off until a load is done: what it makes it keeps, so that looking for garbage in it finds little.

    At the usual threshold (700) a load of some hundred layers sets off collections of all generations, the last of which walks
    every object of the process; in a large load they come again and again, over a heap that grows. Meanwhile new objects are
    looked at once while they are in the cache, and seldom again: not never, since a backend that compiles for minutes may
    leave cycles behind. At the end the collector looks at all that the load made, which frees what the optimizer replaced.
    Networks that were dropped are looked for when the next one is loaded, as soon as they hold much.

    A program that set as high a threshold itself, or none, keeps it; so does whoever loads at the same time, and it is the
    first of them that puts the old one back.
    """
    if _waiting[0] > _HEAVY and gc.isenabled():  # before there are more
        _waiting[0] = 0
        gc.collect()
    usual = gc.get_threshold()
    if not 0 < usual[0] < _MANY:
        yield
        return
    ours = (_MANY, _SELDOM, usual[2])
    before = _collections()
    gc.set_threshold(*ours)
    try:
        yield
    finally:
        if gc.get_threshold() == ours:  # else somebody set another meanwhile
            try:
                if gc.isenabled():
                    _make_up(gc.get_count()[0] + _MANY * (_collections() - before), usual)
            finally:
                gc.set_threshold(*usual)


def _collections() -> int:
    return sum([generation["collections"] for generation in gc.get_stats()])


def _make_up(made: int, usual: tuple[int, int, int]) -> None:
    """Do what the collector would have done meanwhile, over `made` containers, but each of it once.

    As many collections of the youngest generation as were put off bring about a tenth of the next one, by default. The first
    looks at all that is new, the others at nothing, but they count.
    """
    put_off, middle = made // usual[0], max(usual[1], 1)
    if not put_off:
        return
    for _ in range(min(put_off // middle, max(usual[2], 1))):  # more would add nothing: the oldest generation is due
        gc.collect(1)
    for _ in range(put_off % middle):
        gc.collect(0)
    _loads[0] += 1
    if _loads[0] % _LOADS == 0:
        _collect_if_due(usual)


def _collect_if_due(usual: tuple[int, int, int]) -> None:
    """Let the collector look at older generations, if as many collections were counted as it waits for.

    It does so by itself alone, when the youngest generation is full; collections that are asked for empty it each time, so
    that a program which only loads would never come to that. Networks that were dropped lie in the oldest generation, with
    their weights, and would never be found.
    """
    gc.set_threshold(1, *usual[1:])
    # More containers than the threshold, of a type of which Python keeps none for reuse: those would not count.
    kept: list[set[None]] = [set(), set(), set()]
    del kept
