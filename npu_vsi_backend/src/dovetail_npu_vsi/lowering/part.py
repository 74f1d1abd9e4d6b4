"""Lower a part of a network, layer by layer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dovetail import DType, Layer, SubgraphView

from ..program import Program
from . import elements, resampling, shapes, weighted, windows
from .folding import folded
from .request import Request
from .storage import Storage

Lowering = Callable[[Storage, Layer, Request], None]


@dataclass(frozen=True)
class Lowered:
    """A program, and what its caller has to do at its borders.

    Attributes:
        program: All of its tensors are uint8.
        signed_inputs, signed_outputs: Whether the network has int8 there: 128 is to be added to
            inputs, and taken from outputs.
    """

    program: Program
    signed_inputs: tuple[bool, ...]
    signed_outputs: tuple[bool, ...]


LOWERINGS: dict[str, Lowering] = {
    "dovetail.Convolution2d": weighted.convolution,
    "dovetail.DepthwiseConvolution2d": weighted.depthwise_convolution,
    "dovetail.FullyConnected": weighted.fully_connected,
    "dovetail.Pooling2d": windows.pooling,
    "dovetail.GlobalPooling": windows.global_pooling,
    "dovetail.Reduce": windows.mean,
    "dovetail.ElementwiseBinary": elements.binary,
    "dovetail.Activation": elements.activation,
    "dovetail.Softmax": elements.softmax,
    "dovetail.Resize": resampling.resize,
    "dovetail.Concat": elements.concat,
    "dovetail.Pad": elements.pad,
    "dovetail.Reshape": shapes.reshape,
    "dovetail.Flatten": shapes.reshape,
    "dovetail.Squeeze": shapes.reshape,
    "dovetail.ExpandDims": shapes.reshape,
    "dovetail.Permute": shapes.permute,
}
"""By kind; the manifest claims these and no others."""


def lower(part: SubgraphView, *, per_tensor: bool = False) -> Lowered:
    """Return the program of a part, all of whose layers the backend has accepted.

    Args:
        part: Convex.
        per_tensor: Weights with a scale for each channel may be given one scale.
    """
    request = Request(per_tensor, part)
    storage = Storage(part.layers[0].name if len(part) == 1 else f"{part.layers[0].name} ... {part.layers[-1].name}")
    inputs = [storage.new_tensor(slot) for slot in part.inputs]
    for layer in part.layers:
        LOWERINGS[layer.kind](storage, layer, request)
    outputs: list[int] = []
    for slot in part.outputs:
        number = storage.stored(slot)
        outputs.append(storage.copied(slot, number) if number in inputs or number in outputs else number)
    return Lowered(
        folded(storage.program(inputs, outputs)),
        tuple(slot.dtype is DType.INT8 for slot in part.inputs),
        tuple(slot.dtype is DType.INT8 for slot in part.outputs),
    )
