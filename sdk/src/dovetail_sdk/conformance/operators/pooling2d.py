"""Pooling2d: windows of an image become their maximum, average or norm."""

from __future__ import annotations

import math

import numpy as np

from dovetail import DataLayout, DType
from dovetail.layers import Pooling2d, PoolingFunction

from ..cases import Array, Case, Feed, Operator, Parameters
from ..references import pooling, samples
from ..references.images import IMAGE, IMAGE_QUANTITIES, SLIDING, WITHOUT_WINDOW, fitted, image_from_nchw
from ..references.products import LARGEST
from ..references.quantized import of_type
from ..references.windows import positions, seen


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    function, kernel, p = PoolingFunction(parameters["function"]), parameters["size"], parameters["p"]
    stride, padding, dilation = (parameters[name] for name in ("stride", "padding", "dilation"))
    size, layout, how = fitted(parameters, kernel), DataLayout(parameters["layout"]), of_type(parameters["quantization"], dtype)
    if size is None or not pooling.judged(function, dtype, how) or (p != 2 and function is not PoolingFunction.LP) or p < 1:
        return None
    if any(max(padding[i], padding[i + 2]) >= dilation[i] * (kernel[i] - 1) + 1 for i in range(2)):
        return None  # a window of padding alone, which the descriptor refuses
    batch, channels = parameters["batch"], parameters["channels"]
    if batch * channels * math.prod(size) * math.prod(kernel) > LARGEST:
        return None
    partial, counting = parameters["ceil_mode"], parameters["count_padding"]
    rows, columns = (
        positions(size[i], kernel[i], stride[i], padding[i], padding[i + 2], dilation[i], partial=partial) for i in range(2)
    )
    x = pooling.pooling_input(function, dtype, (batch, channels, *size), rng)
    quantization = pooling.quantization_of(how, dtype, channels, layout.channel_axis % 4)
    zero = pooling.zeros_of(quantization, 2)

    def windows(image: Array) -> Array:
        return seen(image, kernel, stride, padding, dilation, counts=(rows, columns))

    inside = windows(np.ones((1, 1, *size), np.bool_))
    padded = np.ones((1, 1, size[0] + padding[0] + padding[2], size[1] + padding[1] + padding[3]), np.bool_)
    within = seen(padded, kernel, stride, (0, 0, 0, 0), dilation, counts=(rows, columns))
    # Padding counts if asked for; what lies beyond it, under a partial window, never does.
    divisor = np.asarray((within if counting else inside).sum(axis=(-2, -1)))
    if not inside.any(axis=(-2, -1)).all():
        return None  # dilation may step over the image altogether
    values = windows(samples.reals(x, dtype) if dtype.is_float else x)
    expected = pooling.pooled(values, inside, function, divisor, p, zero, dtype if dtype.is_integer else None)
    greatest = 0.0
    if dtype.is_float and function is PoolingFunction.AVERAGE:
        greatest = float(pooling.pooled(np.abs(values), inside, function, divisor, p).max(initial=0.0))
    attributes = ("size", "stride", "padding", "dilation", "count_padding", "ceil_mode", "p")
    descriptor = Pooling2d(function=function, layout=layout, **{name: parameters[name] for name in attributes})
    feed = Feed(image_from_nchw(x, layout), dtype=dtype, quantization=quantization)
    return Case(
        build=lambda graph, slots: graph.add(descriptor, *slots).outputs,
        feeds=(feed,),
        expected=(image_from_nchw(expected, layout),),
        tolerances=(pooling.pooling_tolerance(function, dtype, math.prod(kernel), p, greatest),),
        bits=(pooling.pooling_bits(image_from_nchw(expected, layout)),),
    )


_AVERAGE, _NORM = PoolingFunction.AVERAGE, PoolingFunction.LP
_ONE_ROW = {"batch": 1, "channels": 1, "height": 1, "size": (1, 1)}
_EDGES: list[dict[str, object]] = [
    {"size": (1, 1)},
    {"size": (3, 3), "stride": (2, 2), "padding": (1, 1, 1, 1), "layout": DataLayout.NHWC},
    {"size": (3, 3), "stride": (2, 2), "padding": (0, 0, 1, 1)},
    {"size": (3, 2), "stride": (2, 1), "padding": (1, 0, 2, 1), "batch": 2},
    {"height": 3, "width": 3, "size": (3, 3)},  # the whole image
    {"stride": (2, 2), "layout": DataLayout.NHWC, "channels": 8},
    {"size": (2, 3), "stride": (4, 4), "padding": (1, 1, 1, 1), "dilation": (2, 2)},
    {"ceil_mode": True, "size": (3, 3), "stride": (2, 2)},
    {"ceil_mode": True, "size": (3, 3), "stride": (2, 2), "padding": (1, 1, 1, 1), "layout": DataLayout.NHWC, "width": 10},
    {"count_padding": True, "padding": (1, 1, 1, 1), "size": (3, 3)},
    {"count_padding": True, "padding": (1, 0, 0, 1), "layout": DataLayout.NHWC, "batch": 2},
    {"count_padding": True, "ceil_mode": True, "size": (3, 3), "stride": (2, 2), "padding": (1, 1, 1, 1), "width": 10},
    {"height": 1, "width": 1, "size": (3, 3), "padding": (1, 1, 1, 1)},
    {"height": 2, "width": 2, "channels": 17, "batch": 2},
]

OPERATOR = Operator(
    kind="dovetail.Pooling2d",
    dtypes=samples.NUMBERS,
    parameters={
        **pooling.POOLED,
        **IMAGE,
        "size": ((2, 2), (1, 1), (3, 3), (3, 2), (1, 4), (5, 5)),
        **SLIDING,
        "count_padding": (False, True),
        "ceil_mode": (False, True),
    },
    make=_make,
    quantities={
        **IMAGE_QUANTITIES,
        "output.channels": "channels",
        "input.quantization": "quantization",
        "output.quantization": "quantization",
    },
    impossible={**pooling.WITHOUT_NORM, **WITHOUT_WINDOW},
    reaching={
        **{f"{slot}.elements": lambda count: {**_ONE_ROW, "width": count} for slot in ("input", "output")},
        "padding": lambda edge: {"padding": (edge,) * 4, "size": (edge + 1,) * 2},
    },
    together=[
        *_EDGES,
        *({"function": _AVERAGE, **edge} for edge in _EDGES),
        *({"function": _NORM, "p": p, **edge} for p in (1, 2, 3) for edge in _EDGES[1 : 10 if p == 2 else 3]),
        *({"quantization": "none", **edge} for edge in _EDGES[:5]),
        {"function": _AVERAGE, "layout": DataLayout.NHWC},
        {"function": _AVERAGE, "padding": (0, 1, 0, 0)},
        {"function": _AVERAGE, "padding": (0, 0, 0, 1)},
        {"function": _AVERAGE, "dilation": (1, 2), "size": (3, 3)},
    ],
)
