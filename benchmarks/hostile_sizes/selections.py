"""Hostile sizes: gather, scatter, slices, top k and what counts along an axis."""

from __future__ import annotations

import numpy as np

from dovetail.layers import ArgMinMax, CumulativeSum, OneHot

from .case import adding, enter, flat, x_size


def enter_cases() -> None:
    """Enter them into the table."""
    rows = lambda n: {"x": ((n, 1), "float32"), "i": np.zeros(n // 2, np.int64)}  # noqa: E731
    enter("gather rows", rows, lambda net, x, i, n: net.gather(x, i))
    enter(
        "gather wide", lambda n: {"x": ((4, n // 4), "float32"), "i": np.arange(8) % 4}, lambda net, x, i, n: net.gather(x, i)
    )
    enter(
        "gather inner",
        lambda n: {"x": ((n // 4, 4), "float32"), "i": np.arange(8) % 4},
        lambda net, x, i, n: net.gather(x, i, axis=1),
    )
    enter(
        "gather elements",
        lambda n: {"x": ((n,), "float32"), "i": np.zeros(n // 2, np.int64)},
        lambda net, x, i, n: net.gather_elements(x, i),
    )
    enter(
        "gather elements columns",
        lambda n: {"x": ((4, n // 4), "float32"), "i": np.zeros((4, n // 4), np.int64)},
        lambda net, x, i, n: net.gather_elements(x, i),
    )
    enter(
        "gather nd",
        lambda n: {"x": ((n, 1), "float32"), "i": np.zeros((n // 2, 2), np.int64)},
        lambda net, x, i, n: net.gather_nd(x, i),
    )
    for reduction in ("none", "add", "max"):
        enter(
            f"scatter elements {reduction}",
            lambda n: {"x": ((n,), "float32"), "i": np.zeros(n // 2, np.int64), "u": ((n // 2,), "float32")},
            lambda net, x, i, u, n, r=reduction: net.scatter_elements(x, i, u, reduction=r),
        )
        enter(
            f"scatter nd {reduction}",
            lambda n: {"x": ((n, 1), "float32"), "i": np.zeros((n // 2, 1), np.int64), "u": ((n // 2, 1), "float32")},
            lambda net, x, i, u, n, r=reduction: net.scatter_nd(x, i, u, reduction=r),
        )
    enter(
        "scatter few",
        lambda n: {"x": ((n,), "float32"), "i": np.zeros(1, np.int64), "u": ((1,), "float32")},
        lambda net, x, i, u, n: net.scatter_elements(x, i, u),
    )
    enter(
        "scatter wide",
        lambda n: {"x": ((4, n // 4), "float32"), "i": np.zeros((4, 1), np.int64), "u": ((4, n // 4), "float32")},
        lambda net, x, i, u, n: net.scatter_nd(x, i, u),
    )
    enter(
        "one hot deep",
        lambda n: {"x": ((4,), "int64")},
        lambda net, x, n: net.add(OneHot(depth=n // 4), x, np.array([0, 1], np.float32)).output,
    )
    enter(
        "one hot long",
        lambda n: {"x": ((n // 4,), "int64")},
        lambda net, x, n: net.add(OneHot(depth=4, axis=0), x, np.array([0, 1], np.float32)).output,
    )
    enter("trilu", flat(None, None), lambda net, x, n: net.trilu(x))
    enter("trilu one row", flat(1, None), lambda net, x, n: net.trilu(x, n // 2))
    enter("trilu one column", flat(None, 1), lambda net, x, n: net.trilu(x, upper=False))
    enter("slice", flat(None), lambda net, x, n: net.strided_slice(x, (1,), (n,)))
    enter("slice backwards", flat(None), lambda net, x, n: net.strided_slice(x, (n,), (-n - 1,), stride=(-1,)))
    enter("slice columns", flat(2, None), lambda net, x, n: net.strided_slice(x, (0, 0), (2, n), stride=(1, 3)))
    enter("slice a column", flat(None, 64), lambda net, x, n: net.strided_slice(x, (0, 5), (n, 6)))
    enter("top k", flat(None), lambda net, x, n: net.top_k(x, 10)[0])
    enter("top k all", flat(None), lambda net, x, n: net.top_k(x, x_size(x))[0])
    enter("top k rows", flat(None, 2), lambda net, x, n: net.top_k(x, 1)[0])
    enter("top k columns", flat(2, None), lambda net, x, n: net.top_k(x, 1, axis=0)[0])
    for regular in (False, True):
        enter(
            f"detections {'by class' if regular else 'by box'}",
            lambda n: {"b": ((1, n // 16, 4), "float32"), "s": ((1, n // 16, 8), "float32"), "a": ((n // 16, 4), "float32")},
            lambda net, b, s, a, n, r=regular: net.detection_post_process(b, s, a, n // 16, 8, regular=r)[0],
        )
    for axis, shape in (("long", (None,)), ("rows", (None, 4)), ("columns", (4, None))):
        enter(f"arg max {axis}", flat(*shape), lambda net, x, n: net.add(ArgMinMax(function="max", axis=0), x).output)
        enter(f"cumulative sum {axis}", flat(*shape), adding(CumulativeSum(axis=0)))
        enter(
            f"cumulative sum {axis} int8",
            flat(*shape, dtype="int8"),
            adding(CumulativeSum(axis=0)),
        )
