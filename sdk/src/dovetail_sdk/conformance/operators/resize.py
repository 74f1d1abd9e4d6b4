"""Resize: nearest, linear and cubic, with every formula of coordinates that ONNX has."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from dovetail import DType
from dovetail.layers import CoordinateMode, NearestRounding, Resize, ResizeMethod, ResizePrecision

from ..cases import EXACT, Array, Case, Feed, Operator, Parameters, Tolerance
from ..references import samples
from ..references.interpolation import Interpolation, along, is_ambiguous, weights
from ..references.precision import SMALLEST_NORMAL, UNIT
from ..references.shapes import SIZES, quantities_of, shape_of
from ..references.single_layer import layer_case, marked
from ..references.tolerances import gamma

_ONE_STEP = Tolerance(0.0, 1.0, "rounded to the nearest integer: in float32, one near a tie may fall to the other side")


def _plan(shape: tuple[int, ...], parameters: Parameters) -> tuple[tuple[int, ...], tuple[Fraction, ...]] | None:
    """Return the result's sizes and each axis' exact scale; None for factors that do not fit."""
    factors = parameters["factors"][-len(shape) :] if shape else ()
    factors = (1.0,) * (len(shape) - len(factors)) + tuple(factors)
    wanted = tuple(math.floor(size * factor) for size, factor in zip(shape, factors, strict=True))
    if any(size and not one for size, one in zip(shape, wanted, strict=True)):
        return None
    if parameters["by"] == "scales":
        return wanted, tuple(Fraction(factor) for factor in factors)
    return wanted, tuple(Fraction(one, size) if size else Fraction(1) for size, one in zip(shape, wanted, strict=True))


def _tolerance(x: Array, matrices: Sequence[Array], dtype: DType) -> Tolerance:
    if not matrices:
        return EXACT
    # A position below `size + 2` is off by 4 roundings; the weights of all taps together change at
    # most 4 times as fast.
    operations = sum(16 * (matrix.shape[1] + 2) for matrix in matrices)
    growth = float(np.prod([np.abs(matrix).sum(-1).max(initial=0.0) for matrix in matrices]))
    absolute = gamma(operations, dtype) * growth * float(np.max(np.abs(x), initial=0.0))
    reason = f"positions, weights and sums of all axes: {operations} roundings of the largest value; one unit for the result"
    return Tolerance(UNIT[dtype], absolute + SMALLEST_NORMAL[dtype], reason)


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    shape, method = shape_of(parameters), ResizeMethod(parameters["method"])
    if shape is None or (parameters["quantization"] is not None and not dtype.is_integer):
        return None
    if method is not ResizeMethod.NEAREST and dtype is DType.BOOL:
        return None
    plan = _plan(shape, parameters)
    if plan is None:
        return None
    wanted, scales = plan
    how = Interpolation(
        method,
        CoordinateMode(parameters["coordinates"]),
        NearestRounding(parameters["rounding"]),
        parameters["cubic_coefficient"],
        parameters["exclude_outside"],
        parameters["antialias"],
        ResizePrecision(parameters["precision"]),
    )
    if how.precision is not ResizePrecision.EXACT and (how.coordinates not in _PRECISE or parameters["by"] == "scales"):
        return None
    axes = [axis for axis, size in enumerate(shape) if size and (wanted[axis] != size or scales[axis] != 1)]
    if method is ResizeMethod.NEAREST and any(
        is_ambiguous(how, at, shape[axis], wanted[axis], scales[axis]) for axis in axes for at in range(wanted[axis])
    ):
        return None
    matrices = [weights(how, shape[axis], wanted[axis], scales[axis]) for axis in axes]
    tolerance = EXACT
    if method is ResizeMethod.NEAREST:
        x = samples.anything(dtype, shape, rng)
        expected = x
        for axis, matrix in zip(axes, matrices, strict=True):
            expected = np.take(expected, np.argmax(matrix, 1), axis)
    else:
        minimum, maximum = (-1000, 1000) if dtype.is_float or dtype.bits > 8 else samples.limits(dtype)
        x = samples.uniform(dtype, shape, rng) if dtype.is_float else samples.whole(dtype, shape, rng, minimum, maximum)
        reals = expected = samples.reals(x, dtype) if dtype.is_float else x.astype(np.float64)
        for axis, matrix in zip(axes, matrices, strict=True):
            expected = along(matrix, expected, axis)
        if dtype.is_float:
            tolerance = _tolerance(reals, matrices, dtype)
        else:
            minimum, maximum = samples.limits(dtype)
            away = np.copysign(np.floor(np.abs(expected) + 0.5), expected)
            whole = np.rint(expected) if how.precision is ResizePrecision.EXACT else away
            expected = np.clip(whole, minimum, maximum).astype(dtype.numpy)
            tolerance = _ONE_STEP
    by = parameters["by"]
    descriptor = Resize(
        method=method,
        coordinates=how.coordinates,
        rounding=how.rounding,
        sizes=wanted if by == "sizes" else None,
        scales=tuple(float(scale) for scale in scales) if by == "scales" else None,
        cubic_coefficient=how.cubic_coefficient,
        exclude_outside=how.exclude_outside,
        antialias=how.antialias,
        precision=how.precision,
    )
    feeds: list[Feed | None] = [Feed(x, dtype=dtype, quantization=marked(parameters["quantization"]))]
    if by == "operand":
        if not shape:
            return None
        feeds += [None, Feed(np.asarray(wanted, np.int64), constant=True)]
    return layer_case(descriptor, feeds, expected, tolerance=tolerance)


_DOWN, _ODD = (1.0, 0.5, 0.5, 1.0), (1.0, 1.0, 1.75, 2.2)
_DOUBLE = (1.0, 1.0, 2.0, 2.0)
_SAME_SIZE = (1.0, 1.3, 2.0, 2.0)
_ASYMMETRIC = CoordinateMode.ASYMMETRIC
_STRETCH = (1.0, 1.0, 1.75, 2.5)
_DIVISIBLE = {"height": 8, "width": 4, "channels": 4}
_PRECISE = (CoordinateMode.HALF_PIXEL, CoordinateMode.ALIGN_CORNERS, CoordinateMode.ASYMMETRIC)
_SMOOTH = (ResizeMethod.LINEAR, ResizeMethod.CUBIC)
_RATIOS = (2.0, 3.0, 4.0, 8.0, 0.5, 0.25)

OPERATOR = Operator(
    kind="dovetail.Resize",
    dtypes=samples.ALL,
    parameters={
        "method": tuple(ResizeMethod),
        **SIZES,
        "factors": (
            (1.0, 2.0, 2.0, 1.0),  # images, channels last
            (1.0, 1.0, 2.0, 2.0),
            _DOWN,
            _ODD,
            (1.0, 1.0, 0.75, 0.6),
            (1.0, 3.0, 0.25, 1.0),
            (2.0, 1.0, 1.0, 3.0),
            (1.0, 1.0, 1.0, 1.0),
        ),
        "by": ("sizes", "scales", "operand"),
        "coordinates": tuple(CoordinateMode),
        "rounding": tuple(NearestRounding),
        "cubic_coefficient": (-0.75, -0.5),
        "exclude_outside": (False, True),
        "antialias": (False, True),
        "precision": tuple(ResizePrecision),
        "quantization": (None, "kept"),
    },
    make=_make,
    quantities=quantities_of("input"),
    reaching={
        "output.elements": lambda count: {"rank": 4, "elements": count, "factors": (1.0, 1.0, 1.0, 1.0)},
        **{f"scales.{axis}": lambda scale: {"by": "scales"} for axis in range(4)},
    },
    impossible={"*float*: input.quantization per_tensor": "a quantization of floats means nothing"},
    together=[
        *(
            {"coordinates": coordinates, "rounding": rounding, "factors": factors}
            for coordinates in CoordinateMode
            for rounding in NearestRounding
            for factors in (_DOWN, _ODD, _DOUBLE)
        ),
        *({"method": method, "coordinates": one, "factors": _ODD} for method in _SMOOTH for one in CoordinateMode),
        *(
            {"method": method, "factors": _DOWN, "antialias": True, "exclude_outside": out}
            for method in _SMOOTH
            for out in (False, True)
        ),
        *(
            {"method": method, "by": "scales", "factors": _STRETCH, "coordinates": one}
            for method in _SMOOTH
            for one in (CoordinateMode.ASYMMETRIC, CoordinateMode.HALF_PIXEL_SYMMETRIC)
        ),
        *(
            {"method": method, "precision": precision, "coordinates": one, "factors": factors}
            for method in (ResizeMethod.NEAREST, ResizeMethod.LINEAR)
            for precision in (ResizePrecision.FLOAT32, ResizePrecision.FIXED_POINT)
            for one in _PRECISE
            for factors in (_ODD, _DOUBLE)
        ),
        *({"method": method, "rank": rank} for method in _SMOOTH for rank in (1, 2, 3, 5)),
        *({"method": method, "quantization": "kept"} for method in _SMOOTH),
        {"method": ResizeMethod.CUBIC, "cubic_coefficient": -0.5, "exclude_outside": True, "factors": _ODD},
        {"method": ResizeMethod.LINEAR, "coordinates": CoordinateMode.PYTORCH_HALF_PIXEL, "factors": (1.0, 0.34, 0.25, 1.0)},
        # Devices have kernels of their own for whole factors and divisors, in either layout.
        *(
            {"method": ResizeMethod.LINEAR, "by": "scales", "coordinates": one, "factors": factors, **_DIVISIBLE}
            for one in (CoordinateMode.HALF_PIXEL, CoordinateMode.ASYMMETRIC)
            for factor in _RATIOS
            for factors in ((1.0, 1.0, factor, factor), (1.0, factor, factor, 1.0))
        ),
        {"coordinates": CoordinateMode.ALIGN_CORNERS, "factors": _ODD},
        {"method": ResizeMethod.LINEAR, "factors": (1.0, 3.0, 0.25, 1.0)},
        {"method": ResizeMethod.LINEAR, "channels": 0},
        # A scale other than 1 that leaves the size as it is still moves the positions.
        *({"method": method, "by": "scales", "factors": _SAME_SIZE, "coordinates": _ASYMMETRIC} for method in ResizeMethod),
    ],
)
