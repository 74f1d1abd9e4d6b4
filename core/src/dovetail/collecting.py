"""Python's cyclic collector while a network is made."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_MANY = 50_000
"""Containers made since the last collection: a network of some hundred layers has about as many, and keeps them."""

_HEAVY = 64 << 20
"""Bytes of weights that may wait for the collector: networks are few objects, of which it knows the number alone."""

_waiting = [0]

_LOADS = 8
"""After so many the collector may look at all that is old: who loads once does not wait for that."""

_loads = [0]


def weights_dropped(nbytes: int) -> None:
    """Note that a network is gone whose weights the collector has to find: layers and slots refer to each other."""
    _waiting[0] += nbytes


@contextmanager
def collecting_seldom() -> Iterator[None]:
    """Put collections off until a load is done: what it makes it keeps, so that looking for garbage in it finds none.

    At the usual threshold (700) a load of some hundred layers sets off collections of all generations, the last of which walks
    every object of the process. The collector is not turned off: a backend that compiles for minutes may leave cycles behind.
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
    gc.set_threshold(_MANY, *usual[1:])
    try:
        yield
    finally:
        if gc.get_threshold()[0] == _MANY:  # else somebody set another meanwhile
            put_off = gc.get_count()[0] // usual[0]
            try:
                if gc.isenabled() and put_off:
                    _count(put_off, max(usual[1], 1))
                    _loads[0] += 1
                    if _loads[0] % _LOADS == 0:
                        _collect_if_due(usual)
            finally:
                gc.set_threshold(*usual)


def _count(put_off: int, young: int) -> None:
    """Make up for collections of the youngest generation, of which every `young` bring about one of the next.

    The first looks at all that is new, the others at nothing, but they count.
    """
    for _ in range(put_off // young):
        gc.collect(1)
    for _ in range(put_off % young):
        gc.collect(0)


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
