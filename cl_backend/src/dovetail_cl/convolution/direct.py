"""Convolutions of any kind, one result at a time."""

from __future__ import annotations

import numpy as np

from dovetail import DataLayout, Layer

from ..driver.arguments import Launch, Output
from ..elementwise import argument, input_info
from ..elementwise.epilogue import Epilogue
from ..kernels import TYPES, Kernels, Work
from .geometry import Geometry
from .images import layout_of

_POSITIONS = ("stride", "start", "between", "divide")
_PAIRS = ("in_size", "out_size", "taps")
_NUMBERS = ("groups", "channels", "filters")
_STRIDES = ("in_at", "out_at", "weight_at")
_MIN_PRODUCTS = 1 << 15
"""Worth a work item of a CPU."""


def create(layer: Layer, geometry: Geometry, kernels: Kernels, epilogue: Epilogue) -> Work:
    """Return the work of a convolution; weights and bias need not be constant."""
    position = np.int32 if geometry.is_narrow else np.int64
    struct = np.dtype(
        [(name, position, 2) for name in _POSITIONS]
        + [(name, np.int32, 2) for name in _PAIRS]
        + [(name, np.int32) for name in _NUMBERS]
        + [(name, np.int32, len(getattr(geometry, name))) for name in _STRIDES],
        align=True,
    )
    given = np.zeros((), struct)
    for name in (*_POSITIONS, *_PAIRS, *_NUMBERS, *_STRIDES):
        given[name] = getattr(geometry, name)
    is_biased = len(layer.inputs) > 2 and layer.input_infos[2] is not None
    kernel = kernels.get(
        f"{epilogue.source()} convolution/direct.cl",
        "convolve",
        T=TYPES[input_info(layer, 0).dtype],
        POSITION="int" if geometry.is_narrow else "long",
        BIASED=int(is_biased),
        DIVIDED=int(geometry.divide != (1, 1)),
        CHANNELS_LAST=int(layout_of(layer) is DataLayout.NHWC),
        **epilogue.defined(),
    )
    tensors = [argument(layer, index) for index in range(3 if is_biased else 2)]
    items, group = kernels.each(geometry.results, least=max(1, _MIN_PRODUCTS // max(geometry.depth, 1)))
    arguments = (*tensors, Output(), given, np.uint32(geometry.results), *epilogue.arguments)
    return Work((Launch(kernel, arguments, items, group),))
