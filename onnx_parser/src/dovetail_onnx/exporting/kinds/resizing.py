"""Resampling."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dovetail.graph.element_types import DType
from dovetail.layers import NearestRounding, Resize, ResizeMethod, ResizePrecision

from ..rules import Saying, says
from ..unexportable import Unexportable


@says(Resize)
def resize(say: Saying) -> str:
    """Say resampling, by sizes or by scales.

    ONNX takes one of the two, and none for a tensor without axes.
    """
    if not say.info().rank:
        return say.input()
    if say.descriptor.precision is not ResizePrecision.EXACT:
        _check_positions(say)
    method = say.descriptor.method
    scales, sizes = _scales_or_sizes(say)
    return say.op(
        "Resize",
        say.input(),
        "",
        scales,
        sizes,
        mode=method.value,
        coordinate_transformation_mode=say.descriptor.coordinates.value,
        nearest_mode=say.descriptor.rounding.value if method is ResizeMethod.NEAREST else _DEFAULT_ROUNDING,
        cubic_coeff_a=float(say.descriptor.cubic_coefficient) if method is ResizeMethod.CUBIC else None,
        exclude_outside=int(say.descriptor.exclude_outside),
        antialias=int(say.descriptor.antialias),
    )


def _check_positions(say: Saying) -> None:
    """Refuse positions that are others than ONNX's by more than what rounds them."""
    ours, theirs = say.descriptor, replace(say.descriptor, precision=ResizePrecision.EXACT)
    for size, wanted, scale in zip(say.info().sizes, say.result.sizes, ours.axis_scales(say.info()), strict=True):
        if size == wanted:
            continue
        mine, exact = (one.positions(size, wanted, scale, range(wanted)) for one in (ours, theirs))
        if ours.method is ResizeMethod.NEAREST:
            same = np.array_equal(ours.nearest(mine, size), theirs.nearest(exact, size))
        else:
            rounding = 1e-15 if say.info().dtype is DType.FLOAT64 else 1e-6
            same = np.allclose(mine, exact, rtol=rounding, atol=rounding)
        if not same:
            raise Unexportable(f"ONNX finds other positions for {wanted} elements of {size} than {ours.precision} does")


_DEFAULT_ROUNDING = NearestRounding.ROUND_PREFER_FLOOR.value


def _scales_or_sizes(say: Saying) -> tuple[str, str]:
    given, before, after = say.descriptor.scales, say.info().sizes, say.result.sizes
    if given is None or all(one == new / old for one, new, old in zip(given, after, before, strict=True) if old):
        return "", say.integers(after)
    narrow = [float(np.float32(scale)) for scale in given]
    if say.info().dtype is DType.FLOAT64 and narrow != list(given):
        raise Unexportable(f"the scales {given} are no float32 numbers, as ONNX stores them, and the tensor is float64")
    if all(math.floor(old * scale) == new for scale, new, old in zip(narrow, after, before, strict=True)):
        return say.constant(narrow, DType.FLOAT32), ""
    raise Unexportable(f"the scales {given} are not those of the sizes {list(after)}, and ONNX takes one of the two")
