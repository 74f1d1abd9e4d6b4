"""Remove layers that change nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from ...graph.descriptor import Descriptor
from ...graph.graph import Graph
from ...graph.tensor import TensorInfo
from ...layers import (
    Activation,
    ActivationFunction,
    BroadcastTo,
    Cast,
    Concat,
    ExpandDims,
    Flatten,
    Pad,
    Permute,
    Reduce,
    ReduceFunction,
    Reshape,
    Resize,
    Split,
    Squeeze,
    StridedSlice,
    Tile,
)
from ..rewriting import bypass
from .base import Pass

_PASS_THROUGH = {ReduceFunction.SUM, ReduceFunction.MEAN, ReduceFunction.MAX, ReduceFunction.MIN, ReduceFunction.PROD}


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
    return descriptor.function is ActivationFunction.LINEAR and descriptor.alpha == 1.0 and descriptor.beta == 0.0


# Each is asked only where input and output have one and the same info.
_IS_IDENTITY: dict[type[Descriptor], Callable[[Any, TensorInfo], bool]] = {
    Activation: _linear,
    BroadcastTo: _always,
    Cast: _always,
    Concat: _always,
    ExpandDims: _always,
    Flatten: _always,
    Pad: _pad,
    Permute: _permute,
    Reduce: _reduce,
    Reshape: _always,
    Resize: _resize,
    Split: _always,
    Squeeze: _always,
    StridedSlice: _slice,
    Tile: _always,
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
            is_identity = _IS_IDENTITY.get(type(layer.descriptor))
            if is_identity is None or len(layer.outputs) != 1 or len(layer.inputs) != 1:
                continue
            info = layer.inputs[0].info
            if info is not None and info == layer.output.info and is_identity(layer.descriptor, info):
                bypass(graph, layer)
                changes += 1
        return changes
