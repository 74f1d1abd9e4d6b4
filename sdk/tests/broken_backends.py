"""A small backend that is right, and many that are each wrong in one way.

The kit must accept the first and reject the others.

Each class can be found by another process as "broken_backends:Class" with this folder on
PYTHONPATH.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dovetail import BackendId, Capabilities, Choices, Descriptor, Device, Layer, MemoryDomain, Support, TensorInfo
from dovetail.contract.claims import read_claims
from dovetail.contract.interfaces import IBackend, IBackendContext, IMemoryManager, ITensorHandle, IWorkloadFactory
from dovetail.contract.subgraph import OptimizationViews, SubgraphView
from dovetail.graph.descriptor import Infos
from dovetail.graph.graph import Graph

ADDITION: dict[str, Any] = {
    "dovetail.ElementwiseBinary": [
        {
            "dtypes": ["float32", "int32"],
            "where": {
                "operation": ["add", "sub"],
                "activation": None,
                "a.quantization": "none",
                "b.quantization": "none",
                "output.rank": {"max": 4},
                "output.-1": {"min": 1, "max": 8},
            },
        }
    ]
}
CLAIMS = read_claims(ADDITION)
FUNCTIONS: dict[str, Callable[..., Any]] = {"add": np.add, "sub": np.subtract}


def manifest_with(claims: Any, **fields: Any) -> dict[str, Any]:
    facts = {"id": "CpuSmall", "abi": [0, 1], "device": "cpu", "rank": 1, "description": "adds and subtracts", **fields}
    return facts if claims is None else {**facts, "claims": claims}


class Workload:
    """Adds or subtracts."""

    def __init__(self, layer: Layer) -> None:
        self.function = FUNCTIONS[str(layer.descriptor.operation)]

    def execute(self, inputs: list[Any], outputs: list[Any]) -> None:
        with np.errstate(all="ignore"):
            self.function(*inputs, out=outputs[0])


class Factory(IWorkloadFactory):
    def __init__(self, workload: Callable[[Layer], Any]) -> None:
        self.workload = workload

    def create_workload(self, layer: Layer) -> Any:
        return self.workload(layer)


class Correct(IBackend):
    """Takes exactly what it claims, and computes it."""

    manifest: Mapping[str, Any] = manifest_with(ADDITION)
    workload: ClassVar[Callable[[Layer], Any]] = Workload

    @property
    def id(self) -> BackendId:
        return BackendId("CpuSmall")

    def create_workload_factory(self, context: Any, resources: Any, options: Any) -> IWorkloadFactory:
        return Factory(type(self).workload)


class WithoutClaims(Correct):
    """Says by code alone what it takes."""

    manifest = manifest_with(None)

    def supports(self, layer: Layer, options: Any, device: Any) -> Support:
        return CLAIMS.support(layer, device)


# -- level 0 ---------------------------------------------------------------------------------------


class WrongId(Correct):
    """Says another id than its manifest."""

    manifest = manifest_with(ADDITION, id="CpuOther")


class NewerAbi(Correct):
    manifest = manifest_with(ADDITION, abi=[7, 0])


class MisspeltClaim(Correct):
    manifest = manifest_with({"dovetail.ElementwiseBinary": [{"dtypes": ["int8"], "where": {"operatoin": "add"}}]})


class UnknownClaim(Correct):
    manifest = manifest_with({"dovetail.ElementwiseBinry": [{"dtypes": ["int8"]}]})


class NoDevice(Correct):
    def devices(self) -> Sequence[Device]:
        return ()


class NoCapabilities(Correct):
    def capabilities(self) -> Any:
        return {"deterministic": True}


class ThawedOptions(Correct):
    @dataclass
    class Options:
        level: int = 1

    options_type = Options


class OptionsWithoutDefaults(Correct):
    @dataclass(frozen=True)
    class Options:
        level: int

    options_type = Options


class Clairvoyant(Correct):
    """Knows a version of a kind that does not exist yet."""

    kind_versions: ClassVar[Mapping[str, int]] = {"dovetail.ElementwiseBinary": 99}


# -- level 1 ---------------------------------------------------------------------------------------


class RefusesWithoutReason(Correct):
    def supports(self, layer: Layer, options: Any, device: Any) -> Support:
        answer = super().supports(layer, options, device)
        return answer if answer.supported else Support.no("kind", "")


class RaisesInSupports(Correct):
    """Knows four element types and looks the others up all the same."""

    def supports(self, layer: Layer, options: Any, device: Any) -> Support:
        {"float32": 1, "int32": 1, "float64": 1, "int8": 1}[layer.input_infos[0].dtype.label]  # raises, as it is to
        return super().supports(layer, options, device)


class SupportsAtRandom(Correct):
    """Changes its mind with every third question."""

    def __init__(self) -> None:
        self.asked = 0

    def supports(self, layer: Layer, options: Any, device: Any) -> Support:
        self.asked += 1
        return super().supports(layer, options, device) if self.asked % 3 else Support.no("busy", "asked too often")


class AnswersTrue(Correct):
    def supports(self, layer: Layer, options: Any, device: Any) -> Any:
        return super().supports(layer, options, device).supported


class AcceptsEverything(Correct):
    def supports(self, layer: Layer, options: Any, device: Any) -> Support:
        return Support.yes()


class SameWorkloadTwice(Correct):
    def __init__(self) -> None:
        self.made: dict[str, Workload] = {}

    def create_workload_factory(self, context: Any, resources: Any, options: Any) -> IWorkloadFactory:
        return Factory(lambda layer: self.made.setdefault(str(layer.descriptor.operation), Workload(layer)))


class LeaksMemory(Correct):
    """Keeps a buffer of each load."""

    kept: ClassVar[list[Any]] = []

    def create_workload_factory(self, context: Any, resources: Any, options: Any) -> IWorkloadFactory:
        self.kept.append(np.ones(1 << 16, np.uint8))
        return super().create_workload_factory(context, resources, options)


class LeaksFiles(Correct):
    def create_workload_factory(self, context: Any, resources: Any, options: Any) -> IWorkloadFactory:
        os.open(os.devnull, os.O_RDONLY)
        return super().create_workload_factory(context, resources, options)


class AsynchronousWithoutQueues(Correct):
    def capabilities(self) -> Capabilities:
        return Capabilities(asynchronous=True)


class Handle(ITensorHandle):
    def __init__(self, domain: MemoryDomain, storage: Any, nbytes: int) -> None:
        self.domain, self.nbytes, self.storage = domain, nbytes, storage

    @property
    def address(self) -> int:
        return -(-ctypes.addressof(self.storage) // 64) * 64

    def release(self) -> None:
        self.storage = None


class OverlappingMemory(Correct):
    """Hands out one allocation to everybody."""

    class Manager(IMemoryManager):
        storage = (ctypes.c_char * ((1 << 20) + 64))()

        def __init__(self, domain: MemoryDomain) -> None:
            self.domain = domain

        def allocate(self, nbytes: int, alignment: int) -> ITensorHandle:
            if nbytes > 1 << 20:
                raise MemoryError
            return Handle(self.domain, self.storage, nbytes)

    def memory_domains(self, device: int) -> tuple[MemoryDomain, ...]:
        return (MemoryDomain(self.id, device, "shared"),)

    def create_memory_manager(self, context: Any, domain: MemoryDomain) -> IMemoryManager:
        return self.Manager(domain)


class MemoryOfSomebodyElse(Correct):
    def memory_domains(self, device: int) -> tuple[MemoryDomain, ...]:
        return (MemoryDomain("GpuOther", 0, "vram"),)


class HookRaises(Correct):
    class Context(IBackendContext):
        def after_unload(self, network: str) -> None:
            raise RuntimeError("the driver is gone")

    def create_context(self, device: int, resources: Any, options: Any) -> IBackendContext:
        return self.Context()


class SecondContextBreaksFirst(Correct):
    """Keeps what a context has in the backend, so that closing one takes it from the other."""

    class Context(IBackendContext):
        def __init__(self, backend: Any) -> None:
            self.backend = backend
            backend.device = object()

        def close(self) -> None:
            self.backend.device = None

    def create_context(self, device: int, resources: Any, options: Any) -> IBackendContext:
        return self.Context(self)

    def create_workload_factory(self, context: Any, resources: Any, options: Any) -> IWorkloadFactory:
        backend = self

        class NeedsDevice(Workload):
            def execute(self, inputs: list[Any], outputs: list[Any]) -> None:
                if backend.device is None:
                    raise RuntimeError("the device was closed")
                super().execute(inputs, outputs)

        return Factory(NeedsDevice)


class DiesAtExit(Correct):
    """Ends the process from an exit handler, as a driver's static destructor may."""

    def create_workload_factory(self, context: Any, resources: Any, options: Any) -> IWorkloadFactory:
        import atexit

        atexit.register(os._exit, 3)
        return super().create_workload_factory(context, resources, options)


class DoesNotSurviveFork(Correct):
    """Remembers the process that created it, as a library with threads of its own does."""

    def create_workload_factory(self, context: Any, resources: Any, options: Any) -> IWorkloadFactory:
        process = os.getpid()

        class AtHome(Workload):
            def execute(self, inputs: list[Any], outputs: list[Any]) -> None:
                if os.getpid() != process:
                    raise RuntimeError("my threads are gone")
                super().execute(inputs, outputs)

        return Factory(AtHome)


# -- level 2 ---------------------------------------------------------------------------------------


class WrongNumbers(Correct):
    """Is off by a thousandth."""

    class workload(Workload):  # stands for the method's result
        def execute(self, inputs: list[Any], outputs: list[Any]) -> None:
            super().execute(inputs, outputs)
            if outputs[0].dtype == np.float32:
                outputs[0] *= np.float32(1.001)


class WrongAtTheBoundary(Correct):
    """Is wrong at the largest size that it claims, and nowhere else."""

    class workload(Workload):
        def execute(self, inputs: list[Any], outputs: list[Any]) -> None:
            super().execute(inputs, outputs)
            if outputs[0].ndim and outputs[0].shape[-1] == 8:
                outputs[0][..., 7] = 0


class WrongOutsideTheClaim(Correct):
    """Accepts one size more than it claims, and computes it wrongly."""

    def supports(self, layer: Layer, options: Any, device: Any) -> Support:
        wider = {"dovetail.ElementwiseBinary": [{**ADDITION["dovetail.ElementwiseBinary"][0]}]}
        entry = wider["dovetail.ElementwiseBinary"][0]
        entry["where"] = {**entry["where"], "output.-1": {"min": 1, "max": 9}}
        return read_claims(wider).support(layer, device)

    class workload(Workload):
        def execute(self, inputs: list[Any], outputs: list[Any]) -> None:
            super().execute(inputs, outputs)
            if outputs[0].ndim and outputs[0].shape[-1] == 9:
                outputs[0][..., 8] = 0


class FalseClaim(Correct):
    """Claims int32, and refuses it."""

    def supports(self, layer: Layer, options: Any, device: Any) -> Support:
        if layer.input_infos[0].dtype.label == "int32":
            return Support.no("dtype", "int32 comes in the next release")
        return super().supports(layer, options, device)


class FalseClaimOfOneDevice(FalseClaim):
    """Claims all of it on devices of some width, and refuses part of it there."""

    manifest = manifest_with(
        {
            kind: [{**one, "where": {**one["where"], "device.lanes": {"min": 64}}} for one in list]
            for kind, list in ADDITION.items()
        }
    )

    def devices(self) -> Sequence[Device]:
        return (Device(0, "narrow", facts={"lanes": 32}), Device(1, "wide", facts={"lanes": 64}))

    def supports(self, layer: Layer, options: Any, device: Any) -> Support:
        return super().supports(layer, options, device) if device.index else CLAIMS.support(layer, device)


class WrongOnOneDevice(Correct):
    """Computes on its second device as if it added always."""

    class Context(IBackendContext):
        def __init__(self, device: int) -> None:
            self.device = device

    class Adds(Workload):
        def __init__(self, layer: Layer) -> None:
            self.function = np.add

    def devices(self) -> Sequence[Device]:
        return (Device(0, "first"), Device(1, "second"))

    def create_context(self, device: int, resources: Any, options: Any) -> IBackendContext:
        return self.Context(device)

    def create_workload_factory(self, context: Any, resources: Any, options: Any) -> IWorkloadFactory:
        return Factory(self.Adds if context.device else Workload)


def _with_activations(*functions: str | None) -> dict[str, Any]:
    [claim] = ADDITION["dovetail.ElementwiseBinary"]
    return {"dovetail.ElementwiseBinary": [{**claim, "where": {**claim["where"], "activation": list(functions)}}]}


class FalseFusion(Correct):
    """Claims functions behind the sum that nobody fuses, and computes all of them as a ReLU."""

    manifest = manifest_with(
        _with_activations(
            *(None, "relu", "linear", "selu", "celu", "softplus", "softsign", "mish", "shrink", "thresholded_relu")
        )
    )

    class workload(Workload):
        def __init__(self, layer: Layer) -> None:
            super().__init__(layer)
            self.fused = layer.descriptor.activation is not None  # type: ignore[attr-defined]  # additions have it

        def execute(self, inputs: list[Any], outputs: list[Any]) -> None:
            super().execute(inputs, outputs)
            if self.fused:
                np.maximum(outputs[0], 0, out=outputs[0])


class ClaimsBeyondReach(Correct):
    """Claims sizes that no case has."""

    manifest = manifest_with(
        {
            "dovetail.ElementwiseBinary": [
                {
                    **ADDITION["dovetail.ElementwiseBinary"][0],
                    "where": {
                        **ADDITION["dovetail.ElementwiseBinary"][0]["where"],
                        "output.-1": [{"min": 1, "max": 8}, 123457],
                        "a.elements": {"max": 98765432},
                    },
                }
            ]
        }
    )


class RefusesEverything(WithoutClaims):
    def supports(self, layer: Layer, options: Any, device: Any) -> Support:
        return Support.no("kind", "it takes nothing yet")


class KeepsState(Correct):
    """Adds a little more in every run."""

    class workload(Workload):
        def __init__(self, layer: Layer) -> None:
            super().__init__(layer)
            self.runs = 0

        def execute(self, inputs: list[Any], outputs: list[Any]) -> None:
            super().execute(inputs, outputs)
            outputs[0][...] += self.runs
            self.runs += 1


class WritesItsInput(Correct):
    """Negates its first input in place, and puts nothing back."""

    class workload(Workload):
        def execute(self, inputs: list[Any], outputs: list[Any]) -> None:
            super().execute(inputs, outputs)
            scribble(inputs[0])


class WritesItsConstant(Correct):
    """Scribbles on its second operand if it is a constant, after having read it."""

    class workload(Workload):
        def __init__(self, layer: Layer) -> None:
            super().__init__(layer)
            self.value = layer.constant(1)

        def execute(self, inputs: list[Any], outputs: list[Any]) -> None:
            super().execute(inputs, outputs)
            if self.value is not None:
                scribble(self.value)


def scribble(array: Any) -> None:
    """Write to an array through its address, as native code does, whatever its flags say."""
    ctypes.memset(array.ctypes.data, 0x3F, array.nbytes)


class LeavesOutputUnwritten(Correct):
    """Computes all elements but the last."""

    class workload(Workload):
        def execute(self, inputs: list[Any], outputs: list[Any]) -> None:
            result = np.asarray(self.function(*inputs))
            outputs[0].reshape(-1)[:-1] = result.reshape(-1)[:-1]


class AddsOnTop(Correct):
    """Takes outputs for zeroed, which fresh ones often are."""

    class workload(Workload):
        def execute(self, inputs: list[Any], outputs: list[Any]) -> None:
            outputs[0][...] += self.function(*inputs)


class BroadcastsTheWrongWay(Correct):
    """Repeats a smaller operand where it should be stretched."""

    class workload(Workload):
        def execute(self, inputs: list[Any], outputs: list[Any]) -> None:
            shape = outputs[0].shape
            a, b = (np.resize(one, shape) for one in inputs)  # np.resize repeats from the start, over and over
            self.function(a, b, out=outputs[0])


class RoundsThroughHalf(Correct):
    """Computes float32 in float16."""

    class workload(Workload):
        def execute(self, inputs: list[Any], outputs: list[Any]) -> None:
            if outputs[0].dtype == np.float32:
                inputs = [one.astype(np.float16) for one in inputs]
            outputs[0][...] = self.function(*inputs)


class IntegersThroughFloat(Correct):
    """Computes int32 in float32, which is exact up to 2**24 only."""

    class workload(Workload):
        def execute(self, inputs: list[Any], outputs: list[Any]) -> None:
            outputs[0][...] = self.function(*(one.astype(np.float32) for one in inputs)).astype(outputs[0].dtype)


@dataclass(frozen=True, kw_only=True)
class Fused(Descriptor, kind="small.Fused"):
    """What a backend makes of an addition."""

    input_names: ClassVar[tuple[str, ...]] = ("a", "b")
    required_inputs: ClassVar[int] = 2
    operation: str
    info: TensorInfo

    def infer(self, inputs: Infos) -> list[TensorInfo]:
        return [self.info]


class WrongSubstitution(Correct):
    """Replaces a subtraction by an addition."""

    def optimize_subgraph(self, view: SubgraphView, options: Any, device: Any) -> OptimizationViews:
        views = OptimizationViews(view)
        for layer in view.layers:
            if len(view.part([layer]).inputs) != 2:
                views.untouched(layer)
                continue
            private = Graph("private")
            slots = [private.input(f"x{i}", info.shape, info.dtype) for i, info in enumerate(layer.input_infos) if info]
            result = private.add(Fused(operation="add", info=layer.output.known_info), *slots)
            private.output(result.output, "y")
            views.substitute(layer, private)
        return views


class ManyWays(Correct):
    """Offers to compute a subtraction by itself, privately."""

    operation = "sub"

    def name_of_way(self) -> str:
        return "privately"

    def choices(self, view: SubgraphView, options: Any, device: Any) -> Choices:
        answer = Choices(view)
        for layer in view.layers:
            if len(view.part([layer]).inputs) == 2 and layer.descriptor.operation == "sub":  # type: ignore[attr-defined]
                private = Fused(operation=self.operation, info=layer.output.known_info)
                answer.offer(layer, "by default", {self.name_of_way(): private})
        return answer


class WrongWay(ManyWays):
    """Offers to compute a subtraction as an addition."""

    operation = "add"


class OtherWaysEachTime(ManyWays):
    """Names the way otherwise whenever it is asked."""

    asked = 0

    def name_of_way(self) -> str:
        OtherWaysEachTime.asked += 1
        return f"way {self.asked}"


class RefusesWhatItAccepted(Correct):
    """Says yes, and then has no workload."""

    class workload(Workload):
        def __init__(self, layer: Layer) -> None:
            if layer.input_infos[0].rank == 1:
                raise ValueError("rank 1 is not implemented")
            super().__init__(layer)


class Crashes(Correct):
    """Reads from nowhere, for one shape."""

    class workload(Workload):
        def execute(self, inputs: list[Any], outputs: list[Any]) -> None:
            if outputs[0].shape[-1:] == (7,):
                ctypes.string_at(0)
            super().execute(inputs, outputs)


class EndsTheProcess(Correct):
    class workload(Workload):
        def execute(self, inputs: list[Any], outputs: list[Any]) -> None:
            os._exit(5)


class CallsExit(Correct):
    def create_workload_factory(self, context: Any, resources: Any, options: Any) -> IWorkloadFactory:
        sys.exit("no licence")


class Hangs(Correct):
    """Hangs in a load, until a test that is done has it fail."""

    ended = threading.Event()

    def create_workload_factory(self, context: Any, resources: Any, options: Any) -> IWorkloadFactory:
        self.ended.wait(3600)
        raise AssertionError


def crashes_on_import() -> IBackend:
    """Stand for a backend whose library kills the process while it is loaded."""
    os.abort()
