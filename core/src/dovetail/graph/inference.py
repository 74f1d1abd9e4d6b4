"""What a layer makes of its inputs: element types and sizes, asked of its kind and checked."""

from __future__ import annotations

from ..ground.limits import under_way
from .descriptor import Constant
from .kind_errors import raise_named
from .layer import Layer


def infer_outputs(layer: Layer) -> None:
    """Infer the outputs of one layer whose inputs are known.

    Inferring depends on the descriptor, which never changes, the inputs' infos and the outputs'
    quantizations alone: where all of these are what they were the last time, and nobody set
    another info meanwhile, there is nothing to do. So a network whose sizes its file states is
    inferred once, while it is built, and not again when it is optimized.

    Raises:
        GraphError: The inputs do not fit; the message names the layer.
        LimitError: An output has more elements than the load under way allows, or that took too
            long.
    """
    descriptor, inputs = layer.descriptor, layer.input_infos
    last = layer.inferred
    if last is not None and last[0] is descriptor:
        quantizations = [slot.quantization for slot in layer.outputs]
        if last == (descriptor, *inputs, *quantizations, *[slot.info for slot in layer.outputs]):
            return
    try:
        infos = [
            info if slot.quantization is None else info.with_quantization(slot.quantization)
            for slot, info in zip(layer.outputs, descriptor.infer(inputs), strict=True)
        ]
        for info in infos:
            info.check()
        budget = under_way()
        if budget is not None:
            budget.check_time()
            if budget.limits_elements:
                for slot, info in zip(layer.outputs, infos, strict=True):
                    budget.check_shape(info.shape, slot.name)
    except Exception as error:
        raise_named(error, layer, "infer")
    for slot, info in zip(layer.outputs, infos, strict=True):
        slot.info = info
    if not isinstance(descriptor, Constant):  # whose array would be kept when the layer has released it
        layer.inferred = (descriptor, *inputs, *[slot.quantization for slot in layer.outputs], *infos)
