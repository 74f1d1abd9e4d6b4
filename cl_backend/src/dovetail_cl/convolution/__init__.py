"""Convolutions over images, depthwise and transposed ones included."""

from __future__ import annotations

import math

from dovetail import Layer

from ..kernels import Kernels, Work
from . import depthwise, direct, gathered, tiles, winograd
from .geometry import geometry_of

_MOST_PHASES = 16
"""Of a transposed convolution; each becomes a launch."""


def create(layer: Layer, kernels: Kernels) -> Work:
    """Return the work of a convolution."""
    geometry = geometry_of(layer)
    if not geometry.results or not geometry.is_narrow or math.prod(geometry.divide) > _MOST_PHASES:
        return direct.create(layer, geometry, kernels)
    if not _is_constant(layer):
        return direct.create(layer, geometry, kernels)
    if kernels.is_cpu:
        if depthwise.takes(geometry, kernels):
            return depthwise.create(layer, geometry, kernels)
        if winograd.takes(layer, geometry, kernels):
            return winograd.create(layer, geometry, kernels)
        return tiles.create(layer, geometry, kernels)
    if gathered.takes(geometry, kernels):
        return gathered.create(layer, geometry, kernels)
    return direct.create(layer, geometry, kernels)


def _is_constant(layer: Layer) -> bool:
    """Say whether weights and bias are known now."""
    return all(layer.constant(index) is not None for index, info in enumerate(layer.input_infos) if index and info is not None)
