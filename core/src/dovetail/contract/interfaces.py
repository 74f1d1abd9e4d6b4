"""What a backend implements: this module is the contract, the rest of the core is how it is kept.

Memory has a file of its own, `memory_domains.py`, and so has what parsers implement, `parsers.py`.
All names can be imported from here.

Who creates, who owns
    The registry creates one `IBackend` per id, on first use by id, and keeps it for the life of the
    process: it must be light and hold no device. A `Runtime` creates the `IBackendContext` before
    the first network that needs the backend is loaded, and closes it when the runtime closes:
    devices, queues and caches live there. A loaded network owns one `IWorkloadFactory` and one
    `IMemoryManager` for each device, which serve all its plans (one for each set of sizes); a plan
    owns its workloads.

When called, and with what held
    Everything here is control plane: called rarely, with the GIL held, from one thread at a time
    per network, and allowed to raise (the core wraps what it raises with the backend's id,
    SystemExit too; Ctrl-C alone passes). A backend may load and run other networks meanwhile, never
    the one that it is being asked for. The hot path is C: see `abi.h`.

What may be left out
    Methods marked "(optional)" have the default that their text states. Required are `id` and
    `create_workload_factory`.

What a backend takes
    The claims of its manifest decide it (`claims.py`). A backend overrides `supports` for what data
    cannot say.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from ..graph.element_types import DType
from ..graph.layer import Layer
from ..graph.tensor import TensorInfo
from ..ground.records import NamedTuple, Record
from .backend_id import BackendId
from .claims import Claims, read_claims
from .device import DEFAULT_DEVICE as DEFAULT_DEVICE
from .device import Device as Device
from .device import Fact as Fact
from .memory_domains import HOST as HOST
from .memory_domains import IMemoryManager as IMemoryManager
from .memory_domains import ITensorHandle as ITensorHandle
from .memory_domains import MemoryDomain as MemoryDomain
from .memory_domains import TensorDomains as TensorDomains
from .own_manifest import own_manifest
from .parsers import IContentParser as IContentParser
from .parsers import IParser as IParser
from .support import Support as Support

if TYPE_CHECKING:
    from .artefacts import ArtefactStore
    from .subgraph import Choices, OptimizationViews, SubgraphView


class Capabilities(NamedTuple):
    """What a backend promises, each positive and off by default.

    Attributes:
        deterministic: The same input gives the same bits, whatever else runs.
        asynchronous: Workloads may enqueue rather than compute; `queues` must be given.
        float16: Layers may be converted to float16 for it.
        bfloat16: Layers may be converted to bfloat16 for it.
        integers: Dequantize - compute - quantize becomes one layer on int8 or uint8 where it takes
            that: it is faster so.
    """

    deterministic: bool = True
    asynchronous: bool = False
    float16: bool = False
    bfloat16: bool = False
    integers: bool = False


class HostResources(Record, frozen=True):
    """What a backend may use of the host.

    Known wherever it makes something that lasts: a context, a factory, a session.

    Attributes:
        threads: CPU threads that may work for it at a time, the caller's included: the limit that
            the user set. In `create_context` it is that of the runtime, in
            `create_workload_factory` that of the network, which is no higher. Kernels that use
            `parallel_for` keep it anyway; a library that fixes its threads when a session is made
            gets this number.
        artefacts: What was compiled earlier, for this device and these options; see
            `ArtefactStore`.
    """

    threads: int
    artefacts: ArtefactStore


class Run(Protocol):
    """The run that a workload in Python is part of.

    It is the third argument of `execute` where the workload sets ``sees_run = True``.

    It can be asked until `execute` returns, from any thread.

    Attributes:
        threads: CPU threads that may work for the run.
        deadline: When the run ends, on the clock of `time.monotonic`; None for never.
        is_profiled: Whether the run is profiled. Only then is it worth asking a device how long it
            took, for `worked`.
    """

    threads: int
    deadline: float | None
    is_profiled: bool

    def is_cancelled(self) -> bool:
        """Return True once the run should end: cancelled, past its deadline, or Ctrl-C pressed.

        Then return, or raise, soon: outputs need not be filled in. Ask every few milliseconds.
        """
        ...

    def worked(self, name: str, begin: float, end: float) -> None:
        """Tell the profile that a device worked for this workload; nothing where none is made.

        A workload that waits for its device says so: one with queues has the queues tell. Times may
        overlap; what is counted is the time that they cover. Of a run that fails none counts.

        Args:
            name: What the device did, or who measured it, for the trace; may be empty.
            begin: When, in seconds on the clock of `time.monotonic`.
            end: Until when.
        """
        ...


class IWorkloadFactory(ABC):
    """Turns layers into workloads, for all plans of one loaded network. Owned by that network.

    A network whose sizes are open has a plan for each set of sizes that it meets, and each plan has
    workloads of its own. Large constants are the same arrays in all of them, also those that the
    core worked out, as long as some plan holds them; nobody writes to them. So a factory may keep
    what it packs from a constant for the workloads of the next plan. It should hold it weakly,
    because plans are dropped while the factory lives.
    """

    @abstractmethod
    def create_workload(self, layer: Layer) -> Any:
        """Return the workload of a layer that `supports` accepted, or of a private layer.

        The private layer is one of a substitution.

        This is where a private layer is compiled. If that raises, its part goes back, visibly: to
        the next backend that the user named. A layer that `supports` accepted and that is left as
        it is does not go back: the yes was wrong.

        A workload is an object with ``__dovetail_workload__()`` returning a capsule (see `abi.h`),
        such a capsule itself, or, slow but simple, an object with ``execute(inputs, outputs)`` that
        gets lists of NumPy arrays and fills the outputs in. One that takes long sets
        ``sees_run = True`` and gets its `Run` as a third argument. One that holds much has an
        attribute ``private_bytes``: the bytes that it holds besides what the core plans, such as
        packed weights or a compiled program, as they are once it is returned here.
        """

    def expect(self, layers: Sequence[Layer]) -> None:  # noqa: B027  # optional: few compile
        """(optional) Hear for which layers of a plan `create_workload` will be called, in order.

        For what is better done for many layers at once, and to report how far compiling is. Nothing
        is owed for them yet: what fails is to fail when the layer's turn comes. Default: nothing.
        """

    def restore_workload(self, memory: memoryview) -> Any:
        """(optional) Return the workload of which `dovetail_workload.snapshot` wrote this.

        It is not shown to another version of the backend, of the core or of its options, nor on a
        machine of another kind. Default: refuses; then `snapshot` is of no use.

        Args:
            memory: The snapshot, in writeable memory of exactly that many bytes, aligned to 64,
                that nobody else reads or writes. The workload may live in it, if it holds the view.
        """
        raise NotImplementedError("no workload is restored")

    def release(self, layer: Layer) -> None:  # noqa: B027  # optional: most private layers hold next to nothing
        """(optional) Let go of what a private layer held for `create_workload` alone.

        For example weights that were packed since.

        Called once the workload of a layer is made, if nobody will see the layer again: of networks
        that the runtime optimized itself. So weights and what was made of them are never all there
        at once. Constant inputs stay whatever this does. Default: nothing is released before the
        network is.
        """

    def create_copy(self, source: MemoryDomain, target: MemoryDomain, info: TensorInfo) -> Any:
        """(optional) Return a workload that copies a tensor from `source` to `target`.

        It has one input in `source` and one output in `target`; one of the two is this backend's.

        Required between two domains of the backend, and between a domain of it that is not
        `host_visible` and the host. Default: refuses.
        """
        raise NotImplementedError(f"no copy from {source} to {target}")  # the core reports it as a contract violation


class IBackendContext:
    """(optional) What a backend keeps for the life of a runtime: devices, queues, caches.

    Calls come in pairs: for each network `before_load` then `after_load` (also if loading failed,
    with `error`), and `before_unload` then `after_unload`. What they raise is logged, and never
    stops the others from being told.
    """

    def before_load(self, network: str) -> None:
        """(optional) A network is about to be loaded."""

    def after_load(self, network: str, error: BaseException | None) -> None:
        """(optional) Loading ended; `error` is what it failed with, or None."""

    def before_unload(self, network: str) -> None:
        """(optional) A network is about to be unloaded; no run is in flight."""

    def after_unload(self, network: str) -> None:
        """(optional) A network's workloads and memory are gone."""

    def close(self) -> None:
        """(optional) The runtime closes: give the device back."""


class NoOptions(Record, frozen=True):
    """Options of a backend that has none."""


class IBackend(ABC):
    """Entry point of a backend: light, stateless, safe to create on a machine without the device.

    Class attributes:
        options_type: A frozen dataclass whose fields, all with defaults, are the options that users
            may give. The core builds it from ``options={id: {...}}`` and refuses unknown names.
        kind_versions: Newest schema version that this backend knows, per kind; kinds that are not
            listed count as version 1.
    """

    options_type: ClassVar[type[Any]] = NoOptions
    kind_versions: ClassVar[Mapping[str, int]] = {}

    @property
    @abstractmethod
    def id(self) -> BackendId:
        """The id; equals the name of the entry point."""

    @cached_property
    def manifest(self) -> Mapping[str, Any] | None:
        """(optional) What the manifest says, None without one.

        The registry sets it to the manifest under which it found the backend. Default: the entry of
        this id in the `dovetail-backend.json` in the top-level package of its class.
        """
        return own_manifest(type(self), str(self.id))

    @cached_property
    def claims(self) -> Claims | None:
        """What the manifest claims; None if it claims nothing.

        Raises:
            ClaimsError: The claims are malformed.
        """
        content = (self.manifest or {}).get("claims")
        return None if content is None else read_claims(content)

    def supports(self, layer: Layer, options: Any, device: Device) -> Support:
        """(optional) Say whether a device can run a layer, all of whose infos are concrete.

        Default: by the manifest's claims.

        Override it for what data cannot say, and ask the default first:
        ``answer = super().supports(layer, options, device)``. The layer is seen in its graph, so
        that a pattern can be answered too. Must not raise, and must answer the same for the same
        layer and device. Input, output and constant layers are never asked about.
        """
        claims = self.claims
        if claims is None:
            return Support.no("kind", f"{self.id} has no claims in its manifest and no supports() of its own: it takes nothing")
        return claims.support(layer, device)

    @abstractmethod
    def create_workload_factory(
        self, context: IBackendContext | None, resources: HostResources, options: Any
    ) -> IWorkloadFactory:
        """Return the factory for a network that is being loaded."""

    def device_of(self, options: Any) -> int | None:
        """(optional) Return the index of the device that options name. Default: None, they do not.

        So that users can name a device by other things than its number; the option is to be called
        `device`. A number that the request names, as in ``"AcmeNpu:1"``, must be the same.

        Raises:
            BackendUnavailableError: There is no such device.
        """
        return None

    def reduces(self, options: Any) -> DType | None:
        """(optional) Return `FLOAT16` or `BFLOAT16` if options want float32 layers converted to it.

        Those that go to this backend, and that it takes converted; casts stand where they meet
        others, and inputs and outputs of the network keep their type. Default: None.
        """
        return None

    def create_context(self, device: int, resources: HostResources, options: Any) -> IBackendContext | None:
        """(optional) Open the device. Default: None, nothing to keep.

        Raises:
            BackendUnavailableError: The driver or device is not there or busy; `state` in its
                details says which.
        """
        return None

    def memory_domains(self, device: int) -> Sequence[MemoryDomain]:
        """(optional) List where this backend keeps tensors and scratch.

        Default: `HOST`, shared with all CPU backends.

        Tensors lie in the first, unless `tensor_domains` says otherwise.
        """
        return (HOST,)

    def tensor_domains(self, layer: Layer, options: Any, device: Device) -> TensorDomains | None:
        """(optional) Choose a domain for each tensor of a layer of this backend, private or not.

        A tensor that lies elsewhere is copied there; a result may also be put into an importable
        domain if that saves copies. Default: None, all in the first of `memory_domains`.
        """
        return None

    def importable_domains(self, device: int) -> frozenset[MemoryDomain]:
        """(optional) Domains whose tensors every layer reads and writes in place.

        This holds whatever a layer chose. With `HOST` among them nothing is copied between host and
        device: a layer is then called with addresses too, see `DOVETAIL_ON_HOST` in `abi.h`.
        Default: none.
        """
        return frozenset()

    def create_memory_manager(self, context: IBackendContext | None, domain: MemoryDomain) -> IMemoryManager | None:
        """(optional) Return the provider of memory in one of `memory_domains`.

        It is never asked for `HOST`. Default: None.
        """
        return None

    def optimize_subgraph(self, view: SubgraphView, options: Any, device: Device) -> OptimizationViews:
        """(optional) Claim parts of a subgraph assigned to this backend.

        Private layers replace them. Default: none.

        Placing compiles nothing: users ask where layers would go. Compile in `create_workload`,
        when the network is loaded, and report how far that is (`dovetail.ground.progress.report`).
        Without optimization each layer is offered by itself.
        """
        from .subgraph import OptimizationViews

        views = OptimizationViews(view)
        views.untouched(view)
        return views

    def choices(self, view: SubgraphView, options: Any, device: Device) -> Choices:
        """(optional) Offer other ways to compute parts of what it runs.

        `dovetail tune` measures them. Default: none.

        Asked after `optimize_subgraph`, about its layers, private ones included, of one partition;
        and again when a network is loaded on a machine on which something was tuned. It must offer
        the same for the same layers: what was measured is known by the backend's files and options,
        the processor, the number of threads, and the part: kinds, attributes and infos; of arrays,
        shape and type alone.
        """
        from .subgraph import Choices

        return Choices(view)

    def in_words(self, layer: Layer) -> str:
        """(optional) Say what a private layer computes, and how.

        For example "convolution + ReLU, Winograd 4x4". Default: asks its kind.

        For placement reports; empty for nothing to say.
        """
        return layer.descriptor.in_words()

    def capabilities(self) -> Capabilities:
        """(optional) Say what this backend promises. Default: deterministic, nothing else."""
        return Capabilities()

    def devices(self) -> Sequence[Device]:
        """(optional) List the devices, in order of their index, without opening any.

        Default: one, the CPU, without facts.

        Empty on a machine that has none: what is placed there for device 0 cannot be loaded.
        """
        return (DEFAULT_DEVICE,)

    def queues(self, context: IBackendContext | None) -> Any:
        """(optional) Return a capsule ``dovetail.queues.v0`` (see `abi.h`).

        Default: None, synchronous.
        """
        return None
