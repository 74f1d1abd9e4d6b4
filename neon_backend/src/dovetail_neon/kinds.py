"""Private kinds: what a claimed part of the graph is rewritten to. Weights are attributes: workloads pack them at load time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from dovetail import Descriptor, TensorInfo
from dovetail.graph.descriptor import Infos, descriptor_class

from .layouts import Image
from .resampling import Taps
from .strides import Move

Floats = npt.NDArray[np.float32]
Shorts = npt.NDArray[np.int16]
Ints = npt.NDArray[np.int32]


class Function(NamedTuple):
    """A function of one element that is applied to results; codes stand in csrc/interface/activation.h."""

    code: int = 0
    a: float = 0.0
    b: float = 0.0


IDENTITY = Function()


class Geometry(NamedTuple):
    """Windows over an image: pairs are (height, width), padding is (top, left)."""

    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)


POINT = Geometry((1, 1))


@descriptor_class
class PrivateLayer(Descriptor):
    """Base: the rewriting knows every info, nothing is inferred."""

    input_names: ClassVar[tuple[str, ...]] = ("input",)
    required_inputs: ClassVar[int] = 0
    variadic: ClassVar[bool] = True
    infos: tuple[TensorInfo, ...]

    # Holds arrays: equal to itself alone.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @property
    def output_count(self) -> int:
        return len(self.infos)

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        return self.infos

    def release(self) -> None:
        """Let go of all arrays; no workload can be made of it any more."""
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray):
                object.__setattr__(self, name, None)
            elif isinstance(value, tuple):
                for part in value:
                    if isinstance(part, PrivateLayer):
                        part.release()


@descriptor_class
class Convolve(PrivateLayer, kind="neon.Convolve"):
    """Convolution or matrix product with constant weights [filters, taps, channels of a group], any strides.

    A matrix [M, K] is an image of M pixels by 1 with K channels. Where a side is not blocked its channels lie innermost (NHWC,
    or a row-major matrix). A second input is added before the function is applied.
    """

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
class WinogradConvolve(PrivateLayer, kind="neon.WinogradConvolve"):
    """`Convolve` of blocked images with windows of 3 x 3, stride and dilation 1, one group, by tiles of `tile` results a side.

    `tile` is 2 or 4; algorithms.py says when each pays, and which weights allow it. Where a window holds an infinity or a NaN,
    all results of its tile may be NaN.
    """

    weights: Floats
    bias: Floats | None
    source: Image
    target: Image
    geometry: Geometry
    function: Function = IDENTITY
    tile: int = 2


@descriptor_class
class ConvolveBfloat16(PrivateLayer, kind="neon.ConvolveBfloat16"):
    """`Convolve` whose weights and pixels are rounded to bfloat16, and whose sums are float32.

    Either side, and what is added, may be blocked images of bfloat16: [N, C / 32, H, W, 32].
    """

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


@descriptor_class
class Reorder(PrivateLayer, kind="neon.Reorder"):
    """Change the layout of images: between blocked, channels first and channels last; one side is blocked."""

    image: Image
    channels_last: bool


@descriptor_class
class Depthwise(PrivateLayer, kind="neon.Depthwise"):
    """Convolution of each channel of blocked images with its own filter; weights [channels, taps]."""

    weights: Floats
    bias: Floats | None
    source: Image
    target: Image
    geometry: Geometry
    function: Function = IDENTITY


@descriptor_class
class DepthwiseBfloat16(PrivateLayer, kind="neon.DepthwiseBfloat16"):
    """`Depthwise` of images that lie in blocks of bfloat16; weights, products and sums are float32."""

    weights: Floats
    bias: Floats | None
    source: Image
    target: Image
    geometry: Geometry
    function: Function = IDENTITY


@descriptor_class
class ConvolveQuantized(PrivateLayer, kind="neon.ConvolveQuantized"):
    """Convolution of quantized images in bytes, or product of the rows of a quantized matrix: sums are exact, in 32 bits.

    Weights [filters, taps, channels of a group] are less their zero points. A result is its zero point plus the sum, with its
    bias, times the factor of the filter, rounded to nearest and clamped to `bounds`.
    """

    weights: Shorts
    bias: Ints | None
    factors: Floats
    source: Image
    target: Image
    geometry: Geometry
    zeros: tuple[int, int]
    """Zero points of the image and of the result."""
    bounds: tuple[int, int]
    """Least and greatest result, as stored."""
    groups: int = 1


@descriptor_class
class DepthwiseQuantized(PrivateLayer, kind="neon.DepthwiseQuantized"):
    """Convolution of each channel of quantized images in bytes with its own filter; weights [channels, taps].

    All else as in `ConvolveQuantized`.
    """

    weights: Shorts
    bias: Ints | None
    factors: Floats
    source: Image
    target: Image
    geometry: Geometry
    zeros: tuple[int, int]
    bounds: tuple[int, int]


@descriptor_class
class PoolQuantized(PrivateLayer, kind="neon.PoolQuantized"):
    """Greatest element of each window of quantized images in bytes or, with `counts` [height, width], the mean of so many.

    Halves are rounded away from 0, and elements outside the image that count are the zero point, as TensorFlow Lite has it.
    """

    source: Image
    target: Image
    geometry: Geometry
    counts: Ints | None = None
    zero: int = 0


@descriptor_class
class AddQuantized(PrivateLayer, kind="neon.AddQuantized"):
    """Two quantized tensors of one layout in bytes, added in float32: the sum of factor * (element - zero point), rounded."""

    factors: tuple[float, float]
    zeros: tuple[int, int, int]
    """Zero points of both and of the result."""
    bounds: tuple[int, int]


@descriptor_class
class ReorderQuantized(PrivateLayer, kind="neon.ReorderQuantized"):
    """Change the layout of quantized images: between bytes and channels first or last; one side is in bytes."""

    image: Image
    channels_last: bool


@descriptor_class
class Strips(PrivateLayer, kind="neon.Strips"):
    """A chain of layers of blocked images, each of which alone reads the one before it, strip by strip.

    Inputs are what the first one reads and, where the last one is a convolution that adds something, that.
    """

    stages: tuple[Convolve | Depthwise, ...]


@descriptor_class
class Pool(PrivateLayer, kind="neon.Pool"):
    """Largest element of each window of blocked images or, with `factors` [height, width], their sum times the factor."""

    source: Image
    target: Image
    geometry: Geometry
    factors: Floats | None = None


@descriptor_class
class Resample(PrivateLayer, kind="neon.Resample"):
    """Blocked images of another size: per row and column of the result what it is the sum of."""

    source: Image
    rows: Taps
    columns: Taps
    interpolates: bool


@descriptor_class
class MeanOfImage(PrivateLayer, kind="neon.MeanOfImage"):
    """The mean of each channel over all pixels of blocked images."""

    source: Image


@descriptor_class
class Apply(PrivateLayer, kind="neon.Apply"):
    """A function of each element, in any layout."""

    function: Function


@descriptor_class
class ScaleChannels(PrivateLayer, kind="neon.ScaleChannels"):
    """Blocked images times one factor per image and channel, a plain [N, C]; then a function."""

    image: Image
    function: Function = IDENTITY


@descriptor_class
class Combine(PrivateLayer, kind="neon.Combine"):
    """Two tensors in the same layout, element by element; then a function."""

    operation: str
    function: Function = IDENTITY


@descriptor_class
class Join(PrivateLayer, kind="neon.Join"):
    """Blocked images side by side along their channels, `channels` of each."""

    image: Image
    channels: tuple[int, ...]


@descriptor_class
class Frame(PrivateLayer, kind="neon.Frame"):
    """A plain image with zeros around it, the order of its axes kept; padding is (top, left, bottom, right)."""

    image: Image
    padding: tuple[int, int, int, int]
    channels_last: bool


@descriptor_class
class Interleave(PrivateLayer, kind="neon.Interleave"):
    """The pixels of several blocked images side by side, as the phases [rows, columns] of a step.

    Row y of the result is row (y + first) // stride of phase (y + first) % stride, and so are columns. Phases are inputs of
    their own, or lie one behind the other in one input, each in whole blocks of channels. Pairs are (height, width).
    """

    size: tuple[int, int]
    """Of each phase."""
    target: Image
    stride: tuple[int, int]
    first: tuple[int, int]


@descriptor_class
class Rearrange(PrivateLayer, kind="neon.Rearrange"):
    """Copies between strided views of plain tensors, which together write every element of the output once."""

    moves: tuple[Move, ...]


@descriptor_class
class View(PrivateLayer, kind="neon.View"):
    """The same bytes under another shape."""


@descriptor_class
class Attention(PrivateLayer, kind="neon.Attention"):
    """softmax(scale * q k' + mask) v, each head by itself.

    Inputs: q [batch, queries, heads * size], k [batch, keys, heads * size], v [batch, keys, heads * size of a value]; the mask,
    if there is one, has rank 4 and is broadcast to [batch, heads, queries, keys]. Output: [batch, queries, what v has].
    """

    input_names: ClassVar[tuple[str, ...]] = ("q", "k", "v", "mask")
    heads: int
    scale: float = 1.0
