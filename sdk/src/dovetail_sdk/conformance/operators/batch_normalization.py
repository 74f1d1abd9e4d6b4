"""BatchNormalization: known mean and variance per channel."""

from __future__ import annotations

import numpy as np

from dovetail import DataLayout, DType
from dovetail.layers import BatchNormalization

from ..cases import Case, Feed, Operator, Parameters, Tolerance
from ..references import samples
from ..references.moments import own_or, parameter
from ..references.precision import SMALLEST_NORMAL, UNIT
from ..references.shapes import SIZES, quantities_of, shape_of
from ..references.single_layer import layer_case
from ..references.tolerances import gamma

OPERANDS = ("scale", "offset", "mean", "variance")
_RANGES = {"scale": (0.5, 2.0), "offset": (-2.0, 2.0), "mean": (-1.0, 1.0), "variance": (0.25, 4.0)}
_REASON = (
    "folded or not, at most 10 roundings of |x|, |mean| times |scale| / deviation, and of |offset|; one unit for the result"
)


def channel_axis(layout: DataLayout, rank: int) -> int | None:
    """Return the axis of the channels; None for a rank that has none."""
    if layout is DataLayout.NHWC:
        return rank - 1 if rank else None
    return 1 if rank > 1 else None


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    shape, layout, epsilon = shape_of(parameters), DataLayout(parameters["layout"]), parameters["epsilon"]
    if shape is None:
        return None
    axis = channel_axis(layout, len(shape))
    if axis is None:
        return None
    feeds, reals = [], []
    for name in OPERANDS:
        label = own_or(parameters[f"{name} dtype"], dtype)
        feed, real = parameter(label, (shape[axis],), *_RANGES[name], parameters["constant"], rng)
        if feed is None or real is None:
            return None
        feeds.append(feed)
        reals.append(real.reshape(tuple(-1 if i == axis else 1 for i in range(len(shape)))))
    x = samples.uniform(dtype, shape, rng)
    scale, offset, mean, variance = reals
    factor = scale / np.sqrt(variance + epsilon)
    values = samples.reals(x, dtype)
    expected = (values - mean) * factor + offset
    magnitude = np.max((np.abs(values) + np.abs(mean)) * np.abs(factor) + np.abs(offset), initial=0.0)
    tolerance = Tolerance(UNIT[dtype], gamma(10, dtype) * float(magnitude) + SMALLEST_NORMAL[dtype], _REASON)
    descriptor = BatchNormalization(epsilon=epsilon, layout=layout)
    return layer_case(descriptor, [Feed(x, dtype=dtype), *feeds], expected, tolerance=tolerance)


OPERATOR = Operator(
    kind="dovetail.BatchNormalization",
    dtypes=samples.FLOATS,
    parameters={
        **SIZES,
        "layout": ("NCHW", "NHWC"),
        "epsilon": (1e-5, 0.0, 1e-3, 0.5),
        **{f"{name} dtype": ("same", "float32", "float64", "float16", "bfloat16") for name in OPERANDS},
        "constant": (True, False),
    },
    make=_make,
    quantities={
        **quantities_of("input", "output"),
        **{f"{name}.dtype": f"{name} dtype" for name in OPERANDS},
        **{f"{name}.constant": "constant" for name in OPERANDS},
    },
    impossible={
        "*: *.dtype none": "the kind needs all of its inputs",
        "*: *.constant none": "the kind needs all of its inputs",
    },
    together=[
        {f"{name} dtype": "float32" for name in OPERANDS},
        {"layout": "NHWC", "constant": False},
        *({"layout": "NHWC", "rank": rank} for rank in (1, 2, 3, 5)),
        *({"layout": "NHWC", "channels": size} for size in (0, 1, 7, 17)),
        {"rank": 2, "channels": 17},
        {"layout": "NHWC", "epsilon": 0.5},
    ],
)
