"""Memory of the arenas of a run: backends allocate it, and what they hand out is looked at before anything is written to it."""

from __future__ import annotations

from collections.abc import Callable

from ..contract.backend_calls import backend_call, checked, notify
from ..contract.interfaces import IMemoryManager, ITensorHandle
from ..ground.errors import BackendError, ErrorCode
from ..ground.limits import ADDRESSABLE
from .memory_plan import Arena


def allocator(arena: Arena, manager: IMemoryManager, origin: str) -> Callable[[], ITensorHandle]:
    """Return what allocates an arena for one run.

    Args:
        arena: Its domain, size and alignment.
        manager: Of the memory in this domain.
        origin: Whose manager it is, for messages.

    Raises:
        BackendError: When it is called: there is not so much memory (`OUT_OF_MEMORY`), or the manager hands out memory that no
            tensor can lie in (`BACKEND_CONTRACT`).
    """

    def allocate() -> ITensorHandle:
        with backend_call(origin, "allocate"):
            try:
                if arena.nbytes >= ADDRESSABLE:  # beyond 64 bits, managers would fail in ways of their own
                    raise MemoryError
                handle = manager.allocate(arena.nbytes, arena.alignment)
            except MemoryError as error:
                raise BackendError(
                    f"cannot allocate {arena.nbytes} bytes in {arena.domain} for one run",
                    code=ErrorCode.OUT_OF_MEMORY,
                    hint="run fewer at once, use a smaller batch, or free memory",
                ) from error
        return _sound_handle(origin, checked(origin, "allocate", handle, ITensorHandle), arena, manager)

    return allocate


def sound_manager(origin: str, manager: IMemoryManager) -> IMemoryManager:
    """Refuse a manager whose alignment nothing can be aligned to."""
    alignment = manager.alignment
    if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
        raise BackendError(
            f"{origin}: its memory manager asks for an alignment of {alignment!r}",
            code=ErrorCode.BACKEND_CONTRACT,
            hint="`alignment` is a power of two, in bytes",
        )
    return manager


def _sound_handle(origin: str, handle: ITensorHandle, arena: Arena, manager: IMemoryManager) -> ITensorHandle:
    """Refuse an allocation that no tensor can lie in, before anything is written to it; it is released."""
    with backend_call(origin, "allocate"):
        domain, nbytes, address = handle.domain, handle.nbytes, handle.address
    problem = ""
    if domain != arena.domain:
        problem = f"in {domain}, expected {arena.domain}"
    elif not isinstance(nbytes, int) or nbytes < arena.nbytes:
        problem = f"of {nbytes!r} bytes, expected {arena.nbytes} or more"
    elif not isinstance(address, int) or not 0 <= address < 1 << 64:
        problem = f"whose address is {type(address).__name__} {address!r}, expected a pointer or handle of 64 bits"
    elif manager.host_visible and address == 0:
        problem = "at address 0"
    elif manager.host_visible and address % arena.alignment:
        problem = f"at {address:#x}, which is not a multiple of {arena.alignment}"
    if not problem:
        return handle
    notify(handle.release)
    raise BackendError(
        f"{origin}: allocate() returned memory {problem}",
        code=ErrorCode.BACKEND_CONTRACT,
        hint="see IMemoryManager.allocate and ITensorHandle; this is a bug of the backend: tell its vendor",
        method="allocate",
    )
