"""Interpolation along an axis, as a float64 matrix and exact positions, by ONNX's Resize-19."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dovetail.layers import CoordinateMode, NearestRounding, ResizeMethod, ResizePrecision

from ..cases import Array


@dataclass(frozen=True, slots=True)
class Interpolation:
    """How an axis is resampled; fields as those of Resize."""

    method: ResizeMethod
    coordinates: CoordinateMode
    rounding: NearestRounding = NearestRounding.ROUND_PREFER_FLOOR
    cubic_coefficient: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False
    precision: ResizePrecision = ResizePrecision.EXACT

    def position(self, at: int, size: int, wanted: int, scale: Fraction) -> Fraction:
        """Return where an output element lies in the input; see `position`."""
        if self.precision is ResizePrecision.EXACT:
            return position(self.coordinates, at, size, wanted, scale)
        rounded = _by_float32 if self.precision is ResizePrecision.FLOAT32 else _by_1024ths
        return rounded(self.coordinates, at, size, wanted)


def _by_float32(mode: CoordinateMode, at: int, size: int, wanted: int) -> Fraction:
    """Return a position as TensorFlow Lite finds it, with one rounding for each operation."""
    corners = int(mode is CoordinateMode.ALIGN_CORNERS and wanted > 1)
    half = np.float32(0.5 if mode is CoordinateMode.HALF_PIXEL else 0)
    product = (np.float32(at) + half) * (np.float32(size - corners) / np.float32(wanted - corners))
    return Fraction(float(product)) - Fraction(float(half))


def _by_1024ths(mode: CoordinateMode, at: int, size: int, wanted: int) -> Fraction:
    """Return a position as TensorFlow Lite finds it for integers, in whole 1024ths."""
    corners = int(mode is CoordinateMode.ALIGN_CORNERS and wanted > 1)
    step = math.floor(Fraction(1024 * (size - corners), wanted - corners) + Fraction(1, 2))
    return Fraction(at * step + (step // 2 - 512 if mode is CoordinateMode.HALF_PIXEL else 0), 1024)


def position(mode: CoordinateMode, at: int, size: int, wanted: int, scale: Fraction) -> Fraction:
    """Return where an output element lies in the input: ONNX's x_original.

    Args:
        mode: Which formula.
        at: Position in the output.
        size: Elements of the input.
        wanted: Elements of the output.
        scale: Output over input; the given one, if scales are given.
    """
    if mode is CoordinateMode.ALIGN_CORNERS:
        length = wanted if scale == Fraction(wanted, size) else scale * size
        return at * Fraction(size - 1) / (length - 1) if length != 1 else Fraction(0)
    if mode is CoordinateMode.ASYMMETRIC:
        return at / scale
    if mode is CoordinateMode.PYTORCH_HALF_PIXEL and wanted == 1:
        return Fraction(0)
    plain = (at + Fraction(1, 2)) / scale - Fraction(1, 2)
    if mode is CoordinateMode.HALF_PIXEL_SYMMETRIC:
        adjustment = wanted / (scale * size)
        return Fraction(size, 2) * (1 - adjustment) + plain
    return plain


def kernel(method: ResizeMethod, distance: float, a: float) -> float:
    """Return the weight at a distance: a triangle, or Keys' cubic."""
    d = abs(distance)
    if method is ResizeMethod.LINEAR:
        return max(0.0, 1.0 - d)
    if d <= 1:
        return ((a + 2) * d - (a + 3)) * d * d + 1
    return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a if d < 2 else 0.0


def nearest(rounding: NearestRounding, where: Fraction) -> int:
    """Round a position."""
    half = Fraction(1, 2)
    if rounding is NearestRounding.FLOOR:
        return math.floor(where)
    if rounding is NearestRounding.CEIL:
        return math.ceil(where)
    return math.ceil(where - half) if rounding is NearestRounding.ROUND_PREFER_FLOOR else math.floor(where + half)


def is_ambiguous(how: Interpolation, at: int, size: int, wanted: int, scale: Fraction) -> bool:
    """Tell whether rounding may take NEAREST to another element, at a jump or a hair from one.

    Not so where each rounding is defined, and where all steps are exact in binary: at a scale that
    is a power of two, and at position 0 of two formulas.
    """
    if how.precision is not ResizePrecision.EXACT:
        return False
    aligned = how.coordinates is CoordinateMode.ALIGN_CORNERS
    if not at and (aligned or how.coordinates is CoordinateMode.ASYMMETRIC):
        return False
    exact_scale = scale.numerator & (scale.numerator - 1) == 0 and scale.denominator & (scale.denominator - 1) == 0
    if exact_scale and (not aligned or scale == 1):
        return False
    where, hair = position(how.coordinates, at, size, wanted, scale), Fraction(1, 1000)
    return len({min(max(nearest(how.rounding, where + off), 0), size - 1) for off in (-hair, Fraction(0), hair)}) > 1


def weights(how: Interpolation, size: int, wanted: int, scale: Fraction) -> Array:
    """Return [wanted, size]: what each output element takes of each input element."""
    matrix = np.zeros((wanted, size))
    for at in range(wanted):
        where = how.position(at, size, wanted, scale)
        if how.method is ResizeMethod.NEAREST:
            matrix[at, min(max(nearest(how.rounding, where), 0), size - 1)] = 1.0
            continue
        stretch = min(scale, Fraction(1)) if how.antialias else Fraction(1)
        reach = math.ceil(2 / stretch) + 1
        taps = range(math.floor(where) - reach, math.floor(where) + reach + 1)
        row = {tap: kernel(how.method, float((tap - where) * stretch), how.cubic_coefficient) for tap in taps}
        if how.exclude_outside:
            row = {tap: weight for tap, weight in row.items() if 0 <= tap < size}
        total = sum(row.values())
        for tap, weight in row.items():
            matrix[at, min(max(tap, 0), size - 1)] += weight / total
    return matrix


def along(matrix: Array, x: Array, axis: int) -> Array:
    """Apply a matrix to one axis."""
    return np.moveaxis(np.tensordot(matrix, x, (1, axis)), 0, axis)
