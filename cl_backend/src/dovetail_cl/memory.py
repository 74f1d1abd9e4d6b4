"""Memory of a device: buffers, which the host sees where device and host share memory."""

from __future__ import annotations

from typing import Any

from dovetail import IMemoryManager, ITensorHandle, MemoryDomain

from .devices import all_facts
from .refusing import ID, unavailable_without_driver


def domain_of(index: int) -> MemoryDomain:
    """Return the domain of a device: visible to the host if they share memory."""
    return MemoryDomain(ID, index, "buffers", host_visible=all_facts()[index]["is_unified"])


class ClBuffer(ITensorHandle):
    """A buffer; `address` is its `cl_mem`."""

    def __init__(self, device: Any, domain: MemoryDomain, nbytes: int) -> None:
        self.domain, self.nbytes = domain, nbytes
        self._device = device
        self._buffer, self._shared = device.allocate(max(nbytes, 1))
        self._mapped = 0

    @property
    def address(self) -> int:
        return int(self._buffer)

    def release(self) -> None:
        self._device.free(self._buffer, self._shared)
        self._buffer = self._shared = 0

    def map(self, offset: int, nbytes: int, *, writes: bool) -> int:
        if self._shared:
            return int(self._shared) + offset
        self._mapped = self._device.map(self._buffer, offset, nbytes, writes)
        return self._mapped

    def unmap(self) -> None:
        if self._mapped:
            mapped, self._mapped = self._mapped, 0
            self._device.unmap(self._buffer, mapped)


class ClMemory(IMemoryManager):
    """Allocates buffers.

    Kernels take tensors at any multiple of the element, so that no more alignment is asked for than
    the core gives: images are joined and split in place wherever they begin at such a multiple.
    """

    pointers = False

    def __init__(self, device: Any, domain: MemoryDomain) -> None:
        self.domain = domain
        self._device = device

    def allocate(self, nbytes: int, alignment: int) -> ITensorHandle:
        with unavailable_without_driver():
            return ClBuffer(self._device, self.domain, nbytes)
