"""Convolutions in groups, and depthwise ones with several filters per channel.

Groups of whole blocks are as good as convolutions of their own, each over its blocks. Those of
another width are taken with the channels innermost, where the channels of a group are one run of
elements: the general tile computes them group by group, and is only as full as a group has filters.
A kernel for narrow groups has its place here.
"""

from __future__ import annotations

from dataclasses import replace

from dovetail import DataLayout
from dovetail.graph.layer import OutputSlot

from ..fusion.chains import Chain
from ..fusion.lowering import Lowering
from ..geometry.layouts import blocked_info, plain_info
from .kinds import Convolve


def lower_grouped(lowering: Lowering, chain: Chain, convolve: Convolve, source: OutputSlot, layout: DataLayout) -> bool:
    """A convolution of several groups."""
    if convolve.groups == 1:
        return False
    fills_blocks = all(image.channels // convolve.groups % lowering.lanes == 0 for image in (convolve.source, convolve.target))
    bring = lowering.blocked if fills_blocks else lowering.last
    target = convolve.target
    info = blocked_info(target, lowering.lanes) if fills_blocks else plain_info(target.shape(DataLayout.NHWC))
    inputs = [bring(slot, layout) for slot in (source, chain.adds) if slot is not None]
    made = lowering.emit(replace(convolve, infos=(info,)), inputs, chain.layers).output
    if fills_blocks:
        lowering.define(chain.output, made, "blocked", layout)
    else:
        lowering.define_last(chain.output, made, layout)
    return True
