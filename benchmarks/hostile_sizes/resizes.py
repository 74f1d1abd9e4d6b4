"""Hostile sizes: resizing."""

from __future__ import annotations

import math

from dovetail.layers import Resize

from .case import enter, flat


def enter_cases() -> None:
    """Enter them into the table."""
    for method in ("nearest", "linear", "cubic"):
        enter(
            f"resize {method} image",
            lambda n: {"x": ((1, 1, 64, 64), "float32")},
            lambda net, x, n, m=method: net.resize(x, (1, 1, math.isqrt(n), math.isqrt(n)), method=m),
        )
        enter(
            f"resize {method} huge image",
            flat(1, 1, None, None),
            lambda net, x, n, m=method: net.resize(x, (1, 1, 10, 10), method=m),
        )
        enter(
            f"resize {method} long row",
            lambda n: {"x": ((1, 1, 1, 7), "float32")},
            lambda net, x, n, m=method: net.resize(x, (1, 1, 1, n), method=m),
        )
        enter(
            f"resize {method} row",
            lambda n: {"x": ((1, 1, 1, 7), "float32")},
            lambda net, x, n, m=method: net.resize(x, (1, 1, 1, min(n, 1 << 24)), method=m),
        )
        enter(
            f"resize {method} column",
            lambda n: {"x": ((1, 1, 7, 1), "float32")},
            lambda net, x, n, m=method: net.resize(x, (1, 1, min(n, 1 << 24), 1), method=m),
        )
        enter(
            f"resize {method} batch",
            lambda n: {"x": ((7, 1, 2, 2), "float32")},
            lambda net, x, n, m=method: net.resize(x, (n // 4, 1, 2, 2), method=m),
        )
    for method in ("linear", "cubic"):
        enter(
            f"resize {method} antialias",
            lambda n: {"x": ((1, 1, 1, n), "float32")},
            lambda net, x, n, m=method: net.add(Resize(method=m, antialias=True, sizes=(1, 1, 1, 10)), x).output,
        )
        enter(
            f"resize {method} antialias row",
            lambda n: {"x": ((1, 1, 4, 1 << 23), "float32")},
            lambda net, x, n, m=method: net.add(Resize(method=m, antialias=True, sizes=(1, 1, 4, 1 << 20)), x).output,
        )
    enter(
        "resize nearest int8",
        lambda n: {"x": ((1, 1, 64, 64), "int8")},
        lambda net, x, n: net.resize(x, (1, 1, math.isqrt(n), math.isqrt(n)), method="nearest"),
    )
