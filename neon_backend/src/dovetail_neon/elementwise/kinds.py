"""Private kinds of elementwise layers."""

from __future__ import annotations

from dovetail import PrivateLayer
from dovetail.graph.descriptor import descriptor_class

from ..elementwise.functions import IDENTITY, Function
from ..geometry.layouts import Image


@descriptor_class
class Apply(PrivateLayer, kind="CpuAcc.Apply"):
    """A function of each element, in any layout."""

    function: Function


@descriptor_class
class ScaleChannels(PrivateLayer, kind="CpuAcc.ScaleChannels"):
    """Blocked images times one factor per image and channel, a plain [N, C]; then a function."""

    image: Image
    function: Function = IDENTITY


@descriptor_class
class Combine(PrivateLayer, kind="CpuAcc.Combine"):
    """Two tensors in the same layout, element by element; then a function."""

    operation: str
    function: Function = IDENTITY
