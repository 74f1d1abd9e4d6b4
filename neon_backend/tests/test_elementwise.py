"""Binary layers against NumPy in float64, with each instruction set of this machine."""

import numpy as np
import pytest

from dovetail.layers import ActivationFunction, BinaryOperation, ElementwiseBinary

SHAPES = [
    ((), ()),
    ((7,), (7,)),
    ((1000,), ()),
    ((), (33,)),
    ((3, 5, 7), (7,)),
    ((7,), (3, 5, 7)),
    ((2, 3, 4, 5), (2, 3, 1, 1)),
    ((2, 3, 1, 1), (2, 3, 4, 5)),
    ((2, 1, 4, 1), (1, 3, 1, 5)),
    ((4, 1), (1, 6)),
    ((5, 200), (5, 1)),
    ((3, 1, 66), (1, 4, 66)),
    ((2, 1, 3, 1, 2, 1, 3, 17), (1, 2, 1, 3, 1, 2, 1, 17)),
    ((0, 3), (3,)),
    ((3, 0), (3, 1)),
    ((40000,), (40000,)),
    ((3, 5000), (5000,)),
]


OPERATIONS = ["add", "sub", "mul", "div", "maximum", "minimum", "squared_difference", "pow", "mod", "fmod"]


def sample(shape, seed):
    return np.asarray(np.random.default_rng(seed).standard_normal(shape), np.float32)


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_broadcast(run_layer, binary, operation, shapes):
    a, b = (sample(shape, seed) for seed, shape in enumerate(shapes))
    if operation == "pow":
        a = abs(a)
    [y] = run_layer(lambda net, x, z: net.binary(x, z, operation), a, b)
    expected = binary[operation](a.astype(np.float64), b.astype(np.float64))
    assert y.shape == expected.shape
    np.testing.assert_allclose(y, expected, rtol=4e-7, atol=1e-7)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_values_that_are_not_finite(run_layer, binary, operation):
    special = np.array([np.nan, np.inf, -np.inf, 0.0, 1.0, -1.0, 0.5, 2.0, 3.0, -2.5, 1e-40, 3e38], np.float32)
    a, b = (grid.reshape(-1) for grid in np.meshgrid(special, special))
    [y] = run_layer(lambda net, x, z: net.binary(x, z, operation), a, b)
    single = binary[operation](a, b)
    np.testing.assert_allclose(y, single.astype(np.float32), rtol=4e-7)


@pytest.mark.parametrize("exponent", [2.0, 3.0, 0.5, -1.0, 1.7])
def test_power_by_one_exponent(run_layer, exponent):
    a = np.concatenate([sample(67, 1), np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, 1e30], np.float32)])
    [y] = run_layer(lambda net, x, z: net.binary(x, z, "pow"), a, np.float32(exponent))
    # One exponent for all would be NumPy's own shortcut, which gives NaN for the root of -infinity.
    expected = np.power(a.astype(np.float64), np.full(a.shape, exponent)).astype(np.float32)
    np.testing.assert_allclose(y, expected, rtol=4e-7)
    np.testing.assert_array_equal(np.signbit(y[~np.isnan(expected)]), np.signbit(expected[~np.isnan(expected)]))


@pytest.mark.parametrize("operation", ["maximum", "minimum"])
def test_nan_wins(run_layer, operation):
    a, b = np.array([np.nan, 1.0, np.nan] * 11, np.float32), np.array([1.0, np.nan, np.nan] * 11, np.float32)
    [y] = run_layer(lambda net, x, z: net.binary(x, z, operation), a, b)
    assert np.isnan(y).all()


@pytest.mark.parametrize("shapes", [((3, 200), (3, 200)), ((3, 200), (3, 1)), ((200,), (3, 200)), ((1,), (7,))])
def test_activation_of_the_result(run_layer, shapes):
    a, b = sample(shapes[0], 1), sample(shapes[1], 2)
    descriptor = ElementwiseBinary(
        operation=BinaryOperation.MUL, activation=ActivationFunction.BOUNDED_RELU, activation_alpha=0.5, activation_beta=-0.25
    )
    [y] = run_layer(lambda net, x, z: net.add(descriptor, x, z), a, b)
    np.testing.assert_array_equal(y, np.clip(a * b, np.float32(-0.25), np.float32(0.5)))


@pytest.mark.parametrize("slope", [(3, 1, 1), (), (5,), (2, 3, 4, 5)])
def test_prelu(run_layer, slope):
    x, s = sample((2, 3, 4, 5), 1), sample(slope, 2)
    x[0, 0, 0, :3] = np.nan, -0.0, -np.inf
    [y] = run_layer(lambda net, a, b: net.prelu(a, b), x, s)
    np.testing.assert_array_equal(y, np.where(x >= 0, x, s * x))
