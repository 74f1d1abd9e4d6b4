"""Creates the workloads of CpuAcc."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from dovetail import IWorkloadFactory, Layer, PrivateLayer

from .families import found

_snapshot: Any = import_module(".workload.snapshot", __package__)

_LARGE = 1 << 26
"""Bytes of the tensors of a layer beyond which its loops are cut up by them."""


class CpuAccFactory(IWorkloadFactory):
    """Creates workloads of one instruction set, for all plans of one network.

    Args:
        kernels: `Kernels` of it.
    """

    def __init__(self, kernels: Any) -> None:
        self._kernels = kernels.for_network()

    def create_workload(self, layer: Layer) -> Any:
        create = found("WORKLOADS", layer.kind)
        if create is None:
            raise ValueError(f"CpuAcc has no workload for {layer.kind} {layer.name!r} as it stands")
        capsule = create(layer, self._kernels)
        nbytes = sum(info.nbytes for info in (*layer.input_infos, *layer.output_infos) if info is not None)
        if nbytes > _LARGE:
            import_module(".workload.workload", __package__).bound_chunks(capsule, nbytes)
        _snapshot.offer(capsule)
        return capsule

    def restore_workload(self, memory: memoryview) -> Any:
        return _snapshot.restored(memory)

    def release(self, layer: Layer) -> None:
        if isinstance(layer.descriptor, PrivateLayer):
            layer.descriptor.release()
