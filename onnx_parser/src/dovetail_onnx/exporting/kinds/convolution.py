"""Convolutions."""

from __future__ import annotations

from typing import Any

from dovetail.graph.tensor import DataLayout
from dovetail.layers import AutoPadding, Convolution2d, DepthwiseConvolution2d, TransposeConvolution2d

from ..rules import Saying, says
from ..unexportable import Unexportable
from .activation import activated

_LAST_TO_FIRST = (0, 3, 1, 2)
"""Filters [O, h, w, I] as [O, I, h, w]."""
_OUTER_TO_FIRST = (3, 0, 1, 2)
"""Filters [1, h, w, C * multiplier] as [C * multiplier, 1, h, w].

Transposed ones [O, h, w, C] become [C, O, h, w].
"""


@says(Convolution2d)
def convolution(say: Saying) -> str:
    """Say a convolution."""
    return _convolved(say, "Conv", _LAST_TO_FIRST, say.descriptor.groups)


@says(DepthwiseConvolution2d)
def depthwise_convolution(say: Saying) -> str:
    """Say a convolution with a group for each channel."""
    return _convolved(say, "Conv", _OUTER_TO_FIRST, say.info().sizes[say.descriptor.layout.channel_axis])


@says(TransposeConvolution2d)
def transpose_convolution(say: Saying) -> str:
    """Say a transposed convolution, whose padding is known by the time that it is asked about."""
    padding = list(say.descriptor.output_padding)
    return _convolved(say, "ConvTranspose", _OUTER_TO_FIRST, say.descriptor.groups, output_padding=padding)


def _convolved(say: Saying, operator: str, order: tuple[int, ...], groups: int, **more: Any) -> str:
    window = say.descriptor
    if window.auto_padding is not AutoPadding.EXPLICIT:
        raise Unexportable(f"its padding is {window.auto_padding}, to be worked out once sizes are known")
    weights = say.permuted_input(1, order) if window.layout is DataLayout.NHWC else say.input(1)
    kernel = list(window.kernel_size(say.info(1)))
    made = say.op(
        operator,
        say.channels_first(4),
        weights,
        say.input(2),
        kernel_shape=kernel,
        strides=list(window.stride),
        pads=list(window.padding),
        dilations=list(window.dilation),
        group=groups,
        **more,
    )
    return activated(say, say.channels_back(made, 4))
