"""Convolutions of single channels on a CPU, each with that of single pixels behind it.

A work item filters the pixels that it multiplies next, so that what lies between stays in the
nearest caches, and one kernel is launched instead of two.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dovetail import DataLayout, Layer, Network
from dovetail.graph.descriptor import Input
from dovetail.layers import DepthwiseConvolution2d

from ..elementwise import input_info, reals
from ..elementwise.epilogue import NONE, Epilogue
from ..elementwise.functions import activation
from ..kernels import Kernels, Work
from . import tiles
from .geometry import geometry_of
from .images import Convolution, Separable, root_of

_MAX_DEPTH = 1024
"""Channels, of which a tile's pixels stay in the nearer caches."""
_MIN_PIXELS = 64
"""Below, weights are read more often than pixels, and filters are shared out instead."""


_MAX_PRODUCTS = 1 << 25
"""Of both: where there are more a launch costs nothing, and single rows of windows less."""


def can_be(depthwise: Layer, pointwise: Layer, vector: int) -> bool:
    """Say whether two convolutions over NCHW, the second of the first's result, are better one.

    Args:
        depthwise: Of single channels; its weights are constant.
        pointwise: Another convolution of constant weights.
        vector: Floats of a vector of the device.
    """
    first: Any = depthwise.descriptor
    second: Any = pointwise.descriptor
    if not isinstance(first, DepthwiseConvolution2d) or isinstance(second, DepthwiseConvolution2d):
        return False
    if not depthwise.output.known_info.dtype.is_float:
        return False
    if any(len(one.inputs) < 3 or one.inputs[2].source is None for one in (depthwise, pointwise)):
        return False
    middle, result = depthwise.output.known_info, pointwise.output.known_info
    channels = middle.sizes[1]
    taps = math.prod(input_info(depthwise, 1).sizes[2:])
    products = result.elements * channels + middle.elements * taps
    return (
        pointwise.kind == "dovetail.Convolution2d"
        and second.groups == 1
        and second.stride == (1, 1)
        and tuple(input_info(pointwise, 1).sizes[2:]) == (1, 1)
        and not any(second.padding)
        and min(first.dilation) >= 1
        and channels == input_info(depthwise, 0).sizes[1]
        and vector <= channels <= _MAX_DEPTH
        and middle.sizes[0] * middle.sizes[2] * middle.sizes[3] >= _MIN_PIXELS
        and 0 < products <= _MAX_PRODUCTS
    )


def create(layer: Layer, kernels: Kernels, epilogue: Epilogue = NONE) -> Work:
    """Return the work of the two, and of what is made of their result."""
    made = layer.descriptor
    assert isinstance(made, Separable)
    network = Network("separable")
    constants: list[Any] = [layer.constant(index) for index in range(1, 5)]
    image = network.add(Input(info=input_info(layer, 0)))
    first = network.add(
        Convolution(infos=(made.middle,), convolution=made.depthwise, layout=DataLayout.NHWC), image.output, *constants[:2]
    )
    second = network.add(
        Convolution(infos=(layer.output.known_info,), convolution=made.pointwise, layout=DataLayout.NHWC),
        first.output,
        *constants[2:],
    )
    geometry, root, last = geometry_of(first), root_of(first), root_of(second)
    weights, bias = reals(first, 1), reals(first, 2)
    assert weights is not None, "they are constant"
    assert bias is not None, "both have one"
    before = tiles.Before(
        geometry,
        np.ascontiguousarray(geometry.matrix(weights).reshape(geometry.groups, -1).T),
        bias.astype(np.float32),
        f"({activation(root.activation, root.activation_alpha, root.activation_beta)})",
    )
    epilogue = epilogue.preceded(activation(last.activation, last.activation_alpha, last.activation_beta))
    return tiles.create(second, geometry_of(second), kernels, epilogue, before)


def epilogue_axis(layer: Layer) -> int:
    """Return along which axis an epilogue may have lines: the channels."""
    return layer.output.known_info.rank - 1
