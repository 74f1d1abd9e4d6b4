"""Private kinds of windows over each channel."""

from __future__ import annotations

from typing import ClassVar

from dovetail import PrivateLayer
from dovetail.graph.descriptor import descriptor_class

from ..arrays import Floats
from ..filters import Filters
from ..geometry.layouts import Image
from ..geometry.window import Geometry


@descriptor_class
class Depthwise(Filters, kind="CpuAcc.Depthwise"):
    """Depthwise convolution of blocked images; weights [channels, taps]."""

    precision: ClassVar[str] = "float32"
    """Type of the multiplied factors.

    Each precision has kinds of its own: its kernels follow from the kind.
    """


@descriptor_class
class DepthwiseBfloat16(Filters, kind="CpuAcc.DepthwiseBfloat16"):
    """`Depthwise` of images in bfloat16 blocks; weights, products and sums are float32."""

    precision: ClassVar[str] = "bfloat16"


@descriptor_class
class Pool(PrivateLayer, kind="CpuAcc.Pool"):
    """Largest element of each window of blocked images, or a scaled sum.

    With `factors` [height, width] it is the sum of the window times the factor.
    """

    source: Image
    target: Image
    geometry: Geometry
    factors: Floats | None = None


@descriptor_class
class MeanOfImage(PrivateLayer, kind="CpuAcc.MeanOfImage"):
    """The mean of each channel over all pixels of blocked images."""

    source: Image
