"""InstanceNormalization: each channel of each image over its spatial axes."""

from __future__ import annotations

import numpy as np

from dovetail import DataLayout, DType
from dovetail.layers import InstanceNormalization

from ..cases import Case, Feed, Operator, Parameters
from ..references import samples
from ..references.moments import largest, normalized, own_or, parameter, tolerance
from ..references.shapes import SIZES, quantities_of, shape_of
from ..references.single_layer import layer_case

_DTYPES = ("same", None, "float32", "float64", "float16", "bfloat16")


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    shape, layout, epsilon = shape_of(parameters), DataLayout(parameters["layout"]), parameters["epsilon"]
    if shape is None or len(shape) < 3:  # with less, every element is its own mean
        return None
    axis = 1 if layout is DataLayout.NCHW else len(shape) - 1
    count = shape[axis]
    x = samples.uniform(dtype, shape, rng)
    planes = np.moveaxis(samples.reals(x, dtype), axis, 1)
    rows = planes.reshape(*planes.shape[:2], int(np.prod(planes.shape[2:])))
    scale_feed, scale = parameter(own_or(parameters["scale dtype"], dtype), (count,), 0.5, 2.0, parameters["constant"], rng)
    offset_feed, offset = parameter(own_or(parameters["offset dtype"], dtype), (count,), -2.0, 2.0, parameters["constant"], rng)
    result = normalized(rows, epsilon)
    result = result * (1.0 if scale is None else scale[:, None]) + (0.0 if offset is None else offset[:, None])
    expected = np.moveaxis(result.reshape(planes.shape), 1, axis)
    bound = tolerance(rows, epsilon, largest(scale, 1.0), largest(offset, 0.0), dtype)
    descriptor = InstanceNormalization(epsilon=epsilon, layout=layout)
    return layer_case(descriptor, [Feed(x, dtype=dtype), scale_feed, offset_feed], expected, tolerance=bound)


OPERATOR = Operator(
    kind="dovetail.InstanceNormalization",
    dtypes=samples.FLOATS,
    parameters={
        **SIZES,
        "layout": ("NCHW", "NHWC"),
        "epsilon": (1e-5, 1e-3, 0.5),
        "scale dtype": _DTYPES,
        "offset dtype": _DTYPES,
        "constant": (True, False),
    },
    make=_make,
    quantities={
        **quantities_of("input", "output"),
        "scale.dtype": "scale dtype",
        "offset.dtype": "offset dtype",
        "scale.constant": "constant",
        "offset.constant": "constant",
    },
    together=[
        {"scale dtype": None, "offset dtype": None},
        {"scale dtype": "float32", "offset dtype": "float32"},
        {"layout": "NHWC", "constant": False},
        {"layout": "NHWC", "scale dtype": None, "offset dtype": None},
        *({"layout": "NHWC", "rank": rank} for rank in (3, 5)),
        *({"layout": "NHWC", "channels": size} for size in (0, 1, 7, 17)),
    ],
)
