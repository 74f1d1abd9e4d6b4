"""Plans written down, so that a later process has them without parsing, optimizing or packing.

A snapshot is a file: a head, what describes the network and its plan (pickled), then the constants
and what backends wrote down of their workloads, each aligned to 64 bytes. It is read into memory
that the workloads live in from then on. It holds addresses and code of one build on one machine:
whoever keeps snapshots shows one only to the process that would make the same plan, and believes
only files that nobody else could have written (`loading/snapshots.py`).
"""

from __future__ import annotations

import mmap
import pickle
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ..contract.interfaces import HOST, IWorkloadFactory
from ..contract.private_layer import PrivateLayer
from ..graph.descriptor import Array, Constant, Descriptor, Input
from ..graph.layer import Layer
from ..graph.tensor import TensorInfo
from ..ground.records import NamedTuple
from .memory_plan import Arena, Placement, Storage
from .plan_parts import PlanParts
from .workload import Workload

if TYPE_CHECKING:
    from ..graph.state import State
    from ..optimizer.candidate import Assigned
    from ..optimizer.optimized import OptimizedNetwork, TensorSpec
    from .backends_in_use import BackendKey, Factory
    from .steps import StepLinks

_ALIGNMENT = 64
_HEAD = struct.Struct("<16sQQQQQ8x")
_MAGIC = b"dovetail plan 2\n"
_MAPPED = 256 << 10
"""Bytes of a file from which on it is mapped. Python holds a file open that is."""

Restore = Callable[[str, memoryview | Layer], Any]
"""Given (backend, snapshot of a workload or the layer it is made of), returns the workload."""


class NetworkFacts(NamedTuple):
    """What is told of a network that was not parsed.

    Attributes:
        name: Of the network.
        inputs: What the caller hands in; symbols where sizes are open.
        outputs: What the caller gets back; None where sizes are open, and that is worked out when
            it is asked for.
        output_names: The names of these.
        states: What the network remembers.
        files: What each file that it was read from looked like, by path.
        told: What a log says of its placement: `Placement.remarks`.
        metadata: What its file says of itself.
        oracles: What tells the oracles that were asked to compute constants of it from others; None
            if none was.
    """

    name: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...] | None
    output_names: tuple[str, ...]
    states: Mapping[str, State]
    files: Mapping[str, Any]
    told: Sequence[tuple[str, bool, str]] = ()
    metadata: Mapping[str, str] = {}
    oracles: str | None = None


class _Step(NamedTuple):
    """What a step touches: `StepLinks`."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    workspace: Placement | None
    worker_workspace: Placement | None
    worker_stride: int
    queue: None = None


class _Recipe(NamedTuple):
    """A layer whose workload is made again: all that a factory may look at.

    Attributes:
        inputs: Of each its info and, of a constant, its number in the plan; None if left out.
        needs: What the workload asked of the plan, which fits no other.
    """

    name: str
    descriptor: Descriptor
    sources: tuple[str, ...]
    inputs: tuple[tuple[TensorInfo, int | None] | None, ...]
    outputs: tuple[TensorInfo, ...]
    needs: tuple[Any, ...]

    @classmethod
    def of(cls, layer: Layer, constants: Mapping[int, int], needs: tuple[Any, ...]) -> _Recipe:
        """Describe a layer; `constants` has the number of each array by its id."""
        inputs = []
        for index, slot in enumerate(layer.inputs):
            value = layer.constant(index)
            inputs.append(None if slot.info is None else (slot.info, None if value is None else constants[id(value)]))
        return cls(layer.name, layer.descriptor, layer.sources, tuple(inputs), tuple(layer.output_infos), needs)

    def layer(self, constants: Sequence[Array]) -> Layer:
        """Return a layer like that, which stands alone."""
        made = Layer(0, self.name, self.descriptor, len(self.inputs), self.sources)
        for number, (slot, given) in enumerate(zip(made.inputs, self.inputs, strict=True)):
            if given is not None:
                info, constant = given
                what: Descriptor = (
                    Input(info=info) if constant is None else Constant(value=constants[constant], dtype=info.dtype)
                )
                source = Layer(0, f"{self.name} {number}", what, 0, ()).output
                source.info = info
                source.add_reader(slot)
        for output, info in zip(made.outputs, self.outputs, strict=True):
            output.info = info
        return made


_Kept = tuple[str, int, int] | tuple[str, _Recipe]


class _Plan(NamedTuple):
    """A plan, but for what lies behind it in the file.

    Attributes:
        symbols: Sizes of symbolic dimensions that it was made for.
        constants: (offset, shape, type) of each.
        workloads: Of each step (backend, offset, bytes) or (backend, recipe), or None for the
            core's own copy.
        steps: What each touches, `_Step` as a tuple, places as tuples.
        arenas: (bytes, alignment) of each.
        locations: (number of the storage, index, offset) of each tensor.
        described: Steps in words, and the memory plan, pickled: few ask.
    """

    symbols: Mapping[str, int]
    inputs: list[TensorSpec]
    outputs: list[TensorSpec]
    constants: list[tuple[int, tuple[int, ...], str]]
    workloads: list[_Kept | None]
    steps: list[tuple[Any, ...]]
    arenas: list[tuple[int, int]]
    tensors: list[tuple[int, int, tuple[int, ...]] | None]
    locations: list[tuple[int, int, int]]
    shared_arena: tuple[int, int, int] | None
    threads: int
    described: bytes


_STORAGES = tuple(Storage)


class PlanSnapshots(Protocol):
    """Where one network finds its plans written down, and has them kept."""

    def find(self, symbols: Mapping[str, int]) -> Snapshot | None:
        """Return the plan for these sizes, if there is one."""
        ...

    def backend(self, name: str) -> Assigned:
        """Return the backend of this name, of those that the user asked for."""
        ...

    def keep_open(
        self,
        name: str,
        inputs: tuple[TensorSpec, ...],
        output_names: tuple[str, ...],
        states: Mapping[str, State],
        metadata: Mapping[str, str],
    ) -> None:
        """Write down what is told of a network whose sizes are open."""
        ...

    def keep(
        self,
        optimized: OptimizedNetwork,
        symbols: Mapping[str, int],
        parts: PlanParts,
        factories: Mapping[BackendKey, Factory],
    ) -> None:
        """Write a plan down that was made for these sizes, if it is one that can be."""
        ...


class Snapshot:
    """A snapshot that was read.

    Attributes:
        facts: Of the network.
        symbols: Sizes of symbolic dimensions that its plan was made for; None if there is no plan.
        nbytes: Of the file.
    """

    def __init__(self, facts: NetworkFacts, plan: _Plan | None, memory: memoryview) -> None:
        self.facts = facts
        self.symbols = None if plan is None else plan.symbols
        self.nbytes = len(memory)
        self._plan = plan
        self._memory = memory

    @property
    def backends(self) -> list[str]:
        """The backends that workloads of the plan are of, as they were asked for."""
        return [] if self._plan is None else list(dict.fromkeys(one[0] for one in self._plan.workloads if one is not None))

    def parts(self, restore: Restore) -> PlanParts:
        """Return what the plan is made of; once, since workloads live in the snapshot.

        Args:
            restore: Makes workloads of backends.
        """
        plan, memory = self._plan, self._memory
        assert plan is not None  # `symbols` says so
        constants = [np.ndarray(shape, kind, memory, at) for at, shape, kind in plan.constants]

        def workload(kept: _Kept | None, step: _Step) -> Workload:
            if kept is None:
                return Workload.host_copy()
            if len(kept) == 3:
                backend, at, nbytes = kept
                return Workload.take(restore(backend, memory[at : at + nbytes]), f"backend {backend!r}", "restore_workload")
            backend, recipe = kept
            made = Workload.take(restore(backend, recipe.layer(constants)), f"backend {backend!r}, layer {recipe.name!r}")
            if _needs(made, step, plan.tensors, plan.threads) != recipe.needs:
                raise ValueError(f"backend {backend!r} makes another workload of layer {recipe.name!r} than it did")
            return made

        steps = [_Step(one[0], one[1], _place(one[2]), _place(one[3]), one[4]) for one in plan.steps]

        return PlanParts(
            inputs=plan.inputs,
            outputs=plan.outputs,
            steps=steps,
            workloads=[workload(one, step) for one, step in zip(plan.workloads, steps, strict=True)],
            layers=[],
            describe=lambda: pickle.loads(plan.described),
            arenas=[Arena(HOST, nbytes, alignment) for nbytes, alignment in plan.arenas],
            constants=constants,
            tensors=plan.tensors,
            locations=[(_STORAGES[storage], index, offset) for storage, index, offset in plan.locations],
            shared_arena=plan.shared_arena,
            threads=plan.threads,
        )


def written(
    key: str,
    facts: NetworkFacts,
    symbols: Mapping[str, int],
    parts: PlanParts | None = None,
    factories: Mapping[BackendKey, Factory] | None = None,
    *,
    largest: int,
) -> memoryview | None:
    """Return the bytes of a snapshot; None if the plan is none that can be written down.

    Args:
        key: By what it is known.
        facts: Of the network.
        symbols: Sizes of symbolic dimensions that the plan was made for.
        parts: What the plan is made of; None for a network alone, whose sizes are open.
        factories: Of the network.
        largest: Bytes that it may take.
    """
    at = 0
    workloads: list[_Kept | None] = []
    constants = []
    plan = None
    if parts is not None:
        if not _is_plain(parts, factories or {}):
            return None
        steps, memory = parts.describe()
        for array in parts.constants:
            constants.append((at, array.shape, array.dtype.str))
            at += _rounded(array.nbytes) + _ALIGNMENT
        numbers = {id(array): number for number, array in enumerate(parts.constants)}
        for step, made, layer in zip(steps, parts.workloads, parts.layers, strict=True):
            assert made is not None  # it is plain
            nbytes = 0 if made.is_host_copy else made.snapshot_bytes
            if nbytes:
                workloads.append((step.backend, at, nbytes))
            elif made.is_host_copy:
                workloads.append(None)
            elif layer is None or isinstance(layer.descriptor, PrivateLayer):
                return None
            else:
                workloads.append((step.backend, _Recipe.of(layer, numbers, _needs(made, step, parts.tensors, parts.threads))))
            at += _rounded(nbytes)
        plan = _Plan(
            symbols,
            parts.inputs,
            parts.outputs,
            constants,
            workloads,
            [
                (one.inputs, one.outputs, _tuple(one.workspace), _tuple(one.worker_workspace), one.worker_stride)
                for one in steps
            ],
            [(one.nbytes, one.alignment) for one in parts.arenas],
            parts.tensors,
            [(_STORAGES.index(storage), index, offset) for storage, index, offset in parts.locations],
            parts.shared_arena,
            parts.threads,
            pickle.dumps((steps, memory), pickle.HIGHEST_PROTOCOL),
        )
    described = pickle.dumps((facts, plan), pickle.HIGHEST_PROTOCOL)
    known = key.encode("utf-8", "surrogateescape")
    begin = _rounded(_HEAD.size + len(known) + len(described))
    if begin + at + _ALIGNMENT > largest:
        return None
    whole = memoryview(mmap.mmap(-1, begin + at + _ALIGNMENT))
    whole[_HEAD.size : _HEAD.size + len(known) + len(described)] = known + described
    if parts is not None:
        for array, (offset, _, _) in zip(parts.constants, constants, strict=True):
            np.ndarray(array.shape, array.dtype, whole, begin + offset)[...] = array
        for made, one in zip(parts.workloads, workloads, strict=True):
            if one is None or len(one) != 3:
                continue
            assert made is not None
            _, offset, nbytes = one
            if not made.write_snapshot(whole[begin + offset : begin + offset + nbytes]):
                return None
    _HEAD.pack_into(whole, 0, _MAGIC, len(whole), len(known), len(described), begin, _sum(whole))
    return whole


def read(file: Any, nbytes: int, key: str) -> Snapshot | None:
    """Read a snapshot; None if it is damaged, or known by something else.

    Args:
        file: Open for reading bytes, at its beginning.
        nbytes: Of the file.
        key: By what it is to be known.
    """
    if nbytes < _HEAD.size or nbytes % _ALIGNMENT:
        return None
    memory = memoryview(_mapped(file, nbytes))
    magic, whole, known, length, begin, total = _HEAD.unpack_from(memory, 0)
    end = _HEAD.size + known
    if magic != _MAGIC or whole != nbytes or begin != _rounded(end + length) or begin > nbytes or total != _sum(memory):
        return None
    if memory[_HEAD.size : end] != key.encode("utf-8", "surrogateescape"):
        return None
    facts, plan = pickle.loads(memory[end : end + length])
    return Snapshot(facts, plan, memory[begin:])


def _mapped(file: Any, nbytes: int) -> mmap.mmap:
    """Return what a file holds as memory that begins a page, and may be written to."""
    if nbytes < _MAPPED:
        memory = mmap.mmap(-1, nbytes)
        file.readinto(memory)
        return memory
    # Pages that nobody writes to are those of the system's own cache. Like byte code and libraries,
    # these files are replaced and removed, but never written to.
    untracked: dict[str, Any] = {"trackfd": False} if sys.version_info >= (3, 13) else {}  # it would hold the file open
    return mmap.mmap(file.fileno(), nbytes, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE, **untracked)


def _is_plain(parts: PlanParts, factories: Mapping[BackendKey, Factory]) -> bool:
    """Tell whether the plan needs host memory alone, and no step waits or is told beforehand."""
    told = [type(one.workloads).expect is not IWorkloadFactory.expect for one in factories.values()]
    return (
        not any(told)
        and all(arena.domain == HOST for arena in parts.arenas)
        and all(
            made is not None and step.queue is None and not step.maps and not made.concurrency
            for step, made in zip(parts.describe()[0], parts.workloads, strict=True)
        )
    )


def _needs(
    made: Workload, step: StepLinks, tensors: Sequence[tuple[int, int, tuple[int, ...]] | None], threads: int
) -> tuple[Any, ...]:
    """Return what a workload asks of the plan."""
    workspace = made.workspace([tensors[i] for i in step.inputs], [tensors[i] for i in step.outputs], threads)
    aliases = [tuple(one) for one in made.aliases]
    return workspace, made.workspace_memory, made.asynchronous, made.concurrency, made.elidable, aliases


def _tuple(place: Placement | None) -> tuple[int, int, int] | None:
    return None if place is None else (_STORAGES.index(place.storage), place.index, place.offset)


def _place(given: tuple[int, int, int] | None) -> Placement | None:
    return None if given is None else Placement(_STORAGES[given[0]], *given[1:])


def _rounded(nbytes: int) -> int:
    return -(-nbytes // _ALIGNMENT) * _ALIGNMENT


def _sum(memory: memoryview) -> int:
    """Return the sum of all words behind the head: what was not written whole has another one."""
    return int(np.add.reduce(np.frombuffer(memory, np.uint64, offset=_HEAD.size)))
