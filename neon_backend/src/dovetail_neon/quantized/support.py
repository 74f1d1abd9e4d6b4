"""What the quantizations of layers come to, and what CpuAcc refuses of them beyond its manifest."""

from __future__ import annotations

from typing import Any

import numpy as np

from dovetail import Layer, Quantization, Support
from dovetail.graph.layer import OutputSlot
from dovetail.quantized.bounds import bounds_of

from ..families import is_quantized

_MAX_COLUMNS = 64
"""That a row of results reads, by those that it and the image have: more are nearly all padding."""


LARGEST = 1e30
"""Of a factor: any integer but 0 times it is beyond 8 bits anyhow, and 0 times it is 0."""


def scheme(slot: OutputSlot | None) -> Quantization:
    """Return the quantization of a tensor that has one."""
    quantization = None if slot is None else slot.known_info.quantization
    if quantization is None:
        raise ValueError("a quantized layer has a tensor without quantization")
    return quantization


def product_of(a: float, b: float) -> np.floating[Any]:
    """Multiply scales in float32, or in float64 where that overflows."""
    with np.errstate(over="ignore"):
        product = np.float32(a) * np.float32(b)
    return product if np.isfinite(product) else np.float64(a) * np.float64(b)


def clamp_range(layer: Layer) -> tuple[int, int]:
    """Least and greatest integer of the result, by its type and the activation."""
    descriptor: Any = layer.descriptor
    info = layer.output.known_info
    if getattr(descriptor, "activation", None) is None:
        return bounds_of(None, 0.0, 0.0, info)
    return bounds_of(descriptor.activation, descriptor.activation_alpha, descriptor.activation_beta, info)


def columns(layer: Layer) -> Support | None:
    """Refuse steps over so many columns that what a row of results reads is nearly all padding."""
    descriptor: Any = layer.descriptor
    info, result = layer.input_infos[0], layer.output.known_info
    if info is None or not is_quantized(layer):
        return None
    axis, step = descriptor.layout.spatial_axes()[1], descriptor.stride[1]
    size, results = info.sizes[axis], result.sizes[axis]
    if (results - 1) * step <= _MAX_COLUMNS * (size + results):
        return None
    reason = f"steps of {step} columns over an image of {size}: all that a row of results reads is held at once"
    return Support.no("attribute", reason, "stride")
