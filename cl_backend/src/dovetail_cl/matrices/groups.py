"""Products on GPUs: tiles in local memory and registers, and vectors that groups share out."""

from __future__ import annotations

import numpy as np

from ..driver.arguments import Argument, Launch, Output, Scratch
from ..elementwise.epilogue import NONE
from ..kernels import Kernels, Work
from .geometry import Batch, Operand, Product, struct

ITEMS = 256
"""Work items of a group."""
_MATRICES = 1 << 14
"""Matrices that have groups of their own; drivers limit the groups of a dimension."""
_SHORTEST = 256
"""Terms of depth that are worth a part of their own."""


def create(product: Product, kernels: Kernels) -> Work:
    """Return the work of a product."""
    if not product.rows * product.columns * product.matrices:
        return Work(())
    if product.columns == 1:
        return Work((_sharing(product, product.a, product.b, (0, 1, 2), kernels),))
    if product.rows == 1:
        return Work((_sharing(product, product.b, product.a, (1, 0, 2), kernels),))
    per = kernels.choose("per", _registers(product, kernels.compute_units), 4, 8, 2)
    tiles = _tiles(product, per)
    strip = 32 if per == 2 else 16
    parts = max(1, min(2 * kernels.compute_units // (tiles * product.matrices), product.depth // _SHORTEST, 16))
    parts = kernels.choose("parts", parts, 2 * parts, parts // 2, 1)
    part = -(-product.depth // (parts * strip)) * strip
    if product.depth <= part:
        return Work((_multiplying(product, per, product.depth, 1, kernels),))
    parts = -(-product.depth // part)
    elements = product.rows * product.columns * product.matrices
    split = product._replace(result=Scratch(), type="float", epilogue=NONE)
    items, group = kernels.each(elements)
    kernel = kernels.get(f"{product.epilogue.source()} matrices/joining.cl", "join", **product.defined())
    arguments: list[Argument] = [Scratch(), Output(), *(np.uint32(n) for n in (parts, product.columns, elements))]
    arguments += product.epilogue.arguments
    launches = (_multiplying(split, per, part, parts, kernels), Launch(kernel, tuple(arguments), items, group))
    return Work(launches, 4 * parts * elements)


def _tiles(product: Product, per: int) -> int:
    return -(-product.rows // (16 * per)) * -(-product.columns // (16 * per))


def _registers(product: Product, compute_units: int) -> int:
    """Return of how many rows and columns an item makes sums: the most that leave enough groups."""
    for per, wanted in ((8, 1.5), (4, 0.75)):
        is_long = min(product.rows, product.columns) > 8 * per
        if is_long and _tiles(product, per) * product.matrices >= wanted * compute_units:
            return per
    return 2


def _multiplying(product: Product, per: int, part: int, parts: int, kernels: Kernels) -> Launch:
    a, b = product.a, product.b
    elements = product.rows * product.columns * product.matrices
    numbers = {
        "rows": product.rows,
        "columns": product.columns,
        "depth": product.depth,
        "matrices": product.matrices,
        "part": part,
        "a_line": a.line if a.depth == 1 else a.depth,
        "b_line": b.line if b.depth == 1 else b.depth,
    }
    is_half = kernels.sums_halves and a.type == b.type == "half"
    kernel = kernels.get(
        f"{product.epilogue.source()} {'matrices/halves.cl ' if is_half else ''}matrices/groups.cl",
        "multiply",
        PER=per,
        HALVES=int(is_half),
        RANK=max(len(product.batch), 1),
        A=a.type,
        B=b.type,
        A_ALONG=int(a.depth == 1),
        B_ALONG=int(b.depth == 1),
        **product.defined(),
    )
    arguments: list[Argument] = [a.argument, b.argument, product.result, struct(product.batch, {"elements": elements}, numbers)]
    arguments += product.epilogue.arguments
    sizes = (_tiles(product, per) * ITEMS, min(product.matrices, _MATRICES), parts)
    return Launch(kernel, tuple(arguments), sizes, (ITEMS, 1, 1))


def _sharing(product: Product, matrix: Operand, vector: Operand, order: tuple[int, int, int], kernels: Kernels) -> Launch:
    is_lines = matrix.depth == 1
    lanes = 128 if is_lines and product.depth >= 1024 else 32 if is_lines else 8
    together = (128 if is_lines else ITEMS) // lanes
    lines = product.rows * product.columns
    numbers = {
        "lines": lines,
        "depth": product.depth,
        "matrices": product.matrices,
    }
    kernel = kernels.get(
        f"{product.epilogue.source()} matrices/group_vectors.cl",
        "lines" if is_lines else "terms",
        LANES=lanes,
        LINES=together,
        RANK=max(len(product.batch), 1),
        T=matrix.type,
        **product.defined(),
    )
    batch = [Batch(size, tuple(steps[index] for index in order)) for size, steps in product.batch]
    given = struct(batch, {"along": matrix.line if is_lines else matrix.depth}, numbers)
    arguments: list[Argument] = [matrix.argument, vector.argument, product.result, given]
    arguments += product.epilogue.arguments
    sizes = (-(-lines // together) * lanes * together, min(product.matrices, _MATRICES))
    return Launch(kernel, tuple(arguments), sizes, (lanes * together, 1))
