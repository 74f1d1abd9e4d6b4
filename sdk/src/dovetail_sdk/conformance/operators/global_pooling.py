"""GlobalPooling: all pixels of a channel become their maximum, average or norm."""

from __future__ import annotations

import math

import numpy as np

from dovetail import DataLayout, DType
from dovetail.layers import GlobalPooling, PoolingFunction

from ..cases import Array, Case, Feed, Operator, Parameters
from ..references import pooling, samples
from ..references.products import LARGEST
from ..references.quantized import of_type
from ..references.single_layer import layer_case


def _spatial(parameters: Parameters) -> tuple[int, ...] | None:
    """Return the sizes between batch and channels that the rank has room for.

    The last two are height and width.
    """
    rank = parameters["rank"]
    if rank < 2:
        return None
    return (*(1,) * max(rank - 5, 0), 2, parameters["height"], parameters["width"])[2 - rank :] if rank > 2 else ()


def _windows(x: Array) -> Array:
    """Bring [N, C, ...] into [N, C, 1, pixels]: one window per channel."""
    return x.reshape(*x.shape[:2], 1, math.prod(x.shape[2:]))


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    function, p, how = PoolingFunction(parameters["function"]), parameters["p"], of_type(parameters["quantization"], dtype)
    spatial, layout = _spatial(parameters), DataLayout(parameters["layout"])
    if spatial is None or not pooling.judged(function, dtype, how) or (p != 2 and function is not PoolingFunction.LP) or p < 1:
        return None
    batch, channels, pixels = parameters["batch"], parameters["channels"], math.prod(spatial)
    if batch * channels * pixels > LARGEST or not pixels:
        return None
    x = pooling.pooling_input(function, dtype, (batch, channels, *spatial), rng)
    quantization = pooling.quantization_of(how, dtype, channels, layout.channel_axis % (2 + len(spatial)))
    zero = pooling.zeros_of(quantization, 0)
    windows = _windows(samples.reals(x, dtype) if dtype.is_float else x)
    inside, divisor = np.ones(windows.shape, np.bool_), np.asarray(pixels)
    expected = pooling.pooled(windows, inside, function, divisor, p, zero, dtype if dtype.is_integer else None)
    greatest = 0.0
    if dtype.is_float and function is PoolingFunction.AVERAGE:
        greatest = float(pooling.pooled(np.abs(windows), inside, function, divisor, p).max(initial=0.0))
    result = expected.reshape(batch, channels, *(1,) * len(spatial))
    if layout is DataLayout.NHWC:
        x, result = (np.ascontiguousarray(np.moveaxis(one, 1, -1)) for one in (x, result))
    return layer_case(
        GlobalPooling(function=function, p=p, layout=layout),
        [Feed(x, dtype=dtype, quantization=quantization)],
        result,
        tolerance=pooling.pooling_tolerance(function, dtype, pixels, p, greatest),
        bits=pooling.pooling_bits(result),
    )


_AVERAGE, _NORM = PoolingFunction.AVERAGE, PoolingFunction.LP
_EDGES: list[dict[str, object]] = [
    {"layout": DataLayout.NHWC},
    {"layout": DataLayout.NHWC, "batch": 2, "channels": 8},
    {"height": 1, "width": 1},
    {"height": 7, "width": 7, "channels": 17},
    {"height": 7, "width": 7, "channels": 16, "layout": DataLayout.NHWC},
    {"batch": 2, "channels": 1},
    {"rank": 2},
    {"rank": 3, "layout": DataLayout.NHWC},
    {"rank": 5, "batch": 2},
]

OPERATOR = Operator(
    kind="dovetail.GlobalPooling",
    dtypes=samples.NUMBERS,
    parameters={
        **pooling.POOLED,
        "rank": (4, 2, 3, 5),
        "batch": (1, 2, 3, 0),
        "height": (4, 1, 3, 7),
        "width": (5, 1, 4, 6, 9),
    },
    make=_make,
    quantities={
        **{f"{slot}.{name}": name for slot in ("input", "output") for name in ("batch", "channels", "rank", "quantization")},
        "input.height": "height",
        "input.width": "width",
        "input.0": "batch",
        "output.0": "batch",
    },
    impossible={
        **pooling.WITHOUT_NORM,
        "*: input.height below 1": "nothing has no greatest element, and no average",
        "*: input.width below 1": "nothing has no greatest element, and no average",
    },
    reaching={
        "input.elements": lambda count: {"rank": 4, "batch": 1, "channels": 1, "height": 1, "width": count},
    },
    together=[
        *_EDGES,
        *({"function": _AVERAGE, **edge} for edge in _EDGES),
        *({"function": _NORM, "p": p, **edge} for p in (1, 2, 3) for edge in _EDGES[: 9 if p == 2 else 3]),
        *({"quantization": "none", **edge} for edge in _EDGES[:5]),
    ],
)
