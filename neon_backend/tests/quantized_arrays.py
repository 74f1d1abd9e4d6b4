"""Arrays of quantized images, and the order of their axes."""

from __future__ import annotations

import numpy as np

from dovetail import DataLayout


def whole(rng, dtype, *shape):
    """Elements of the whole range."""
    info = np.iinfo(dtype.numpy)
    return rng.integers(info.min, info.max, shape, dtype.numpy, endpoint=True)


def in_layout(x, layout):
    """An image of [N, C, H, W] in the order of a layout."""
    return np.ascontiguousarray(x.transpose(0, 2, 3, 1)) if layout is DataLayout.NHWC else x


def from_layout(x, layout):
    """An image of [N, C, H, W] from the order of a layout."""
    return x.transpose(0, 3, 1, 2) if layout is DataLayout.NHWC else x
