"""Products with a vector on CPU devices, which are bound by how fast the matrix can be read."""

from __future__ import annotations

from ..driver.arguments import Argument, Launch
from ..kernels import Kernels
from .geometry import Batch, Operand, Product, struct

_MAX_LINES = 1024
"""Lines whose sums one work item keeps, `MAX_LINES` in vectors.cl."""
_ITEM = 1 << 16
"""Elements of the matrix that are worth a work item."""


def create(product: Product, vector: int, kernels: Kernels) -> Launch | None:
    """Return the launch of a product that has one row or one column; None if it has neither.

    A constant right side of one row is better packed.
    """
    if product.columns == 1:
        return _launch(product, product.a, product.b, (0, 1, 2), vector, kernels)
    if product.rows == 1 and product.b.values is None:
        return _launch(product, product.b, product.a, (1, 0, 2), vector, kernels)
    return None


def _launch(
    product: Product,
    matrix: Operand,
    line: Operand,
    order: tuple[int, int, int],
    vector: int,
    kernels: Kernels,
) -> Launch | None:
    is_lines = matrix.depth == 1
    if not is_lines and matrix.line != 1:
        return None
    lines = product.rows * product.columns
    each = max(-(-lines // (4 * kernels.compute_units)), _ITEM // max(product.depth, 1))
    each = -(-each // vector) * vector
    each = min(each, _MAX_LINES) if not is_lines else each
    batch = [Batch(size, tuple(steps[index] for index in order)) for size, steps in product.batch]
    numbers = {"lines": lines, "depth": product.depth, "each": each}
    given = struct(batch, {"along": matrix.line if is_lines else matrix.depth}, numbers)
    kernel = kernels.get(
        f"{product.epilogue.source()} matrices/vectors.cl",
        "lines" if is_lines else "terms",
        VECTOR=vector,
        RANK=max(len(batch), 1),
        T=matrix.type,
        **product.defined(),
    )
    arguments: list[Argument] = [matrix.argument, line.argument, product.result, given]
    arguments += product.epilogue.arguments
    return Launch(kernel, tuple(arguments), (-(-lines // each), product.matrices), (1, 1))
