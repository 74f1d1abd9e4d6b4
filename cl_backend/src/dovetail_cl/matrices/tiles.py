"""Products on CPU devices: register tiles over panels of columns, one work item in a group."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from ..driver.arguments import Argument, ConstantArray, Launch, Scratch
from ..kernels import Kernels, Work
from ..walking import Walk, walk
from .geometry import Operand, Product

_ITEM = 1 << 19
"""Products that are worth a work item."""
_PACKED = 1 << 15
"""Elements that are worth a work item that packs them."""
_FEW_ROWS = 24
"""With at most so many rows, columns are not worth packing for them alone."""


def create(product: Product, kernels: Kernels) -> Work:
    """Return the work of a product."""
    if not product.rows * product.columns * product.matrices:
        return Work(())
    vector = min(max(kernels.device.facts["vector_width"], 4), 16)
    launches: list[Launch] = []
    scratch = 0
    a, b = product.a, product.b
    if a.values is not None:
        a = a._replace(argument=ConstantArray(a.values.astype(np.float32)), type="float")
    elif a.type != "float":
        launches.append(_widened(a, Scratch(scratch), kernels))
        a = a._replace(argument=Scratch(scratch), type="float")
        scratch += _bytes(a.elements)
    panel = 2 * vector if product.columns > vector else vector
    panels = -(-product.columns // panel)
    packed = panels * product.depth * panel
    matrices = b.elements // max(b.matrix, 1)
    in_place = b.values is None and b.type == "float" and b.line == 1 and product.columns >= panel and product.rows <= _FEW_ROWS
    if in_place:
        steps = (b.depth, panel, b.matrix)
    else:
        steps = (panel, product.depth * panel, packed)
        if b.values is not None:
            b = b._replace(argument=ConstantArray(_packed(product, panel)), type="float")
        else:
            launches.append(_packing(product, panel, matrices, Scratch(scratch), kernels))
            b = b._replace(argument=Scratch(scratch), type="float")
            scratch += _bytes(matrices * packed)
    launches.append(_multiplying(product._replace(a=a, b=b), vector, panel, steps, in_place, kernels))
    return Work(tuple(launches), scratch)


def _bytes(elements: int) -> int:
    """Return the scratch memory of floats, in whole lines of a cache; never none."""
    return max(-(-4 * elements // 64), 1) * 64


def _widened(side: Operand, target: Argument, kernels: Kernels) -> Launch:
    return walk(kernels, (side.elements,), [Walk(side.argument, side.type, (1,))], Walk(target, "float", (1,)))


def _packed(product: Product, panel: int) -> npt.NDArray[np.float32]:
    """Return the panels of a constant right side: [matrix][panel][depth][column of the panel]."""
    b = product.b
    assert b.values is not None
    columns, depth = product.columns, product.depth
    count = math.prod(b.values.shape[:-2])
    if b.depth == 1:
        matrices = b.values.reshape(count, columns, depth)
    else:
        matrices = b.values.reshape(count, depth, columns).swapaxes(1, 2)
    panels = -(-columns // panel)
    padded = np.zeros((count, panels * panel, depth), np.float32)
    padded[:, :columns] = matrices
    return np.ascontiguousarray(padded.reshape(count, panels, panel, depth).swapaxes(2, 3))


def _packing(product: Product, panel: int, matrices: int, target: Argument, kernels: Kernels) -> Launch:
    layout = np.dtype([("matrix", np.uint64), ("columns", np.uint32), ("depth", np.uint32), ("at_once", np.uint32)])
    b = product.b
    at_once = max(1, _PACKED // panel)
    given = np.zeros((), np.dtype([*layout.descr, ("line", np.int32), ("step", np.int32), ("unused", np.int32)]))
    for name, value in {
        "matrix": b.matrix,
        "columns": product.columns,
        "depth": product.depth,
        "at_once": at_once,
        "line": b.line,
        "step": b.depth,
    }.items():
        given[name] = value
    sizes = (-(-product.depth // at_once), -(-product.columns // panel), matrices)
    kernel = kernels.get("matrices/packing.cl", "pack", T=b.type, PANEL=panel)
    return Launch(kernel, (b.argument, target, given), sizes, (1, 1, 1))


def _multiplying(
    product: Product, vector: int, panel: int, steps: tuple[int, int, int], in_place: bool, kernels: Kernels
) -> Launch:
    tile = 12 if vector == 16 else 6
    b_matrix_step = steps[2] / product.b.matrix if product.b.matrix else 0
    rank = max(len(product.batch), 1)
    layout = np.dtype(
        [
            ("size", np.uint64, rank),
            ("step", np.uint64, (rank, 3)),
            ("b_panel", np.uint64),
            *((name, np.uint32) for name in ("rows", "columns", "depth", "each", "a_line", "a_depth", "b_depth", "in_place")),
        ]
    )
    given = np.zeros((), layout)
    given["size"] = 1
    for axis, (size, (a_step, b_step, y_step)) in enumerate(product.batch):
        given["size"][axis] = size
        given["step"][axis] = a_step, round(b_step * b_matrix_step), y_step
    panels = -(-product.columns // panel)
    tiles = -(-product.rows // tile)
    each = -(-_ITEM // max(tile * panel * product.depth, 1))
    each = max(1, min(each, tiles * panels * product.matrices // (4 * kernels.compute_units)))
    for name, value in {
        "b_panel": steps[1],
        "rows": product.rows,
        "columns": product.columns,
        "depth": product.depth,
        "each": each * tile,
        "a_line": product.a.line,
        "a_depth": product.a.depth,
        "b_depth": steps[0],
        "in_place": in_place,
    }.items():
        given[name] = value
    kernel = kernels.get(
        "elementwise/functions.cl matrices/tiles.cl", "multiply", VECTOR=vector, PANEL=panel, RANK=rank, **product.defined
    )
    arguments = [product.a.argument, product.b.argument, product.result, given]
    if product.bias is not None:
        arguments.append(product.bias)
    return Launch(kernel, tuple(arguments), (-(-tiles // each), panels, product.matrices), (1, 1, 1))
