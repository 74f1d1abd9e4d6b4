"""Private kinds of convolutions and of products with constant matrices."""

from __future__ import annotations

from typing import ClassVar

from dovetail import PrivateLayer
from dovetail.graph.descriptor import descriptor_class

from ..arrays import Floats
from ..elementwise.functions import IDENTITY, Function
from ..geometry.layouts import Image
from ..geometry.window import Geometry


@descriptor_class
class Convolve(PrivateLayer, kind="CpuAcc.Convolve"):
    """Convolution or matrix product with constant weights [filters, taps, channels of a group], any strides.

    A matrix [M, K] is an image of M pixels by 1 with K channels. Where a side is not blocked its
    channels lie innermost (NHWC, or a row-major matrix). A second input is added before the
    function is applied.
    """

    precision: ClassVar[str] = "float32"
    """Of the factors that are multiplied. Each precision has kinds of its own: its kernels follow from the kind."""
    weights: Floats
    bias: Floats | None
    source: Image
    target: Image
    geometry: Geometry
    groups: int = 1
    function: Function = IDENTITY
    run: int = 1
    """Over a framed image of few channels: the width of the window, which is read as one run of elements. Weights are then
    [filters, rows, channels * run] or, with channels innermost, [filters, rows, run * channels]."""
    channels_last: bool = False
    """Of a framed image of few channels."""
    vectors: int = 0
    """Vectors of filters that a tile computes at once, at most: with fewer it holds more pixels, and reads the weights less
    often; 0 is as many as the kernel can."""


@descriptor_class
class ConvolveFloat16(Convolve, kind="CpuAcc.ConvolveFloat16"):
    """`Convolve` whose weights and pixels are rounded to float16, and so are sums of 32 products; images stay float32."""

    precision: ClassVar[str] = "float16"


@descriptor_class
class WinogradConvolve(PrivateLayer, kind="CpuAcc.WinogradConvolve"):
    """`Convolve` of blocked images with windows of 3 x 3, stride and dilation 1, one group, by tiles of `tile` results a side.

    `tile` is 2 or 4; algorithms.py says when each pays, and which weights allow it. Where a window
    holds an infinity or a NaN, all results of its tile may be NaN.
    """

    weights: Floats
    bias: Floats | None
    source: Image
    target: Image
    geometry: Geometry
    function: Function = IDENTITY
    tile: int = 2


@descriptor_class
class ConvolveBfloat16(PrivateLayer, kind="CpuAcc.ConvolveBfloat16"):
    """`Convolve` whose weights and pixels are rounded to bfloat16, and whose sums are float32.

    Either side, and what is added, may be blocked images of bfloat16: [N, C / 32, H, W, 32].
    """

    precision: ClassVar[str] = "bfloat16"
    weights: Floats
    bias: Floats | None
    source: Image
    target: Image
    geometry: Geometry
    groups: int = 1
    function: Function = IDENTITY
    run: int = 1
    """Over a plain image of at most 4 channels: the width of the window, whose rows are read as runs of elements. Weights are
    then [filters, rows, run * 4]. Where an image holds an infinity or a NaN, results nearby in its row may be NaN."""
    channels_last: bool = False
    """The order of axes of such an image."""
