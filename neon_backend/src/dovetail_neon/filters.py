"""What private kinds of filters over images share, whatever they multiply."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dovetail import PrivateLayer, TensorInfo
from dovetail.graph.descriptor import Array, Infos, descriptor_class

from .arrays import Floats
from .elementwise.functions import IDENTITY, Function
from .geometry.layouts import Image
from .geometry.window import Geometry


def macs_of(weights: Array, target: Image) -> int:
    """Return multiply-accumulates: each weight is used once for each pixel of the results."""
    return weights.size * target.batch * target.pixels


@descriptor_class
class Filters(PrivateLayer):
    """Base of kinds that slide float32 weights over images, and apply a function to the sums."""

    weights: Floats
    bias: Floats | None
    source: Image
    target: Image
    geometry: Geometry
    function: Function = IDENTITY

    def macs(self, inputs: Infos, outputs: Sequence[TensorInfo]) -> int:
        return macs_of(self.weights, self.target)

    def as_filters(self) -> dict[str, Any]:
        """Return what another kind over the same filters takes of this one."""
        names = ("infos", "weights", "bias", "source", "target", "geometry", "function")
        return {name: getattr(self, name) for name in names}
