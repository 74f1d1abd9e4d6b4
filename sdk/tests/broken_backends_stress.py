"""Backends right layer by layer at first sight, each with a fault for levels 3 and 4 to find."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dovetail import BackendId, Layer, MemoryDomain, Support, TensorInfo
from dovetail.contract.interfaces import IBackendContext, IMemoryManager, ITensorHandle, IWorkloadFactory
from dovetail.contract.memory import HostMemory
from dovetail_sdk.conformance.evaluation import Estimate, compute
from dovetail_sdk.conformance.numpy_backend import NumpyBackend

Arrays = Sequence[Any]


class Work:
    """Computes a layer rightly."""

    def __init__(self, layer: Layer, backend: Honest) -> None:
        self.layer, self.backend = layer, backend

    def execute(self, inputs: Arrays, outputs: Arrays) -> None:
        operands = [None if one is None else Estimate.exact(one) for one in inputs]
        for output, estimate in zip(outputs, compute(self.layer, operands), strict=True):
            output[...] = np.rint(estimate.value) if output.dtype.kind in "iu" else estimate.value


class Copy:
    """Copies rightly."""

    def execute(self, inputs: Arrays, outputs: Arrays) -> None:
        outputs[0][...] = inputs[0]


class Honest(NumpyBackend):
    """Nothing wrong."""

    work: type[Work] = Work
    copy: type[Copy] = Copy

    def __init__(self, *, private: bool = False) -> None:
        super().__init__()
        if private:
            self.domain = MemoryDomain(str(self.id), 0, "private")
        self.made: list[Any] = []
        self.lock = threading.Lock()

    @property
    def id(self) -> BackendId:
        return BackendId(type(self).__name__)

    def supports(self, layer: Layer, options: Any, device: Any) -> Support:
        # One element type: these tests are about how a backend breaks, and all styles would take
        # their time.
        if layer.output_infos[0].dtype.label != "float32":
            return Support.no("dtype", "only float32")
        return super().supports(layer, options, device)

    def create_workload_factory(self, context: Any, resources: Any, options: Any) -> IWorkloadFactory:
        return Factory(self)


class Factory(IWorkloadFactory):
    def __init__(self, backend: Honest) -> None:
        self.backend = backend

    def create_workload(self, layer: Layer) -> Any:
        return self.backend.work(layer, self.backend)

    def create_copy(self, source: MemoryDomain, target: MemoryDomain, info: TensorInfo) -> Any:
        return self.backend.copy()


class PrivateHonest(Honest):
    """Nothing wrong, in memory of its own."""

    def __init__(self) -> None:
        super().__init__(private=True)


# -- graphs ----------------------------------------------------------------------------------------


class OnlyTheFirstInput(Honest):
    """Adds an operand to itself where two different ones meet."""

    class work(Work):
        def execute(self, inputs: Arrays, outputs: Arrays) -> None:
            super().execute([inputs[0], inputs[0]] if self.layer.kind.endswith("ElementwiseBinary") else inputs, outputs)


class ForgetsTheActivation(Honest):
    """Takes layers with a fused activation, and computes them without."""

    def supports(self, layer: Layer, options: Any, device: Any) -> Support:
        if getattr(layer.descriptor, "activation", None) is not None:
            return Support.yes()
        return super().supports(layer, options, device)


class WrongFromTheThirtiethLayer(Honest):
    """Has room for thirty layers a network."""

    class work(Work):
        def __init__(self, layer: Layer, backend: Honest) -> None:
            super().__init__(layer, backend)
            backend.made.append(layer.name)

        def execute(self, inputs: Arrays, outputs: Arrays) -> None:
            super().execute(inputs, outputs)
            if len(self.backend.made) > 30:
                outputs[0][...] += 1

    def create_workload_factory(self, context: Any, resources: Any, options: Any) -> IWorkloadFactory:
        self.made.clear()
        return super().create_workload_factory(context, resources, options)


class NotTheSameBits(Honest):
    """Promises the same bits, and every other time gives the next number."""

    class work(Work):
        def execute(self, inputs: Arrays, outputs: Arrays) -> None:
            super().execute(inputs, outputs)
            self.backend.made.append(None)
            if len(self.backend.made) % 2:
                outputs[0][...] = np.nextafter(outputs[0], np.float32(np.inf))


class KeepsTheFirstBatch(Honest):
    """Computes as many rows as the first network of this layer had."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: dict[str, int] = {}

    class work(Work):
        backend: KeepsTheFirstBatch

        def execute(self, inputs: Arrays, outputs: Arrays) -> None:
            super().execute(inputs, outputs)
            outputs[0][self.backend.rows.setdefault(self.layer.name, len(outputs[0])) :] = 0


class RefusesWithoutAWord(Honest):
    """Refuses without code and text."""

    def supports(self, layer: Layer, options: Any, device: Any) -> Support:
        return super().supports(layer, options, device) if layer.kind.endswith("Activation") else Support(False)


class CopiesTooLittle(PrivateHonest):
    """Leaves the last element of each copy behind."""

    class copy(Copy):
        def execute(self, inputs: Arrays, outputs: Arrays) -> None:
            outputs[0].reshape(-1)[:-1] = inputs[0].reshape(-1)[:-1]


# -- memory ----------------------------------------------------------------------------------------


def poke(array: Any, offset: int, value: int) -> None:
    """Write a byte where the array's flags do not allow it."""
    ctypes.memset(array.ctypes.data + offset, value, 1)


class LeavesTheLastElement(Honest):
    class work(Work):
        def execute(self, inputs: Arrays, outputs: Arrays) -> None:
            kept = outputs[0].reshape(-1)[-1]
            super().execute(inputs, outputs)
            outputs[0].reshape(-1)[-1] = kept


class WritesBehindItsOutput(Honest):
    class work(Work):
        def execute(self, inputs: Arrays, outputs: Arrays) -> None:
            super().execute(inputs, outputs)
            poke(outputs[0], outputs[0].nbytes, 0)


class ReadsBehindItsInput(Honest):
    class work(Work):
        def execute(self, inputs: Arrays, outputs: Arrays) -> None:
            super().execute(inputs, outputs)
            behind = ctypes.c_float.from_address(inputs[0].ctypes.data + inputs[0].nbytes).value
            outputs[0].reshape(-1)[-1:] += behind


class WritesItsInput(Honest):
    class work(Work):
        def execute(self, inputs: Arrays, outputs: Arrays) -> None:
            super().execute(inputs, outputs)
            poke(inputs[0], 0, 0x5A)


class WritesItsWeights(Honest):
    class work(Work):
        def execute(self, inputs: Arrays, outputs: Arrays) -> None:
            super().execute(inputs, outputs)
            if len(inputs) > 1 and self.layer.constant(1) is not None:
                poke(inputs[1], 0, 0x5A)


class NeedsAlignment(Honest):
    class work(Work):
        def execute(self, inputs: Arrays, outputs: Arrays) -> None:
            super().execute(inputs, outputs)
            if inputs[0].ctypes.data % 16:
                outputs[0].reshape(-1)[:1] = 0


class Budget(IMemoryManager):
    """Memory of a fixed size of which released parts are lost."""

    def __init__(self, domain: MemoryDomain) -> None:
        self.domain, self.left = domain, 6

    def allocate(self, nbytes: int, alignment: int) -> ITensorHandle:
        self.left -= 1
        if self.left < 0:
            raise MemoryError("nothing is left")
        handle = HostMemory(nbytes, alignment)
        handle.domain = self.domain
        return handle


class NeverReusesMemory(PrivateHonest):
    def __init__(self) -> None:
        super().__init__()
        self.manager = Budget(self.domain)

    def create_memory_manager(self, context: Any, domain: MemoryDomain) -> IMemoryManager:
        return self.manager


class LeaksMemory(Honest):
    def create_workload_factory(self, context: Any, resources: Any, options: Any) -> IWorkloadFactory:
        self.made.append(np.ones(1 << 17))
        return super().create_workload_factory(context, resources, options)


class LeaksFiles(Honest):
    def create_workload_factory(self, context: Any, resources: Any, options: Any) -> IWorkloadFactory:
        self.made.append(os.open(os.devnull, os.O_RDONLY))
        return super().create_workload_factory(context, resources, options)


class LeaksThreads(Honest):
    def create_context(self, device: int, resources: Any, options: Any) -> IBackendContext:
        threading.Thread(target=self.stop.wait, daemon=True).start()
        return IBackendContext()

    stop = threading.Event()


# -- stress ----------------------------------------------------------------------------------------


class SharesScratch(Honest):
    """Puts its operands into one place before it computes."""

    class work(Work):
        def execute(self, inputs: Arrays, outputs: Arrays) -> None:
            self.operands = [None if one is None else one.copy() for one in inputs]
            time.sleep(0.0002)
            super().execute(self.operands, outputs)


class RemembersNan(Honest):
    """Once an operand was not finite, the next run shows it."""

    class work(Work):
        dirty = False

        def execute(self, inputs: Arrays, outputs: Arrays) -> None:
            super().execute(inputs, outputs)
            before, self.dirty = self.dirty, not np.isfinite(inputs[0]).all()
            if before and not self.dirty:
                outputs[0].reshape(-1)[:1] = np.nan


class DoesNotListen(Honest):
    """Takes its time in one layer and does not look up."""

    class work(Work):
        def execute(self, inputs: Arrays, outputs: Arrays) -> None:
            super().execute(inputs, outputs)
            with self.backend.lock:
                self.backend.made.append(None)
            if self.layer.name == self.backend.made_first(self.layer.name):
                time.sleep(0.8)

    def made_first(self, name: str) -> str:
        if not hasattr(self, "first"):
            self.first = name
        return self.first


class OneTableForAll(Honest):
    """Keeps layers by name, whichever network they are of."""

    def __init__(self) -> None:
        super().__init__()
        self.layers: dict[str, Layer] = {}

    class work(Work):
        backend: OneTableForAll

        def __init__(self, layer: Layer, backend: OneTableForAll) -> None:
            super().__init__(layer, backend)
            self.name = layer.name
            backend.layers[layer.name] = layer

        def execute(self, inputs: Arrays, outputs: Arrays) -> None:
            self.layer = self.backend.layers[self.name]
            super().execute(inputs, outputs)


class CachesByAddress(Honest):
    """Reuses what it computed for the same inputs of the network, told apart by their addresses."""

    class work(Work):
        def __init__(self, layer: Layer, backend: Honest) -> None:
            super().__init__(layer, backend)
            self.known: dict[Any, Any] = {}

        def execute(self, inputs: Arrays, outputs: Arrays) -> None:
            key = tuple(None if one is None else one.ctypes.data for one in inputs)
            if any(slot.source is not None and slot.source.layer.inputs for slot in self.layer.inputs):
                return super().execute(inputs, outputs)
            if key not in self.known:
                super().execute(inputs, outputs)
                # The operands are kept, so that no other array of the caller comes to lie where
                # they are.
                self.known[key] = ([one.copy() for one in outputs], inputs)
            for output, value in zip(outputs, self.known[key][0], strict=True):
                output[...] = value
            return None


class ClosesWithTheFirst(Honest):
    """Closes its device when the first network goes."""

    class context(IBackendContext):
        def __init__(self, backend: Honest) -> None:
            self.backend = backend

        def before_unload(self, network: str) -> None:
            self.backend.made.append(network)

    class work(Work):
        def execute(self, inputs: Arrays, outputs: Arrays) -> None:
            if self.backend.made:
                raise OSError("the device is closed")
            super().execute(inputs, outputs)

    def create_context(self, device: int, resources: Any, options: Any) -> IBackendContext:
        return self.context(self)


@dataclass(frozen=True)
class Failing:
    """Options: fail or not."""

    fail: bool = False


def manifest_of_failing(name: str) -> Mapping[str, Any]:
    """Return a manifest that names the option under which runs fail."""
    facts = {"id": name, "device": "cpu", "rank": 0, "description": "fails where it is asked to"}
    return {**facts, "late_failure": {"fail": True}}


class HidesFailures(Honest):
    """Knows an option that should make runs fail, and goes on."""

    options_type = Failing
    manifest = manifest_of_failing("HidesFailures")


class FailsWhenAsked(Honest):
    """Nothing wrong: fails where it is asked to."""

    options_type = Failing
    manifest = manifest_of_failing("FailsWhenAsked")

    class failing(Work):
        def execute(self, inputs: Arrays, outputs: Arrays) -> None:
            raise OSError("asked to fail")

    def create_workload_factory(self, context: Any, resources: Any, options: Any) -> IWorkloadFactory:
        factory = Factory(self)
        if options.fail:
            factory.create_workload = lambda layer: self.failing(layer, self)  # type: ignore[method-assign]
        return factory


FINDINGS: Mapping[type[Honest], tuple[str, str]] = {
    OnlyTheFirstInput: ("graphs.diamonds_are_right", r"output 'y\d+', made by .*element"),
    ForgetsTheActivation: ("graphs.optimized_graphs_are_right", "right layer by layer"),
    WrongFromTheThirtiethLayer: ("graphs.deep_chains_are_right", "wrong layer by layer too"),
    NotTheSameBits: ("graphs.graphs_are_repeatable", "differs from run to run"),
    KeepsTheFirstBatch: ("graphs.symbolic_batch_is_planned_again", "open batch: output"),
    RefusesWithoutAWord: ("fallback.refused_layers_fall_back", "without a code and a reason"),
    CopiesTooLittle: ("fallback.copies_are_exact", "in and out of its memory: output"),
    LeavesTheLastElement: ("memory.outputs_are_written", r"1 of \d+ elements of output 'y0' were not written"),
    WritesBehindItsOutput: (
        "memory.writes_stay_inside",
        "1 bytes around .* were written, first 0 bytes behind the end",
    ),
    ReadsBehindItsInput: ("memory.reads_stay_inside", "inputs with other bytes around them: output"),
    WritesItsInput: ("memory.inputs_and_constants_are_kept", "input 'x0' changed while running"),
    WritesItsWeights: ("memory.inputs_and_constants_are_kept", "constant 'weights' changed while running"),
    NeedsAlignment: ("memory.unusual_inputs_are_taken", "inputs that are 1 elements off a 64-byte boundary: output"),
    NeverReusesMemory: ("memory.failing_allocations_are_survived", "OUT_OF_MEMORY"),
    LeaksMemory: ("memory.loading_leaks_nothing", r"memory grew by \d+ KiB over \d+ loads, \d{3,4} KiB each"),
    LeaksFiles: ("memory.loading_leaks_nothing", "there are more 50 open files"),
    LeaksThreads: ("memory.loading_leaks_nothing", r"there are more \d+ threads"),
    SharesScratch: ("stress.threads_do_not_disturb_each_other", "8 threads at once: output .* has other bits than alone"),
    RemembersNan: ("stress.history_does_not_matter", "a run after one with NaN or extreme values: output"),
    DoesNotListen: ("stress.deadlines_are_kept", r"ended 0\.\d+ s after it"),
    OneTableForAll: ("stress.networks_do_not_disturb_each_other", "(a run in peace|failed on OneTableForAll)"),
    CachesByAddress: ("stress.all_ways_to_run_agree", "a binding: output"),
    ClosesWithTheFirst: ("stress.unloading_waits_for_runs", "the device is closed"),
    HidesFailures: ("stress.late_errors_are_told", "which should make one fail"),
}
"""What finds each, and what it says (a regular expression)."""
