"""Split: a tensor in parts along an axis."""

from __future__ import annotations

import numpy as np

from dovetail import DType
from dovetail.layers import Split

from ..cases import Case, Feed, Parameters
from ..references import samples
from ..references.moving import KEPT, any_type_operator
from ..references.shapes import quantities_of, shape_of
from ..references.single_layer import carries, layer_case, marked


def part_sizes(size: int, parts: int, how: str) -> list[int] | None:
    """Return the size of each part; None if the way makes no sense."""
    if how == "equal":  # as equal as can be: all but the last ones have the size of the first
        chunk, left, sizes = (size + parts - 1) // parts, size, []
        for _ in range(parts):
            sizes.append(min(chunk, left))
            left -= sizes[-1]
        return sizes
    if how == "uneven":
        return [1] * (parts - 1) + [size - parts + 1] if size >= parts else None
    return [0, size] + [0] * (parts - 2) if parts > 1 else None


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    shape, axis, parts, how = shape_of(parameters), parameters["axis"], parameters["parts"], parameters["part_sizes"]
    if shape is None or not -len(shape) <= axis < len(shape) or parts < 1 or not carries(parameters["quantization"], dtype):
        return None
    sizes = part_sizes(shape[axis], parts, how)
    if sizes is None:
        return None
    x = samples.anything(dtype, shape, rng)
    expected = np.split(x, np.cumsum(sizes)[:-1], axis)
    descriptor = Split(parts=parts, axis=axis, sizes=None if how == "equal" else tuple(sizes))
    return layer_case(descriptor, [Feed(x, dtype=dtype, quantization=marked(parameters["quantization"]))], *expected)


OPERATOR = any_type_operator(
    "Split",
    _make,
    {
        "axis": (2, 0, 1, 3, -1, -2, -4),
        "parts": (2, 1, 3, 4),
        "part_sizes": ("equal", "uneven", "empty"),
        **KEPT,
    },
    quantities={**quantities_of("input"), "outputs.count": "parts"},
    together=[
        {"rank": 1, "axis": 0, "parts": 5},
        {"rank": 1, "axis": 0, "parts": 4},  # 5 elements as 2, 2, 1 and 0
        {"rank": 2, "axis": -1, "parts": 2, "part_sizes": "uneven"},
        {"rank": 6, "axis": 4, "parts": 2},
        {"axis": 3, "parts": 3, "part_sizes": "uneven"},
        {"axis": 3, "parts": 3, "part_sizes": "empty"},
        {"axis": 1, "parts": 1, "part_sizes": "uneven"},
        {"axis": 0, "parts": 2, "channels": 17},
    ],
)
