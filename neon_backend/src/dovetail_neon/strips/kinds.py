"""The private kind of chains that run strip by strip."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail import PrivateLayer, TensorInfo
from dovetail.graph.descriptor import Infos, descriptor_class

from ..convolution.kinds import Convolve
from ..windows.kinds import Depthwise


@descriptor_class
class Strips(PrivateLayer, kind="CpuAcc.Strips"):
    """Chain of layers of blocked images, run strip by strip; each alone reads the one before it.

    Inputs are what the first one reads and, where the last one is a convolution that adds
    something, that.
    """

    stages: tuple[Convolve | Depthwise, ...]

    def macs(self, inputs: Infos, outputs: Sequence[TensorInfo]) -> int:
        return sum(stage.macs((), stage.infos) for stage in self.stages)
