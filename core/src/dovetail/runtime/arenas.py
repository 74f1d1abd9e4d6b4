"""Allocate the arenas of a run through the backends, and check the memory before any write."""

from __future__ import annotations

from collections.abc import Callable

from ..contract.backend_calls import backend_call, checked, notify
from ..contract.interfaces import IMemoryManager, ITensorHandle
from ..contract.memory import MAX_ALIGNMENT
from ..graph.tensor import TensorInfo
from ..ground.errors import BackendError, ErrorCode
from ..ground.limits import ADDRESSABLE
from .memory_plan import Arena


class _Findable(ITensorHandle):
    """An allocation that copies by mapping find by its address, as long as it lives."""

    def __init__(self, handle: ITensorHandle, known: dict[int, ITensorHandle]) -> None:
        self.domain, self.nbytes = handle.domain, handle.nbytes
        self._handle, self._known = handle, known
        known[handle.address] = handle

    @property
    def address(self) -> int:
        return self._handle.address

    def release(self) -> None:
        self._known.pop(self._handle.address, None)
        self._handle.release()


def allocator(
    arena: Arena,
    manager: IMemoryManager,
    origin: str,
    known: dict[int, ITensorHandle] | None = None,
    image: TensorInfo | None = None,
) -> Callable[[], ITensorHandle]:
    """Return what allocates an arena for one run.

    Args:
        arena: Its domain, size and alignment.
        manager: Of the memory in this domain.
        origin: Whose manager it is, for messages.
        known: Where those who map allocations find them by their address; None if nobody does.
        image: The tensor that it is made for, in a memory of images.

    Raises:
        BackendError: When it is called: there is not so much memory (`OUT_OF_MEMORY`), or the
            manager hands out memory that no tensor can lie in (`BACKEND_CONTRACT`).
    """
    method = "allocate" if image is None else "allocate_image"

    def allocate() -> ITensorHandle:
        with backend_call(origin, method):
            try:
                if arena.nbytes >= ADDRESSABLE:  # beyond 64 bits, managers would fail in ways of their own
                    raise MemoryError
                if image is None:
                    handle = manager.allocate(arena.nbytes, arena.alignment)
                else:
                    handle = manager.allocate_image(image.with_quantization(None))
            except MemoryError as error:
                raise BackendError(
                    f"cannot allocate {arena.nbytes} bytes in {arena.domain} for one run",
                    code=ErrorCode.OUT_OF_MEMORY,
                    hint="run fewer at once, use a smaller batch, or free memory",
                ) from error
        sound = _sound_handle(origin, method, checked(origin, method, handle, ITensorHandle), arena, manager)
        return sound if known is None else _Findable(sound, known)

    return allocate


def sound_manager(origin: str, manager: IMemoryManager) -> IMemoryManager:
    """Refuse a manager whose alignment nothing can be aligned to, or of images at offsets."""
    alignment = manager.alignment
    if not isinstance(alignment, int) or not 1 <= alignment <= MAX_ALIGNMENT or alignment & (alignment - 1):
        raise BackendError(
            f"{origin}: its memory manager asks for an alignment of {alignment!r}",
            code=ErrorCode.BACKEND_CONTRACT,
            hint=f"`alignment` is a power of two, in bytes, of at most {MAX_ALIGNMENT}; tell the backend's vendor",
        )
    if manager.images and manager.offsets:
        raise BackendError(
            f"{origin}: its memory manager of {manager.domain} has images, and tensors at offsets",
            code=ErrorCode.BACKEND_CONTRACT,
            hint="set `offsets` to False: each image is an allocation of its own",
        )
    return manager


def _sound_handle(origin: str, method: str, handle: ITensorHandle, arena: Arena, manager: IMemoryManager) -> ITensorHandle:
    """Refuse, before any write, an allocation that no tensor can lie in, and release it."""
    with backend_call(origin, method):
        domain, nbytes, address = handle.domain, handle.nbytes, handle.address
    problem = ""
    if domain != arena.domain:
        problem = f"in {domain}, expected {arena.domain}"
    elif not isinstance(nbytes, int) or nbytes < arena.nbytes:
        problem = f"of {nbytes!r} bytes, expected {arena.nbytes} or more"
    elif not isinstance(address, int) or not 0 <= address < 1 << 64:
        problem = f"whose address is {type(address).__name__} {address!r}, expected a pointer or handle of 64 bits"
    elif manager.pointers and address == 0:
        problem = "at address 0"
    elif manager.pointers and address % arena.alignment:
        problem = f"at {address:#x}, which is not a multiple of {arena.alignment}"
    if not problem:
        return handle
    notify(handle.release)
    raise BackendError(
        f"{origin}: {method}() returned memory {problem}",
        code=ErrorCode.BACKEND_CONTRACT,
        hint="see IMemoryManager.allocate and ITensorHandle; this is a bug of the backend: tell its vendor",
        method=method,
    )
