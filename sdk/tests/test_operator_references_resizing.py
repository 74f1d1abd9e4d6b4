"""References of casting, quantizing and resizing, against numbers worked out by hand."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dovetail import DType, Quantization
from dovetail.layers import CoordinateMode, NearestRounding, ResizeMethod, ResizePrecision, TieRounding
from dovetail_sdk.conformance.operators.cast import cast_to
from dovetail_sdk.conformance.operators.dequantize import reals_of
from dovetail_sdk.conformance.operators.quantize import quantized_reals
from dovetail_sdk.conformance.references.interpolation import Interpolation, is_ambiguous, weights

NAN = np.nan


def test_cast_truncates_and_tests_for_zero():
    x = np.array([-1.75, -0.5, 0.0, 0.5, 2.5], np.float32)
    assert cast_to(x, DType.FLOAT32, DType.INT8).tolist() == [-1, 0, 0, 0, 2]
    assert cast_to(x, DType.FLOAT32, DType.BOOL).tolist() == [True, True, False, True, True]
    assert cast_to(np.array([0x3FC0], np.uint16), DType.BFLOAT16, DType.FLOAT32).tolist() == [1.5]


def test_quantize_rounds_ties_as_it_is_told_and_saturates():
    x = np.array([0.25, 0.75, 1.25, -0.25, 100.0, NAN])
    assert quantized_reals(x, Quantization.per_tensor(0.5, 3), DType.INT8).tolist() == [3, 5, 5, 3, 127, 3]
    away = quantized_reals(x, Quantization.per_tensor(0.5, 3), DType.INT8, TieRounding.AWAY_FROM_ZERO)
    assert away.tolist() == [4, 5, 6, 2, 127, 3]


def test_quantize_and_dequantize_along_an_axis():
    quantization = Quantization.per_axis([0.5, 2.0], [0, 1], axis=1)
    assert quantized_reals(np.array([[3.0, 4.0], [-1.0, -4.0]]), quantization, DType.INT8).tolist() == [[6, 3], [-2, -1]]
    assert reals_of(np.array([[6, 3], [-2, -1]], np.int8), quantization).tolist() == [[3.0, 4.0], [-1.0, -4.0]]


LINEAR, CUBIC, NEAREST = ResizeMethod.LINEAR, ResizeMethod.CUBIC, ResizeMethod.NEAREST


def resized(x, wanted, method, mode, scale=None, **fields):
    how = Interpolation(method, CoordinateMode(mode), **fields)
    return (weights(how, len(x), wanted, scale or Fraction(wanted, len(x))) @ np.asarray(x, float)).tolist()


def test_linear_by_hand():
    assert resized([1, 2], 4, LINEAR, "half_pixel") == [1.0, 1.25, 1.75, 2.0]
    assert resized([1, 2], 4, LINEAR, "asymmetric") == [1.0, 1.5, 2.0, 2.0]
    assert resized([1, 4], 4, LINEAR, "align_corners") == pytest.approx([1.0, 2.0, 3.0, 4.0])
    assert resized([1, 2, 3, 4], 1, LINEAR, "half_pixel") == [2.5]
    assert resized([1, 2, 3, 4], 1, LINEAR, "pytorch_half_pixel") == [1.0]


def test_antialias_averages_when_it_shrinks():
    # A triangle two elements wide to either side of 0.5: distances 0.25 and 0.75 of it, the outer
    # taps beyond the edge twice.
    assert resized([1, 2, 3, 4], 2, LINEAR, "half_pixel", antialias=True) == pytest.approx([1.625, 3.375])
    outside = resized([1, 2, 3, 4], 2, LINEAR, "half_pixel", antialias=True, exclude_outside=True)
    assert outside == pytest.approx([(0.75 + 1.5 + 0.75) / 1.75, (2 * 0.25 + 3 * 0.75 + 4 * 0.75) / 1.75])


def test_cubic_by_hand():
    # At 0.5 and a = -0.75, Keys' kernel weighs -0.09375, 0.59375, 0.59375, -0.09375.
    row = weights(Interpolation(CUBIC, CoordinateMode.ASYMMETRIC), 4, 8, Fraction(2))[3]
    assert row.tolist() == pytest.approx([-0.09375, 0.59375, 0.59375, -0.09375])


def test_symmetric_half_pixels_keep_the_middle():
    # ONNX: 3 elements by 1.5 are 4.5, cut to 4; the middle of the output lies at the middle of the
    # input.
    y = resized([0, 1, 2], 4, LINEAR, "half_pixel_symmetric", Fraction(3, 2))
    assert y == pytest.approx([0.0, 2 / 3, 4 / 3, 2.0])


@pytest.mark.parametrize(
    ("rounding", "expected"),
    [
        ("round_prefer_floor", [0, 0, 1, 1]),
        ("round_prefer_ceil", [0, 1, 1, 1]),
        ("floor", [0, 0, 1, 1]),
        ("ceil", [0, 1, 1, 1]),
    ],
)
def test_nearest_roundings(rounding, expected):
    assert resized([0, 1], 4, NEAREST, "asymmetric", rounding=NearestRounding(rounding)) == expected


def test_ties_that_rounding_decides_are_known():
    how = Interpolation(NEAREST, CoordinateMode.HALF_PIXEL, NearestRounding.FLOOR)
    assert is_ambiguous(how, 4, 5, 15, Fraction(3))  # (4 + 1/2) / 3 - 1/2 is 1
    assert not is_ambiguous(how, 3, 5, 15, Fraction(3))
    assert not is_ambiguous(how, 1, 5, 10, Fraction(2))  # exact in binary


@pytest.mark.parametrize(
    ("precision", "coordinates", "sizes", "expected"),
    [
        # 2 / 3 * 3 in float32 is 2, in 1024ths 683 * 3 = 2049.
        (ResizePrecision.FIXED_POINT, CoordinateMode.ASYMMETRIC, (2, 3), [0, Fraction(683, 1024), Fraction(683, 512)]),
        (
            ResizePrecision.FIXED_POINT,
            CoordinateMode.HALF_PIXEL,
            (2, 3),
            [Fraction(-171, 1024), Fraction(1, 2), Fraction(1195, 1024)],
        ),
        (
            ResizePrecision.FIXED_POINT,
            CoordinateMode.ALIGN_CORNERS,
            (2, 4),
            [0, Fraction(341, 1024), Fraction(341, 512), Fraction(1023, 1024)],
        ),
        (ResizePrecision.FLOAT32, CoordinateMode.ALIGN_CORNERS, (2, 1), [0]),
        (
            ResizePrecision.FLOAT32,
            CoordinateMode.ASYMMETRIC,
            (1, 10),
            [Fraction(float(np.float32(i) * np.float32(0.1))) for i in range(10)],
        ),
    ],
)
def test_positions_of_tensorflow_lite(precision, coordinates, sizes, expected):
    how = Interpolation(ResizeMethod.LINEAR, coordinates, precision=precision)
    size, wanted = sizes
    assert [how.position(at, size, wanted, Fraction(wanted, size)) for at in range(wanted)] == expected
