"""Measure how late a run and a load end that have a deadline: hostile sizes of every kind of layer.

    python3 dev.py bench deadlines [--backends CpuRef CpuAcc:isa=avx2 ...] [--cases pad "reduce*"
    ...] [--elements 100000000]

Each measurement is a process of its own. It loads the network without a limit, where the longest
stretch between two looks at the time counts ("silence": how late a deadline could be at worst);
then, if that took longer, with `Limits(seconds=0.2)`. It runs with several timeouts, on memory that
nobody has touched before and again, and with an alarm whose handler raises, as Ctrl-C does. Figures
are seconds beyond the deadline, the worst of each kind; wall clock, on a machine that should be
idle.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import math
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dovetail import DovetailError, DType, Limits, Network, Quantization, Runtime
from dovetail.graph.layer import OutputSlot
from dovetail.ground.limits import Budget
from dovetail.layers import (
    ArgMinMax,
    BatchNormalization,
    CumulativeSum,
    Dequantize,
    GroupNormalization,
    InstanceNormalization,
    LayerNormalization,
    LocalResponseNormalization,
    LpNormalization,
    OneHot,
    Quantize,
    Resize,
    Tile,
)

TIMEOUT = 0.2
TIMEOUTS = (0.05, 0.1, TIMEOUT, 0.4)
MEMORY = 14 << 30
"""Bytes of address space of a child; what is touched is less, since runs end early."""
LONGEST = 60.0
"""Seconds after which a child is given up."""


class Case(NamedTuple):
    """A network out of all proportion.

    Attributes:
        inputs: Shape and NumPy type of each input for a number of elements; or an array.
        build: Makes the output from a network, its inputs, and that number.
    """

    inputs: Callable[[int], Mapping[str, Any]]
    build: Callable[..., Any]


CASES: dict[str, Case] = {}


def enter(name: str, inputs: Callable[[int], Mapping[str, Any]], build: Callable[..., Any]) -> None:
    """Put a case into the table."""
    assert name not in CASES, name
    CASES[name] = Case(inputs, build)


def flat(*shape: Any, dtype: Any = np.float32) -> Callable[[int], Mapping[str, Any]]:
    """One input; None among its sizes stands for what makes up the elements."""
    return lambda n: {"x": (filled(shape, n), dtype)}


def filled(shape: tuple[Any, ...], n: int) -> tuple[int, ...]:
    """Replace each None by what makes up n elements, all of them alike."""
    missing = shape.count(None)
    rest = max(n // math.prod(size for size in shape if size is not None), 1)
    size = round(rest ** (1 / missing)) if missing else 0
    return tuple(size if one is None else one for one in shape)


def constant(net: Network, value: Any) -> OutputSlot:
    """A constant that takes no memory before it is read."""
    return net.constant(value, copy=False)


def zeros(*shape: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    """An array of pages that nobody has touched."""
    return np.zeros(shape, dtype)


def one_eighth() -> Quantization:
    """A quantization of one scale."""
    return Quantization(scale=(0.125,), zero_point=(3,))


def _elementwise() -> None:
    for dtype in ("float32", "float16", "float64", "int8", "uint8", "int32", "int64"):
        enter(f"add {dtype}", lambda n, d=dtype: {"x": ((n,), d), "z": ((n,), d)}, lambda net, x, z, n: net.addition(x, z))
        enter(f"divide {dtype}", flat(None, None, dtype=dtype), lambda net, x, n: net.division(x, x))
        enter(
            f"cast to float32 {dtype}", flat(None, dtype=dtype), lambda net, x, n: net.cast(net.cast(x, "float64"), "float32")
        )
    for operation in ("exp", "tan", "erf", "floor", "sqrt", "abs", "is_nan"):
        enter(f"unary {operation}", flat(None), lambda net, x, n, o=operation: net.unary(x, o))
        enter(f"unary {operation} float16", flat(None, dtype="float16"), lambda net, x, n, o=operation: net.unary(x, o))
        enter(f"unary {operation} float64", flat(None, dtype="float64"), lambda net, x, n, o=operation: net.unary(x, o))
    enter("pow", flat(None), lambda net, x, n: net.binary(x, x, "pow"))
    enter("mod int64", flat(None, dtype="int64"), lambda net, x, n: net.binary(x, x, "mod"))
    enter(
        "add broadcast rows",
        lambda n: {"x": ((n // 4, 1), "float32"), "z": ((1, 4), "float32")},
        lambda net, x, z, n: net.addition(x, z),
    )
    enter(
        "add broadcast columns",
        lambda n: {"x": ((4, 1), "float32"), "z": ((1, n // 4), "float32")},
        lambda net, x, z, n: net.addition(x, z),
    )
    enter(
        "add outer",
        lambda n: {"x": ((1, 16384), "float32"), "z": ((16384, 1), "float32")},
        lambda net, x, z, n: net.addition(x, z),
    )
    enter("chain of activations", flat(None), lambda net, x, n: net.tanh(net.sigmoid(net.gelu(x))))
    enter("gelu", flat(1, None), lambda net, x, n: net.gelu(x))
    enter("relu image", flat(1, 1, None, None), lambda net, x, n: net.relu(x))
    enter("prelu", flat(1, 3, None, None), lambda net, x, n: net.prelu(x, np.ones((3, 1, 1), np.float32)))
    enter("compare", flat(None), lambda net, x, n: net.comparison(x, net.constant(np.float32(0)), "greater"))
    enter(
        "where",
        lambda n: {"c": ((n,), "bool"), "x": ((n,), "float32")},
        lambda net, c, x, n: net.where(c, x, net.constant(np.float32(1))),
    )
    for dtype in ("bool", "int8", "uint8", "int32", "int64", "float16", "bfloat16"):
        enter(f"cast float32 to {dtype}", flat(None), lambda net, x, n, d=dtype: net.cast(x, DType.of(d)))
    enter("quantize", flat(1, 1, None, None), lambda net, x, n: net.quantize(x, one_eighth()))
    enter(
        "quantize plain", flat(None), lambda net, x, n: net.add(Quantize(dtype=DType.INT8, quantization=one_eighth()), x).output
    )
    enter("dequantize", flat(None, dtype="int8"), lambda net, x, n: net.add(Dequantize(quantization=one_eighth()), x).output)
    enter(
        "quantized add image",
        flat(1, 1, None, None),
        lambda net, x, n: net.dequantize(
            net.quantize(
                net.addition(
                    net.dequantize(net.quantize(x, one_eighth()), one_eighth()),
                    net.dequantize(net.quantize(x, one_eighth()), one_eighth()),
                ),
                one_eighth(),
            ),
            one_eighth(),
        ),
    )


def _selections() -> None:
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
    for axis, shape in (("long", (None,)), ("rows", (None, 4)), ("columns", (4, None))):
        enter(f"arg max {axis}", flat(*shape), lambda net, x, n: net.add(ArgMinMax(function="max", axis=0), x).output)
        enter(f"cumulative sum {axis}", flat(*shape), lambda net, x, n: net.add(CumulativeSum(axis=0), x).output)
        enter(
            f"cumulative sum {axis} int8",
            flat(*shape, dtype="int8"),
            lambda net, x, n: net.add(CumulativeSum(axis=0), x).output,
        )


def x_size(x: OutputSlot) -> int:
    """Elements of an input's last axis."""
    return int(x.known_info.sizes[-1])


def _moves() -> None:
    for mode in ("constant", "edge", "reflect", "symmetric", "wrap"):
        enter(f"pad {mode} long axis", flat(None), lambda net, x, n, m=mode: net.pad(x, (3,), (4,), mode=m))
        enter(
            f"pad {mode} long padding",
            lambda n: {"x": ((2, n // 8), "float32")},
            lambda net, x, n, m=mode: net.pad(x, (0, n // 8 - 1), (0, n // 8 - 1), mode=m),
        )
        enter(
            f"pad {mode} image",
            flat(1, 1, None, None),
            lambda net, x, n, m=mode: net.pad(x, (0, 0, 1, 1), (0, 0, 1, 1), mode=m),
        )
        enter(f"pad {mode} rows", flat(None, 2), lambda net, x, n, m=mode: net.pad(x, (0, 1), (0, 1), mode=m))
    enter("pad far", lambda n: {"x": ((1,), "float32")}, lambda net, x, n: net.pad(x, (n // 2,), (n // 2,)))
    enter(
        "pad one wrapped", lambda n: {"x": ((1,), "float32")}, lambda net, x, n: net.pad(x, (n // 2,), (n // 2,), mode="wrap")
    )
    enter("pad int8", flat(None, dtype="int8"), lambda net, x, n: net.pad(x, (3,), (4,)))
    enter("permute", flat(None, None), lambda net, x, n: net.permute(x, (1, 0)))
    enter(
        "permute many axes",
        lambda n: {"x": ((2,) * int(math.log2(n)), "float32")},
        lambda net, x, n: net.permute(x, tuple(reversed(range(int(math.log2(n)))))),
    )
    enter("permute thin", flat(None, 2), lambda net, x, n: net.permute(x, (1, 0)))
    enter("permute wide", flat(2, None), lambda net, x, n: net.permute(x, (1, 0)))
    enter("permute int8", flat(None, None, dtype="int8"), lambda net, x, n: net.permute(x, (1, 0)))
    enter("reshape", flat(None), lambda net, x, n: net.reshape(x, (-1, 1)))
    enter(
        "concat", lambda n: {"x": ((n // 2,), "float32"), "z": ((n // 2,), "float32")}, lambda net, x, z, n: net.concat([x, z])
    )
    enter(
        "concat inner",
        lambda n: {"x": ((n // 2, 1), "float32"), "z": ((n // 2, 1), "float32")},
        lambda net, x, z, n: net.concat([x, z], axis=1),
    )
    enter(
        "concat int8", lambda n: {"x": ((n // 2,), "int8"), "z": ((n // 2,), "int8")}, lambda net, x, z, n: net.concat([x, z])
    )
    enter(
        "stack",
        lambda n: {"x": ((n // 2,), "float32"), "z": ((n // 2,), "float32")},
        lambda net, x, z, n: net.stack([x, z], axis=1),
    )
    enter("split inner", flat(None, 2), lambda net, x, n: net.split(x, 2, axis=1)[0])
    enter("broadcast", lambda n: {"x": ((1, 1), "float32")}, lambda net, x, n: net.broadcast_to(x, (n // 1000, 1000)))
    enter("broadcast long", lambda n: {"x": ((1,), "float32")}, lambda net, x, n: net.broadcast_to(x, (n,)))
    enter("tile", lambda n: {"x": ((4,), "float32")}, lambda net, x, n: net.tile(x, (n // 4,)))
    enter("tile rows", lambda n: {"x": ((n // 100,), "float32")}, lambda net, x, n: net.tile(x, (100,)))
    for layout in ("NCHW", "NHWC"):
        shape = (1, 4, None, None) if layout == "NCHW" else (1, None, None, 4)

        def even(n: int, shape: tuple[int | None, ...] = shape) -> Mapping[str, Any]:
            return {"x": (tuple(size if size < 8 else size & ~3 for size in filled(shape, n)), "float32")}

        enter(f"space to depth {layout}", even, lambda net, x, n, o=layout: net.space_to_depth(x, 2, layout=o))
        enter(f"depth to space {layout}", even, lambda net, x, n, o=layout: net.depth_to_space(x, 2, layout=o))


def _reductions() -> None:
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
        enter(f"layer normalization {axis}", flat(*shape), lambda net, x, n: net.add(LayerNormalization(), x).output)
        enter(f"l2 normalization {axis}", flat(*shape), lambda net, x, n: net.add(LpNormalization(axis=0), x).output)
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
                    BatchNormalization(), net.add(InstanceNormalization(), x).output, *[np.ones(c(n), np.float32)] * 4
                ).output
            ),
        )
        enter(f"instance normalization {name}", flat(*shape), lambda net, x, n: net.add(InstanceNormalization(), x).output)
        enter(f"group normalization {name}", flat(*shape), lambda net, x, n: net.add(GroupNormalization(groups=1), x).output)
        enter(f"local response {name}", flat(*shape), lambda net, x, n: net.add(LocalResponseNormalization(size=5), x).output)
        enter(f"global average {name}", flat(*shape), lambda net, x, n: net.global_pooling(x, "average"))
        enter(f"global max {name}", flat(*shape), lambda net, x, n: net.global_pooling(x, "max"))
    enter(
        "local response wide", flat(1, None, 2, 2), lambda net, x, n: net.add(LocalResponseNormalization(size=100001), x).output
    )


def _resizes() -> None:
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


def _windows() -> None:
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


def _products() -> None:
    enter("dot product", lambda n: {"x": ((1, n), "float32"), "z": ((n, 1), "float32")}, lambda net, x, z, n: net.matmul(x, z))
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
        "matmul deep",
        lambda n: {"x": ((2, n // 2), "float32"), "z": ((n // 2, 3), "float32")},
        lambda net, x, z, n: net.matmul(x, z),
    )
    enter(
        "matmul deep transposed",
        lambda n: {"x": ((n // 2, 2), "float32"), "z": ((n // 2, 3), "float32")},
        lambda net, x, z, n: net.matmul(x, z, transpose_a=True),
    )
    enter(
        "dot product float64",
        lambda n: {"x": ((1, n // 2), "float64"), "z": ((n // 2, 1), "float64")},
        lambda net, x, z, n: net.matmul(x, z),
    )
    enter(
        "dot product float16",
        lambda n: {"x": ((1, n), "float16"), "z": ((n, 1), "float16")},
        lambda net, x, z, n: net.matmul(x, z),
    )
    enter(
        "attention",
        lambda n: {"x": ((1, 8, 20000, 64), "float32")},
        lambda net, x, n: net.matmul(net.softmax(net.matmul(x, net.permute(x, (0, 1, 3, 2)))), x),
    )


def _folds() -> None:
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


for _family in (_elementwise, _selections, _moves, _reductions, _resizes, _windows, _products, _folds):
    _family()


# -- measuring -------------------------------------------------------------------------------------


class Silence:
    """The longest time between two looks at the deadline of a load."""

    def __init__(self) -> None:
        self.longest, self.last, self.where, self.looks = 0.0, time.perf_counter(), "", 0

    def look(self) -> None:
        self.looks += 1
        now = time.perf_counter()
        if now - self.last > self.longest:
            self.longest = now - self.last
            frame = sys._getframe(2)
            self.where = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
        self.last = time.perf_counter()


@contextmanager
def listening() -> Iterator[Silence]:
    """Watch when loads look at their time."""
    silence, original = Silence(), Budget.check_time

    def check_time(self: Budget) -> None:
        silence.look()
        original(self)

    Budget.check_time = check_time  # type: ignore[method-assign]
    try:
        yield silence
    finally:
        silence.look()
        Budget.check_time = original  # type: ignore[method-assign]


class Alarm(Exception):
    """What the handler raises."""


def raise_alarm(number: int, frame: Any) -> None:
    """Handle the alarm as Ctrl-C is handled."""
    raise Alarm


def late(action: Callable[[], Any], deadline: float, *ends: type[BaseException]) -> tuple[float, str]:
    """Return how many seconds after a deadline an action ended, and how."""
    begin = time.perf_counter()
    try:
        action()
        end = "done"
    except ends as error:
        end = str(getattr(error, "code", type(error).__name__))
    return max(time.perf_counter() - begin - deadline, 0.0), end


def alarmed(action: Callable[[], Any]) -> tuple[float, str]:
    """The same for an alarm after `TIMEOUT`."""
    signal.signal(signal.SIGALRM, raise_alarm)
    signal.setitimer(signal.ITIMER_REAL, TIMEOUT)
    try:
        return late(action, TIMEOUT, Alarm, DovetailError)
    except Alarm:
        return 0.0, "Alarm"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def built(case: Case, elements: int) -> tuple[Network, dict[str, np.ndarray[Any, Any]]]:
    """Make the network and arrays for its inputs."""
    net, slots, arrays = Network(), [], {}
    for name, given in case.inputs(elements).items():
        array = given if isinstance(given, np.ndarray) else np.zeros(*given)
        arrays[name] = array
        slots.append(net.input(name, array.shape, array.dtype))
    net.output(case.build(net, *slots, elements), "y")
    return net, arrays


def measure(name: str, backend: str, elements: int) -> Iterator[dict[str, Any]]:
    """Load and run one network; yields what is known so far."""
    wanted, *options = backend.split(":")
    optimize: dict[str, Any] = {"backends": [wanted]}
    if options:
        optimize["options"] = {wanted: dict(option.split("=", 1) for option in options)}
    with Runtime(threads=2) as runtime:
        warm = Network()
        warm.output(warm.tanh(warm.input("x", (4,))), "y")
        runtime.load(warm, optimize=optimize)
        found: dict[str, Any] = {"load": None, "silence": None, "late load": 0.0, "late run": 0.0, "end": ""}
        net, arrays = built(CASES[name], elements)
        begin = time.perf_counter()
        with listening() as silence:
            try:
                loaded = runtime.load(net, optimize=optimize)
            except DovetailError as error:
                loaded, found["end"] = None, str(error.code)
        found |= {"load": time.perf_counter() - begin, "silence": silence.longest, "where": silence.where}
        yield found
        if loaded is not None:
            for timeout in TIMEOUTS:
                seconds, found["end"] = late(lambda: loaded.run(arrays, timeout=timeout), timeout, DovetailError)  # noqa: B023
                found["late run"] = max(found["late run"], seconds)
            yield found
            seconds, _ = alarmed(lambda: loaded.run(arrays))
            found["late run"] = max(found["late run"], seconds)
            loaded.unload()
        if found["load"] > TIMEOUT / 2:
            net, arrays = built(CASES[name], elements)
            load = lambda limits: runtime.load(net, optimize={**optimize, "limits": limits})  # noqa: E731
            seconds, found["load end"] = late(lambda: load(Limits(seconds=TIMEOUT)), TIMEOUT, DovetailError)
            found["late load"] = seconds
            seconds, _ = alarmed(lambda: load(None))
            found["late load"] = max(found["late load"], seconds)
        yield found


def in_child(name: str, backend: str, elements: int) -> dict[str, Any]:
    """Measure in a process of its own."""
    command = [sys.executable, __file__, "--measure", name, backend, "--elements", str(elements)]
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
        )
        try:
            output, _ = process.communicate(timeout=LONGEST)
        except subprocess.TimeoutExpired:
            process.kill()
            output, _ = process.communicate()
        found: dict[str, Any] = json.loads(output.splitlines()[-1]) if output else {}
        if process.returncode:
            errors.seek(0)
            found["end"] = (
                f"{'given up' if process.returncode == -9 else f'exit {process.returncode}'} {errors.read().strip()[-200:]}"
            )
    return found


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backends", nargs="+", default=["CpuRef", "CpuAcc"], help="an id, or ID:OPTION=VALUE")
    parser.add_argument("--cases", nargs="+", default=["*"], metavar="PATTERN")
    parser.add_argument("--elements", type=int, default=100_000_000)
    parser.add_argument("--above", type=float, default=0.0, help="print those that are later than so many seconds")
    parser.add_argument("--measure", nargs=2, metavar=("CASE", "BACKEND"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        for found in measure(*arguments.measure, arguments.elements):
            print(json.dumps(found), flush=True)
        return
    print(
        "| case | backend | load, s | silence, s | late load, s | late run, s | the run's end |\n|---|---|---|---|---|---|---|"
    )
    worst: dict[str, float] = {}
    for name in CASES:
        for backend in arguments.backends if any(fnmatch.fnmatch(name, pattern) for pattern in arguments.cases) else ():
            found = in_child(name, backend, arguments.elements)
            figures = [found.get(key) for key in ("load", "silence", "late load", "late run")]
            latest = max((figure or 0.0) for figure in figures[1:])
            for key, figure in zip(("silence", "late load", "late run"), figures[1:], strict=True):
                worst[f"{backend} {key}"] = max(worst.get(f"{backend} {key}", 0.0), figure or 0.0)
            if latest >= arguments.above or figures[0] is None or "given up" in found.get("end", ""):
                cells = " | ".join("-" if figure is None else f"{figure:.3f}" for figure in figures)
                silent = f" ({found['where']})" if found.get("silence", 0) and found["silence"] > 0.1 else ""
                print(f"| {name} | {backend} | {cells} | {found.get('end')}{silent} |", flush=True)
    for key, seconds in worst.items():
        print(f"worst {key}: {seconds:.3f} s")


if __name__ == "__main__":
    main()
