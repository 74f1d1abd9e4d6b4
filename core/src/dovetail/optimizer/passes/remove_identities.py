"""Remove layers that change nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from ...graph.descriptor import Descriptor
from ...graph.graph import Graph
from ...graph.tensor import TensorInfo
from ..rewriting import bypass
from .base import Pass

if TYPE_CHECKING:
    from ...layers import Activation, Pad, Permute, Reduce, Resize, StridedSlice

_PASS_THROUGH = {"sum", "mean", "max", "min", "prod"}


def _always(descriptor: Descriptor, info: TensorInfo) -> bool:
    return True


def _permute(descriptor: Permute, info: TensorInfo) -> bool:
    return descriptor.order(info.rank) == tuple(range(info.rank))


def _pad(descriptor: Pad, info: TensorInfo) -> bool:
    return not any(descriptor.before) and not any(descriptor.after)


def _slice(descriptor: StridedSlice, info: TensorInfo) -> bool:
    return all(step == 1 or count < 2 for _, step, count in descriptor.ranges(info.sizes))


def _reduce(descriptor: Reduce, info: TensorInfo) -> bool:
    return descriptor.function in _PASS_THROUGH and not descriptor.reduced_axes(info.rank)


def _resize(descriptor: Resize, info: TensorInfo) -> bool:
    return all(scale == 1.0 for scale in descriptor.axis_scales(info))


def _linear(descriptor: Activation, info: TensorInfo) -> bool:
    return descriptor.function == "linear" and descriptor.alpha == 1.0 and descriptor.beta == 0.0


# Each is asked only where input and output have one and the same info.
_IS_IDENTITY: dict[str, Callable[[Any, TensorInfo], bool]] = {
    "dovetail.Activation": _linear,
    "dovetail.BroadcastTo": _always,
    "dovetail.Cast": _always,
    "dovetail.Concat": _always,
    "dovetail.ExpandDims": _always,
    "dovetail.Flatten": _always,
    "dovetail.Pad": _pad,
    "dovetail.Permute": _permute,
    "dovetail.Reduce": _reduce,
    "dovetail.Reshape": _always,
    "dovetail.Resize": _resize,
    "dovetail.Split": _always,
    "dovetail.Squeeze": _always,
    "dovetail.StridedSlice": _slice,
    "dovetail.Tile": _always,
}


class RemoveIdentities(Pass):
    """Remove casts to the same dtype, reshapes to the same shape, pads by nothing, and the like.

    Slices of everything are among them. What a parser leaves of dropout and identity is one of
    these. A layer whose result has another quantization stays.
    """

    name: ClassVar[str] = "remove_identities"

    def run(self, graph: Graph) -> int:
        changes = 0
        for layer in graph:
            is_identity = _IS_IDENTITY.get(layer.kind)
            if is_identity is None or len(layer.outputs) != 1 or len(layer.inputs) != 1:
                continue
            info = layer.inputs[0].info
            if info is not None and info == layer.output.info and is_identity(layer.descriptor, info):
                bypass(graph, layer)
                changes += 1
        return changes
