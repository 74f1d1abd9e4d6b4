"""Updates that meet what is there, one after the other, and cases of layers that do so."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from dovetail import Descriptor, DType
from dovetail.layers import ScatterReduction

from ..cases import Array, Case, Feed, Parameters
from . import samples
from .single_layer import carries, layer_case, marked

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
        Of x's type, or float64 for floats: the sums and products of `operands` are whole numbers
            that all types hold.
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

    Whole numbers, exact in every type and in every order: up to eight sums of 4, or three factors
    of 2, keep within int8.
    """
    if dtype is DType.BOOL and reduction in (ScatterReduction.ADD, ScatterReduction.MUL):
        return None
    if reduction is ScatterReduction.NONE:
        return samples.anything(dtype, shape, rng), samples.anything(dtype, update_shape, rng)
    maximum = 2 if reduction is ScatterReduction.MUL else 4
    return samples.whole(dtype, shape, rng, -8, 8), samples.whole(dtype, update_shape, rng, -maximum, maximum)


_MAX_TIMES = {ScatterReduction.NONE: 0, ScatterReduction.MUL: 3}


def may_meet(parameters: Parameters, times: int) -> bool:
    """Tell whether so many updates may meet one element.

    Which of several plain updates wins is not said, and products must not overflow.
    """
    return times <= _MAX_TIMES.get(ScatterReduction(parameters["reduction"]), 8)


def meaningful(parameters: Parameters, dtype: DType) -> bool:
    """Tell whether the reduction of such a quantized tensor means something.

    Sums and products of integers with a zero point do not.
    """
    how, reduction = parameters["quantization"], ScatterReduction(parameters["reduction"])
    return carries(how, dtype) and (how is None or reduction not in (ScatterReduction.ADD, ScatterReduction.MUL))


def scatter_case(
    descriptor: Descriptor,
    shape: tuple[int, ...],
    index: Array,
    met: Mapping[tuple[int, ...], tuple[int, ...]],
    slices: tuple[int, ...],
    parameters: Parameters,
    dtype: DType,
    rng: np.random.Generator,
) -> Case | None:
    """Make a case of a layer that places updates; None if its reduction is undefined for the type.

    Args:
        descriptor: The layer.
        shape: Of the input.
        index: The indices.
        met: For each place of the updates, in order, the position in the input that it meets.
        slices: Shape of the updates.
        parameters: Those of `INDEXED`, and `reduction`.
        dtype: Of input and updates.
        rng: For them.
    """
    reduction = ScatterReduction(parameters["reduction"])
    values = operands(dtype, shape, slices, reduction, rng)
    if values is None:
        return None
    x, updates = values
    kept = marked(parameters["quantization"])
    feeds = [
        Feed(x, dtype=dtype, quantization=kept),
        Feed(index, parameters["constant_indices"]),
        Feed(updates, dtype=dtype, quantization=kept),
    ]
    pairs = [(position, updates[place]) for place, position in met.items()]
    return layer_case(descriptor, feeds, scattered(x, pairs, reduction, dtype))
