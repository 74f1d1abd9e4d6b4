"""The entry point of CpuAcc."""

from __future__ import annotations

from functools import cache
from typing import Any

from dovetail import (
    BackendId,
    Capabilities,
    Choices,
    Device,
    HostResources,
    IBackend,
    IBackendContext,
    IWorkloadFactory,
    Layer,
    OptimizationViews,
    SubgraphView,
    Support,
)
from dovetail.ground.records import Record

from .families import found

_ID = BackendId("CpuAcc")


class CpuAccOptions(Record, frozen=True):
    """What users may choose.

    Attributes:
        isa: Instruction set: "avx512", "avx2", "neon" or "scalar"; "auto" is the best that the
            machine has.
        precision: "float32", or "bfloat16": convolutions and products with constant matrices round
            their factors, and what nobody else reads is kept in it; sums stay float32. Or
            "float16": they round their factors, and sums of 32 products; images stay float32.
        dot_products: Whether quantized tensors are multiplied by dot products of bytes (VNNI, SDOT)
            where the machine has them; results are the same without.
        matrix_unit: Whether they are multiplied by the matrix unit (AMX) where the machine has one
            and dot products are wanted; results are the same without.
    """

    isa: str = "auto"
    precision: str = "float32"
    dot_products: bool = True
    matrix_unit: bool = True

    def __post_init__(self) -> None:
        if self.isa != "auto" or self.precision != "float32":
            _kernels(self)


@cache
def _kernels(options: CpuAccOptions) -> Any:
    # Imported when first asked for: listing backends loads no native code.
    from .kernels import Kernels, instruction_sets

    best = next(name for name, present in instruction_sets().items() if present)
    isa = best if options.isa == "auto" else options.isa
    return Kernels(isa, options.precision, dot_products=options.dot_products, matrix_unit=options.matrix_unit)


class CpuAccBackend(IBackend):
    """Fast kernels for float32 on plain host memory."""

    options_type = CpuAccOptions

    @property
    def id(self) -> BackendId:
        return _ID

    def supports(self, layer: Layer, options: Any, device: Device) -> Support:
        answer = super().supports(layer, options, device)
        finer = found("FINER", layer.kind) if answer.supported else None
        refusal: Support | None = None if finer is None else finer(layer)
        return answer if refusal is None else refusal

    def create_workload_factory(
        self, context: IBackendContext | None, resources: HostResources, options: CpuAccOptions
    ) -> IWorkloadFactory:
        from .factory import CpuAccFactory

        return CpuAccFactory(_kernels(options))

    def optimize_subgraph(self, view: SubgraphView, options: CpuAccOptions, device: Device) -> OptimizationViews:
        from .fusion.rewriting import lower

        views = OptimizationViews(view)
        kernels = _kernels(options)
        views.substitute(view, lower(view, kernels.lanes, kernels.precision))
        return views

    def choices(self, view: SubgraphView, options: CpuAccOptions, device: Device) -> Choices:
        from .choices import choices_of

        return choices_of(view, _kernels(options))

    def in_words(self, layer: Layer) -> str:
        from .words import in_words

        return in_words(layer)

    def capabilities(self) -> Capabilities:
        return Capabilities(deterministic=True, integers=True)
