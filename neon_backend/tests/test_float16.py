"""Check products of float16: whole numbers, exactly, and every rounding of a matrix product."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from dovetail_neon.convolution.kinds import ConvolveFloat16
from dovetail_neon.elementwise.codes import FUNCTIONS
from dovetail_neon.elementwise.functions import IDENTITY, Function
from dovetail_neon.geometry.window import Geometry
from dovetail_neon.kernels import Kernels, instruction_sets, precisions

HERE = [name for name, here in instruction_sets().items() if here]
HALVED = [name for name in HERE if "float16" in precisions(name)]
needs_float16 = pytest.mark.skipif(not HALVED, reason="no instruction set of this machine multiplies float16")
RUN = 32  # products that are summed in float16 (convolution/float16.h)
UNIT = 2.0**-11  # the largest relative error of rounding to float16


@pytest.fixture
def kernels():
    if not HALVED:
        pytest.skip("no instruction set of this machine multiplies float16")
    return Kernels(HALVED[0], "float16")


def whole(rng, shape, most):
    """Small whole numbers: sums of RUN products of them are exact in float16 (up to 2048)."""
    return rng.integers(-most, most + 1, shape).astype(np.float32)


@needs_float16
def test_convolutions_of_whole_numbers_are_exact(products, convolved, float16_case, layout, passes):
    """Any step that is left out, taken twice or read elsewhere shows."""
    x, weights, bias, where = products.convolution_of(
        float16_case, lambda rng, shape: whole(rng, shape, 100 if len(shape) == 1 else 8)
    )
    found, kinds = products.run_convolution(x, weights, bias, where, layout, "float16", passes=passes)
    assert not passes or "CpuAcc.ConvolveFloat16" in kinds
    np.testing.assert_array_equal(found, np.maximum(convolved(x, weights, bias, **where), 0))


def product(x, weights, bias, added):
    """Every rounding: factors to float16, multiply-adds of a run to float16, runs to float32."""
    x, weights = (array.astype(np.float16).astype(np.float64) for array in (x, weights))
    total = np.broadcast_to(bias, (x.shape[0], weights.shape[0])).astype(np.float32)
    for start in range(0, x.shape[1], RUN):
        part = np.zeros(total.shape, np.float16)
        for k in range(start, min(start + RUN, x.shape[1])):
            part = (part.astype(np.float64) + x[:, k, None] * weights[None, :, k]).astype(np.float16)
        total = total + part.astype(np.float32)
    return total + added


@pytest.mark.parametrize("rows", [1, 2, 6, 7, 9, 10, 33])
@pytest.mark.parametrize(("channels", "filters"), [(1, 1), (31, 17), (32, 32), (33, 48), (34, 8), (35, 21), (300, 95)])
@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize("function", [IDENTITY, Function(FUNCTIONS["clamp"], 0.0, 6.0), Function(FUNCTIONS["swish"], 1.0)])
def test_products_equal_their_definition(products, run_layer, rows, channels, filters, adds, function):
    """To the bit: one row and many, sizes near those of tiles, additions, functions in or after."""
    case = rows, channels, filters, adds, function
    found, x, weights, bias, added = products.run_product(run_layer, ConvolveFloat16, *case)
    expected = product(x, weights, bias, added)
    if function.code == 12:
        expected = expected.astype(np.float64)
        np.testing.assert_allclose(found, expected / (1 + np.exp(-expected)), rtol=1e-6, atol=1e-6)
    else:
        np.testing.assert_array_equal(found, np.clip(expected, 0, 6) if function.code == 1 else expected)


@pytest.mark.parametrize("geometry", [Geometry((3, 3), (2, 1), (1, 2), (1, 2)), Geometry((1, 1), (3, 3))])
def test_groups_of_channels_last_are_exact(products, run_layer, convolved, geometry):
    """What lies between groups is not read."""
    draw = functools.partial(whole, most=8)
    found, expected, _ = products.run_groups(run_layer, convolved, ConvolveFloat16, geometry, draw)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("channels", [64, 4096])
def test_errors_do_not_grow_with_the_depth(products, run_layer, channels):
    """Factors are numbers of float16, so that only sums are rounded.

    Of products with a variance of 1 the i-th sum of a run has one of i; its rounding, spread evenly
    up to UNIT times the sum, adds an error whose variance is i * UNIT^2 / 3 at most. The errors of
    a run have one of RUN * (RUN + 1) / 2 * UNIT^2 / 3 together, those of all runs channels / RUN
    times as much, and the result itself one of `channels`.
    """
    rng = np.random.default_rng(7)
    x, weights = (
        rng.standard_normal(shape).astype(np.float16).astype(np.float32) for shape in ((60, channels), (64, channels))
    )
    layer = products.product_of_rows(ConvolveFloat16, weights, None, 60)
    [found] = run_layer(lambda net, slot: net.add(layer, slot), x)
    expected = x.astype(np.float64) @ weights.astype(np.float64).T
    error = np.sqrt(np.mean((found - expected) ** 2) / np.mean(expected**2))
    assert UNIT / 16 < error < UNIT * np.sqrt((RUN + 1) / 6)


def test_what_is_too_large_becomes_infinity(products, run_layer):
    """Factors from 65520 on, which round to 65536, and sums of a run; float32 holds run sums."""
    x = np.zeros((4, 64), np.float32)
    x[0, 0], x[1, 0], x[2, :2], x[3, [0, 32]] = 65519, 65520, 40000, 40000
    weights = np.ones((8, 64), np.float32)
    layer = products.product_of_rows(ConvolveFloat16, weights, None, 4)
    [found] = run_layer(lambda net, slot: net.add(layer, slot), x)
    np.testing.assert_array_equal(found, np.repeat([[65504], [np.inf], [np.inf], [80000]], 8, axis=1))


STRIPS = [(17, [(80, 1, 1), (None, 5, 1), (17, 1, 1)], True), (3, [(80, 3, 2), (None, 3, 1), (24, 1, 1)], False)]


@needs_float16
@pytest.mark.parametrize("case", STRIPS, ids=["with a residual", "from an image on"])
def test_strips_of_whole_numbers_are_exact(products, convolved, case):
    """Whole numbers, kept small by limits."""

    def weights(rng, shape):
        return whole(rng, shape, 2 if len(shape) == 4 else 3)

    images = functools.partial(whole, most=6)
    network, feeds, exact = products.chain_of(convolved, *case, (131, 93), images, weights, 6)
    for threads in (1, 2, 3):
        with products.load(network, "float16", threads=threads) as net, net.profiling() as profile:
            np.testing.assert_array_equal(net.run(feeds)["y"], exact)
        assert "CpuAcc.Strips" in [layer.kind for layer in profile.layers]


@needs_float16
def test_the_bits_depend_on_nothing_but_the_input(products):
    assert len(products.bits_of_a_network("float16", 20, ((3, 40, 3), (40, 72, 1), (72, 24, 5)), 3)) == 1
