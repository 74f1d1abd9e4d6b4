"""Bound the error of each function over a sample of all floats, on each instruction set."""

import math

import numpy as np
import pytest

ALL = np.arange(0, 1 << 32, 4099, dtype=np.uint64).astype(np.uint32).view(np.float32)
MIN_NORMAL = 2.0**-126
SQRT_HALF = math.sqrt(0.5)

erf = np.frompyfunc(math.erf, 1, 1)
erfc = np.frompyfunc(math.erfc, 1, 1)


def sigmoid(x):
    e = np.exp(-abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


def softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-abs(x)))


def expm1_below_zero(x):
    return np.where(x < 0, np.expm1(np.minimum(x, 0)), x)


def gelu(x):
    return 0.5 * x * erfc(-x * SQRT_HALF).astype(np.float64)


def gelu_tanh(x):
    return x * sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))


# Operation or activation: its reference, and the largest error in units in the last place.
UNARY = {
    "exp": (np.exp, 1.5),
    "log": (np.log, 1.0),
    "erf": (lambda x: erf(x).astype(np.float64), 2.5),
    "sqrt": (np.sqrt, 0.5),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 1.5),
    "reciprocal": (lambda x: 1 / x, 0.5),
    "floor": (np.floor, 0),
    "ceil": (np.ceil, 0),
    "round": (np.rint, 0),
    "sign": (np.sign, 0),
    "abs": (abs, 0),
    "neg": (np.negative, 0),
    # What the library of C answers: bounds that leave room for another one.
    **{name: (getattr(np, name), 2) for name in ("sin", "cos")},
    **{name: (getattr(np, name), 4) for name in ("sinh", "cosh")},
    "tan": (np.tan, 3),
    **{f"a{name}": (getattr(np, f"arc{name}"), 3) for name in ("sin", "cos", "tan")},
    **{f"a{name}": (getattr(np, f"arc{name}"), 4) for name in ("sinh", "cosh", "tanh")},
}
ACTIVATIONS = {
    "sigmoid": (sigmoid, 2.5),
    "tanh": (np.tanh, 2.5),
    "softplus": (softplus, 2.0),
    "softsign": (lambda x: x / (1 + abs(x)), 1.5),
    "elu": (expm1_below_zero, 1.5),
    "celu": (expm1_below_zero, 1.5),
    "selu": (expm1_below_zero, 1.5),
    "relu": (lambda x: np.where(x < 0, 0, x), 0),
    "thresholded_relu": (lambda x: np.where(x <= 1, 0, x), 0),
    "leaky_relu": (lambda x: x, 0),
}
# Where a factor of the result is no normal number, or tiny: the error beside, in units of the
# argument.
PRODUCTS = {
    "swish": (lambda x: x * sigmoid(x), 3.0, 2.0**-149),
    "mish": (lambda x: x * np.tanh(softplus(x)), 3.5, 2.0**-149),
    "gelu": (gelu, 4.0, 2.0**-23),
    "gelu_tanh": (gelu_tanh, 4.0, 2.0**-23),
    "hard_swish": (lambda x: x * np.clip(x / 6 + 0.5, 0, 1), 3.0, 1e-7),
}


def errors_of(y, expected):
    """Errors in units in the last place; 0 where both are NaN, infinite where one is."""
    y = y.astype(np.float64)
    size = np.maximum(abs(expected), MIN_NORMAL)
    unit = np.exp2(np.floor(np.log2(np.where(np.isfinite(size), size, 1.0))) - 23)
    with np.errstate(over="ignore"):
        rounded = expected.astype(np.float32)
    far = np.where((y == rounded) & ~np.isfinite(rounded), 0.0, abs(y - expected) / unit)
    return np.where(np.isnan(y) & np.isnan(expected), 0.0, np.where(np.isnan(far), np.inf, far))


def check(y, x, expected, most, beside=0.0):
    errors = errors_of(y, expected)
    inside = (errors <= most) | (abs(y - expected) <= beside * abs(x))
    worst = int(np.where(inside, 0, errors).argmax())
    assert inside.all(), f"f({x[worst]!r}) is {y[worst]!r}, {errors[worst]:.3g} units from {expected[worst]!r}"


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


@pytest.mark.parametrize("name", UNARY)
def test_unary(run_layer, name):
    reference, most = UNARY[name]
    [y] = run_layer(lambda net, x: net.unary(x, name), ALL)
    check(y, ALL, reference(ALL.astype(np.float64)), most)


def test_the_sign_of_a_negative_zero_is_zero(run_layer):
    [y] = run_layer(lambda net, x: net.unary(x, "sign"), np.resize(np.array([-0.0, 0.0, -2, 3, np.nan], np.float32), 37))
    assert not np.signbit(y[y == 0]).any()


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(run_layer, name):
    reference, most = ACTIVATIONS[name]
    [y] = run_layer(lambda net, x: net.activation(x, name, 1.0, 1.0), ALL)
    check(y, ALL, reference(ALL.astype(np.float64)), most)


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_with_the_argument(run_layer, name):
    reference, most, beside = PRODUCTS[name]
    [y] = run_layer(lambda net, x: net.activation(x, name, 1.0, 0.0), ALL)
    check(y, ALL, reference(ALL.astype(np.float64)), most, beside)


@pytest.mark.parametrize("name", ["gelu", "gelu_tanh"])
def test_digits_are_left_far_below_zero(run_layer, name):
    x = np.linspace(-5.6, -2, 1001, dtype=np.float32)
    [y] = run_layer(lambda net, slot: net.activation(slot, name), x)
    np.testing.assert_allclose(y, PRODUCTS[name][0](x.astype(np.float64)), rtol=1e-3)


@pytest.mark.parametrize(
    ("name", "alpha", "beta", "reference"),
    [
        ("linear", 1.5, -0.25, lambda x: 1.5 * x - 0.25),
        ("bounded_relu", 6.0, -1.0, lambda x: np.clip(x, -1, 6)),
        ("leaky_relu", 0.25, 0.0, lambda x: np.where(x < 0, 0.25 * x, x)),
        ("thresholded_relu", 0.75, 0.0, lambda x: np.where(x <= 0.75, 0, x)),
        ("elu", 0.5, 0.0, lambda x: np.where(x < 0, 0.5 * np.expm1(np.minimum(x, 0)), x)),
        ("selu", 1.5, 2.0, lambda x: 2 * np.where(x > 0, x, 1.5 * np.expm1(np.minimum(x, 0)))),
        ("celu", 0.75, 0.0, lambda x: np.where(x < 0, 0.75 * np.expm1(np.minimum(x, 0) / 0.75), x)),
        ("hard_sigmoid", 0.25, 0.5, lambda x: np.clip(0.25 * x + 0.5, 0, 1)),
        ("swish", 0.5, 0.0, lambda x: x * sigmoid(0.5 * x)),
        ("shrink", 0.5, 0.25, lambda x: np.where(x < -0.5, x + 0.25, np.where(x > 0.5, x - 0.25, np.where(x == x, 0, x)))),
    ],
)
@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 1000])
def test_parameters(run_layer, name, alpha, beta, reference, size):
    x = (np.random.default_rng(size).standard_normal(size) * 3).astype(np.float32)
    x[: min(size, 3)] = [np.nan, 0.5, -0.5][: min(size, 3)]
    [y] = run_layer(lambda net, slot: net.activation(slot, name, alpha, beta), x)
    np.testing.assert_allclose(y, reference(x.astype(np.float64)), rtol=3e-7, atol=3e-7)


def test_results_do_not_depend_on_the_position(run_layer):
    """The last lanes, the chunks and the whole vectors compute the same."""
    x = (np.random.default_rng(1).standard_normal(100) * 5).astype(np.float32)
    [whole] = run_layer(lambda net, slot: net.activation(slot, "gelu"), x)
    for first in range(1, 40, 7):
        [part] = run_layer(lambda net, slot: net.activation(slot, "gelu"), x[first:])
        np.testing.assert_array_equal(part, whole[first:])
