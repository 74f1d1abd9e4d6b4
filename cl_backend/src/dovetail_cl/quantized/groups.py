"""Products of quantized tensors on a GPU, by tiles, four bytes at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dovetail import DType, Layer

from ..convolution import gathered
from ..convolution.geometry import Geometry
from ..driver.arguments import ConstantArray
from ..elementwise import input_info
from ..kernels import Kernels, Work
from .arithmetic import SOURCE
from .scaling import Scaling

_FLIPPED = 128
"""What becomes 0 where the highest bit of an unsigned byte is flipped."""


def takes(layer: Layer, geometry: Geometry, scaling: Scaling, kernels: Kernels) -> bool:
    """Say whether a product with constant weights goes by tiles: those that stand for 0 are 0.

    Signed ones, that is; unsigned ones are 128.
    """
    zero = _FLIPPED if input_info(layer, 1).dtype is DType.UINT8 else 0
    return bool((scaling.weight_zeros == zero).all()) and gathered.takes(geometry, kernels)


def create(layer: Layer, geometry: Geometry, scaling: Scaling, kernels: Kernels) -> Work:
    """Return the work of a product that `takes` says yes to.

    Pixels are multiplied as they lie, and pixels outside of images as those that stand for 0. What
    that adds to the sum of a filter is the same everywhere, and taken from its bias.
    """
    flip = _FLIPPED if input_info(layer, 0).dtype is DType.UINT8 else 0
    flip_weights = _FLIPPED if input_info(layer, 1).dtype is DType.UINT8 else 0
    zero = scaling.zeros[0] - flip

    def values(geometry: Geometry) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        weights, bias = layer.constant(1), layer.constant(2)
        assert weights is not None
        matrix = geometry.matrix(weights).astype(np.int64) - flip_weights
        added = -zero * matrix.sum((2, 3, 4)).reshape(-1)
        return matrix.astype(np.int8), (added if bias is None else bias + added).astype(np.int32)

    defined = {
        "VECTORS": 0,
        "FLIP": f"{0x01010101 * flip:#x}",
        "DOTS": int(bool(kernels.device.facts["dot_language"])),
    }
    numbers = np.array((*scaling.zeros, *scaling.bounds), np.int32)
    outside = int(np.full(4, zero, np.int8).view(np.int32)[0])
    files = f"{SOURCE} quantized/finishing.cl quantized/dots.cl"
    arguments = (ConstantArray(scaling.factors), numbers)
    return gathered.summed(layer, geometry, kernels, gathered.Sums(files, defined, arguments, values, 4, outside))
