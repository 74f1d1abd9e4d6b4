"""The entry point of CpuRef."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from dovetail import (
    BackendId,
    Capabilities,
    Device,
    DType,
    HostResources,
    IBackend,
    IBackendContext,
    IWorkloadFactory,
    Layer,
    Support,
)

from .claims import CLAIMS, WIDENED, Claim
from .refusals import first_refusal

_ID = BackendId("CpuRef")


def _workloads(module: str) -> Any:
    # Imported when first asked for: listing backends loads no native code.
    return import_module(f".workloads.{module}", __package__)


class ReferenceFactory(IWorkloadFactory):
    """Creates workloads; holds nothing."""

    def create_workload(self, layer: Layer) -> Any:
        """Return the capsule of a layer's workload; 16-bit floats are computed in float32 where the claim says so."""
        claim = CLAIMS[layer.kind]
        dtype = layer.descriptor.computes_in(layer.input_infos, layer.output_infos)
        create = _workloads(claim.module).create
        if claim.widens and dtype in WIDENED:
            return _workloads("widening").widen(layer, create)
        return create(layer, dtype)


class ReferenceBackend(IBackend):
    """Runs every kind of `claims.CLAIMS` on plain host memory, on the calling thread."""

    @property
    def id(self) -> BackendId:
        return _ID

    def supports(self, layer: Layer, options: Any, device: Device) -> Support:
        """Ask the table of claims first, then the family's own finer check."""
        claim = CLAIMS.get(layer.kind)
        if claim is None:
            return Support.no("kind", f"CpuRef has no workload for {layer.kind}")
        refusal = first_refusal(_pending_attributes(layer), _dtype_refusal(layer, claim))
        if not refusal:
            return refusal
        support: Support = _workloads(claim.module).supports(layer)
        return support

    def create_workload_factory(
        self, context: IBackendContext | None, resources: HostResources, options: Any
    ) -> IWorkloadFactory:
        return ReferenceFactory()

    def capabilities(self) -> Capabilities:
        return Capabilities(deterministic=True, float16=True, bfloat16=True)


def _pending_attributes(layer: Layer) -> Support | None:
    """Refuse a layer with an attribute that the core has yet to work out from sizes or constants."""
    descriptor = layer.descriptor
    if getattr(descriptor, "auto_padding", "explicit") != "explicit":
        return Support.no("attribute", "auto_padding must be resolved to explicit padding first", "auto_padding")
    for index in descriptor.value_inputs:
        if index < len(layer.inputs) and layer.inputs[index].source is not None:
            name = descriptor.input_names[index]
            return Support.no("attribute", f"input {name!r} must be a constant, resolved to an attribute first", name)
    return None


def _dtype_refusal(layer: Layer, claim: Claim) -> Support | None:
    dtype: DType | None = layer.descriptor.computes_in(layer.input_infos, layer.output_infos)
    if dtype in claim.dtypes:
        return None
    known = ", ".join(d.label for d in claim.dtypes)
    return Support.no("dtype", f"{layer.kind} of {dtype} is not implemented; CpuRef computes it in {known}")
