"""Concat: tensors one after the other along an axis."""

from __future__ import annotations

import numpy as np

from dovetail import DType, Quantization
from dovetail.layers import Concat

from ..cases import EXACT, Case, Feed, Parameters
from ..references import samples
from ..references.moving import any_type_operator
from ..references.quantized_elementwise import ONE_QUANTUM, quantized, real
from ..references.shapes import quantities_of, shape_of
from ..references.single_layer import carries, layer_case, marked


def part_sizes(count: int, size: int, how: str) -> list[int]:
    """Return the size of each part along the axis."""
    ways = {
        "equal": [size] * count,
        "growing": [size + index for index in range(count)],
        "one empty": [0 if index == 1 else size for index in range(count)],
        "first empty": [size if index else 0 for index in range(count)],
    }
    return ways[how]


def _quantizations(how: str | None, count: int) -> tuple[list[Quantization | None], Quantization | None]:
    """Return what each part and the result mean."""
    if how != "differing":
        return [marked(how)] * count, marked(how)
    scales = (0.05, 0.11, 0.02)
    return [Quantization.per_tensor(scales[index % 3], 3 + index) for index in range(count)], Quantization.per_tensor(0.07, 1)


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    shape, axis, count, how = shape_of(parameters), parameters["axis"], parameters["count"], parameters["quantization"]
    if shape is None or not -len(shape) <= axis < len(shape) or not carries(how, dtype):
        return None
    axis_size = shape[axis]
    quantizations, result = _quantizations(how, count)
    feeds = []
    for index, size in enumerate(part_sizes(count, axis_size, parameters["parts"])):
        own = list(shape)
        own[axis] = size
        constant = parameters["constant"] == index
        feeds.append(Feed(samples.anything(dtype, own, rng), constant, dtype, quantizations[index]))
    values = [feed.value for feed in feeds]
    if result is not None and how == "differing":
        values = [quantized(real(feed.value, feed.quantization), result, dtype) for feed in feeds if feed.quantization]
    tolerance = ONE_QUANTUM if how == "differing" else EXACT
    expected = np.concatenate(values, axis)
    return layer_case(Concat(axis=axis), feeds, expected, tolerance=tolerance, quantization=result)


OPERATOR = any_type_operator(
    "Concat",
    _make,
    {
        "axis": (1, 0, 2, 3, -1, -2, -4),
        "count": (2, 1, 3, 7),
        "parts": ("equal", "growing", "one empty", "first empty"),
        "constant": (None, 0, 1),
        "quantization": (None, "kept", "differing"),
    },
    quantities={**quantities_of("inputs"), "inputs.count": "count", "output.rank": "rank"},
    together=[
        {"rank": 1, "axis": 0},
        {"rank": 1, "axis": 0, "count": 5, "parts": "growing"},
        {"rank": 2, "axis": -1, "parts": "growing", "count": 3},
        {"rank": 6, "axis": 4, "parts": "growing"},
        {"rank": 5, "axis": -3},
        {"axis": 3, "parts": "growing", "count": 3},
        {"axis": 0, "parts": "one empty", "count": 3},
        {"axis": 3, "channels": 1, "count": 7},
        {"axis": -1, "quantization": "differing", "parts": "growing", "count": 3},
    ],
)
