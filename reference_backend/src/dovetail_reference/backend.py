"""The entry point of CpuRef."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from dovetail import BackendId, Capabilities, Device, HostResources, IBackend, IBackendContext, IWorkloadFactory, Layer, Support

from .families import FAMILIES, WIDENED

_ID = BackendId("CpuRef")


def _workloads(module: str) -> Any:
    # Imported when first asked for: listing backends loads no native code.
    return import_module(f".workloads.{module}", __package__)


class ReferenceFactory(IWorkloadFactory):
    """Creates workloads; holds nothing."""

    def create_workload(self, layer: Layer) -> Any:
        """Return a layer's workload capsule; 16-bit floats run in float32 if the family says so."""
        family = FAMILIES[layer.kind]
        dtype = layer.descriptor.computes_in(layer.input_infos, layer.output_infos)
        create = _workloads(family.module).create
        if family.widens and dtype in WIDENED:
            return _workloads("widening").widen(layer, create)
        return create(layer, dtype)


class ReferenceBackend(IBackend):
    """Runs every kind of `families.FAMILIES` on plain host memory, on the calling thread."""

    @property
    def id(self) -> BackendId:
        return _ID

    def supports(self, layer: Layer, options: Any, device: Device) -> Support:
        """Ask the claims; check a resize's scales and sums too, which claims cannot."""
        answer = super().supports(layer, options, device)
        if answer.supported and layer.kind == "dovetail.Resize":
            finer: Support = _workloads("resizing").supports(layer)
            return finer
        return answer

    def create_workload_factory(
        self, context: IBackendContext | None, resources: HostResources, options: Any
    ) -> IWorkloadFactory:
        return ReferenceFactory()

    def capabilities(self) -> Capabilities:
        return Capabilities(deterministic=True, float16=True, bfloat16=True)
