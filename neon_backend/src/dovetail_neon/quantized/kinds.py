"""Private kinds of layers of quantized tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from dovetail import PrivateLayer, Quantization, TensorInfo
from dovetail.graph.descriptor import Infos, descriptor_class
from dovetail.layers import MatMul, TieRounding
from dovetail.quantized.fixed_point import Scaling

from ..arrays import Chars, Doubles, Floats, Ints, Longs, Octets, Whole
from ..filters import macs_of
from ..geometry.layouts import Image
from ..geometry.window import Geometry


@descriptor_class
class Filters(PrivateLayer):
    """Base of kinds that slide integer weights over quantized images.

    Sums are exact. Weights are less their zero points. A result is its zero point plus the sum,
    with its bias, times the factor of the filter, rounded and clamped to `bounds`.
    """

    weights: Whole
    source: Image
    target: Image
    geometry: Geometry
    zeros: tuple[int, int]
    """Zero points of the image and of the result."""
    bounds: tuple[int, int]
    """Least and greatest result, as stored."""

    def macs(self, inputs: Infos, outputs: Sequence[TensorInfo]) -> int:
        return macs_of(self.weights, self.target)


@descriptor_class
class QuantizedFilters(Filters):
    """Base of kinds of filters over images in bytes: sums of 32 bits, rounded to nearest."""

    bias: Ints | None
    factors: Floats


@descriptor_class
class ConvolveQuantized(QuantizedFilters, kind="CpuAcc.ConvolveQuantized"):
    """Convolution of quantized images in bytes, or product of quantized matrix rows.

    Weights are [filters, taps, channels of a group].
    """

    precision: ClassVar[str] = "int8"
    groups: int = 1


@descriptor_class
class DepthwiseQuantized(QuantizedFilters, kind="CpuAcc.DepthwiseQuantized"):
    """Depthwise convolution of quantized images in bytes; weights [channels, taps].

    Each channel has a filter of its own.
    """

    precision: ClassVar[str] = "int8"


@descriptor_class
class ShortFilters(Filters):
    """Base of kinds of filters over plain images of int16, channels innermost: sums of 64 bits."""

    bias: Longs | None
    factors: Doubles
    is_fixed: bool = True
    """Factors are fixed point: of 15 bits, with halves up, or of 31 bits, with halves away from 0,
    where sums are narrow. Else they are doubles, with halves away from 0."""
    is_narrow: bool = False
    """Sums are of 32 bits."""


@descriptor_class
class ConvolveShorts(ShortFilters, kind="CpuAcc.ConvolveShorts"):
    """Convolution of images of int16, or product of matrix rows.

    Weights are [filters, taps, channels of a group].
    """

    precision: ClassVar[str] = "int16"
    groups: int = 1


@descriptor_class
class DepthwiseShorts(ShortFilters, kind="CpuAcc.DepthwiseShorts"):
    """Depthwise convolution of images of int16; weights [channels, taps].

    Each channel has a filter of its own.
    """

    precision: ClassVar[str] = "int16"


@descriptor_class
class PoolQuantized(PrivateLayer, kind="CpuAcc.PoolQuantized"):
    """Greatest element or mean of each window of quantized images in bytes.

    With `counts` [height, width] it is the mean of so many elements. Halves are rounded away from
    0, and elements outside the image that count are the zero point, as TensorFlow Lite has it.
    """

    source: Image
    target: Image
    geometry: Geometry
    counts: Ints | None = None
    zero: int = 0


@descriptor_class
class TwoQuantized(PrivateLayer):
    """Base of kinds that combine two tensors of one layout in bytes."""

    constants: Chars | Octets | None = None
    """The second tensor in that layout, if it is constant: only as much as repeats itself."""


@descriptor_class
class AddQuantized(TwoQuantized, kind="CpuAcc.AddQuantized"):
    """Two quantized tensors of one layout in bytes, added in float32.

    The sum of factor * (element - zero point) is rounded.
    """

    factors: tuple[float, float]
    zeros: tuple[int, int, int]
    """Zero points of both and of the result."""
    bounds: tuple[int, int]


@descriptor_class
class MultiplyQuantized(TwoQuantized, kind="CpuAcc.MultiplyQuantized"):
    """Two quantized tensors of one layout in bytes, multiplied less their zero points.

    The product times a factor is rounded.
    """

    factor: float
    zeros: tuple[int, int, int]
    """Zero points of both and of the result."""
    bounds: tuple[int, int]


@descriptor_class
class PreluQuantized(TwoQuantized, kind="CpuAcc.PreluQuantized"):
    """Elements of at least 0, and others times their slope: two tensors of one layout in bytes."""

    above: Scaling
    below: Scaling
    """Factors of elements, and of products of elements and slopes."""
    zeros: tuple[int, int, int]
    """Zero points of elements, slopes and results."""


@descriptor_class
class ProductQuantized(PrivateLayer, kind="CpuAcc.ProductQuantized"):
    """Products of matrices in bytes, both computed at run time."""

    transpose_a: bool
    transpose_b: bool
    scale: Scaling
    """Factor from sums to results."""
    zeros: tuple[int, int, int]
    """Zero points of both and of the result."""

    def macs(self, inputs: Infos, outputs: Sequence[TensorInfo]) -> int:
        return MatMul(transpose_a=self.transpose_a, transpose_b=self.transpose_b).macs(inputs, outputs)


@descriptor_class
class ExtremeQuantized(TwoQuantized, kind="CpuAcc.ExtremeQuantized"):
    """The greater or the lesser of two tensors of one layout in bytes and of one quantization."""

    greater: bool


@descriptor_class
class MapQuantized(PrivateLayer, kind="CpuAcc.MapQuantized"):
    """What a table says of every element, in any layout; by elements as plain tensors have them."""

    table: bytes
    what: str
    """In words for people."""


@descriptor_class
class ReduceQuantized(PrivateLayer, kind="CpuAcc.ReduceQuantized"):
    """What the pixels of each quantized image come to, in bytes.

    The sum of all, less their zero points, or the greatest or least of them, times a factor,
    rounded.
    """

    function: str
    """sum, max or min."""
    source: Image
    factor: float
    zeros: tuple[int, int]
    """Zero points of the image and of the result."""


@descriptor_class
class ReorderQuantized(PrivateLayer, kind="CpuAcc.ReorderQuantized"):
    """Change the layout of quantized images: bytes on one side, channels first or last opposite."""

    image: Image
    channels_last: bool


@descriptor_class
class QuantizeImage(PrivateLayer, kind="CpuAcc.QuantizeImage"):
    """Float32 images of up to 4 channels, quantized to images in bytes."""

    image: Image
    channels_last: bool
    """Of the floats."""
    quantization: Quantization
    rounding: TieRounding


@descriptor_class
class SoftmaxQuantized(PrivateLayer, kind="CpuAcc.SoftmaxQuantized"):
    """Each element's exponential over the sum of those of its row, the last axis, in bytes."""

    terms: tuple[int, ...]
    """What is summed up of an element, by its distance from the greatest one of its row."""
    powers: tuple[int, ...]
    """Its exponential, in multiples of 2^-31; empty where its term is that."""
    step: float
    """Scale of the result."""
    zero: int
    """Zero point of the result."""
    falls: bool = False
    """Exponents fall where elements grow: distances are from the least element."""
