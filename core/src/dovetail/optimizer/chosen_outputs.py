"""Make tensors from the inside of a network its outputs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ..graph.descriptor import Output
from ..graph.graph import Graph
from ..graph.layer import Layer, OutputSlot
from ..ground.close_names import suggestion
from ..ground.errors import ErrorCode, InputError
from ..ground.limits import watched


def choose_outputs(network: Graph, names: Sequence[str], kept: Collection[str] = ()) -> dict[str, str]:
    """Give a network other outputs in the place of its own, in the order of their names.

    The network is changed.

    Args:
        network: The network.
        names: Of its outputs, or of slots as `OutputSlot.name` says them.
        kept: Names of outputs that it has besides; they cannot be chosen.

    Returns:
        What callers call the new outputs, by the name of the layer: that of a slot is taken by the
        layer that computes it.

    Raises:
        InputError: There is nothing of this name (`OUTPUT_NAME`).
    """
    own = [layer for layer in network.outputs if layer.name not in kept]
    slots = _slots(network, own)
    unknown = [name for name in names if name not in slots]
    if unknown:
        raise InputError(
            f"network {network.name!r} has no output or layer {unknown[0]!r}",
            code=ErrorCode.OUTPUT_NAME,
            hint=suggestion(unknown[0], slots),
            unknown=unknown,
        )
    chosen = [slots[name] for name in names]
    for layer in own:
        network.remove(layer)
    return {network.output(slot, network.unique_name(name)).name: name for name, slot in zip(names, chosen, strict=True)}


def _slots(network: Graph, outputs: Sequence[Layer]) -> Mapping[str, OutputSlot]:
    """Return all that can be chosen by name.

    An output goes before a slot of the same name, and so does a layer ``a:1`` before the second
    output of a layer ``a``.
    """
    slots = {layer.name: layer.inputs[0].source for layer in outputs}
    layers = [layer for layer in watched(network.layers) if not isinstance(layer.descriptor, Output)]
    for layer in sorted(layers, key=lambda layer: len(layer.outputs) > 1):
        for slot in layer.outputs:
            slots.setdefault(slot.name, slot)
    return {name: slot for name, slot in slots.items() if slot is not None}
