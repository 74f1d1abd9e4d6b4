"""Hostile sizes: constants that the optimizer folds, and long chains."""

from __future__ import annotations

import math

import numpy as np

from dovetail import DType, Network
from dovetail.graph.layer import OutputSlot
from dovetail.layers import BatchNormalization, Dequantize, Tile

from .case import constant, enter, flat, one_eighth, zeros


def enter_cases() -> None:
    """Enter them into the table."""
    small = flat(1)
    number = lambda net, value: net.constant(np.asarray(value, np.float32))  # noqa: E731
    grown = lambda net, x, y: net.addition(net.reduce(y, "max"), x)  # noqa: E731
    enter("fold fill", small, lambda net, x, n: grown(net, x, net.fill((n,), 1.5)))
    enter(
        "fold fill int64",
        small,
        lambda net, x, n: net.cast(grown(net, net.cast(x, "int64"), net.fill((n,), 1, DType.INT64)), "float32"),
    )
    enter("fold range", small, lambda net, x, n: grown(net, x, net.range(number(net, 0), number(net, n), number(net, 1))))
    enter("fold broadcast", small, lambda net, x, n: grown(net, x, net.broadcast_to(number(net, [1]), (n,))))
    enter("fold tile", small, lambda net, x, n: grown(net, x, net.tile(number(net, [1]), (n,))))
    big = lambda net, n: constant(net, zeros(n))  # noqa: E731
    square = lambda net, n: constant(net, zeros(math.isqrt(n), math.isqrt(n)))  # noqa: E731
    enter("fold exp", small, lambda net, x, n: grown(net, x, net.unary(big(net, n), "exp")))
    enter("fold add", small, lambda net, x, n: grown(net, x, net.addition(big(net, n), number(net, 1))))
    enter("fold pow", small, lambda net, x, n: grown(net, x, net.binary(big(net, n), number(net, 1.5), "pow")))
    enter(
        "fold compare",
        small,
        lambda net, x, n: grown(net, x, net.cast(net.comparison(big(net, n), number(net, 1), "less"), "float32")),
    )
    enter(
        "fold where",
        small,
        lambda net, x, n: grown(
            net, x, net.where(net.comparison(big(net, n), number(net, 1), "less"), big(net, n), number(net, 2))
        ),
    )
    enter("fold cast", small, lambda net, x, n: grown(net, x, net.cast(constant(net, zeros(n, dtype=np.int64)), "float32")))
    enter("fold cast to int", small, lambda net, x, n: grown(net, x, net.cast(net.cast(big(net, n), "int32"), "float32")))
    enter(
        "fold cast float16",
        small,
        lambda net, x, n: grown(net, x, net.cast(constant(net, zeros(n, dtype=np.float16)), "float32")),
    )
    enter("fold permute", small, lambda net, x, n: grown(net, x, net.permute(square(net, n), (1, 0))))
    enter("fold slice", small, lambda net, x, n: grown(net, x, net.strided_slice(big(net, n), (n,), (-n - 1,), stride=(-1,))))
    enter(
        "fold slice columns",
        small,
        lambda net, x, n: grown(net, x, net.strided_slice(square(net, n), (0, 0), (1 << 30, 1 << 30), stride=(1, 2))),
    )
    enter(
        "fold gather",
        small,
        lambda net, x, n: grown(net, x, net.gather(big(net, n), constant(net, zeros(n // 2, dtype=np.int64)))),
    )
    enter(
        "fold gather columns",
        small,
        lambda net, x, n: grown(net, x, net.gather(square(net, n), np.arange(math.isqrt(n)), axis=1)),
    )
    enter("fold concat", small, lambda net, x, n: grown(net, x, net.concat([big(net, n // 2), big(net, n // 2)])))
    enter("fold stack", small, lambda net, x, n: grown(net, x, net.stack([big(net, n // 2), big(net, n // 2)], axis=1)))
    enter("fold split", small, lambda net, x, n: grown(net, x, net.split(square(net, n), 2, axis=1)[0]))
    enter("fold pad", small, lambda net, x, n: grown(net, x, net.pad(square(net, n), (1, 1), (1, 1))))
    enter("fold trilu", small, lambda net, x, n: grown(net, x, net.trilu(square(net, n))))
    enter(
        "fold reduce",
        small,
        lambda net, x, n: net.addition(net.cast(net.reduce(constant(net, zeros(n, dtype=np.int32)), "sum"), "float32"), x),
    )
    enter(
        "fold reduce outer",
        small,
        lambda net, x, n: net.addition(
            net.cast(net.reduce(constant(net, zeros(n // 4, 4, dtype=np.int8)), "max", (0,)), "float32"), net.reshape(x, (1,))
        ),
    )
    enter(
        "fold dequantize",
        small,
        lambda net, x, n: grown(
            net, x, net.add(Dequantize(quantization=one_eighth()), constant(net, zeros(n, dtype=np.int8))).output
        ),
    )
    enter("fold tile large", small, lambda net, x, n: grown(net, x, net.add(Tile(repeats=(4,)), big(net, n // 4)).output))
    enter(
        "fold pad of a convolution",
        flat(1, 1, 64, 64),
        lambda net, x, n: net.convolution2d(net.pad(x, (0, 0, 1, 1), (0, 0, 1, 1)), zeros(n // 9, 1, 3, 3)),
    )
    enter(
        "fold normalization",
        flat(1, 10000, 1, 1),
        lambda net, x, n: (
            net.add(
                BatchNormalization(),
                net.convolution2d(x, np.full((n // 10000, 10000, 1, 1), 0.5, np.float32)),
                *[np.ones(n // 10000, np.float32)] * 4,
            ).output
        ),
    )
    enter(
        "merge constants",
        small,
        lambda net, x, n: net.addition(
            grown(net, x, net.unary(net.permute(net.addition(x, square(net, n)), (1, 0)), "sin")),
            grown(net, x, net.unary(net.permute(net.subtraction(x, square(net, n)), (1, 0)), "cos")),
        ),
    )
    enter("many small steps", flat(4), lambda net, x, n: chain(net, x, 20000))
    enter("many axes", lambda n: {"x": ((1,) * 63 + (n,), "float32")}, lambda net, x, n: net.relu(x))


def chain(net: Network, x: OutputSlot, count: int) -> OutputSlot:
    """Layers one after the other."""
    for number in range(count):
        x = net.unary(x, "exp" if number % 2 else "sin")
    return x
