"""Convolutions of any kind, one result at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from dovetail import DataLayout, Layer

from ..driver.arguments import Launch, Output
from ..elementwise import argument, input_info
from ..elementwise.functions import SOURCE, activation
from ..kernels import TYPES, Kernels, Work
from .geometry import Geometry

_STRUCT = np.dtype(
    [(name, np.int64, 2) for name in ("stride", "start", "between", "divide")]
    + [(name, np.int32, 2) for name in ("in_size", "out_size", "taps")]
    + [(name, np.int32) for name in ("groups", "channels", "filters")]
    + [("in_at", np.int32, 4), ("out_at", np.int32, 4), ("weight_at", np.int32, 5)],
    align=True,
)
_LEAST_PRODUCTS = 1 << 15
"""Worth a work item of a CPU."""


def create(layer: Layer, geometry: Geometry, kernels: Kernels) -> Work:
    """Return the work of a convolution; weights and bias need not be constant."""
    descriptor: Any = layer.descriptor
    given = np.zeros((), _STRUCT)
    for name in _STRUCT.names or ():
        given[name] = getattr(geometry, name)
    is_biased = len(layer.inputs) > 2 and layer.input_infos[2] is not None
    kernel = kernels.get(
        f"{SOURCE} convolution/direct.cl",
        "convolve",
        T=TYPES[input_info(layer, 0).dtype],
        BIASED=int(is_biased),
        DIVIDED=int(geometry.divide != (1, 1)),
        CHANNELS_LAST=int(descriptor.layout is DataLayout.NHWC),
        **{"ACTIVATION(v)": activation(descriptor.activation, descriptor.activation_alpha, descriptor.activation_beta)},
    )
    tensors = [argument(layer, index) for index in range(3 if is_biased else 2)]
    items, group = kernels.each(geometry.results, least=max(1, _LEAST_PRODUCTS // max(geometry.depth, 1)))
    return Work((Launch(kernel, (*tensors, Output(), given, np.uint32(geometry.results)), items, group),))
