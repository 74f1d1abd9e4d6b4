"""The private kind of resampled images."""

from __future__ import annotations

from dovetail import PrivateLayer
from dovetail.graph.descriptor import descriptor_class
from dovetail.layers import ResizeTaps

from ..geometry.layouts import Image


@descriptor_class
class Resample(PrivateLayer, kind="CpuAcc.Resample"):
    """Blocked images of another size: per row and column of the result what it is the sum of."""

    source: Image
    rows: ResizeTaps
    columns: ResizeTaps
    interpolates: bool
