"""Products on CPU devices: register tiles over panels of columns, one work item in a group."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from dovetail.ground.records import NamedTuple

from ..driver.arguments import Argument, ConstantArray, Launch, Local, Scratch
from ..kernels import Kernels, Work
from ..walking import Walk, walk
from . import vectors
from .geometry import Batch, Operand, Product, struct

_ITEM = 1 << 19
"""Products that are worth a work item."""
_PACKED = 1 << 15
"""Elements that are worth a work item that packs them."""
_FEW_ROWS = 24
"""With at most so many rows, columns are not worth packing for them alone."""
_MANY_ROWS = 96
"""With so many rows, a work item packs its columns in a small part of its time."""
_LOCAL = 1 << 18
"""Bytes of a panel that a second cache holds beside all else."""


class _Panels(NamedTuple):
    """The right side as the kernel of tiles takes it.

    Attributes:
        side: The operand.
        depth: Elements between neighbouring terms of depth.
        panel: Elements between neighbouring panels.
        matrix: Elements of each of its matrices.
        way: "packed", "in place", or "packs": by the kernel of tiles.
    """

    side: Operand
    depth: int
    panel: int
    matrix: int
    way: str = "packed"


def create(product: Product, kernels: Kernels) -> Work:
    """Return the work of a product."""
    vector = max(size for size in (4, 8, 16) if size <= max(kernels.device.facts["vector_width"], 4))
    launch = vectors.create(product, vector, kernels)
    if launch is not None:
        return Work((launch,))
    launches: list[Launch] = []
    scratch = 0
    a = product.a
    if a.values is not None:
        a = a._replace(argument=ConstantArray(a.values.astype(np.float32)), type="float")
    elif a.type != "float":
        launches.append(walk(kernels, (a.elements,), [Walk(a.argument, a.type, (1,))], Walk(Scratch(), "float", (1,))))
        a = a._replace(argument=Scratch(), type="float")
        scratch = _bytes(a.elements)
    panel = 2 * vector if product.columns > vector else vector
    b = _panels(product, panel, scratch, kernels)
    if b.way == "packed" and product.b.values is None:
        matrices = product.b.elements // max(product.b.matrix, 1)
        launches.append(_packing(product, vector, panel, matrices, b.side.argument, kernels))
        scratch += _bytes(matrices * b.matrix)
    launches.append(_multiplying(product._replace(a=a), b, vector, panel, kernels))
    return Work(tuple(launches), scratch)


def _bytes(elements: int) -> int:
    """Return the scratch memory of floats, in whole lines of a cache; never none."""
    return max(-(-4 * elements // 64), 1) * 64


def _panels(product: Product, panel: int, scratch: int, kernels: Kernels) -> _Panels:
    """Return how the right side is given; if it is to be packed into scratch memory, where to."""
    b = product.b
    size = product.depth * panel
    if b.values is not None:
        packed = ConstantArray(_packed(product, panel))
        return _Panels(b._replace(argument=packed, type="float"), panel, size, size * -(-product.columns // panel))
    if b.type == "float" and b.line == 1 and product.columns >= panel and product.rows <= _FEW_ROWS:
        return _Panels(b, b.depth, panel, b.matrix, "in place")
    if 4 * size <= min(_LOCAL, kernels.device.facts["local_memory"]):
        return _Panels(b, b.depth, panel * b.line, b.matrix, "packs")
    target = b._replace(argument=Scratch(scratch), type="float")
    return _Panels(target, panel, size, size * -(-product.columns // panel))


def _packed(product: Product, panel: int) -> npt.NDArray[np.float32]:
    """Return the panels of a constant right side: [matrix][panel][depth][column of the panel]."""
    b = product.b
    assert b.values is not None
    columns, depth = product.columns, product.depth
    panels = -(-columns // panel)
    count = math.prod(b.values.shape[:-2])
    if b.depth == 1:
        matrices = b.values.reshape(count, columns, depth)
    else:
        matrices = b.values.reshape(count, depth, columns).swapaxes(1, 2)
    padded = np.zeros((count, panels * panel, depth), np.float32)
    padded[:, :columns] = matrices
    return np.ascontiguousarray(padded.reshape(count, panels, panel, depth).swapaxes(2, 3))


def _packing(product: Product, vector: int, panel: int, matrices: int, target: Argument, kernels: Kernels) -> Launch:
    b = product.b
    at_once = _PACKED // panel
    numbers = {
        "columns": product.columns,
        "depth": product.depth,
        "at_once": at_once,
        "line": b.line,
        "step": b.depth,
    }
    given = np.zeros((), np.dtype([("matrix", np.uint64), *((name, np.uint32) for name in numbers)], align=True))
    for name, value in (("matrix", b.matrix), *numbers.items()):
        given[name] = value
    sizes = (-(-product.depth // at_once), -(-product.columns // panel), matrices)
    kernel = kernels.get(
        "matrices/panels.cl matrices/packing.cl", "pack", B=b.type, VECTOR=vector, PANEL=panel, PANELS="__global"
    )
    return Launch(kernel, (b.argument, target, given), sizes, (1, 1, 1))


def _multiplying(product: Product, b: _Panels, vector: int, panel: int, kernels: Kernels) -> Launch:
    panels = -(-product.columns // panel)
    packs = b.way == "packs"
    rows = _rows_each(product, panels, panel, 12 if vector == 16 else 6, packs, kernels)
    batch = [
        Batch(size, (a_step, b_step // max(b.side.matrix, 1) * b.matrix, y_step))
        for size, (a_step, b_step, y_step) in product.batch
    ]
    numbers = {
        "rows": product.rows,
        "columns": product.columns,
        "depth": product.depth,
        "each": rows,
        "a_line": product.a.line,
        "a_depth": product.a.depth,
        "b_depth": b.depth,
        "a_step": product.a.depth,
        "in_place": int(b.way == "in place"),
    }
    kernel = kernels.get(
        f"{product.epilogue.source(vector)} matrices/panels.cl matrices/tiles.cl",
        "multiply",
        VECTOR=vector,
        PANEL=panel,
        RANK=max(len(batch), 1),
        PACKS=int(packs),
        PANELS="__local" if packs else "__global",
        B=b.side.type,
        **product.defined(vector),
    )
    arguments: list[Argument] = [
        product.a.argument,
        b.side.argument,
        product.result,
        struct(batch, {"b_panel": b.panel}, numbers),
    ]
    if packs:
        arguments.append(Local(max(4 * panel * product.depth, 64)))
    arguments += product.epilogue.arguments
    return Launch(kernel, tuple(arguments), (-(-product.rows // rows), panels, product.matrices), (1, 1, 1))


def _rows_each(product: Product, panels: int, panel: int, tile: int, packs: bool, kernels: Kernels) -> int:
    """Return how many rows a work item takes: whole tiles, of which there are items enough."""
    tiles = -(-product.rows // tile)
    least = -(-_ITEM // max(tile * panel * product.depth, 1))
    wanted = tiles * panels * product.matrices // (4 * kernels.compute_units)
    by_rule = max(1, min(least, wanted), min(wanted, _MANY_ROWS // tile) if packs else 0)
    return tile * kernels.choose("tiles", by_rule, 2 * by_rule, by_rule // 2, 4 * by_rule, 1)
