"""Hostile sizes: products of matrices."""

from __future__ import annotations

import math

import numpy as np

from .case import enter, flat, x_size, zeros


def enter_cases() -> None:
    """Enter them into the table."""
    for name, rows, part, columns, dtype in (
        ("dot product", 1, 1, 1, "float32"),
        ("dot product float64", 1, 2, 1, "float64"),
        ("dot product float16", 1, 1, 1, "float16"),
        ("matmul deep", 2, 2, 3, "float32"),
    ):
        enter(
            name,
            lambda n, r=rows, p=part, c=columns, d=dtype: {"x": ((r, n // p), d), "z": ((n // p, c), d)},
            lambda net, x, z, n: net.matmul(x, z),
        )
    enter("dot product of a constant", flat(1, None), lambda net, x, n: net.matmul(x, zeros(x_size(x), 1)))
    enter("fully connected deep", flat(1, None), lambda net, x, n: net.fully_connected(x, zeros(1, x_size(x))))
    enter("matmul wide constant", flat(1, 4), lambda net, x, n: net.matmul(x, zeros(4, n // 4)))
    enter("matmul large constant", flat(1, 10000), lambda net, x, n: net.matmul(x, zeros(10000, n // 10000)))
    enter(
        "matmul filled constant", flat(1, 10000), lambda net, x, n: net.matmul(x, np.full((10000, n // 10000), 0.5, np.float32))
    )
    enter(
        "fully connected large",
        flat(1, 10000),
        lambda net, x, n: net.fully_connected(x, np.full((n // 10000, 10000), 0.5, np.float32)),
    )
    enter("matmul square", flat(None, None), lambda net, x, n: net.matmul(x, x))
    enter("matmul square int8", lambda n: {"x": ((10000, 10000), "int8")}, lambda net, x, n: net.matmul(x, x))
    enter(
        "matmul outer",
        lambda n: {"x": ((math.isqrt(n), 1), "float32"), "z": ((1, math.isqrt(n)), "float32")},
        lambda net, x, z, n: net.matmul(x, z),
    )
    enter("matmul many small", lambda n: {"x": ((n // 4, 2, 2), "float32")}, lambda net, x, n: net.matmul(x, x))
    enter(
        "matmul deep transposed",
        lambda n: {"x": ((n // 2, 2), "float32"), "z": ((n // 2, 3), "float32")},
        lambda net, x, z, n: net.matmul(x, z, transpose_a=True),
    )
    enter(
        "attention",
        lambda n: {"x": ((1, 8, 20000, 64), "float32")},
        lambda net, x, n: net.matmul(net.softmax(net.matmul(x, net.permute(x, (0, 1, 3, 2)))), x),
    )
