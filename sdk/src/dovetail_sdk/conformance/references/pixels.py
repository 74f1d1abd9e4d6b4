"""Blocks of pixels and channels, by index: the definitions of SpaceToDepth and DepthToSpace."""

from __future__ import annotations

import numpy as np

from dovetail import DataLayout

from ..cases import Array


def laid_out(x: Array, layout: DataLayout) -> Array:
    """Bring an NHWC image into a layout."""
    return x if layout is DataLayout.NHWC else np.ascontiguousarray(x.transpose(0, 3, 1, 2))


def space_to_depth(x: Array, block: int) -> Array:
    """Move pixel (dy, dx) of each block to channel (dy * block + dx) * C + c; NHWC."""
    n, height, width, channels = x.shape
    result = np.empty((n, height // block, width // block, block * block * channels), x.dtype)
    for dy in range(block):
        for dx in range(block):
            first = (dy * block + dx) * channels
            result[..., first : first + channels] = x[:, dy::block, dx::block]
    return result


def depth_to_space(x: Array, block: int, column_first: bool) -> Array:
    """Move channel (dy * block + dx) * C + c, or c * block^2 + dy * block + dx, to pixel (dy, dx) of each block; NHWC."""
    n, height, width, channels = x.shape
    rest = channels // block**2
    result = np.empty((n, height * block, width * block, rest), x.dtype)
    for dy in range(block):
        for dx in range(block):
            for c in range(rest):
                place = dy * block + dx
                source = c * block**2 + place if column_first else place * rest + c
                result[:, dy::block, dx::block, c] = x[..., source]
    return result
