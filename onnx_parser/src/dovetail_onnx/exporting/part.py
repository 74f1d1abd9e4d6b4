"""Export a part: its layers in order, each by the function of its kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dovetail.graph.layer import Layer, OutputSlot
from dovetail.graph.tensor import TensorInfo
from dovetail.ground.errors import UnsupportedModelError

from . import kinds as _kinds  # noqa: F401  # fills the table of rules
from .exported import ExportedModel
from .model import Model
from .rules import say
from .unexportable import Unexportable

if TYPE_CHECKING:
    from dovetail.contract.subgraph import SubgraphView


def unexportable(layer: Layer) -> str | None:
    """Tell why ONNX cannot say a layer; None if it can.

    The layer is one whose infos are known, as those that `IBackend.supports` is asked about. What
    ONNX leaves undefined, such as a float that does not fit the integer that it is cast to, counts
    as said: runtimes differ there.
    """
    try:
        say(Model(), layer)
    except Unexportable as reason:
        return str(reason)
    return None


def export(view: SubgraphView) -> ExportedModel:
    """Return a part of a network as an ONNX model with the part's inputs and outputs, in order.

    Quantized tensors cross its border as the integers that they are; inside, layers on them stand
    between nodes that dequantize and quantize, as runtimes expect them.

    Raises:
        UnsupportedModelError: ONNX cannot say some layers; `details["unsupported"]` lists all of
            them with a reason each.
    """
    model = Model()
    refused: dict[str, str] = {}
    for slot in view.inputs:
        model.add_input(slot)
    for layer in view.layers:
        try:
            say(model, layer)
        except Unexportable as reason:
            refused[layer.name] = f"{layer.kind}: {reason}"
            model.stand_in(layer)
    if refused:
        name, why = next(iter(refused.items()))
        more = f", and {len(refused) - 1} more" if len(refused) > 1 else ""
        raise UnsupportedModelError(
            f"ONNX cannot say layer {name!r} ({why}){more}",
            hint="ask dovetail_onnx.unexportable(layer) in supports(), and refuse such layers with its answer",
            unsupported=refused,
        )
    return _exported(model, view.graph.name, view.inputs, view.outputs)


def _exported(model: Model, name: str, inputs: tuple[OutputSlot, ...], outputs: tuple[OutputSlot, ...]) -> ExportedModel:
    infos: dict[str, TensorInfo] = {model.name_of(slot): slot.known_info for slot in inputs}
    names = []
    for slot in outputs:
        # A model's output must be computed by a node, and be no input: what passes through gets a
        # node of its own.
        label = model.output_name(slot)
        names.append(label)
        infos[label] = slot.known_info
    return ExportedModel(
        tuple(model.name_of(slot) for slot in inputs), tuple(names), name, infos, model.nodes, model.used_constants()
    )
