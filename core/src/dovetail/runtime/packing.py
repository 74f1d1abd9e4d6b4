"""Offsets of buffers in an arena: those that are alive together do not overlap."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Protocol

from ..ground.limits import watched

ALIGNMENT = 64

PAIRS = 1 << 16
"""Pairs of buffers alive together up to which several orders are tried.

That is all pairs of some 360 buffers.
"""
PAIRS_EACH = 32
"""The same for each buffer, where there are more."""


class Block(Protocol):
    """What is placed.

    Attributes:
        nbytes, alignment: Size and alignment.
        start, end: First and last step at which it is alive.
        offset: What is set.
    """

    nbytes: int
    alignment: int
    start: int
    end: int
    offset: int


def live_peak(buffers: Sequence[Block], n_steps: int) -> int:
    """Most bytes alive at any one step, each buffer rounded up to the alignment."""
    change = [0] * (n_steps + 2)
    for buffer in buffers:
        nbytes = round_up(buffer.nbytes, ALIGNMENT)
        change[buffer.start] += nbytes
        change[min(buffer.end, n_steps) + 1] -= nbytes
    peak = alive = 0
    for delta in change:
        alive += delta
        peak = max(peak, alive)
    return peak


def pack(buffers: Sequence[Block]) -> int:
    """Set the offsets so that buffers alive together do not overlap; returns the bytes needed.

    Several greedy orders are tried, each buffer going into the tightest gap, and the best is kept
    (the offset assignment of Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net
    Inference", 2020). Their time grows with the pairs of buffers that are alive together. Where
    these are more than `PAIRS` and `PAIRS_EACH` allow, as in a network of thousands of branches,
    only the order of first use is taken, forwards and backwards, in which free gaps can be kept
    sorted.
    """
    if not buffers:
        return 0
    together = _together(buffers)
    bound = live_peak(buffers, max(b.end for b in buffers))
    attempts: list[Callable[[], int]]
    if together is None:
        attempts = [lambda: _sweep(buffers, backwards=False), lambda: _sweep(buffers, backwards=True)]
    else:
        attempts = [lambda order=order: _pack_in_order(buffers, together, order) for order in _ORDERS]  # type: ignore[misc]
    best, offsets = -1, [0] * len(buffers)
    for attempt in attempts:
        peak = attempt()
        if best < 0 or peak < best:
            best, offsets = peak, [b.offset for b in buffers]
        if peak <= bound:
            break
    for buffer, offset in zip(buffers, offsets, strict=True):
        buffer.offset = offset
    return best


_Key = Callable[[Block], tuple[int, ...]]
_ORDERS: tuple[_Key, ...] = (
    lambda b: (-b.nbytes, b.start),
    lambda b: (-(b.end - b.start + 1) * b.nbytes, b.start),
    lambda b: (-(b.end - b.start), -b.nbytes, b.start),
    lambda b: (b.start, -b.nbytes),
)


def _together(buffers: Sequence[Block]) -> list[list[int]] | None:
    """For each buffer, those that are alive at the same time; None if they are too many."""
    maximum = max(PAIRS, PAIRS_EACH * len(buffers))
    result: list[list[int]] = [[] for _ in buffers]
    alive: dict[int, None] = {}
    ends: list[tuple[int, int]] = []
    pairs = 0
    for number in watched(sorted(range(len(buffers)), key=lambda number: buffers[number].start)):
        buffer = buffers[number]
        while ends and ends[0][0] < buffer.start:
            del alive[heappop(ends)[1]]
        pairs += len(alive)
        if pairs > maximum:
            return None
        result[number] = list(alive)
        for other in alive:
            result[other].append(number)
        alive[number] = None
        heappush(ends, (buffer.end, number))
    return result


def _pack_in_order(buffers: Sequence[Block], together: Sequence[Sequence[int]], order: _Key) -> int:
    placed: list[tuple[int, int] | None] = [None] * len(buffers)
    peak = 0
    for number in watched(sorted(range(len(buffers)), key=lambda number: order(buffers[number]))):
        buffer = buffers[number]
        nbytes, alignment = buffer.nbytes, buffer.alignment
        best_gap, best_offset, cursor = -1, -1, 0
        for begin, end in sorted([place for other in together[number] if (place := placed[other]) is not None]):
            start = round_up(cursor, alignment)
            gap = begin - start
            if gap >= nbytes and (best_gap < 0 or gap < best_gap):
                best_gap, best_offset = gap, start
            cursor = max(cursor, end)
        buffer.offset = round_up(cursor, alignment) if best_gap < 0 else best_offset
        placed[number] = (buffer.offset, buffer.offset + nbytes)
        peak = max(peak, buffer.offset + nbytes)
    return round_up(peak, ALIGNMENT)


def _sweep(buffers: Sequence[Block], *, backwards: bool) -> int:
    """Place buffers in order of birth (backwards: of death), each in the tightest gap."""
    gaps = _Gaps()
    ends: list[tuple[int, int]] = []
    peak = 0
    lives = [(-b.end, -b.start) if backwards else (b.start, b.end) for b in buffers]
    for number in watched(sorted(range(len(buffers)), key=lambda number: (lives[number][0], -buffers[number].nbytes))):
        buffer = buffers[number]
        first, last = lives[number]
        while ends and ends[0][0] < first:
            dead = buffers[heappop(ends)[1]]
            gaps.free(dead.offset, dead.offset + round_up(dead.nbytes, ALIGNMENT))
        nbytes = round_up(buffer.nbytes, ALIGNMENT)
        buffer.offset = gaps.take(nbytes, buffer.alignment) if nbytes else 0
        if nbytes:
            heappush(ends, (last, number))
        peak = max(peak, buffer.offset + nbytes)
    return peak


class _Gaps:
    """Free bytes below the highest buffer that is alive, and all above it."""

    def __init__(self) -> None:
        self.top = 0
        self.sizes: list[tuple[int, int]] = []
        self.end_of: dict[int, int] = {}
        self.begin_of: dict[int, int] = {}

    def take(self, nbytes: int, alignment: int) -> int:
        """Take bytes out of the smallest gap that has them; returns where."""
        for number in range(bisect_left(self.sizes, (nbytes, 0)), len(self.sizes)):
            size, begin = self.sizes[number]
            offset = round_up(begin, alignment)
            if offset + nbytes <= begin + size:
                self._remove(begin)
                self._add(begin, offset)
                self._add(offset + nbytes, begin + size)
                return offset
        offset = round_up(self.top, alignment)
        self._add(self.top, offset)
        self.top = offset + nbytes
        return offset

    def free(self, begin: int, end: int) -> None:
        """Give bytes back."""
        if begin in self.begin_of:  # a gap ends here
            begin = self.begin_of[begin]
            self._remove(begin)
        if end in self.end_of:
            after = self.end_of[end]
            self._remove(end)
            end = after
        if end == self.top:
            self.top = begin
        else:
            self._add(begin, end)

    def _add(self, begin: int, end: int) -> None:
        if begin < end:
            insort(self.sizes, (end - begin, begin))
            self.end_of[begin] = end
            self.begin_of[end] = begin

    def _remove(self, begin: int) -> None:
        end = self.end_of.pop(begin)
        del self.begin_of[end]
        del self.sizes[bisect_left(self.sizes, (end - begin, begin))]


def round_up(value: int, alignment: int) -> int:
    """Return the next multiple."""
    return -(-value // alignment) * alignment
