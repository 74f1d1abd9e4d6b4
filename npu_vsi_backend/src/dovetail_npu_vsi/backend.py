"""The entry point of VsiNpu."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from dovetail import Backend, Capabilities, Device, HostResources, Layer, OptimizationViews, SubgraphView, Support
from dovetail.layers import Resize, ResizeMethod

from .binary_file import BinaryProgram
from .chips import CHIPS, Chip
from .drivers import VsiContext, driver_of
from .engines import SH, landing
from .errors import VsiError
from .options import VsiNpuOptions, device_named
from .program import Program
from .workload import VsiFactory

if TYPE_CHECKING:
    from .lowering import Lowered


class VsiNpuBackend(Backend):
    """Runs parts of 8-bit networks as programs of the NPU."""

    options_type = VsiNpuOptions

    def devices(self) -> Sequence[Device]:
        return tuple(_device(index, chip) for index, chip in enumerate(CHIPS))

    def device_of(self, options: VsiNpuOptions) -> int | None:
        return device_named(options.device) if options.device else None

    def capabilities(self) -> Capabilities:
        return Capabilities(deterministic=True, integers=True)

    def create_context(self, device: int, resources: HostResources, options: VsiNpuOptions) -> VsiContext:
        return VsiContext(CHIPS[device], options)

    def create_workload_factory(self, context: Any, resources: HostResources, options: VsiNpuOptions) -> VsiFactory:
        return VsiFactory(context.driver, resources)

    def supports(self, layer: Layer, options: VsiNpuOptions, device: Device) -> Support:
        """Decide by the claims; binaries of the vendor's compiler are for the vendor's driver."""
        if not isinstance(layer.descriptor, BinaryProgram):
            answer = super().supports(layer, options, device)
            return _finer(layer, answer) if layer.kind == Resize.kind else answer
        if options.driver != "ovx":
            return Support.no("driver", 'a binary of the vendor\'s compiler runs by its driver alone: option driver="ovx"')
        return Support.yes()

    def optimize_subgraph(self, view: SubgraphView, options: VsiNpuOptions, device: Device) -> OptimizationViews:
        """Take each convex part as one program: it is lowered here, and compiled when it is loaded.

        What the driver or the options leave out is given back, and the rest is parted again.
        """
        views, chip = OptimizationViews(view), CHIPS[device.index]
        for layer in view.layers:
            if isinstance(layer.descriptor, BinaryProgram):
                views.compile_whole(layer, _opening_binary(layer, chip), layer.descriptor.in_words())
        layers = [layer for layer in view.layers if not isinstance(layer.descriptor, BinaryProgram)]
        parts = view.part(layers).convex_parts() if layers else []
        while parts:
            parts += self._take(views, parts.pop(0), options, chip)
        return views

    def _take(self, views: OptimizationViews, part: SubgraphView, options: VsiNpuOptions, chip: Chip) -> list[SubgraphView]:
        """Take a part, or give some of its layers back; return what is left of it then."""
        from .lowering import lower
        from .report import Report

        lowered = lower(part, per_tensor=options.quantization == "per_tensor")
        refused = _refused(lowered.program, options, chip)
        if not refused:
            report = Report(lowered.program, chip, options.bytes_per_cycle)
            views.compile_whole(part, partial(_opened, lowered=lowered, chip=chip), report.words, report.steps())
            return []
        given_back = [layer for layer in part.layers if refused.keys() & set(layer.sources)] or part.layers
        for layer in given_back:
            views.failed(layer, next(refused[name] for name in (*layer.sources, *refused) if name in refused))
        left = [layer for layer in part.layers if layer not in given_back]
        return part.part(left).convex_parts() if left else []


def _finer(layer: Layer, answer: Support) -> Support:
    """Say whether the NPU has the pixels of a `Resize`, which no claim can tell."""
    descriptor = layer.descriptor
    assert isinstance(descriptor, Resize)
    if not answer.supported:
        if descriptor.method is not ResizeMethod.LINEAR or descriptor.scales is not None:
            return answer
        return Support.no(
            "attribute", "scales are not given; linear is taken by some scales, which sizes may go with", "scales"
        )
    from .lowering import resize_refusal

    reason = resize_refusal(layer)
    return Support.no("attribute", reason, "coordinates") if reason else Support.yes()


def _opened(factory: VsiFactory, lowered: Lowered, chip: Chip) -> Any:
    return factory.open(lowered, chip)


def _opening_binary(layer: Layer, chip: Chip) -> Callable[[VsiFactory], Any]:
    content = layer.constant(0)
    if content is None:
        raise VsiError(f"layer {layer.name!r} has no binary that is known when it is loaded")
    return lambda factory: factory.open_binary(content.tobytes(), len(layer.inputs) - 1, chip)


def _refused(program: Program, options: VsiNpuOptions, chip: Chip) -> dict[str, str]:
    """Return why layers are not taken after all, by their names."""
    driver, found = driver_of(options), dict[str, str]()
    for operation in program.operations:
        reason = driver.refusal(operation, program, chip)
        where = landing(operation, program, chip)
        if not reason and not options.shader and where.engine == SH:
            why = "; ".join(filter(None, (where.reason, where.remedy)))
            reason = f"it would run on the shader, and option shader is false: {why}"
        if reason:
            found |= dict.fromkeys(operation.sources or (operation.name,), reason)
    return found


def _device(index: int, chip: Chip) -> Device:
    return Device(
        index,
        chip.name,
        revision=f"{chip.target:#x}",
        facts={
            "nn_cores": chip.nn_cores,
            "macs_per_cycle": chip.macs_per_cycle,
            "tp_cores": chip.tp_cores,
            "sram_bytes": chip.sram_bytes,
        },
    )
