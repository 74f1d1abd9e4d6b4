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
    descriptor: Any = layer.descriptor
    numbers = {name: number for number, name in enumerate(descriptor.input_names)}

    def constant(name: str) -> Any:
        number = numbers.get(name, len(layer.inputs))
        there = number < len(layer.inputs) and layer.inputs[number].source is not None
        return layer.constant(number) if there else None

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
        functions=tuple(_function(descriptor, name) for name in ("gate", "cell", "hidden")),
        clips=(descriptor.gate_clip, getattr(descriptor, "cell_clip", None), getattr(descriptor, "projection_clip", None)),
        epsilon=getattr(descriptor, "epsilon", 0.0),
        blocks=_BLOCKS[descriptor.coupling] if isinstance(descriptor, Lstm) else (-1, -1, -1),
        reset_after=isinstance(descriptor, Gru) and descriptor.reset_after,
    )
    inputs = []
    for name in ("input", "initial_hidden", "initial_cell"):
        number = numbers.get(name, len(layer.inputs))
        source = layer.inputs[number].source if number < len(layer.inputs) else None
        inputs.append(None if source is None else lowering.plain(source))
    made = lowering.emit(steps, inputs, [layer])
    for old, new in zip(layer.outputs, made.outputs, strict=True):
        lowering.define(old, new)
    return isinstance(descriptor, Rnn | Gru | Lstm)


def _function(descriptor: Any, name: str) -> Function:
    """Return a function of a recurrent layer, or none if the kind does not have it."""
    activation = getattr(descriptor, f"{name}_activation", None)
    if activation is None:
        return IDENTITY
    function = function_of(activation.value, getattr(descriptor, f"{name}_alpha"), getattr(descriptor, f"{name}_beta"))
    if function is None:
        raise ValueError(f"no kernel has the function {activation.value!r}")
    return function
