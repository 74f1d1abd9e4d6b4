"""Convolutions over images, depthwise and transposed ones included."""

from __future__ import annotations

from dovetail import Layer

from ..kernels import Kernels, Work
from . import direct
from .geometry import geometry_of


def create(layer: Layer, kernels: Kernels) -> Work:
    """Return the work of a convolution."""
    return Work((direct.launch(layer, geometry_of(layer), kernels),))
