"""Sliding windows over images in NumPy: convolution, its transpose and pooling by definition.

Images are [N, C, H, W], filters [O, C / groups, h, w]; sizes are (height, width), padding (top,
left, bottom, right). Float64 stays float64 and int64 stays int64.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from ..cases import Array

Pair: TypeAlias = tuple[int, int]
Edges: TypeAlias = tuple[int, int, int, int]


def positions(size: int, window: int, stride: int, before: int, after: int, dilation: int, *, partial: bool = False) -> int:
    """Count the positions of a window along one axis; 0 if it does not fit.

    With `partial` a last window may reach over the end, if it starts inside the data or the padding
    before it.
    """
    reach = dilation * (window - 1) + 1
    if size + before + after < reach:
        return 0
    starts = range(0, size + before + after, stride)
    if partial:
        # The first window that reaches the end is the last one.
        needed = next((i for i, at in enumerate(starts) if at + reach >= size + before + after), len(starts)) + 1
        return sum(1 for at in starts[:needed] if at < size + before)
    return sum(1 for at in starts if at + reach <= size + before + after)


def seen(
    x: Array, kernel: Pair, stride: Pair, padding: Edges, dilation: Pair, fill: float = 0, counts: Pair | None = None
) -> Array:
    """Return what each window sees, [N, C, rows, columns, h, w], with `fill` outside the image."""
    if counts is None:
        rows, columns = (
            positions(x.shape[2 + i], kernel[i], stride[i], padding[i], padding[2 + i], dilation[i]) for i in range(2)
        )
    else:
        rows, columns = counts
    at = [
        np.arange(count)[:, None] * stride[i] - padding[i] + np.arange(kernel[i])[None, :] * dilation[i]
        for i, count in enumerate((rows, columns))
    ]
    inside = [(axis >= 0) & (axis < x.shape[2 + i]) for i, axis in enumerate(at)]
    if not x.size:
        return np.full((*x.shape[:2], rows, columns, *kernel), fill, x.dtype)
    clipped = [np.clip(axis, 0, x.shape[2 + i] - 1) for i, axis in enumerate(at)]
    values = x[:, :, clipped[0][:, None, :, None], clipped[1][None, :, None, :]]
    known = inside[0][:, None, :, None] & inside[1][None, :, None, :]
    return np.where(known, values, x.dtype.type(fill))


def convolution(
    x: Array, weights: Array, stride: Pair = (1, 1), padding: Edges = (0, 0, 0, 0), dilation: Pair = (1, 1), groups: int = 1
) -> Array:
    """Cross-correlate; every window's sum is one inner product."""
    filters, per_group, *kernel = weights.shape
    windows = seen(x, (kernel[0], kernel[1]), stride, padding, dilation)
    each = filters // groups
    parts = [
        np.tensordot(
            windows[:, group * per_group : (group + 1) * per_group],
            weights[group * each : (group + 1) * each],
            axes=([1, 4, 5], [1, 2, 3]),
        )
        for group in range(groups)
    ]
    return np.ascontiguousarray(np.concatenate(parts, axis=3).transpose(0, 3, 1, 2))


def depthwise(x: Array, weights: Array, stride: Pair, padding: Edges, dilation: Pair) -> Array:
    """Cross-correlate each channel with its own filters [C * multiplier, 1, h, w]."""
    windows = seen(x, (weights.shape[2], weights.shape[3]), stride, padding, dilation)
    multiplier = weights.shape[0] // x.shape[1]
    planes = [(windows[:, f // multiplier] * weights[f, 0]).sum(axis=(3, 4)) for f in range(weights.shape[0])]
    return np.stack(planes, axis=1)


def transpose_convolution(
    x: Array, weights: Array, stride: Pair, padding: Edges, dilation: Pair, output_padding: Pair = (0, 0), groups: int = 1
) -> Array:
    """Convolve the image, zeros between its pixels, with mirrored filters [C, O / groups, h, w]."""
    n, channels, height, width = x.shape
    sparse = np.zeros((n, channels, stride[0] * (height - 1) + 1, stride[1] * (width - 1) + 1), x.dtype)
    sparse[:, :, :: stride[0], :: stride[1]] = x
    reach = [dilation[i] * (weights.shape[2 + i] - 1) for i in range(2)]
    grouped = weights.reshape(groups, channels // groups, *weights.shape[1:])
    mirrored = np.flip(grouped, (3, 4)).swapaxes(1, 2).reshape(-1, channels // groups, *weights.shape[2:])
    around = (reach[0], reach[1], reach[0] + output_padding[0], reach[1] + output_padding[1])
    full = convolution(sparse, mirrored, padding=around, dilation=dilation, groups=groups)
    bottom, right = full.shape[2] - padding[2], full.shape[3] - padding[3]
    return np.ascontiguousarray(full[:, :, padding[0] : bottom, padding[1] : right])
