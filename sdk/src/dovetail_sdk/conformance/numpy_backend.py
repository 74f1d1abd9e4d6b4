"""The other backend in mixed graphs: NumPy in float64, so that the kit needs no more packages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dovetail import HOST, BackendId, Device, DType, HostResources, Layer, MemoryDomain, Support, TensorInfo
from dovetail.contract.interfaces import IBackend, IBackendContext, IMemoryManager, ITensorHandle, IWorkloadFactory
from dovetail.contract.memory import HostMemory

from .cases import Array
from .evaluation import KINDS, ROUNDOFF, Estimate, compute

NAME = "NumPyOther"
_TAKEN = {*ROUNDOFF, DType.INT8, DType.UINT8}


class NumpyBackend(IBackend):
    """Runs the kinds of `evaluation`, one NumPy call each.

    Args:
        private: Keep tensors in a memory domain of its own, so that they must be copied in and out.
    """

    def __init__(self, *, private: bool = False) -> None:
        self.domain = MemoryDomain(NAME, 0, "private") if private else HOST

    @property
    def id(self) -> BackendId:
        return BackendId(NAME)

    def supports(self, layer: Layer, options: Any, device: Device) -> Support:
        if layer.kind not in KINDS:
            return Support.no("kind", f"the kit's NumPy backend has no {layer.kind}")
        if getattr(layer.descriptor, "activation", None) is not None:
            return Support.no("attribute", "the kit's NumPy backend folds no activation", "activation")
        info = layer.output_infos[0]
        if info.dtype not in _TAKEN or (info.dtype.is_integer and info.quantization is None):
            return Support.no("dtype", f"the kit's NumPy backend does not compute in {info}")
        return Support.yes()

    def create_workload_factory(
        self, context: IBackendContext | None, resources: HostResources, options: Any
    ) -> IWorkloadFactory:
        return _Factory()

    def memory_domains(self, device: int) -> Sequence[MemoryDomain]:
        return (self.domain,)

    def create_memory_manager(self, context: IBackendContext | None, domain: MemoryDomain) -> IMemoryManager | None:
        return _PrivateMemory(domain)


class _Factory(IWorkloadFactory):
    def create_workload(self, layer: Layer) -> Any:
        return _Workload(layer)

    def create_copy(self, source: MemoryDomain, target: MemoryDomain, info: TensorInfo) -> Any:
        return _Copy()


class _Workload:
    def __init__(self, layer: Layer) -> None:
        self.layer = layer

    def execute(self, inputs: Sequence[Array | None], outputs: Sequence[Array]) -> None:
        operands = [None if one is None else Estimate.exact(one) for one in inputs]
        for output, estimate in zip(outputs, compute(self.layer, operands), strict=True):
            is_integer = output.dtype.kind in "iu"
            output[...] = np.rint(estimate.value) if is_integer else estimate.value


class _Copy:
    def execute(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        outputs[0][...] = inputs[0]


class _PrivateHandle(HostMemory):
    """Host memory under another name."""

    def __init__(self, domain: MemoryDomain, nbytes: int, alignment: int) -> None:
        super().__init__(nbytes, alignment)
        self.domain = domain


class _PrivateMemory(IMemoryManager):
    def __init__(self, domain: MemoryDomain) -> None:
        self.domain = domain

    def allocate(self, nbytes: int, alignment: int) -> ITensorHandle:
        return _PrivateHandle(self.domain, nbytes, alignment)
