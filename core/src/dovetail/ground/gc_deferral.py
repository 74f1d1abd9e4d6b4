"""Python's cyclic collector while a network is made."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_MANY = 40_000
"""Containers made since the last collection.

The modules that a first load imports and a network of some hundred layers have half as many, and
are kept.
"""

_SELDOM = 125
"""Collections of these before what survived them is looked at again.

They are five million containers, more than 50,000 layers leave.
"""

_HEAVY = 64 << 20
"""Bytes of networks that may wait for the collector, which knows the number of objects alone."""

_LAYER = 6 << 10
"""Bytes that a layer holds besides weights, with its slots, its workload and its steps.

From 4 to 10 thousand were measured.
"""

_waiting = [0]

_LOADS = 8
"""After so many the collector may look at all that is old.

Who loads small networks does not wait for that each time.
"""

_loads = [0]

_Threshold = tuple[int, int, int]


class _PutOff:
    """The threshold as the host had it before the first load under way.

    With it, the collections up to the last that ended.
    """

    __slots__ = ("collections", "host")

    def __init__(self, host: _Threshold, collections: int) -> None:
        self.host = host
        self.collections = collections

    @property
    def ours(self) -> _Threshold:
        return (_MANY, _SELDOM, self.host[2])

    @property
    def momentary(self) -> _Threshold:
        """At which the next container lets the collector look at what is due."""
        return (1, self.host[1], self.host[2])


# All of these change by single calls that no other thread and no signal's handler can split.
_under_way: dict[object, int] = {}  # the thread of each load
_put_off: list[_PutOff] = []  # one, while the threshold is ours
_ended: list[object] = []  # loads for which the collector has still to make up
_settling: dict[str, object] = {}  # who settles: not a lock, which a handler would wait for and a fork could leave locked


def network_dropped(layers: int, weights: int) -> None:
    """Note that a network is gone that the collector has to find, with its bytes of weights.

    Its layers and slots form cycles.
    """
    _waiting[0] += layers * _LAYER + weights


@contextmanager
def gc_deferred() -> Iterator[None]:
    """Put collections off until a load is done.

    What a load makes it keeps, so that looking for garbage in it finds little.

    At the usual threshold (700) a load of some hundred layers sets off collections of all
    generations, the last of which walks every object of the process; in a large load they come
    again and again, over a heap that grows. Meanwhile new objects are looked at once while they are
    in the cache, and seldom again: not never, since a backend that compiles for minutes may leave
    cycles behind. At the end the collector looks at all that the load made, which frees what the
    optimizer replaced. Networks that were dropped are looked for when the next one is loaded, as
    soon as they hold much.

    A program that set as high a threshold itself, or none, keeps it. Loads that overlap share one
    record of the host's threshold: the last of them puts it back, unless the host set another
    meanwhile.
    """
    if _waiting[0] > _HEAVY and gc.isenabled():  # before there are more
        _waiting[0] = 0
        gc.collect()
    load = object()
    try:
        try:
            _under_way[load] = threading.get_ident()
            _settle()
            yield
        finally:
            _end(load)
    finally:
        _end(load)  # again, since a signal's handler may have raised in the first


def _end(load: object) -> None:
    if _under_way.pop(load, None) is not None and _put_off:
        _ended.append(load)
    _settle()


def _settle() -> None:
    """Bring the threshold in line with the loads under way.

    Who finds somebody at it leaves it to them, who look again.
    """
    me = object()
    try:
        while _unsettled() and _settling.setdefault("by", me) is me:
            try:
                if _put_off:
                    _make_up_and_put_back(_put_off[0])
                else:
                    _put_off_collections()
            finally:
                _leave(me)
    finally:
        _leave(me)  # again, since a signal's handler may have raised in the first


def _leave(me: object) -> None:
    if _settling.get("by") is me:
        _settling.pop("by", None)


def _unsettled() -> bool:
    if _put_off:
        return bool(_ended) or not _under_way
    return bool(_under_way) and 0 < gc.get_threshold()[0] < _MANY


def _put_off_collections() -> None:
    host = gc.get_threshold()
    if _under_way and 0 < host[0] < _MANY:
        record = _PutOff(host, _collections())
        _put_off.append(record)  # first, so that whoever is interrupted after the next line finds what to put back
        gc.set_threshold(*record.ours)


def _make_up_and_put_back(record: _PutOff) -> None:
    try:
        if _ended:
            _ended.clear()
            if gc.isenabled() and gc.get_threshold() == record.ours:
                _make_up(gc.get_count()[0] + _MANY * (_collections() - record.collections), record)
                record.collections = _collections()
    finally:
        if not _under_way:
            if gc.get_threshold() in (record.ours, record.momentary):  # else the host set another meanwhile
                gc.set_threshold(*record.host)
            _put_off.clear()


def _forget_other_threads() -> None:
    """Put the host's threshold back in a forked child, unless the forking thread is in a load."""
    _settling.clear()
    _ended.clear()
    here = threading.get_ident()
    for load, thread in list(_under_way.items()):
        if thread != here:
            del _under_way[load]
    if _put_off and gc.get_threshold() == _put_off[0].momentary:
        gc.set_threshold(*_put_off[0].ours)
    _settle()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_other_threads)


def _collections() -> int:
    return sum([generation["collections"] for generation in gc.get_stats()])


def _make_up(made: int, record: _PutOff) -> None:
    """Do what the collector would have done meanwhile, over `made` containers, but each of it once.

    As many collections of the youngest generation as were put off bring about a tenth of the next
    one, by default. The first looks at all that is new, the others at nothing, but they count.
    """
    usual = record.host
    put_off, middle = made // usual[0], max(usual[1], 1)
    if not put_off:
        return
    for _ in range(min(put_off // middle, max(usual[2], 1))):  # more would add nothing: the oldest generation is due
        gc.collect(1)
    for _ in range(put_off % middle):
        gc.collect(0)
    _loads[0] += 1
    if _loads[0] % _LOADS == 0:
        _collect_if_due(record)


def _collect_if_due(record: _PutOff) -> None:
    """Let the collector look at older generations, if it counted as many collections as needed.

    It does so by itself alone, when the youngest generation is full; collections that are asked for
    empty it each time, so that a program which only loads would never come to that. Networks that
    were dropped lie in the oldest generation, with their weights, and would never be found.
    """
    try:
        gc.set_threshold(*record.momentary)
        # More containers than the threshold, of a type of which Python keeps none for reuse: those
        # would not count.
        kept: list[set[None]] = [set(), set(), set()]
        del kept
    finally:
        if gc.get_threshold() == record.momentary:
            gc.set_threshold(*record.ours)
