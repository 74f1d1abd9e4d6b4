"""Sums, differences and products of two tensors."""

from __future__ import annotations

from ..program import Binary, Function, Program, Tensor
from .links import links

_LARGEST_RATIO, _LARGEST_COARSE_RATIO = 20.0, 2.0
"""Of the scales of two tensors that the convolution engine adds, less than this; and where one of
the scales is above 1. The driver's rule is not known; this one fits 150 cases."""


def adds_by_products(operation: Binary, program: Program) -> bool:
    """Say whether a sum or difference is a convolution of two channels."""
    first, second = (program.tensors[number] for number in operation.inputs)
    return (
        operation.function != "multiply"
        and first.shape == second.shape
        and are_scales_alike(first, second)
        and all(links(program).is_computed(number) for number in operation.inputs)
    )


def are_scales_alike(first: Tensor, second: Tensor) -> bool:
    """Say whether the convolution engine adds tensors of these scales."""
    smaller, larger = sorted((first.scale, second.scale))
    return larger / smaller < (_LARGEST_COARSE_RATIO if larger > 1 else _LARGEST_RATIO)


def swish_of(operation: Binary, program: Program) -> Function | None:
    """Return the sigmoid of x that x is multiplied by, where the driver makes one table of both."""
    if operation.function != "multiply":
        return None
    found = links(program)
    for gate, x in (operation.inputs, operation.inputs[::-1]):
        maker = found.makers.get(gate)
        is_sigmoid = isinstance(maker, Function) and maker.function == "sigmoid" and maker.inputs == (x,)
        if is_sigmoid and found.only_reader(gate) is operation:
            assert isinstance(maker, Function)
            return maker
    return None
