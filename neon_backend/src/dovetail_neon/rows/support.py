"""Which normalizations of channels, and which reductions, CpuAcc takes."""

from __future__ import annotations

from collections.abc import Callable

from dovetail import Layer, Support
from dovetail.layers import BatchNormalization, GroupNormalization, InstanceNormalization, LayerNormalization, Reduce, Softmax

from ..convolution.support import constant_weights

_MAX_AXES = 8
"""So that a reduction has four runs of reduced axes at most."""


def _parameters(layer: Layer) -> Support | None:
    names = layer.descriptor.input_names
    for index, slot in enumerate(layer.inputs):
        if index and slot.source is not None and layer.constant(index) is None:
            name = names[index]
            return Support.no("attribute", f"input {name!r} is computed; CpuAcc keeps {name} when a network is loaded", name)
    return None


def _reduction(layer: Layer) -> Support | None:
    if layer.input_infos[0] is not None and layer.input_infos[0].rank > _MAX_AXES:
        return Support.no("shape", f"input has more than {_MAX_AXES} axes", "input")
    return None


SUPPORT: dict[str, Callable[[Layer], Support | None]] = {
    BatchNormalization.kind: _parameters,
    GroupNormalization.kind: _parameters,
    InstanceNormalization.kind: _parameters,
    LayerNormalization.kind: constant_weights,
    Reduce.kind: _reduction,
    Softmax.kind: lambda layer: None,
}
