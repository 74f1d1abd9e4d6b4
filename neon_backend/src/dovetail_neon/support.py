"""Refuse layers that the manifest claims but CpuAcc does not take, where claims cannot say it."""

from __future__ import annotations

from dovetail import Layer, Support
from dovetail.layers import TransposeConvolution2d

from .convolution.transposed import refusal as out_of_proportion
from .elementwise import support as elementwise
from .quantized import support as quantized
from .resizing import support as resizing

FINER = (
    {TransposeConvolution2d.kind: out_of_proportion} | elementwise.FINER | quantized.FINER | resizing.FINER
)  # fmt: skip


def check(layer: Layer) -> Support:
    """Say whether a layer that is claimed can be run."""
    rule = FINER.get(layer.kind)
    refusal = None if rule is None else rule(layer)
    return Support.yes() if refusal is None else refusal
