"""Products of matrices: batched ones, and fully connected layers."""

from __future__ import annotations

from dovetail import DType, Layer

from ..elementwise import input_info
from ..elementwise.epilogue import NONE, Epilogue
from ..kernels import Kernels, Work
from . import groups, tiles, whole
from .geometry import fully_connected, matmul


def create(layer: Layer, kernels: Kernels, epilogue: Epilogue = NONE) -> Work:
    """Return the work of a product of matrices, and of what is made of its result."""
    product = (matmul if layer.kind == "dovetail.MatMul" else fully_connected)(layer, epilogue)
    dtype = input_info(layer, 0).dtype
    if dtype.is_integer or dtype is DType.FLOAT64:
        return whole.create(product, dtype, kernels)
    if kernels.is_cpu or kernels.device.facts["max_group"] < groups.ITEMS:
        return tiles.create(product, kernels)
    return groups.create(product, kernels)


def epilogue_axis(layer: Layer) -> int | None:
    """Return along which axis an epilogue may have lines; None: it can have no epilogue."""
    return None if len(input_info(layer, 1).sizes) == 1 else -1
