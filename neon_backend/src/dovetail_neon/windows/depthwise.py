"""Lower depthwise convolutions of one filter per channel; `convolution.grouped` has the others."""

from __future__ import annotations

from dovetail import DataLayout
from dovetail.graph.layer import OutputSlot

from ..convolution.kinds import Convolve
from ..fusion.chains import Chain
from ..fusion.lowering import Lowering
from .kinds import Depthwise


def lower_depthwise(lowering: Lowering, chain: Chain, convolve: Convolve, source: OutputSlot, layout: DataLayout) -> bool:
    """A convolution with as many groups as channels and as filters, to which nothing is added."""
    if not convolve.groups == convolve.source.channels == convolve.target.channels > 1 or chain.adds is not None:
        return False
    depthwise = Depthwise(**convolve.as_filters() | {"weights": convolve.weights[:, :, 0]})
    made = lowering.emit(depthwise, [lowering.blocked(source, layout)], chain.layers)
    lowering.define(chain.output, made.output, "blocked", layout)
    return True
