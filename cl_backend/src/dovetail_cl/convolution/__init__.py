"""Convolutions over images, depthwise and transposed ones included."""

from __future__ import annotations

import math

from dovetail import Layer

from ..elementwise.epilogue import NONE, Epilogue
from ..elementwise.functions import activation
from ..kernels import Kernels, Work
from . import depthwise, direct, gathered, planes, tiles, winograd, winograd_small
from .geometry import Geometry, geometry_of
from .images import layout_of, root_of

_MAX_PHASES = 16
"""Of a transposed convolution; each becomes a launch."""


def create(layer: Layer, kernels: Kernels, epilogue: Epilogue = NONE) -> Work:
    """Return the work of a convolution, and of what is made of its result."""
    geometry, root = geometry_of(layer), root_of(layer)
    epilogue = epilogue.preceded(activation(root.activation, root.activation_alpha, root.activation_beta))
    if not geometry.results or not geometry.is_narrow or math.prod(geometry.divide) > _MAX_PHASES:
        return direct.create(layer, geometry, kernels, epilogue)
    if not _is_constant(layer):
        return direct.create(layer, geometry, kernels, epilogue)
    if kernels.is_cpu:
        if depthwise.takes(geometry, kernels):
            return depthwise.create(layer, geometry, kernels, epilogue)
        match _winograd_side(layer, geometry, kernels):
            case 4:
                return winograd.create(layer, geometry, kernels, epilogue)
            case 2:
                return winograd_small.create(layer, geometry, kernels, epilogue)
        return tiles.create(layer, geometry, kernels, epilogue)
    if planes.takes(geometry):
        return planes.create(layer, geometry, kernels, epilogue)
    if gathered.takes(geometry, kernels):
        return gathered.create(layer, geometry, kernels, epilogue)
    return direct.create(layer, geometry, kernels, epilogue)


def epilogue_axis(layer: Layer) -> int:
    """Return along which axis an epilogue may have lines: the channels."""
    return layout_of(layer).channel_axis


def _winograd_side(layer: Layer, geometry: Geometry, kernels: Kernels) -> int:
    """Return the side of the squares that Winograd's form computes; 1: sums are direct."""
    sides = [4] if kernels.fast_math and winograd.takes(layer, geometry, kernels) else []
    if winograd_small.takes(layer, geometry, kernels):
        sides.append(2)
    return kernels.choose("winograd", *sides, 1) if sides else 1


def _is_constant(layer: Layer) -> bool:
    """Say whether weights and bias are known now."""
    return all(
        layer.constant(index) is not None for index, info in enumerate(layer.input_infos[:3]) if index and info is not None
    )
