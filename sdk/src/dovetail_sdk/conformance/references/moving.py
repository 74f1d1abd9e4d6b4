"""What operators of kinds of any element type share, and cases of those that move elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dovetail import Descriptor, DType

from ..cases import Array, Case, Feed, Operator, Parameters
from . import samples
from .shapes import SIZES, quantities_of
from .single_layer import carries, layer_case, marked

KEPT: Mapping[str, Sequence[Any]] = {"quantization": (None, "kept")}
"""Moved integers may be quantized; they keep what they mean."""


def any_type_operator(
    kind: str,
    make: Callable[[Parameters, DType, np.random.Generator], Case | None],
    parameters: Mapping[str, Sequence[Any]],
    *,
    quantities: Mapping[str, str] | None = None,
    **others: Any,
) -> Operator:
    """Describe a kind of dovetail's that takes all element types.

    Args:
        kind: Its name alone.
        make: Makes a case.
        parameters: Those besides the sizes of its tensor.
        quantities: What governs its quantities; by default sizes those of its `input`.
        others: Further fields of the operator.
    """
    governed = quantities_of("input") if quantities is None else quantities
    return Operator(f"dovetail.{kind}", samples.ALL, {**SIZES, **parameters}, make, governed, **others)


def moved_case(
    descriptor: Descriptor,
    shape: tuple[int, ...],
    move: Callable[[Array], Array],
    parameters: Parameters,
    dtype: DType,
    rng: np.random.Generator,
    further: Sequence[Feed] = (),
) -> Case | None:
    """Make a case of a layer that moves the elements of its input; None if not quantizable.

    Args:
        descriptor: The layer.
        shape: Of the input.
        move: What becomes of the input.
        parameters: `quantization`; `constant_input`, if there is one.
        dtype: Of the input.
        rng: For it.
        further: Operands behind the input.
    """
    how = parameters["quantization"]
    if not carries(how, dtype):
        return None
    x = samples.anything(dtype, shape, rng)
    feed = Feed(x, parameters.get("constant_input", False), dtype, marked(how))
    return layer_case(descriptor, [feed, *further], move(x))
