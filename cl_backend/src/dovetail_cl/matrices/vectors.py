"""Products with a vector on CPU devices, which are bound by how fast the matrix can be read."""

from __future__ import annotations

import numpy as np

from ..driver.arguments import Argument, Launch
from ..elementwise.functions import SOURCE
from ..kernels import Kernels
from .geometry import Operand, Product

_MOST = 1024
"""Lines whose sums one work item keeps, `MOST` in vectors.cl."""
_ITEM = 1 << 16
"""Elements of the matrix that are worth a work item."""


def create(product: Product, vector: int, kernels: Kernels) -> Launch | None:
    """Return the launch of a product that has one row or one column; None if it has neither.

    A constant right side of one row is better packed.
    """
    if product.columns == 1:
        return _launch(product, product.a, product.b, (0, 1, 2), 0, vector, kernels)
    if product.rows == 1 and product.b.values is None:
        return _launch(product, product.b, product.a, (1, 0, 2), 1, vector, kernels)
    return None


def _launch(
    product: Product,
    matrix: Operand,
    line: Operand,
    order: tuple[int, int, int],
    bias_step: int,
    vector: int,
    kernels: Kernels,
) -> Launch | None:
    is_lines = matrix.depth == 1
    if not is_lines and matrix.line != 1:
        return None
    lines = product.rows * product.columns
    rank = max(len(product.batch), 1)
    numbers = ("lines", "depth", "each", "bias_step")
    layout = [("size", np.uint64, rank), ("step", np.uint64, (rank, 3)), ("along", np.uint64)]
    given = np.zeros((), np.dtype([*layout, *((name, np.uint32) for name in numbers)]))
    given["size"] = 1
    for axis, (size, steps) in enumerate(product.batch):
        given["size"][axis] = size
        given["step"][axis] = [steps[index] for index in order]
    each = max(-(-lines // (4 * kernels.compute_units)), _ITEM // max(product.depth, 1))
    each = -(-each // vector) * vector
    each = min(each, _MOST) if not is_lines else each
    given["along"] = matrix.line if is_lines else matrix.depth
    for name, value in zip(numbers, (lines, product.depth, each, bias_step), strict=True):
        given[name] = value
    kernel = kernels.get(
        f"{SOURCE} matrices/vectors.cl",
        "lines" if is_lines else "terms",
        VECTOR=vector,
        RANK=rank,
        T=matrix.type,
        **product.defined,
    )
    arguments: list[Argument] = [matrix.argument, line.argument, product.result, given]
    if product.bias is not None:
        arguments.append(product.bias)
    return Launch(kernel, tuple(arguments), (-(-lines // each), product.matrices), (1, 1))
