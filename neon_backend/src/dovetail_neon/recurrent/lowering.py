"""What recurrent layers of float32 with constant weights become."""

from __future__ import annotations

from typing import Any

from dovetail import Layer
from dovetail.layers import GateCoupling, Gru, Lstm, Rnn

from ..elementwise.functions import IDENTITY, Function, function_of
from ..fusion.lowering import Lowering
from .kinds import Recurrence

_BLOCKS = {GateCoupling.NONE: (0, 1, 2), GateCoupling.FORGET: (0, 1, -1), GateCoupling.INPUT: (-1, 0, 1)}
"""Blocks of rows of an LSTM's input, output and forget gate."""


def lower_recurrence(lowering: Lowering, layer: Layer) -> bool:
    """Take the weights of an `Rnn`, `Gru` or `Lstm` out of its inputs."""
    descriptor = layer.descriptor
    if not isinstance(descriptor, Rnn | Gru | Lstm):
        return False
    slots = dict(zip(descriptor.input_names, layer.inputs, strict=False))
    numbers = {name: number for number, name in enumerate(descriptor.input_names)}

    def constant(name: str) -> Any:
        return layer.constant(numbers[name]) if name in slots and slots[name].source is not None else None

    lstm = descriptor if isinstance(descriptor, Lstm) else None
    steps = Recurrence(
        infos=tuple(slot.known_info for slot in layer.outputs),
        batch_first=descriptor.batch_first,
        reverse=descriptor.reverse,
        kind_of_cell=descriptor.kind,
        gates=descriptor.gates,
        weights=constant("weights"),
        recurrent_weights=constant("recurrent_weights"),
        bias=constant("bias"),
        recurrent_bias=constant("recurrent_bias"),
        peepholes=constant("peepholes"),
        normalization=constant("normalization"),
        projection_weights=constant("projection_weights"),
        projection_bias=constant("projection_bias"),
        functions=(_function(descriptor, "gate"), _function(descriptor, "cell"), _function(descriptor, "hidden")),
        clips=(descriptor.gate_clip, lstm.cell_clip if lstm else None, lstm.projection_clip if lstm else None),
        epsilon=lstm.epsilon if lstm else 0.0,
        blocks=_BLOCKS[lstm.coupling] if lstm else (-1, -1, -1),
        reset_after=isinstance(descriptor, Gru) and descriptor.reset_after,
    )
    sources = [slots[name].source if name in slots else None for name in Recurrence.input_names]
    made = lowering.emit(steps, [None if source is None else lowering.plain(source) for source in sources], [layer])
    for old, new in zip(layer.outputs, made.outputs, strict=True):
        lowering.define(old, new)
    return True


def _function(descriptor: Any, name: str) -> Function:
    """Return a function of a recurrent layer, or none if the kind does not have it."""
    activation = getattr(descriptor, f"{name}_activation", None)
    if activation is None:
        return IDENTITY
    function = function_of(activation.value, getattr(descriptor, f"{name}_alpha"), getattr(descriptor, f"{name}_beta"))
    if function is None:
        raise ValueError(f"no kernel has the function {activation.value!r}")
    return function
