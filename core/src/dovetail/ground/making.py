"""Limit what a model may have made up: constants in no file, such as positions to gather."""

from __future__ import annotations

from .limits import budget

_LARGEST_MADE = 1 << 26
"""Most elements made up for one model, all constants together; real models have some thousands."""
_PER_STORED = 64
"""Elements that may be made besides, for each that the file holds.

An example is a sparse tensor of which some percent are stored.
"""
_ITEM = 8
"""Bytes of the largest element."""


class Making:
    """Counts what was made up for one model.

    Args:
        stored: How many elements the file holds, where that is known from the beginning.
    """

    def __init__(self, stored: int = 0) -> None:
        self._made = 0
        self._stored = stored

    def allows(self, count: int, what: str, stored: int = 0, itemsize: int = _ITEM) -> bool:
        """Say whether a constant of so many elements may be made, and count it.

        Args:
            count: Its elements.
            what: What to call it.
            stored: How many of its elements the file holds.
            itemsize: Bytes that each takes.

        Raises:
            LimitError: The load may not take so much memory.
        """
        if self._made + count > _LARGEST_MADE + _PER_STORED * (self._stored + stored):
            return False
        budget().take_memory(itemsize * count, what)
        self._made += count
        self._stored += stored
        return True
