"""Where tensors live: domains of memory, and who provides it there.

A part of the contract: `interfaces.py` tells who creates, who owns, and when what is called.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from ..graph.tensor import TensorInfo
from ..ground.records import NamedTuple


class MemoryDomain(NamedTuple):
    """Where tensors live. Tensors in one domain need no copy between them.

    Attributes:
        owner: A backend's id, or "host" for plain memory, which all CPU backends share.
        device: Index of the device.
        kind: The backend's own name for the kind of memory.
        host_visible: The host can map it (`ITensorHandle.map`): the core copies from and to it by
            mapping, and asks for no copy workload.
    """

    owner: str = "host"
    device: int = 0
    kind: str = "host"
    host_visible: bool = False

    def __str__(self) -> str:
        return self.owner if self.owner == "host" else f"{self.owner}:{self.device}/{self.kind}"


HOST = MemoryDomain()


class TensorDomains(NamedTuple):
    """Where one layer reads and writes its tensors.

    Attributes:
        inputs: The domain of each input, in slot order; entries of constants and of inputs that are
            left out count for nothing.
        outputs: The domain of each output.
    """

    inputs: Sequence[MemoryDomain]
    outputs: Sequence[MemoryDomain]


class ITensorHandle(ABC):
    """One allocation in a memory domain; made by a memory manager, released once, by its owner."""

    domain: MemoryDomain
    nbytes: int

    @property
    @abstractmethod
    def address(self) -> int:
        """What goes into `data` of a tensor: a pointer, or an opaque handle such as a `cl_mem`."""

    @abstractmethod
    def release(self) -> None:
        """Free the memory; the core calls it once, when no step can touch it any more."""

    def map(self, offset: int, nbytes: int, *, writes: bool) -> int:
        """(optional) Let the host see some bytes until `unmap`; return a pointer to the first.

        Required in a domain that is `host_visible`. The core maps while a run is in progress, on
        its thread, after it waited for the queue that last wrote the tensor; one mapping of an
        allocation at a time. Default: refuses.

        Args:
            offset: Of the first byte in the allocation.
            nbytes: How many.
            writes: The host writes all of these bytes, and reads none; else it reads them.
        """
        raise TypeError(f"memory of {self.domain} cannot be mapped")

    def unmap(self) -> None:
        """(optional) End a `map`: whatever is enqueued later sees what the host wrote.

        Where Ctrl-C or a signal's handler raises inside `map` or `unmap`, the core calls `unmap`
        once more before the run ends: make it harmless where nothing is mapped. Default: nothing.
        """
        return


class IMemoryManager(ABC):
    """Provides arenas of one memory domain; the core plans what lies where in them."""

    domain: MemoryDomain = HOST
    alignment: ClassVar[int] = 64
    """Bytes that every planned offset is a multiple of."""
    pointers: ClassVar[bool] = True
    """True if `address` is a pointer, never 0 and aligned as asked for; not an opaque handle."""
    offsets: ClassVar[bool] = True
    """True if a tensor may lie at an offset in an arena; else each has an allocation of its own."""
    images: ClassVar[bool] = False
    """True if each allocation is made for one tensor, by `allocate_image`; `offsets` is False then.

    Tensors lie in the same one, in turn or in place, only if they agree in shape, element type and
    private layout. Scratch cannot lie there.
    """

    @abstractmethod
    def allocate(self, nbytes: int, alignment: int) -> ITensorHandle:
        """Allocate.

        The core refuses a handle of another domain, of fewer bytes, or, if addresses are pointers,
        at address 0 or misaligned; it is then released, and nothing was written to it.

        Raises:
            MemoryError: There is not that much.
        """

    def allocate_image(self, tensor: TensorInfo) -> ITensorHandle:
        """(optional) Allocate what one tensor lies in, such as an OpenCL image of its shape.

        Required with `images`, in the place of `allocate`; the handle's `nbytes` are those of the
        tensor or more. Default: refuses.

        Args:
            tensor: Its sizes, element type and private layout; its quantization is left out.

        Raises:
            MemoryError: There is not that much.
        """
        raise TypeError(f"memory of {self.domain} holds no images")
