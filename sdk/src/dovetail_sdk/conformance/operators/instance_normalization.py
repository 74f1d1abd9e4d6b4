"""InstanceNormalization: each channel of each image over its spatial axes."""

from __future__ import annotations

import numpy as np

from dovetail import DataLayout, DType
from dovetail.layers import InstanceNormalization

from ..cases import Array, Case, Operator, Parameters
from ..references import samples
from ..references.moments import SCALED, SCALED_QUANTITIES, normalized_case
from ..references.shapes import SIZES, quantities_of, shape_of


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    shape, layout = shape_of(parameters), DataLayout(parameters["layout"])
    if shape is None or len(shape) < 3:  # with less, every element is its own mean
        return None
    axis = 1 if layout is DataLayout.NCHW else len(shape) - 1
    count = shape[axis]
    x = samples.uniform(dtype, shape, rng)
    planes = np.moveaxis(samples.reals(x, dtype), axis, 1)
    rows = planes.reshape(*planes.shape[:2], int(np.prod(planes.shape[2:])))

    def restored(result: Array) -> Array:
        return np.moveaxis(result.reshape(planes.shape), 1, axis)

    operand = (count,), tuple(count if at == axis else 1 for at in range(len(shape)))
    descriptor = InstanceNormalization(epsilon=parameters["epsilon"], layout=layout)
    return normalized_case(descriptor, x, rows, restored, operand, parameters, dtype, rng)


OPERATOR = Operator(
    kind="dovetail.InstanceNormalization",
    dtypes=samples.FLOATS,
    parameters={
        **SIZES,
        "layout": ("NCHW", "NHWC"),
        **SCALED,
    },
    make=_make,
    quantities={**quantities_of("input", "output"), **SCALED_QUANTITIES},
    together=[
        {"scale dtype": None, "offset dtype": None},
        {"scale dtype": "float32", "offset dtype": "float32"},
        {"layout": "NHWC", "constant": False},
        {"layout": "NHWC", "scale dtype": None, "offset dtype": None},
        *({"layout": "NHWC", "rank": rank} for rank in (3, 5)),
        *({"layout": "NHWC", "channels": size} for size in (0, 1, 7, 17)),
    ],
)
