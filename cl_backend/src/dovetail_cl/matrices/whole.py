"""Products of matrices of integers or of doubles, one result at a time."""

from __future__ import annotations

import numpy as np

from dovetail import DType

from ..driver.arguments import Launch
from ..kernels import Kernels, Work
from .geometry import Product

_NAMES = ("rows", "columns", "depth", "a_line", "a_depth", "b_line", "b_depth")
_MIN_PRODUCTS = 1 << 15
"""Worth a work item of a CPU."""


def create(product: Product, dtype: DType, kernels: Kernels) -> Work:
    """Return the work of a product without an epilogue."""
    a, b, rank = product.a, product.b, len(product.batch)
    struct = [("size", np.uint32, rank + 1), ("step", np.uint32, (rank + 1, 2)), *((name, np.uint32) for name in _NAMES)]
    given = np.zeros((), np.dtype(struct))
    for axis, one in enumerate(product.batch):
        given["size"][axis], given["step"][axis] = one.size, one.steps[:2]
    numbers = (product.rows, product.columns, product.depth, a.line, a.depth, b.line, b.depth)
    for name, number in zip(_NAMES, numbers, strict=True):
        given[name] = number
    summed = "double" if dtype is DType.FLOAT64 else "ulong" if dtype.bits == 64 else "uint"
    defined = {"T": product.type, "C": summed, "RANK": rank, "DOUBLES": int(dtype is DType.FLOAT64)}
    count = product.rows * product.columns * product.matrices
    items, group = kernels.each(count, least=max(1, _MIN_PRODUCTS // max(product.depth, 1)))
    kernel = kernels.get("matrices/whole.cl", "multiply", **defined)
    return Work((Launch(kernel, (a.argument, b.argument, product.result, given, np.uint32(count)), items, group),))
