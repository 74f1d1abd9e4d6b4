"""Normalizations."""

from __future__ import annotations

from dovetail.graph.layer import OutputSlot
from dovetail.graph.tensor import DataLayout
from dovetail.layers import LocalResponseNormalization, LpNormalization

from ..call import Call
from ..registry import operator

_SMALLEST_NORM = 1e-6


@operator("L2_NORMALIZATION", newest=2)
def l2_normalization(call: Call) -> OutputSlot:
    """Translate division by the norm of the last axis."""
    return call.activated(call.add_real(LpNormalization(axis=-1, p=2, epsilon=_SMALLEST_NORM), call.input(0)))


@operator("LOCAL_RESPONSE_NORMALIZATION")
def local_response_normalization(call: Call) -> OutputSlot:
    """Translate division by a power of the sum of squares of neighbouring channels."""
    size = 2 * call.option("radius") + 1
    descriptor = LocalResponseNormalization(
        size=size,
        alpha=call.option("alpha") * size,  # of the sum, where the kind means the mean
        beta=call.option("beta"),
        k=call.option("bias"),
        layout=DataLayout.NHWC,
    )
    return call.add(descriptor, call.input(0))
