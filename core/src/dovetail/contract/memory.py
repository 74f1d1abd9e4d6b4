"""Plain host memory: the domain that all CPU backends share."""

from __future__ import annotations

import numpy as np

from .memory_domains import HOST, IMemoryManager, ITensorHandle

MAX_ALIGNMENT = 1 << 30
"""Bytes, of the largest page that there is: what asks for more is no alignment."""


class HostMemory(ITensorHandle):
    """An aligned block of host memory, not initialised."""

    domain = HOST

    def __init__(self, nbytes: int, alignment: int) -> None:
        self.nbytes = nbytes
        self._storage: np.ndarray[tuple[int], np.dtype[np.uint8]] | None = np.empty(nbytes + alignment, np.uint8)
        base = self._storage.ctypes.data
        self._address = base + -base % alignment

    @property
    def address(self) -> int:
        return self._address

    def map(self, offset: int, nbytes: int, *, writes: bool) -> int:
        return self._address + offset

    def release(self) -> None:
        self._storage = None


class HostMemoryManager(IMemoryManager):
    """Allocates host memory."""

    domain = HOST

    def allocate(self, nbytes: int, alignment: int) -> ITensorHandle:
        return HostMemory(nbytes, alignment)
