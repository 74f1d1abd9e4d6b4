"""Convolutions over images, depthwise and transposed ones included."""

from __future__ import annotations

import math

from dovetail import Layer

from ..kernels import Kernels, Work
from . import direct, tiles
from .geometry import Geometry, geometry_of

_MOST_PHASES = 16


def create(layer: Layer, kernels: Kernels) -> Work:
    """Return the work of a convolution."""
    geometry = geometry_of(layer)
    is_constant = all(
        layer.constant(index) is not None for index, info in enumerate(layer.input_infos) if index and info is not None
    )
    if kernels.is_cpu and is_constant and geometry.results and _has_tiles(geometry):
        launches, scratch = [], 0
        for phase in geometry.phases():
            launch, more = tiles.launch(layer, phase, kernels)
            launches.append(launch)
            scratch = max(scratch, more)
        return Work(tuple(launches), scratch)
    return Work((direct.launch(layer, geometry, kernels),))


def _has_tiles(geometry: Geometry) -> bool:
    return geometry.is_narrow and math.prod(geometry.divide) <= _MOST_PHASES
