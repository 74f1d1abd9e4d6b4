"""Backends that compute rightly but touch what is not theirs, each in a way that guards find.

Each class can be found by another process as "broken_backends_guarded:Class" with this folder on
PYTHONPATH.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import signal
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from dovetail import BackendId, IBackendContext, IWorkloadFactory, Layer, Support
from dovetail.contract.abi_version import ABI_VERSION
from dovetail_sdk.conformance.evaluation import Estimate, compute
from dovetail_sdk.conformance.numpy_backend import NumpyBackend

Arrays = Sequence[Any]


def address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


class Work:
    """Computes a layer rightly."""

    def __init__(self, layer: Layer) -> None:
        self.layer = layer

    def execute(self, inputs: Arrays, outputs: Arrays) -> None:
        operands = [None if one is None else Estimate.exact(one) for one in inputs]
        for output, estimate in zip(outputs, compute(self.layer, operands), strict=True):
            output[...] = np.rint(estimate.value) if output.dtype.kind in "iu" else estimate.value


class Inside(NumpyBackend):
    """Nothing wrong; activations and sums of float32, so that few cases meet each."""

    work: type[Any] = Work
    kinds = ("dovetail.Activation", "dovetail.ElementwiseBinary")

    @property
    def id(self) -> BackendId:
        return BackendId(type(self).__name__)

    def supports(self, layer: Layer, options: Any, device: Any) -> Support:
        if layer.kind not in self.kinds or layer.output_infos[0].dtype.label != "float32":
            return Support.no("kind", "only activations and sums of float32")
        if layer.kind == "dovetail.FullyConnected":
            return super().supports(layer, options, device)
        computed = str(getattr(layer.descriptor, "function", None) or layer.descriptor.attributes().get("operation"))
        if computed not in ("relu", "tanh", "add", "sub"):
            return Support.no("attribute", f"not {computed}")
        return super().supports(layer, options, device)

    def create_workload_factory(self, context: Any, resources: Any, options: Any) -> IWorkloadFactory:
        return Factory(self.work)


class Factory(IWorkloadFactory):
    def __init__(self, work: type[Any]) -> None:
        self.work = work

    def create_workload(self, layer: Layer) -> Any:
        return self.work(layer)


class ReadsBehindTheEnd(Inside):
    """Loads one element more than there is, and does not use it."""

    class work(Work):
        def execute(self, inputs: Arrays, outputs: Arrays) -> None:
            super().execute(inputs, outputs)
            ctypes.string_at(address(inputs[0]) + inputs[0].nbytes, 4)


class ReadsBehindItsConstant(Inside):
    """The same with a constant, to which it kept the pointer that it had when it was created."""

    kinds = ("dovetail.FullyConnected",)

    class work(Work):
        def __init__(self, layer: Layer) -> None:
            super().__init__(layer)
            constants = [layer.constant(index) for index in range(len(layer.inputs))]
            self.behind = [address(one) + one.nbytes for one in constants if one is not None]

        def execute(self, inputs: Arrays, outputs: Arrays) -> None:
            super().execute(inputs, outputs)
            for behind in self.behind:
                ctypes.string_at(behind, 4)


class WritesBeforeTheStart(Inside):
    """Stores one element too early, and the right values afterwards."""

    class work(Work):
        def execute(self, inputs: Arrays, outputs: Arrays) -> None:
            ctypes.memset(address(outputs[0]) - 4, 0, 4)
            super().execute(inputs, outputs)


class WritesItsInput(Inside):
    """Writes back what it read."""

    class work(Work):
        def execute(self, inputs: Arrays, outputs: Arrays) -> None:
            super().execute(inputs, outputs)
            size = min(inputs[0].nbytes, 4)
            ctypes.memmove(address(inputs[0]), ctypes.string_at(address(inputs[0]), size), size)


class UsesFreshMemory(Inside):
    """Adds its result to what it found, times nothing."""

    class work(Work):
        def execute(self, inputs: Arrays, outputs: Arrays) -> None:
            found = [output.copy() for output in outputs]
            super().execute(inputs, outputs)
            for output, before in zip(outputs, found, strict=True):
                output += 0 * before


class EndsTheProcess(Inside):
    """Ends it as if all were well."""

    class work(Work):
        def execute(self, inputs: Arrays, outputs: Arrays) -> None:
            os._exit(0)


class EndsTheProcessWhenAsked(Inside):
    def supports(self, layer: Layer, options: Any, device: Any) -> Support:
        os._exit(0)


class EndsTheProcessWhenClosed(Inside):
    class context(IBackendContext):
        def close(self) -> None:
            os._exit(0)

    def create_context(self, device: int, resources: Any, options: Any) -> IBackendContext:
        return self.context()


class CrashesAfterClosing(Inside):
    """A destructor that runs when the interpreter is taken down."""

    class context(IBackendContext):
        def close(self) -> None:
            atexit.register(os.kill, os.getpid(), signal.SIGSEGV)

    def create_context(self, device: int, resources: Any, options: Any) -> IBackendContext:
        return self.context()


class EndsWithAStatus(CrashesAfterClosing):
    class context(IBackendContext):
        def close(self) -> None:
            atexit.register(os._exit, 3)


class Hangs(Inside):
    class work(Work):
        def execute(self, inputs: Arrays, outputs: Arrays) -> None:
            time.sleep(1e6)


class RaisesWhenAsked(Inside):
    def supports(self, layer: Layer, options: Any, device: Any) -> Support:
        raise ValueError("not today")


# -- a workload in C, as ctypes makes it: only such a one has a workspace --------------------------


class _Call(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("host", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
        ("inputs", ctypes.c_void_p),
        ("outputs", ctypes.c_void_p),
        ("n_inputs", ctypes.c_int32),
        ("n_outputs", ctypes.c_int32),
        ("workspace", ctypes.c_void_p),
    ]


_EXECUTE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(_Call))
_WORKSPACE = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_int32,
    ctypes.POINTER(ctypes.c_size_t),
    ctypes.POINTER(ctypes.c_size_t),
)


class _Workload(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("abi_major", ctypes.c_uint32),
        ("abi_minor", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("concurrency", ctypes.c_uint32),
        ("state", ctypes.c_void_p),
        ("execute", _EXECUTE),
        ("release", ctypes.c_void_p),
        ("workspace", _WORKSPACE),
    ]


_SCRATCH = 64
_api = ctypes.pythonapi
_api.PyCapsule_New.restype = ctypes.py_object
_api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_api.PyMem_RawCalloc.restype = ctypes.c_void_p
_api.PyMem_RawCalloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]


def _ask(state: int, inputs: int, outputs: int, workers: int, shared: Any, per_worker: Any) -> int:
    shared[0], per_worker[0] = _SCRATCH, 0
    return 0


def _overrun(state: int, call: Any) -> int:
    ctypes.string_at(call[0].workspace + _SCRATCH, 4)
    return 0


_FUNCTIONS = (_EXECUTE(_overrun), _WORKSPACE(_ask))


class Scratching:
    """Reads one element more than the workspace that it asked for."""

    def __init__(self, layer: Layer) -> None:
        place = _api.PyMem_RawCalloc(1, ctypes.sizeof(_Workload))
        struct = _Workload.from_address(place)
        struct.size = ctypes.sizeof(_Workload)
        struct.abi_major, struct.abi_minor = ABI_VERSION
        struct.execute, struct.workspace = _FUNCTIONS
        self.capsule = _api.PyCapsule_New(place, b"dovetail.workload.v0", None)

    def __dovetail_workload__(self) -> Any:
        return self.capsule


class OverrunsItsWorkspace(Inside):
    work = Scratching
