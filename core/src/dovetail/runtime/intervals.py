"""Find overlaps of intervals on a line: of the bytes of a buffer that tensors lie in."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator

from ..ground.records import NamedTuple


class Entry(NamedTuple):
    """The place of a tensor in its buffer."""

    begin: int
    end: int
    tensor: int


class Intervals:
    """A set of entries; empty ones overlap nothing and are left out.

    Entries are sorted by where they begin, in lists by the binary order of their length: what
    overlaps a place then begins less than twice its list's length before it.
    """

    __slots__ = ("by_length",)

    def __init__(self) -> None:
        self.by_length: dict[int, list[Entry]] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Intervals) and self.by_length == other.by_length

    __hash__ = None  # type: ignore[assignment]  # it changes

    def add(self, begin: int, length: int, tensor: int) -> None:
        """Add an entry."""
        if length:
            entries = self.by_length.setdefault(length.bit_length(), [])
            entry = Entry(begin, begin + length, tensor)
            if entries and entry < entries[-1]:
                insort(entries, entry)
            else:
                entries.append(entry)

    def remove(self, entry: Entry) -> None:
        """Take an entry out."""
        entries = self.by_length[(entry.end - entry.begin).bit_length()]
        del entries[bisect_left(entries, entry)]

    def overlapping(self, begin: int, length: int) -> Iterator[Entry]:
        """Find what overlaps a place."""
        end = begin + length
        for order, entries in self.by_length.items():
            first = bisect_left(entries, (begin - (1 << order),)) if len(entries) > 4 else 0
            for number in range(first, len(entries)):
                entry = entries[number]
                if entry.begin >= end:
                    break
                if entry.end > begin:
                    yield entry

    def take(self, other: Intervals, shift: int) -> None:
        """Add the entries of another set, shifted."""
        for entries in other.by_length.values():
            for begin, end, tensor in entries:
                self.add(begin + shift, end - begin, tensor)
