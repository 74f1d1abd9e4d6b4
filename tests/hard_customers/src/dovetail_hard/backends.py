"""Define the backends: an asynchronous device, parallel kernels, plain Python.

Each opens what the tests want to look at or break.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dovetail import (
    BackendId,
    BackendUnavailableError,
    Capabilities,
    Device,
    DType,
    Layer,
    MemoryDomain,
    Network,
    Support,
    TensorInfo,
)
from dovetail.contract.interfaces import IBackend, IBackendContext, IMemoryManager, ITensorHandle, IWorkloadFactory
from dovetail.contract.subgraph import OptimizationViews, SubgraphView
from dovetail.graph.layer import OutputSlot

from .kinds import Block, Blocked, Call, Parallel, Program, Unblock, present

# -- the device ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DeviceOptions:
    """Options of the test device; the first ones are those of `td_settings`.

    Attributes:
        claim: What `optimize_subgraph` does: "none", "layers" (in the blocked layout), "whole" (one
            command).
    """

    delay_us: int = 0
    fail_at: int = -1
    hang_at: int = -1
    abort_status: int = 0
    limit: int = 1 << 40
    busy_us: int = 0
    lie: int = 0
    seed: int = 0
    claim: str = "none"


class DeviceMemory(ITensorHandle):
    """An allocation on the device."""

    def __init__(self, device: Any, domain: MemoryDomain, nbytes: int) -> None:
        self._device, self.domain, self.nbytes = device, domain, nbytes
        self._handle = device.allocate(nbytes)

    @property
    def address(self) -> int:
        return int(self._handle)

    def release(self) -> None:
        handle, self._handle = self._handle, 0
        self._device.free(handle)


class DeviceMemoryManager(IMemoryManager):
    """Allocates on the device."""

    alignment = 128
    pointers = False

    def __init__(self, context: DeviceContext) -> None:
        self._context = context
        self.domain = context.domain

    def allocate(self, nbytes: int, alignment: int) -> ITensorHandle:
        return DeviceMemory(self._context.device, self.domain, nbytes)


class DeviceMemoryWithoutOffsets(DeviceMemoryManager):
    """The same, of a device on which a tensor always begins an allocation."""

    offsets = False


class DeviceContext(IBackendContext):
    """An open device.

    Attributes:
        device: The device itself.
        events: What the core told last, in order; bounded, so that loading again and again leaves
            nothing behind.
    """

    def __init__(self, index: int, options: DeviceOptions) -> None:
        from .device import Device

        self.index = index
        self.domain = MemoryDomain("TestDevice", index, "opaque")
        self.device = Device(options.seed)
        for name in ("delay_us", "fail_at", "hang_at", "abort_status", "limit", "busy_us", "lie"):
            self.device.set(name, getattr(options, name))
        self.events: deque[tuple[Any, ...]] = deque(maxlen=32)

    def before_load(self, network: str) -> None:
        self.events.append(("before_load", network))

    def after_load(self, network: str, error: BaseException | None) -> None:
        self.events.append(("after_load", network, error))

    def before_unload(self, network: str) -> None:
        self.events.append(("before_unload", network, dict(self.device.counts)))

    def after_unload(self, network: str) -> None:
        self.events.append(("after_unload", network, dict(self.device.counts)))

    def close(self) -> None:
        self.events.append(("close",))
        self.device.close()


class DeviceFactory(IWorkloadFactory):
    """Makes commands."""

    def __init__(self, device: Any) -> None:
        self._device = device

    def create_workload(self, layer: Layer) -> Any:
        make = self._device.workload
        match layer.kind:
            case "dovetail.Activation":
                return make("relu", layer.name, 1)
            case "dovetail.ElementwiseBinary":
                return make("add", layer.name, 2)
            case "dovetail.Reshape":
                return make("move", layer.name, 1)
            case "dovetail.FullyConnected":
                step = ("fully_connected", 0, -1, layer.output.known_info.elements, layer.constant(1), layer.constant(2))
                return make("fully_connected", layer.name, 1, program=[step])
            case "hard.Block":
                return make("block", layer.name, 1)
            case "hard.Unblock":
                return make("unblock", layer.name, 1)
            case "hard.Blocked":
                return make(layer.descriptor.operation, layer.name, len(layer.inputs), blocked=True)
            case "hard.Program":
                return make("program", layer.name, layer.descriptor.inputs, program=_instructions(layer))
        raise AssertionError(f"supports() accepted {layer.kind}")

    def create_copy(self, source: MemoryDomain, target: MemoryDomain, info: TensorInfo) -> Any:
        assert (source.owner == "TestDevice") != (target.owner == "TestDevice"), (source, target)
        return self._device.workload("copy_in" if target.owner == "TestDevice" else "copy_out", "copy", 1)


def _instructions(layer: Layer) -> list[tuple[Any, ...]]:
    program = layer.descriptor
    constants = [layer.constant(i) for i in range(program.inputs, len(layer.inputs))]
    half = len(constants) // 2
    weights, biases = iter(constants[:half]), iter(constants[half:])
    return [
        (kind, a, b, n, *((next(weights), next(biases)) if kind == "fully_connected" else (None, None)))
        for kind, a, b, n in zip(program.operations, program.a, program.b, program.elements, strict=True)
    ]


class TestDevice(IBackend):
    """The asynchronous device.

    Attributes:
        state: "ready", or the state that `create_context` reports instead of opening a device.
        contexts: Every context that was opened.
        memory_type: Class of the memory managers.
    """

    __test__ = False  # the name is not that of a test

    options_type = DeviceOptions
    manifest: ClassVar[dict[str, Any]] = {
        "id": "TestDevice",
        "device": "test",
        "rank": 0,
        "description": "an asynchronous device in software",
        "late_failure": {"fail_at": 0},
    }

    def __init__(self, memory_type: type[DeviceMemoryManager] = DeviceMemoryManager) -> None:
        self.state = "ready"
        self.contexts: list[DeviceContext] = []
        self.memory_type = memory_type

    @property
    def id(self) -> BackendId:
        return BackendId("TestDevice")

    @property
    def device(self) -> Any:
        """The device that was opened last."""
        return self.contexts[-1].device

    def supports(self, layer: Layer, options: Any, device: Any) -> Support:
        infos = [info for info in (*layer.input_infos, *layer.output_infos) if info is not None]
        if any(info.dtype is not DType.FLOAT32 for info in infos):
            return Support.no("dtype", "the test device computes in float32")
        if any(info.elements == 0 for info in infos):
            return Support.no("shape", "the test device takes no empty tensors")
        if getattr(layer.descriptor, "activation", None) is not None:
            return Support.no("attribute", "the test device folds no activation", "activation")
        descriptor: Any = layer.descriptor
        match layer.kind:
            case "dovetail.Activation" if descriptor.function == "relu":
                return Support.yes()
            case "dovetail.Reshape":
                return Support.yes()
            case "dovetail.ElementwiseBinary" if descriptor.operation == "add":
                if infos[0].shape != infos[1].shape or any(layer.constant(i) is not None for i in range(2)):
                    return Support.no("shape", "the test device adds two computed tensors of one shape")
                return Support.yes()
            case "dovetail.FullyConnected" if layer.constant(1) is not None:
                if len(layer.inputs) > 2 and layer.constant(2) is None:
                    return Support.no("attribute", "the test device takes a constant bias", "bias")
                return Support.yes()
        return Support.no("kind", f"the test device has no {layer.kind} like that")

    def create_context(self, device: int, resources: Any, options: Any) -> IBackendContext:
        if self.state != "ready":
            raise BackendUnavailableError(
                f"the test device is not there: {self.state}", hint="plug it in", state=self.state, device=device
            )
        self.contexts.append(DeviceContext(device, options))
        return self.contexts[-1]

    def create_memory_manager(self, context: Any, domain: MemoryDomain) -> IMemoryManager:
        return self.memory_type(context)

    def create_workload_factory(self, context: Any, resources: Any, options: Any) -> IWorkloadFactory:
        return DeviceFactory(context.device)

    def memory_domains(self, device: int) -> tuple[MemoryDomain, ...]:
        return (MemoryDomain("TestDevice", device, "opaque"),)

    def devices(self) -> Sequence[Device]:
        return (Device(0, "first"), Device(1, "second"))

    def capabilities(self) -> Capabilities:
        return Capabilities(asynchronous=True)

    def queues(self, context: Any) -> Any:
        return context.device.queues()

    def optimize_subgraph(self, view: SubgraphView, options: Any, device: Any) -> OptimizationViews:
        views = OptimizationViews(view)
        if options.claim == "whole" and len(view.outputs) == 1 and len(view.inputs) <= 8 and len(view) <= 64:
            views.substitute(view, _program(view))
            return views
        rest = list(view.layers)
        for part in _elementwise_parts(view) if options.claim == "layers" else ():
            views.substitute(part, _blocked(part))
            rest = [layer for layer in rest if layer not in part]
        if rest:
            views.untouched(rest)
        return views


_OPERATIONS = {
    "dovetail.Activation": "relu",
    "dovetail.ElementwiseBinary": "add",
    "dovetail.Reshape": "move",
    "dovetail.FullyConnected": "fully_connected",
}


def _is_elementwise(layer: Layer) -> bool:
    return _OPERATIONS[layer.kind] in ("relu", "add")


def _elementwise_parts(view: SubgraphView) -> list[SubgraphView]:
    """Neighbouring element-wise layers, two or more, as far as they form a convex part."""
    part_of: dict[Layer, set[Layer]] = {}
    for layer in view.layers:
        if _is_elementwise(layer):
            part = part_of.setdefault(layer, {layer})
            for slot in layer.inputs:
                if slot.source is not None and slot.source.layer in part_of and part_of[slot.source.layer] is not part:
                    for member in part_of[slot.source.layer]:
                        part.add(member)
                        part_of[member] = part
    parts = {id(part): view.part(part) for part in part_of.values() if len(part) > 1}
    return [part for part in parts.values() if part.is_convex]


def _fed(part: SubgraphView, network: Network) -> dict[OutputSlot, OutputSlot]:
    return {slot: network.input(f"in{i}", slot.shape, slot.dtype) for i, slot in enumerate(part.inputs)}


def _blocked(part: SubgraphView) -> Network:
    network = Network("blocked")
    made = {slot: network.add(Block(), fed, name=f"block_{slot.name}").output for slot, fed in _fed(part, network).items()}
    for layer in part.layers:
        operands = [made[slot.source] for slot in layer.inputs if slot.source is not None]
        operation = Blocked(operation=_OPERATIONS[layer.kind])
        made[layer.output] = network.add(operation, *operands, name=layer.name, sources_of=layer.sources).output
    for i, slot in enumerate(part.outputs):
        network.output(network.add(Unblock(), made[slot], name=f"unblock_{slot.name}").output, f"out{i}")
    return network


def _program(view: SubgraphView) -> Network:
    network = Network("program")
    fed = _fed(view, network)
    # The output must come last; a depth-first order would do too, but one more move is simpler.
    number: dict[OutputSlot, int] = {slot: i for i, slot in enumerate(view.inputs)}
    operations, a, b, elements, weights, biases = [], [], [], [], [], []
    for layer in view.layers:
        kind = _OPERATIONS[layer.kind]
        sources = [number[slot.source] for slot in layer.inputs if slot.source in number]
        operations.append(kind)
        a.append(sources[0])
        b.append(sources[1] if kind == "add" else -1)
        elements.append(layer.output.known_info.elements)
        number[layer.output] = len(view.inputs) + len(operations) - 1
        if kind == "fully_connected":
            matrix, bias = layer.constant(1), layer.constant(2)
            assert matrix is not None
            weights.append(matrix)
            biases.append(np.zeros(len(matrix), np.float32) if bias is None else bias)
    result = view.outputs[0].known_info
    operations.append("move")
    a.append(number[view.outputs[0]])
    b.append(-1)
    elements.append(result.elements)
    program = Program(
        inputs=len(fed),
        operations=tuple(operations),
        a=tuple(a),
        b=tuple(b),
        elements=tuple(elements),
        shape=result.sizes,
    )
    network.output(
        network.add(program, *fed.values(), *weights, *biases, name="program", sources_of=view.sources).output, "out"
    )
    return network


# -- parallel kernels ------------------------------------------------------------------------------


class ParallelFactory(IWorkloadFactory):
    """Makes parallel workloads."""

    def create_workload(self, layer: Layer) -> Any:
        from .parallel import create

        wish: Any = layer.descriptor
        return create(wish.mode, wish.grain, wish.chunk, wish.work_us, wish.concurrency)


class ParallelBackend(IBackend):
    """Runs `Parallel`."""

    @property
    def id(self) -> BackendId:
        return BackendId("ParallelTest")

    def supports(self, layer: Layer, options: Any, device: Any) -> Support:
        return Support.yes() if isinstance(layer.descriptor, Parallel) else Support.no("kind", "only hard.Parallel")

    def create_workload_factory(self, context: Any, resources: Any, options: Any) -> IWorkloadFactory:
        return ParallelFactory()


class SecondParallelBackend(ParallelBackend):
    """The same with a device of its own."""

    @property
    def id(self) -> BackendId:
        return BackendId("SecondParallelTest")


# -- plain Python ----------------------------------------------------------------------------------


class PythonWorkload:
    """Computes with NumPy."""

    def __init__(self, function: Callable[[list[Any]], Any]) -> None:
        self.function = function

    def execute(self, inputs: list[Any], outputs: list[Any]) -> None:
        outputs[0][...] = self.function(inputs)


class PythonFactory(IWorkloadFactory):
    """Makes Python workloads."""

    def __init__(self, functions: Mapping[str, Callable[[list[Any]], Any]]) -> None:
        self.functions = functions

    def create_workload(self, layer: Layer) -> Any:
        descriptor: Any = layer.descriptor
        if isinstance(descriptor, Call):
            return PythonWorkload(self.functions[descriptor.function])
        if layer.kind == "dovetail.Permute":
            rank = present(layer.inputs[0].info).rank
            return PythonWorkload(lambda inputs: inputs[0].transpose(descriptor.order(rank)))
        return PythonWorkload(lambda inputs: inputs[0] * inputs[1])


class PythonBackend(IBackend):
    """Runs `Call`, permutations and products in Python.

    Attributes:
        functions: What `Call` may name: functions of the list of input arrays that return the
            output.
    """

    def __init__(self, **functions: Callable[[list[Any]], Any]) -> None:
        self.functions = functions

    @property
    def id(self) -> BackendId:
        return BackendId("PythonTest")

    def supports(self, layer: Layer, options: Any, device: Any) -> Support:
        descriptor: Any = layer.descriptor
        if isinstance(descriptor, Call):
            if descriptor.function in self.functions:
                return Support.yes()
            return Support.no("attribute", f"there is no function {descriptor.function!r}", "function")
        is_product = (
            layer.kind == "dovetail.ElementwiseBinary" and descriptor.operation == "mul" and descriptor.activation is None
        )
        if is_product or layer.kind == "dovetail.Permute":
            return Support.yes()
        return Support.no("kind", f"no Python for {layer.kind}")

    def create_workload_factory(self, context: Any, resources: Any, options: Any) -> IWorkloadFactory:
        return PythonFactory(self.functions)
