"""Cast between all pairs of types, against exact arithmetic."""

from __future__ import annotations

import bisect
import functools
import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from dovetail import DType

LABELS = [d.label for d in DType]
INTEGERS = [d.label for d in DType if d.is_integer]


@functools.cache
def grid(label: str) -> tuple[Fraction, ...]:
    """All finite magnitudes of a 16-bit float, and one step more, which stands for infinity."""
    kind = np.dtype(ml_dtypes.bfloat16) if label == "bfloat16" else np.dtype(np.float16)
    with np.errstate(invalid="ignore"):
        finite = np.arange(0x8000, dtype=np.uint16).view(kind).astype(np.float64)
    exact = [Fraction(float(v)) for v in finite[np.isfinite(finite)]]
    return (*exact, 2 * exact[-1] - exact[-2])


def nearest(value, label: str) -> float:
    """The float of this type that is nearest to an exact number; ties to the even one."""
    if math.isinf(value):
        return value
    magnitude, values = abs(Fraction(value)), grid(label)
    low = min(bisect.bisect_right(values, magnitude), len(values) - 1) - 1
    below, above = magnitude - values[low], values[low + 1] - magnitude
    chosen = low if below < above or (below == above and low % 2 == 0) else low + 1
    result = math.inf if chosen == len(values) - 1 else float(values[chosen])
    return -result if value < 0 else result


@pytest.mark.parametrize("target", LABELS)
@pytest.mark.parametrize("source", LABELS)
def test_small_whole_numbers_survive_every_pair(run_layer, samples, source, target):
    x = samples.small(source, (5, 7))
    [y] = run_layer(lambda net, a: net.cast(a, target), x)
    expected = x.astype(np.float64)
    if target == "bool":
        expected = expected != 0
    elif DType.of(target).is_integer:
        expected = expected.astype(np.int64).astype(samples.dtype(target))
    samples.same_bits(y, expected.astype(samples.dtype(target)))


@pytest.mark.parametrize("target", INTEGERS)
@pytest.mark.parametrize("source", INTEGERS)
def test_integers_wrap(run_layer, samples, source, target):
    x = samples.array(source, (301,))
    [y] = run_layer(lambda net, a: net.cast(a, target), x)
    assert y.tolist() == [samples.wrapped(v, target) for v in x.tolist()]


@pytest.mark.parametrize("target", INTEGERS)
@pytest.mark.parametrize("source", ["float64", "float32", "float16", "bfloat16"])
def test_floats_truncate_and_wrap(run_layer, samples, source, target):
    given = [0.5, -0.5, 1.99, -1.99, 127.9, -128.9, 300.7, -40000.3, 6e4, 3e9, -3e9]
    given += [1e19, -1e19, 2.0**63, -(2.0**63), 1e25, 3e38]
    with np.errstate(over="ignore"):
        x = np.asarray([*given, np.nan, np.inf, -np.inf]).astype(samples.dtype(source))
    [y] = run_layer(lambda net, a: net.cast(a, target), x)
    exact = [float(v) for v in x.astype(np.float64)]
    assert y.tolist() == [samples.wrapped(int(v), target) if math.isfinite(v) else 0 for v in exact]


@pytest.mark.parametrize("target", ["float32", "float64"])
@pytest.mark.parametrize("source", [*INTEGERS, "float64", "float16", "bfloat16"])
def test_to_wide_floats_as_numpy(run_layer, samples, source, target):
    with np.errstate(over="ignore"):
        x = samples.array(source, (257,), scale=1e30)
        [y] = run_layer(lambda net, a: net.cast(a, target), x)
        samples.same_bits(y, x.astype(samples.dtype(target)))


@pytest.mark.parametrize("target", ["float16", "bfloat16"])
@pytest.mark.parametrize("source", ["int64", "uint64", "float64", "float32", "int32"])
def test_to_narrow_floats_rounds_once(run_layer, samples, source, target):
    ties = [1 + 2.0**-11, 1 + 3 * 2.0**-11, 1 + 2.0**-8, 1 + 3 * 2.0**-8, 65519.99, 65520.0, 2.0**-25, 2.0**-24 * 1.5, 3.39e38]
    if source in ("float64", "float32"):
        beside = [t * (1 + s * 2.0**-40) for t in ties for s in (-1, 0, 1)]
        with np.errstate(over="ignore", under="ignore"):
            x = np.asarray([*beside, *(-b for b in beside), 0.0, 1e-300, 1e300]).astype(samples.dtype(source))
    else:
        near = [(1 << b) + (1 << (b - s)) + d for b in (24, 30, 55, 62) for s in (8, 9, 11, 12) for d in (-1, 0, 1)]
        x = np.asarray([n for n in near if n < 2 ** (31 if source == "int32" else 63)]).astype(samples.dtype(source))
    [y] = run_layer(lambda net, a: net.cast(a, target), x)
    assert y.astype(np.float64).tolist() == [nearest(v, target) for v in x.tolist()]


@pytest.mark.parametrize("source", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("target", ["float64", "float32", "float16", "bfloat16"])
def test_special_values(run_layer, samples, source, target):
    x = np.asarray([np.nan, np.inf, -np.inf, 0.0, -0.0]).astype(samples.dtype(source))
    [y] = run_layer(lambda net, a: net.cast(a, target), x)
    wide = y.astype(np.float64)
    assert np.isnan(wide[0])
    assert wide[1:].tolist() == [np.inf, -np.inf, 0.0, 0.0]
    assert np.signbit(wide[1:]).tolist() == [False, True, False, True]


@pytest.mark.parametrize("source", LABELS)
def test_to_bool_is_not_zero(run_layer, samples, source):
    x = samples.small(source, (40,), maximum=1)
    if DType.of(source).is_float:
        x[:3] = [np.nan, 1e-6, -0.0]
    [y] = run_layer(lambda net, a: net.cast(a, "bool"), x)
    assert y.tolist() == [bool(v != 0) for v in x.tolist()]


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,), (255,), (257,), (2, 3, 5)])
def test_shapes(run_layer, shape):
    x = np.arange(np.prod(shape, dtype=int), dtype=np.int32).reshape(shape)
    [y] = run_layer(lambda net, a: net.cast(a, "float32"), x)
    assert np.array_equal(y, x.astype(np.float32))
    assert y.shape == shape


def test_to_the_same_type_is_a_view(run_layer, direct):
    x = np.arange(6, dtype=np.int16)
    [y] = run_layer(lambda net, a: net.cast(a, "int16"), x, in_place=0)
    assert np.array_equal(y, x)
    layer, _ = direct.build_layer(lambda net, a: net.cast(a, "int16"), x)
    assert direct.workload_of(direct.create(layer)).flags & 2  # elidable


def test_cancelled(run_layer, direct):
    with pytest.raises(direct.Cancelled):
        run_layer(lambda net, a: net.cast(a, "int8"), np.zeros(100_000, np.float32), cancel=True)
