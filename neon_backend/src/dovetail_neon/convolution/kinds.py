"""Private kinds of convolutions and of products with constant matrices."""

from __future__ import annotations

from typing import ClassVar

from dovetail.graph.descriptor import descriptor_class

from ..filters import Filters


@descriptor_class
class Convolve(Filters, kind="CpuAcc.Convolve"):
    """Convolution or product with constant weights [filters, taps, channels of a group].

    Strides are arbitrary. A matrix [M, K] is an image of M pixels by 1 with K channels. Where a
    side is not blocked its channels lie innermost (NHWC, or a row-major matrix). A second input is
    added before the function is applied.
    """

    precision: ClassVar[str] = "float32"
    """Type of the multiplied factors.

    Each precision has kinds of its own: its kernels follow from the kind.
    """
    groups: int = 1
    run: int = 1
    """Width of the window, over a framed image of few channels.

    The window's row is read as one run of elements. Weights are then [filters, rows,
    channels * run] or, with channels innermost, [filters, rows, run * channels].
    """
    channels_last: bool = False
    """Of a framed image of few channels."""
    vectors: int = 0
    """Most vectors of filters that a tile computes at once; 0 is as many as the kernel can.

    With fewer, a tile holds more pixels, and reads the weights less often.
    """


@descriptor_class
class ConvolveFloat16(Convolve, kind="CpuAcc.ConvolveFloat16"):
    """`Convolve` with weights and pixels rounded to float16; images stay float32.

    Sums of 32 products are rounded to float16, too.
    """

    precision: ClassVar[str] = "float16"


@descriptor_class
class WinogradConvolve(Filters, kind="CpuAcc.WinogradConvolve"):
    """`Convolve` by Winograd tiles of `tile` results a side.

    Images are blocked, windows 3 x 3 with stride and dilation 1, in one group. `tile` is 2 or 4;
    algorithms.py says when each pays, and which weights allow it. Where a window holds an infinity
    or a NaN, all results of its tile may be NaN.
    """

    tile: int = 2


@descriptor_class
class ConvolveGrouped(Filters, kind="CpuAcc.ConvolveGrouped"):
    """`Convolve` of blocked images in groups that need not fill blocks.

    Weights are read as they are, in every precision.
    """

    precision: ClassVar[str] = "float32"
    groups: int = 1


@descriptor_class
class ConvolveBfloat16(Filters, kind="CpuAcc.ConvolveBfloat16"):
    """`Convolve` whose weights and pixels are rounded to bfloat16, and whose sums are float32.

    Either side, and what is added, may be blocked images of bfloat16: [N, C / 32, H, W, 32].
    """

    precision: ClassVar[str] = "bfloat16"
    groups: int = 1
    run: int = 1
    """Width of the window, over a plain image of at most 4 channels.

    The window's rows are read as runs of elements. Weights are then [filters, rows, run * 4]. Where
    an image holds an infinity or a NaN, results nearby in its row may be NaN.
    """
    channels_last: bool = False
    """The order of axes of such an image."""
