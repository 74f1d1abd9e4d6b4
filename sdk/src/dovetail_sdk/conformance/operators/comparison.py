"""Comparison: six of them, with NumPy's broadcast; the result is bool."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dovetail import DType
from dovetail.layers import Comparison, ComparisonOperation

from ..cases import Array, Case, Feed, Parameters
from ..references import samples
from ..references.moving import any_type_operator
from ..references.shapes import OPERAND_PAIRS, narrowed, quantities_of, shape_of
from ..references.single_layer import carries, layer_case, marked

_FUNCTIONS: Mapping[ComparisonOperation, Callable[[Array, Array], Array]] = {
    ComparisonOperation(name): getattr(np, name.removesuffix("_or_equal") + "_equal" * name.endswith("_or_equal"))
    for name in ("equal", "not_equal", "greater", "greater_or_equal", "less", "less_or_equal")
}
"""NumPy says greater_equal for greater_or_equal."""
_OF_BOOLS = (ComparisonOperation.EQUAL, ComparisonOperation.NOT_EQUAL)
"""Truth values have no order."""


def _values(dtype: DType, shape: tuple[int, ...], values: str, rng: np.random.Generator) -> Array | None:
    if values == "plain":
        return samples.whole(dtype, shape, rng, -3, 3)  # so few that many are equal
    if dtype.is_float:
        return samples.special(dtype, shape, rng)
    if dtype is DType.BOOL:
        return None
    minimum, maximum = samples.limits(dtype)
    # Neighbours at both ends: equal if compared as floats, in the wrong order if compared with the
    # wrong sign.
    return np.asarray(rng.choice(np.asarray([minimum, minimum + 1, 0, 1, maximum - 1, maximum], dtype.numpy), shape))


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    shape, operation = shape_of(parameters), ComparisonOperation(parameters["operation"])
    if shape is None or (dtype is DType.BOOL and operation not in _OF_BOOLS):
        return None
    if not carries(parameters["quantization"], dtype):
        return None
    feeds = []
    for name in "ab":
        own = narrowed(shape, parameters[f"broadcast_{name}"])
        value = None if own is None else _values(dtype, own, parameters["values"], rng)
        if value is None:
            return None
        feeds.append(Feed(value, parameters["constant"] == name, dtype, marked(parameters["quantization"])))
    reals = [samples.reals(feed.value, dtype) if dtype.is_float else feed.value for feed in feeds]
    return layer_case(Comparison(operation=operation), feeds, np.asarray(_FUNCTIONS[operation](*reals)))


_TOGETHER: list[dict[str, Any]] = [
    {"broadcast_a": "outer", "broadcast_b": "column"},
    *({"operation": operation, "values": "special"} for operation in tuple(_FUNCTIONS)[1:]),
    *({"operation": ComparisonOperation.LESS, "broadcast_a": how} for how in ("scalar", "row", "column")),
    *({"operation": ComparisonOperation.LESS, "broadcast_b": how} for how in ("scalar", "row", "column")),
]

OPERATOR = any_type_operator(
    "Comparison",
    _make,
    {
        "operation": tuple(ComparisonOperation),
        **OPERAND_PAIRS,
        "values": ("plain", "special"),
        "quantization": (None, "alike"),
    },
    quantities=quantities_of("a", "b", "output"),
    together=_TOGETHER,
)
