"""Hostile sizes: convolutions and pooling."""

from __future__ import annotations

import math

import numpy as np

from .case import enter, flat, zeros


def enter_cases() -> None:
    """Enter them into the table."""
    image = flat(1, 1, None, None)
    for function in ("max", "average", "lp"):
        enter(f"pool {function} 3x3", image, lambda net, x, n, f=function: net.pooling2d(x, f, 3))
        enter(
            f"pool {function} wide",
            flat(1, 1, None, None),
            lambda net, x, n, f=function: net.pooling2d(x, f, 4001, padding=2000),
        )
        enter(
            f"pool {function} row",
            flat(1, 1, 1, None),
            lambda net, x, n, f=function: net.pooling2d(x, f, (1, 1000), padding=(0, 500)),
        )
        enter(
            f"pool {function} half a row",
            flat(1, 1, 1, 1 << 20),
            lambda net, x, n, f=function: net.pooling2d(x, f, (1, 1 << 19), padding=(0, 1 << 18)),
        )
        enter(
            f"pool {function} column",
            flat(1, 1, None, 1),
            lambda net, x, n, f=function: net.pooling2d(x, f, (1000, 1), padding=(500, 0)),
        )
        enter(f"pool {function} many channels", flat(1, None, 2, 2), lambda net, x, n, f=function: net.pooling2d(x, f, 2))
        enter(
            f"pool {function} few results",
            flat(1, 1, None, None),
            lambda net, x, n, f=function: net.pooling2d(x, f, math.isqrt(n) - 1),
        )
        enter(
            f"pool {function} channels last",
            flat(1, None, None, 1),
            lambda net, x, n, f=function: net.pooling2d(x, f, 3, layout="NHWC"),
        )
        enter(
            f"pool {function} dilated",
            flat(1, 1, None, None),
            lambda net, x, n, f=function: net.pooling2d(x, f, 3, dilation=999, padding=999),
        )
    enter("pool max int8", flat(1, 1, None, None, dtype="int8"), lambda net, x, n: net.pooling2d(x, "max", 3))
    enter(
        "pool average wide counted",
        flat(1, 1, None, None),
        lambda net, x, n: net.pooling2d(x, "average", 1001, padding=500, count_padding=True, ceil_mode=True),
    )
    ones = lambda *shape: np.ones(shape, np.float32)  # noqa: E731
    enter("convolution 3x3", image, lambda net, x, n: net.convolution2d(x, ones(1, 1, 3, 3), padding=1))
    enter("convolution 1x1", image, lambda net, x, n: net.convolution2d(x, ones(1, 1, 1, 1)))
    enter("convolution many filters", flat(1, 1, 1000, 1000), lambda net, x, n: net.convolution2d(x, ones(n // 10**6, 1, 1, 1)))
    enter(
        "convolution many channels", flat(1, None, 2, 2), lambda net, x, n: net.convolution2d(x, ones(1, max(n // 4, 1), 1, 1))
    )
    enter("convolution wide window", flat(1, 1, 3000, 3000), lambda net, x, n: net.convolution2d(x, ones(1, 1, 1001, 1001)))
    enter(
        "convolution huge window",
        flat(1, 1, None, None),
        lambda net, x, n: net.convolution2d(x, zeros(1, 1, math.isqrt(n) - 1, math.isqrt(n) - 1)),
    )
    enter("convolution row window", flat(1, 1, 1, 1 << 22), lambda net, x, n: net.convolution2d(x, ones(1, 1, 1, 1 << 20)))
    enter("convolution 64 wide windows", flat(1, 1, 3000, 3000), lambda net, x, n: net.convolution2d(x, ones(64, 1, 700, 700)))
    enter(
        "convolution channels last",
        flat(1, None, None, 1),
        lambda net, x, n: net.convolution2d(x, ones(1, 3, 3, 1), padding=1, layout="NHWC"),
    )
    enter("convolution dilated", image, lambda net, x, n: net.convolution2d(x, ones(1, 1, 3, 3), dilation=1000, padding=1000))
    enter(
        "convolution 16 channels",
        flat(1, 16, None, None),
        lambda net, x, n: net.convolution2d(x, ones(16, 16, 3, 3), padding=1),
    )
    enter("convolution many images", flat(None, 4, 2, 2), lambda net, x, n: net.convolution2d(x, ones(4, 4, 3, 3), padding=1))
    enter("depthwise", flat(1, 4, None, None), lambda net, x, n: net.depthwise_convolution2d(x, ones(4, 1, 3, 3), padding=1))
    enter(
        "depthwise wide",
        flat(1, 2, 1000, 1000),
        lambda net, x, n: net.depthwise_convolution2d(x, ones(2, 1, 701, 701), padding=350),
    )
    enter(
        "depthwise many channels",
        flat(1, None, 2, 2),
        lambda net, x, n: net.depthwise_convolution2d(x, ones(max(n // 4, 1), 1, 2, 2), padding=1),
    )
    enter("transposed", image, lambda net, x, n: net.transpose_convolution2d(x, ones(1, 1, 2, 2), stride=2))
    enter(
        "transposed long steps",
        flat(1, 1, 2, 1),
        lambda net, x, n: net.transpose_convolution2d(x, ones(1, 1, 1, 1), stride=(n // 2, 1)),
    )
    enter("transposed wide", flat(1, 1, 1000, 1000), lambda net, x, n: net.transpose_convolution2d(x, ones(1, 1, 701, 701)))
    enter(
        "transposed few",
        flat(1, 1, 4, 4),
        lambda net, x, n: net.transpose_convolution2d(x, ones(1, 1, 3, 3), stride=math.isqrt(n) // 3),
    )
