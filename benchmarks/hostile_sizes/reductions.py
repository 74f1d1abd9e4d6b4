"""Hostile sizes: reductions, softmax and normalizations."""

from __future__ import annotations

import numpy as np

from dovetail import layers

from .case import adding, enter, filled, flat


def enter_cases() -> None:
    """Enter them into the table."""
    for function in ("sum", "mean", "max", "prod", "l2", "log_sum_exp"):
        for axis, shape, axes in (
            ("all", (None,), (0,)),
            ("outer", (None, 4), (0,)),
            ("inner", (4, None), (1,)),
            ("outer of a few", (4, None), (0,)),
            ("inner of a few", (None, 4), (1,)),
            ("middle", (300, None, 300), (1,)),
        ):
            enter(f"reduce {function} {axis}", flat(*shape), lambda net, x, n, f=function, a=axes: net.reduce(x, f, a))
    for dtype in ("int8", "float16", "float64", "int64"):
        enter(f"reduce sum all {dtype}", flat(None, dtype=dtype), lambda net, x, n: net.reduce(x, "sum", (0,)))
        enter(f"reduce max outer {dtype}", flat(None, 4, dtype=dtype), lambda net, x, n: net.reduce(x, "max", (0,)))
    for axis, shape in (("long", (1, None)), ("rows", (None, 4)), ("square", (None, None))):
        enter(f"softmax {axis}", flat(*shape), lambda net, x, n: net.softmax(x))
        enter(f"softmax across {axis}", flat(*shape), lambda net, x, n: net.softmax(x, 0))
        enter(f"log softmax across {axis}", flat(*shape), lambda net, x, n: net.log_softmax(x, 0))
        enter(f"layer normalization {axis}", flat(*shape), adding(layers.LayerNormalization()))
        enter(f"l2 normalization {axis}", flat(*shape), adding(layers.LpNormalization(axis=0)))
    enter("softmax float64", flat(None, dtype="float64"), lambda net, x, n: net.softmax(x))
    for shape, name in (
        ((1, 1, None, None), "one channel"),
        ((1, None, 2, 2), "many channels"),
        ((None, 2, 2, 2), "many images"),
    ):
        channels = lambda n, s=shape: filled(s, n)[1]  # noqa: E731
        enter(
            f"batch normalization {name}",
            flat(*shape),
            lambda net, x, n, c=channels: (
                net.add(
                    layers.BatchNormalization(),
                    net.add(layers.InstanceNormalization(), x).output,
                    *[np.ones(c(n), np.float32)] * 4,
                ).output
            ),
        )
        enter(f"instance normalization {name}", flat(*shape), adding(layers.InstanceNormalization()))
        enter(
            f"group normalization {name}",
            flat(*shape),
            adding(layers.GroupNormalization(groups=1)),
        )
        enter(
            f"local response {name}",
            flat(*shape),
            adding(layers.LocalResponseNormalization(size=5)),
        )
        enter(f"global average {name}", flat(*shape), lambda net, x, n: net.global_pooling(x, "average"))
        enter(f"global max {name}", flat(*shape), lambda net, x, n: net.global_pooling(x, "max"))
    enter(
        "local response wide",
        flat(1, None, 2, 2),
        adding(layers.LocalResponseNormalization(size=100001)),
    )
