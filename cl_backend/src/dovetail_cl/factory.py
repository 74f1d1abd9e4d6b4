"""Layers become workloads."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from dovetail import BackendError, ErrorCode, IWorkloadFactory, Layer, MemoryDomain
from dovetail.graph.tensor import TensorInfo

from .driver.errors import BuildError
from .driver.workloads import copy, workload
from .families import family_of
from .kernels import Foreseen, Kernels
from .programs import Building
from .refusing import ID, unavailable_without_driver

_HINT = "name another backend behind this one, and tell its makers what the device's compiler says"


class ClFactory(IWorkloadFactory):
    """Makes the workloads of one network."""

    def __init__(self, context: Any) -> None:
        self._device = context.device
        self._kernels = Kernels(context.programs, Building(self._foreseen))
        self._coming: dict[str, Layer] = {}

    def expect(self, layers: Sequence[Layer]) -> None:
        self._coming = {layer.name: layer for layer in layers}

    def create_workload(self, layer: Layer) -> Any:
        try:
            work = family_of(layer).create(layer, self._kernels)
        except BuildError as error:
            raise BackendError(f"a kernel of it cannot be built: {error}", code=ErrorCode.COMPILE_FAILED, hint=_HINT) from error
        self._coming.pop(layer.name, None)
        with unavailable_without_driver():
            return workload(self._device, layer.name, work)

    def create_copy(self, source: MemoryDomain, target: MemoryDomain, info: TensorInfo) -> Any:
        if source.owner == target.owner == ID:
            return copy(self._device, "inside", info.nbytes)
        return copy(self._device, "in" if target.owner == ID else "out", info.nbytes)

    def _foreseen(self) -> list[str]:
        """Return the texts of the programs of all layers that are still to come."""
        kernels = Foreseen(self._kernels)
        for layer in self._coming.values():
            with suppress(Exception):  # what fails now fails again when the layer's turn comes
                family_of(layer).create(layer, kernels)
        return kernels.texts
