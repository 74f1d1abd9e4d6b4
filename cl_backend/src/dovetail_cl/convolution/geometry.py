"""Convolutions of every kind in one form: which pixels and weights each result sums up."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from dovetail import DataLayout, Layer
from dovetail.ground.records import NamedTuple
from dovetail.layers import DepthwiseConvolution2d, TransposeConvolution2d

from ..elementwise import input_info
from .images import layout_of, root_of

LARGEST_POSITION = 1 << 30
"""Up to this, positions in padded images and steps between them are computed in 32 bits."""

_AXES = {DataLayout.NCHW: (0, 1, 2, 3), DataLayout.NHWC: (0, 3, 1, 2)}
"""Of images, channels, rows and columns."""


class Geometry(NamedTuple):
    """A convolution, whatever its kind and layout; pairs are (height, width).

    Along each axis tap t of output pixel p reads input pixel (p * stride + start + t * between) /
    divide, where that is whole and within the image. Element strides of tensors say where what
    lies.

    Attributes:
        batch, groups: Images, and groups of filters and channels.
        channels, filters: Of one group.
        in_size, out_size, taps: Pixels of images and taps of filters.
        stride, start, between, divide: See above.
        in_at: Elements between images, channels, rows and columns of the input.
        out_at: The same of the output.
        weight_at: Elements between groups, filters, channels, rows and columns of the weights.
        weight_from: Elements before the weights of the first tap.
        out_from: Elements before the first pixel of the output.
    """

    batch: int
    groups: int
    channels: int
    filters: int
    in_size: tuple[int, int]
    out_size: tuple[int, int]
    taps: tuple[int, int]
    stride: tuple[int, int]
    start: tuple[int, int]
    between: tuple[int, int]
    divide: tuple[int, int]
    in_at: tuple[int, int, int, int]
    out_at: tuple[int, int, int, int]
    weight_at: tuple[int, int, int, int, int]
    weight_from: int = 0
    out_from: int = 0

    @property
    def pixels(self) -> int:
        """Of one output image."""
        return math.prod(self.out_size)

    @property
    def depth(self) -> int:
        """Products in the sum of one result."""
        return math.prod(self.taps) * self.channels

    @property
    def results(self) -> int:
        """Elements of the output."""
        return self.batch * self.groups * self.filters * self.pixels

    @property
    def is_pointwise(self) -> bool:
        """Whether each pixel is made of the one at its place alone."""
        return (self.taps, self.stride, self.start, self.divide) == (
            (1, 1),
            (1, 1),
            (0, 0),
            (1, 1),
        ) and self.in_size == self.out_size

    @property
    def is_narrow(self) -> bool:
        """Whether 32 bits hold every position, one window beyond the end included."""
        return all(
            (self.out_size[i] + 1) * self.stride[i] + abs(self.start[i]) + self.taps[i] * abs(self.between[i])
            <= LARGEST_POSITION
            for i in range(2)
        )

    def phases(self) -> list[Geometry]:
        """Return what computes this without dividing: a convolution for each residue of pixels."""
        if self.divide == (1, 1):
            return [self]
        parts: list[list[tuple[int, ...]]] = [[], []]
        for i in range(2):
            divide, between = self.divide[i], self.between[i]
            every = divide // math.gcd(divide, between)
            for residue in range(min(divide, self.out_size[i])):
                reached = [
                    tap for tap in range(min(every, self.taps[i])) if (residue + self.start[i] + tap * between) % divide == 0
                ]
                first = reached[0] if reached else self.taps[i]
                start = (residue + self.start[i] + first * between) // divide
                count, taps = -(-(self.out_size[i] - residue) // divide), -(-(self.taps[i] - first) // every)
                parts[i].append((residue, count, first, taps, start, every, between * every // divide))
        return [
            self._replace(
                out_size=(row[1], column[1]),
                taps=(row[3], column[3]),
                stride=(1, 1),
                start=(row[4], column[4]),
                between=(row[6], column[6]),
                divide=(1, 1),
                out_at=(*self.out_at[:2], self.out_at[2] * self.divide[0], self.out_at[3] * self.divide[1]),
                weight_at=(*self.weight_at[:3], self.weight_at[3] * row[5], self.weight_at[4] * column[5]),
                weight_from=row[2] * self.weight_at[3] + column[2] * self.weight_at[4] if row[3] and column[3] else 0,
                out_from=row[0] * self.out_at[2] + column[0] * self.out_at[3],
            )
            for row in parts[0]
            for column in parts[1]
        ]

    def matrix(self, weights: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return weights as float32 [group, filter, row, column, channel]."""
        flat = np.ascontiguousarray(weights).reshape(-1)[self.weight_from :]
        shape = (self.groups, self.filters, *self.taps, self.channels)
        if not math.prod(shape):
            return np.zeros(shape, np.float32)
        group, filters, channel, row, column = (at * flat.itemsize for at in self.weight_at)
        view = np.lib.stride_tricks.as_strided(flat, shape, (group, filters, row, column, channel))
        return view.astype(np.float32)


def geometry_of(layer: Layer) -> Geometry:
    """Return the geometry of a convolution."""
    descriptor = root_of(layer)
    x, weights, y = input_info(layer, 0).sizes, input_info(layer, 1).sizes, layer.output.known_info.sizes
    axes, of_weights = _AXES[layout_of(layer)], _AXES[descriptor.layout]
    is_nchw = descriptor.layout is DataLayout.NCHW
    batch, channels, *in_size = (x[axis] for axis in axes)
    filters, taps = y[axes[1]], (weights[of_weights[2]], weights[of_weights[3]])
    is_depthwise, is_transposed = isinstance(descriptor, DepthwiseConvolution2d), isinstance(descriptor, TransposeConvolution2d)
    groups = channels if is_depthwise else descriptor.groups
    channels, filters, window = channels // groups, filters // groups, math.prod(taps)
    if is_transposed and is_nchw:  # [C, O / groups, h, w]
        weight_at = (channels * filters * window, window, filters * window, taps[1], 1)
    elif is_nchw:  # [O, C / groups, h, w]
        weight_at = (filters * channels * window, channels * window, window, taps[1], 1)
    elif is_depthwise:  # [1, h, w, O]
        weight_at = (filters, 1, 0, taps[1] * groups * filters, groups * filters)
    else:  # [O, h, w, C / groups]
        weight_at = (filters * channels * window, channels * window, 1, taps[1] * channels, channels)
    stride, padding, dilation = descriptor.stride, descriptor.padding[:2], descriptor.dilation
    return Geometry(
        batch=batch,
        groups=groups,
        channels=channels,
        filters=filters,
        in_size=(in_size[0], in_size[1]),
        out_size=(y[axes[2]], y[axes[3]]),
        taps=taps,
        stride=(1, 1) if is_transposed else stride,
        start=padding if is_transposed else (-padding[0], -padding[1]),
        between=(-dilation[0], -dilation[1]) if is_transposed else dilation,
        divide=stride if is_transposed else (1, 1),
        in_at=_strides(x, axes),
        out_at=_strides(y, axes),
        weight_at=weight_at,
    )


def _strides(sizes: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, int, int, int]:
    image, channel, row, column = (math.prod(sizes[axis + 1 :]) for axis in axes)
    return image, channel, row, column
