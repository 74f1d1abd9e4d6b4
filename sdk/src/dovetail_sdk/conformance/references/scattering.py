"""Updates that meet what is there, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from dovetail import DType
from dovetail.layers import ScatterReduction

from ..cases import Array
from . import samples

MEET: Mapping[ScatterReduction, Callable[[Array, Array], Array]] = {
    ScatterReduction.NONE: lambda old, new: new,
    ScatterReduction.ADD: np.add,
    ScatterReduction.MUL: np.multiply,
    ScatterReduction.MAX: np.maximum,
    ScatterReduction.MIN: np.minimum,
}


def scattered(x: Array, updates: Iterable[tuple[tuple[int, ...], Any]], reduction: ScatterReduction, dtype: DType) -> Array:
    """Let updates, given as (position, update), meet a copy of x.

    Returns:
        Of x's type, or float64 for floats: the sums and products of `operands` are whole numbers that all types hold.
    """
    result = samples.reals(x, dtype) if dtype.is_float else x.copy()
    for position, update in updates:
        new = samples.reals(np.asarray(update), dtype) if dtype.is_float else update
        result[position] = MEET[reduction](result[position], new)
    return result


def operands(
    dtype: DType, shape: tuple[int, ...], update_shape: tuple[int, ...], reduction: ScatterReduction, rng: np.random.Generator
) -> tuple[Array, Array] | None:
    """Return the input and the updates; None if the reduction is not defined for the type.

    Whole numbers, exact in every type and in every order: up to eight sums of 4, or three factors of 2, keep within int8.
    """
    if dtype is DType.BOOL and reduction is not ScatterReduction.NONE:
        return None
    if reduction is ScatterReduction.NONE:
        return samples.anything(dtype, shape, rng), samples.anything(dtype, update_shape, rng)
    maximum = 2 if reduction is ScatterReduction.MUL else 4
    return samples.whole(dtype, shape, rng, -8, 8), samples.whole(dtype, update_shape, rng, -maximum, maximum)
