"""Layers become workloads."""

from __future__ import annotations

from typing import Any

from dovetail import BackendError, ErrorCode, HostResources, IWorkloadFactory, Layer, MemoryDomain
from dovetail.graph.tensor import TensorInfo

from .driver.errors import BuildError
from .families import family_of
from .kernels import Kernels
from .refusing import ID, unavailable_without_driver

_HINT = "name another backend behind this one, and tell its makers what the device's compiler says"


class ClFactory(IWorkloadFactory):
    """Makes the workloads of one network."""

    def __init__(self, device: Any, resources: HostResources) -> None:
        self._device = device
        self._kernels = Kernels(device, resources.artefacts)

    def create_workload(self, layer: Layer) -> Any:
        try:
            work = family_of(layer.kind).create(layer, self._kernels)
        except BuildError as error:
            raise BackendError(f"a kernel of it cannot be built: {error}", code=ErrorCode.COMPILE_FAILED, hint=_HINT) from error
        with unavailable_without_driver():
            return self._device.workload(layer.name, work)

    def create_copy(self, source: MemoryDomain, target: MemoryDomain, info: TensorInfo) -> Any:
        if source.owner == target.owner == ID:
            return self._device.copy("inside")
        return self._device.copy("in" if target.owner == ID else "out")
