"""Products of matrices: batched ones, and fully connected layers."""

from __future__ import annotations

from dovetail import Layer

from ..kernels import Kernels, Work
from . import groups, tiles
from .geometry import fully_connected, matmul


def create(layer: Layer, kernels: Kernels) -> Work:
    """Return the work of a product of matrices."""
    product = matmul(layer) if layer.kind == "dovetail.MatMul" else fully_connected(layer)
    if kernels.is_cpu or kernels.device.facts["max_group"] < groups.ITEMS:
        return tiles.create(product, kernels)
    return groups.create(product, kernels)
