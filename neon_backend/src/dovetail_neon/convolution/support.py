"""Which convolutions and products with constant matrices CpuAcc takes."""

from __future__ import annotations

from typing import Any

from dovetail import Layer, Support
from dovetail.layers import Convolution2d, DepthwiseConvolution2d, FullyConnected, TransposeConvolution2d

from ..elementwise.support import fused_function
from .transposed import refusal as transposed_refusal

_MAX_PRODUCTS = 1 << 25
"""Products that such a tile sums up, of 64 bytes of packed weights each: a tenth of a second."""


def long_sums(layer: Layer) -> Support | None:
    """Refuse products with constant weights, in tiles that do not look whether the run should end, of too long sums."""
    d: Any = layer.descriptor
    results = layer.output.known_info.elements
    products = d.macs(layer.input_infos, [layer.output.known_info]) // max(results, 1)
    if products <= _MAX_PRODUCTS or layer.constant(1) is None:
        return None
    name = d.input_names[1]
    return Support.no(
        "shape",
        f"each result sums {products} products; at most {_MAX_PRODUCTS} are summed without a look at the deadline",
        name,
    )


def constant_weights(layer: Layer) -> Support | None:
    """Refuse weights that are computed."""
    names = layer.descriptor.input_names
    for index in range(1, len(layer.inputs)):
        if layer.inputs[index].source is not None and layer.constant(index) is None:
            name = names[index]
            return Support.no("attribute", f"input {name!r} is computed; CpuAcc packs {name} when a network is loaded", name)
    return None


def _convolution(layer: Layer) -> Support | None:
    for rule in (constant_weights, fused_function, long_sums):
        refusal = rule(layer)
        if refusal is not None:
            return refusal
    return None


def _depthwise(layer: Layer) -> Support | None:
    refusal = constant_weights(layer)
    return fused_function(layer) if refusal is None else refusal


def _transposed(layer: Layer) -> Support | None:
    d: Any = layer.descriptor
    if d.groups > 1:
        return Support.no("attribute", f"{d.groups} groups are not implemented; one is", "groups")
    refusal = constant_weights(layer)
    if refusal is None:
        refusal = fused_function(layer)
    if refusal is None:
        refusal = transposed_refusal(layer)
    return long_sums(layer) if refusal is None else refusal


SUPPORT = {
    Convolution2d.kind: _convolution,
    DepthwiseConvolution2d.kind: _depthwise,
    FullyConnected.kind: _convolution,
    TransposeConvolution2d.kind: _transposed,
}
