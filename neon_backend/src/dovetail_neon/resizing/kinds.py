"""The private kind of resampled images."""

from __future__ import annotations

from dovetail import PrivateLayer
from dovetail.graph.descriptor import descriptor_class

from ..geometry.layouts import Image
from .taps import Taps


@descriptor_class
class Resample(PrivateLayer, kind="CpuAcc.Resample"):
    """Blocked images of another size: per row and column of the result what it is the sum of."""

    source: Image
    rows: Taps
    columns: Taps
    interpolates: bool
