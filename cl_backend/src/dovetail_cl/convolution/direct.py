"""Convolutions of any kind, one result at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dovetail import Layer

from ..driver.arguments import Argument, Launch, Output
from ..elementwise import argument, input_info
from ..elementwise.epilogue import Epilogue
from ..kernels import TYPES, Kernels, Work
from .geometry import Geometry

_POSITIONS = ("stride", "start", "between", "divide")
_PAIRS = ("in_size", "out_size", "taps")
_NUMBERS = ("groups", "channels", "filters")
_STRIDES = ("in_at", "out_at", "weight_at")
_MIN_PRODUCTS = 1 << 15
"""Worth a work item of a CPU."""


def create(layer: Layer, geometry: Geometry, kernels: Kernels, epilogue: Epilogue) -> Work:
    """Return the work of a convolution; weights and bias need not be constant."""
    defined = {"T": TYPES[input_info(layer, 0).dtype], **epilogue.defined()}
    return summed(layer, geometry, kernels, epilogue.source(), defined, epilogue.arguments)


def summed(
    layer: Layer, geometry: Geometry, kernels: Kernels, files: str, defined: Mapping[str, Any], last: Sequence[Argument]
) -> Work:
    """Return the same of whatever is multiplied.

    Args:
        layer: Which reads images, weights and perhaps a bias.
        geometry: Of the layer.
        kernels: Of the device.
        files: Sources that say what is summed up, and what becomes of it.
        defined: For them.
        last: Arguments of the kernel, behind the others.
    """
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
        f"{files} convolution/direct.cl",
        "convolve",
        POSITION="int" if geometry.is_narrow else "long",
        BIASED=int(is_biased),
        DIVIDED=int(geometry.divide != (1, 1)),
        CHANNELS_LAST=int(geometry.in_at[1] == geometry.out_at[1] == 1),
        **defined,
    )
    tensors = [argument(layer, index) for index in range(3 if is_biased else 2)]
    items, group = kernels.each(geometry.results, least=max(1, _MIN_PRODUCTS // max(geometry.depth, 1)))
    arguments = (*tensors, Output(), given, np.uint32(geometry.results), *last)
    return Work((Launch(kernel, arguments, items, group),))
