"""Layers with a scale for each channel whose sums pass 2^24, where the floats of the shader round.

Biases are such that one result of each filter lies next to a tie: whatever is summed in another
order, or rounded otherwise, is one off in many of them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from programs import of_one, random_bytes, tensor

from dovetail_npu_vsi import program as p


class Layer(NamedTuple):
    """Shapes of an image, or of rows, and of weights; then what a convolution has besides."""

    x: tuple[int, ...]
    weights: tuple[int, ...]
    groups: int = 1
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilation: tuple[int, int] = (1, 1)


DEPTHWISE = (1, 80, 7, 8)
LAYERS = {
    "1x1": Layer((1, 75, 3, 3), (90, 75, 1, 1)),
    "3x3": Layer((1, 7, 5, 6), (90, 7, 3, 3), padding=(1, 1, 1, 1), stride=(2, 1)),
    "2x3, dilation": Layer((1, 21, 5, 6), (90, 21, 2, 3), dilation=(1, 2)),
    "in groups, dilation": Layer((1, 21, 5, 6), (90, 7, 2, 3), 3, padding=(0, 1, 0, 2), dilation=(2, 1)),
    "in groups, other strides": Layer((1, 21, 5, 6), (90, 7, 2, 3), 3, stride=(2, 1)),
    "in groups, other strides, dilation": Layer((1, 21, 5, 8), (90, 7, 2, 3), 3, (2, 1), dilation=(2, 2)),
    "in groups, of a batch": Layer((2, 21, 5, 6), (90, 7, 2, 3), 3),
    "depthwise 3x3": Layer(DEPTHWISE, (80, 1, 3, 3), 80),
    "depthwise 3x3, stride 2, one border": Layer(DEPTHWISE, (80, 1, 3, 3), 80, (2, 2), (0, 0, 1, 1)),
    "depthwise 3x3, borders": Layer(DEPTHWISE, (80, 1, 3, 3), 80, padding=(1, 1, 1, 1)),
    "depthwise 3x3, stride 3": Layer(DEPTHWISE, (80, 1, 3, 3), 80, (3, 3)),
    "depthwise 3x3, other strides": Layer(DEPTHWISE, (80, 1, 3, 3), 80, (2, 1)),
    "depthwise 3x3, dilation": Layer(DEPTHWISE, (80, 1, 3, 3), 80, dilation=(1, 3)),
    "depthwise 4x8, two filters a channel": Layer(DEPTHWISE, (160, 1, 4, 8), 80, padding=(2, 2, 2, 2)),
    "fully connected": Layer((2, 333), (90, 333)),
}


def program_of(layer: Layer, rng: np.random.Generator) -> tuple[p.Program, Any]:
    """Return a program of one layer and what it reads."""
    x, zero_point = random_bytes(rng, layer.x), int(rng.integers(0, 256))
    values = rng.integers(-127, 128, layer.weights).astype(np.int8)
    exponents = rng.integers(17, 24, len(values))
    # Halves of odd numbers, below 2^31 with what is added.
    ties = (2 * rng.integers(1, 62, len(values)) + 1) << (exponents - 1)
    ulps = 2.0 ** (np.floor(np.log2(ties)) - 23)
    near = ties + np.rint(rng.uniform(-1.6, 1.6, len(values)) * ulps).astype(np.int64)
    bias = (near - first_sums(layer, x.astype(np.int64) - zero_point, values)).astype(np.int32)
    weights = p.Weights(values, tuple(2.0**-exponents), (0,) * len(values), bias)
    read = tensor(layer.x, 1.0, zero_point)
    if len(layer.x) == 2:
        of_rows = p.FullyConnected(name="fc", inputs=(0,), output=1, weights=weights, low=0, high=255)
        return of_one(of_rows, read, tensor((layer.x[0], len(values)), 1.0, 0)), x
    operation = p.Convolution(
        name="conv",
        inputs=(0,),
        output=1,
        weights=weights,
        stride=layer.stride,
        padding=layer.padding,
        dilation=layer.dilation,
        groups=layer.groups,
        low=0,
        high=255,
    )
    spans = [(layer.weights[2 + axis] - 1) * layer.dilation[axis] + 1 for axis in range(2)]
    bordered = [layer.x[2 + axis] + layer.padding[axis] + layer.padding[2 + axis] for axis in range(2)]
    sizes = [(bordered[axis] - spans[axis]) // layer.stride[axis] + 1 for axis in range(2)]
    return of_one(operation, read, tensor((layer.x[0], len(values), *sizes), 1.0, 0)), x


def first_sums(layer: Layer, x: Any, values: Any) -> Any:
    """Return the exact sum of each filter at the first pixel of the first image."""
    if len(layer.x) == 2:
        return values.astype(np.int64) @ x[0]
    top, left, bottom, right = layer.padding
    image = np.pad(x[0], ((0, 0), (top, bottom), (left, right)))
    (height, width), (down, across) = values.shape[2:], layer.dilation
    window = image[:, : (height - 1) * down + 1 : down, : (width - 1) * across + 1 : across]
    parts = zip(np.split(window, layer.groups), np.split(values.astype(np.int64), layer.groups), strict=True)
    return np.concatenate([(filters * part).sum(axis=(1, 2, 3)) for part, filters in parts])
