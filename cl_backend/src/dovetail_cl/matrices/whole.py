"""Products of matrices of integers or of doubles, one result at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dovetail import DType

from ..driver.arguments import Argument, Launch
from ..kernels import Kernels, Work
from .geometry import Product

_NAMES = ("rows", "columns", "depth", "a_line", "a_depth", "b_line", "b_depth")
_MIN_PRODUCTS = 1 << 15
"""Worth a work item of a CPU."""


def create(product: Product, dtype: DType, kernels: Kernels) -> Work:
    """Return the work of a product without an epilogue."""
    summed_in = "double" if dtype is DType.FLOAT64 else "ulong" if dtype.bits == 64 else "uint"
    return summed(product, kernels, "", {"SUM": summed_in, "DOUBLES": int(dtype is DType.FLOAT64)}, ())


def summed(product: Product, kernels: Kernels, files: str, defined: Mapping[str, Any], last: Sequence[Argument]) -> Work:
    """Return the work of a product of whatever is multiplied.

    Args:
        product: Of two matrices.
        kernels: Of the device.
        files: Sources that say what is summed up, and what becomes of it.
        defined: For them.
        last: Arguments of the kernel, behind the others.
    """
    a, b, rank = product.a, product.b, len(product.batch)
    struct = [("size", np.uint32, rank + 1), ("step", np.uint32, (rank + 1, 2)), *((name, np.uint32) for name in _NAMES)]
    given = np.zeros((), np.dtype(struct))
    for axis, one in enumerate(product.batch):
        given["size"][axis], given["step"][axis] = one.size, one.steps[:2]
    numbers = (product.rows, product.columns, product.depth, a.line, a.depth, b.line, b.depth)
    for name, number in zip(_NAMES, numbers, strict=True):
        given[name] = number
    count = product.rows * product.columns * product.matrices
    items, group = kernels.each(count, least=max(1, _MIN_PRODUCTS // max(product.depth, 1)))
    kernel = kernels.get(f"{files} matrices/whole.cl", "multiply", T=a.type, RANK=rank, **defined)
    arguments = (a.argument, b.argument, product.result, given, np.uint32(count), *last)
    return Work((Launch(kernel, arguments, items, group),))
