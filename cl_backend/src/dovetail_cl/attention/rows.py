"""Attention on CPU devices: a work item has some rows, and goes over all keys."""

from __future__ import annotations

from dovetail import Layer

from ..driver.arguments import Launch, Local
from ..kernels import Kernels, Work
from .geometry import Geometry

_MAX_ROWS = 12
"""Of a tile, `MAX_ROWS` in rows.cl."""
_ROWS = 192
"""Rows of a work item at most, so that what it sums stays in a cache."""
_BLOCK = 1 << 15
"""Elements of the keys and values of a block."""
_FEW = 3
"""Rows for which keys and values are not worth packing."""
_FEW_KEYS = 256
"""Of a block then, `KEYS` in few.cl."""


def create(layer: Layer, kernels: Kernels) -> Work:
    """Return the work of attention."""
    geometry = Geometry(layer)
    vector = max(size for size in (4, 8, 16) if size <= max(kernels.device.facts["vector_width"], 4))
    panel = 2 * vector
    across, depth = -(-geometry.width // panel) * panel, geometry.depth
    block = min(-(-geometry.keys // panel), max(_BLOCK // (depth + geometry.width) // panel, 1)) * panel
    each = _rows_each(geometry.rows, geometry.matrices, kernels.compute_units)
    left = kernels.device.facts["local_memory"] // 4 - block * (depth + across + _MAX_ROWS)
    each = max(0, min(each, left // (across + depth + 2) // 4 * 4))
    if not each or (geometry.rows <= _FEW and geometry.has_whole_rows):
        form, items, room = "few", geometry.rows, _FEW_KEYS
    else:
        form, items = "rows", -(-geometry.rows // each)
        room = block * (depth + across + _MAX_ROWS) + each * (across + depth + 2)
    files = ("matrices/panels.cl", geometry.epilogue.source(vector), "attention/attention.cl", "attention/scores.cl")
    kernel = kernels.get(
        " ".join((*files, f"attention/{form}.cl")),
        "attend",
        VECTOR=vector,
        PANEL=panel,
        PANELS="__local",
        B=geometry.type,
        ONCE=int(geometry.keys <= block),
        **geometry.defined(vector),
    )
    arguments = (*geometry.arguments(each, block), Local(4 * room), *geometry.epilogue.arguments)
    return Work((Launch(kernel, arguments, (items, geometry.matrices), (1, 1)),))


def _rows_each(rows: int, matrices: int, compute_units: int) -> int:
    """Return how many rows a work item takes, a multiple of 4."""
    parts = max(-(-rows // _ROWS), min(-(-4 * compute_units // matrices), -(-rows // _MAX_ROWS)))
    return 4 * -(-rows // (4 * parts))
