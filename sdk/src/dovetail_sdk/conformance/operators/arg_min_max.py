"""ArgMinMax: where the extreme along an axis stands."""

from __future__ import annotations

import math

import numpy as np

from dovetail import DType
from dovetail.layers import ArgFunction, ArgMinMax

from ..cases import Array, Case, Feed, Operator, Parameters
from ..references import samples
from ..references.shapes import SIZES, quantities_of, shape_of
from ..references.single_layer import carries, layer_case, marked


def extreme_position(x: Array, function: ArgFunction, axis: int, keep_dims: bool, select_last: bool) -> Array:
    """Look for the extreme of each line in Python; a NaN is the extreme of its line."""
    lines = np.moveaxis(x, axis, -1)
    result = np.zeros(lines.shape[:-1], np.int64)
    for place in np.ndindex(result.shape):
        line = lines[place].tolist()
        extreme = max(line) if function is ArgFunction.MAX else min(line)
        with_nan = any(map(math.isnan, line))
        found = [at for at, value in enumerate(line) if (math.isnan(value) if with_nan else value == extreme)]
        result[place] = found[-1 if select_last else 0]
    return np.expand_dims(result, axis) if keep_dims else result


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    shape, axis, how = shape_of(parameters), parameters["axis"], parameters["quantization"]
    if shape is None or not -len(shape) <= axis < len(shape) or not shape[axis] or not carries(how, dtype):
        return None
    x = samples.ranked(dtype, shape, parameters["values"], rng)
    if x is None:
        return None
    function, keep_dims, select_last = ArgFunction(parameters["function"]), parameters["keep_dims"], parameters["select_last"]
    positions = DType.of(parameters["dtype"])
    descriptor = ArgMinMax(function=function, axis=axis, keep_dims=keep_dims, select_last=select_last, dtype=positions)
    expected = extreme_position(samples.reals(x, dtype) if dtype.is_float else x, function, axis, keep_dims, select_last)
    return layer_case(descriptor, [Feed(x, dtype=dtype, quantization=marked(how))], expected.astype(positions.numpy))


OPERATOR = Operator(
    kind="dovetail.ArgMinMax",
    dtypes=samples.ALL,
    parameters={
        "function": tuple(ArgFunction),
        **SIZES,
        "axis": (-1, 0, 1, 2, 3, -4),
        "keep_dims": (False, True),
        "select_last": (False, True),
        "dtype": ("int64", "int32"),
        "values": samples.RANKED,
        "quantization": (None, "kept"),
    },
    make=_make,
    quantities={**quantities_of("input"), "output.dtype": "dtype"},
    together=[
        *(
            {"function": function, "values": values, "select_last": last}
            for function in ArgFunction
            for values in ("equal", "special")
            for last in (False, True)
        ),
        {"function": ArgFunction.MIN, "axis": 1, "keep_dims": True},
        {"rank": 1, "channels": 65},
        {"rank": 1, "channels": 33, "function": ArgFunction.MIN, "keep_dims": True, "dtype": "int32"},
        {"batch": 0, "axis": 1},
    ],
)
