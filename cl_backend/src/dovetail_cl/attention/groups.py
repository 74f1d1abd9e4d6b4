"""Attention on GPUs: a group has some rows, and goes over all keys in local memory."""

from __future__ import annotations

from dovetail import Layer

from ..driver.arguments import Launch
from ..kernels import Kernels, Work
from .geometry import Geometry

ITEMS = 256
"""Work items of a group."""
LOCAL = 30 << 10
"""Bytes of local memory of a group, at most."""
_MATRICES = 1 << 14
"""Matrices that have groups of their own; drivers limit the groups of a dimension."""


def create(layer: Layer, kernels: Kernels) -> Work:
    """Return the work of attention."""
    geometry = Geometry(layer)
    down = 4 if -(-geometry.rows // 64) * geometry.matrices >= 2 * kernels.compute_units else 2
    kernel = kernels.get(
        f"{geometry.epilogue.source()} attention/attention.cl attention/groups.cl",
        "attend",
        DOWN=down,
        PARTS=-(-geometry.width // 64),
        **geometry.defined(),
    )
    arguments = (*geometry.arguments(), *geometry.epilogue.arguments)
    sizes = (-(-geometry.rows // (16 * down)) * ITEMS, min(geometry.matrices, _MATRICES))
    return Work((Launch(kernel, arguments, sizes, (ITEMS, 1)),))
