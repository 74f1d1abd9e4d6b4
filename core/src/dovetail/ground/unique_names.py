"""Names that are not taken yet."""

from __future__ import annotations

from collections.abc import Container
from heapq import heappop, heappush


class UniqueNames:
    """Finds suffixes for names that are taken, without trying all that are taken too.

    Args:
        taken: The names in use; whoever takes one out of it tells `freed`.
    """

    __slots__ = ("_freed", "_next", "_taken")

    def __init__(self, taken: Container[str]) -> None:
        self._taken = taken
        self._next: dict[str, int] = {}
        self._freed: dict[str, list[int]] = {}

    def like(self, preferred: str) -> str:
        """Return `preferred`, or the first of `wish_2`, `wish_3`, ... that is not taken."""
        if preferred not in self._taken:
            return preferred
        freed = self._freed.get(preferred)
        while freed:
            name = f"{preferred}_{freed[0]}"
            if name not in self._taken:
                return name
            heappop(freed)
        number = self._next.get(preferred, 2)
        while f"{preferred}_{number}" in self._taken:
            number += 1
        self._next[preferred] = number
        return f"{preferred}_{number}"

    def freed(self, name: str) -> None:
        """Hear that a name is not taken any more."""
        if not self._next:
            return
        preferred, _, number = name.rpartition("_")
        if (
            preferred in self._next
            and number.isdecimal()
            and f"{preferred}_{int(number)}" == name
            and int(number) < self._next[preferred]
        ):
            heappush(self._freed.setdefault(preferred, []), int(number))
