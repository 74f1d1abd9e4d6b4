"""Elementwise references, samples and shapes against values by hand or from specifications."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dovetail import DType, Quantization
from dovetail.contract.claims import read_claims
from dovetail.layers import ActivationFunction, BinaryOperation, ComparisonOperation, UnaryOperation
from dovetail_sdk.conformance.operators import comparison, elementwise_binary, elementwise_unary
from dovetail_sdk.conformance.references import samples
from dovetail_sdk.conformance.references.fused import PARAMETERS, activated, erf
from dovetail_sdk.conformance.references.precision import UNIT, units
from dovetail_sdk.conformance.references.quantized_elementwise import combined, quantized, real
from dovetail_sdk.conformance.references.shapes import BROADCASTS, SIZES, narrowed, shape_of
from dovetail_sdk.conformance.variants import variants

DEFAULTS = {name: values[0] for name, values in SIZES.items()}


@pytest.fixture
def rng():
    return np.random.default_rng(7)


# -- samples ---------------------------------------------------------------------------------------


def test_bfloat16_is_the_upper_half_of_a_float32():
    assert samples.stored([1.0, -2.5, np.inf, 0.0], DType.BFLOAT16).tolist() == [0x3F80, 0xC020, 0x7F80, 0]
    assert samples.reals(np.asarray([0x3F80, 0xC020], np.uint16), DType.BFLOAT16).tolist() == [1.0, -2.5]
    assert samples.stored(1.0, DType.BFLOAT16).shape == ()


@pytest.mark.parametrize("dtype", samples.INTEGERS)
def test_whole_numbers_reach_both_ends(dtype, rng):
    minimum, maximum = samples.limits(dtype)
    values = samples.whole(dtype, (3, 40), rng, minimum, maximum)
    assert (int(values.min()), int(values.max())) == (minimum, maximum)
    assert values.dtype == dtype.numpy


@pytest.mark.parametrize("dtype", samples.ALL)
@pytest.mark.parametrize("shape", [(), (0, 3), (1,), (4, 5)])
def test_anything_has_the_type_and_the_edges(dtype, shape, rng):
    values = samples.anything(dtype, shape, rng)
    assert isinstance(values, np.ndarray)
    assert (values.shape, values.dtype) == (shape, dtype.numpy)
    if values.size > 5 and dtype.is_float:
        reals = samples.reals(values, dtype)
        assert np.isnan(reals).any()
        assert np.isposinf(reals).any()
        assert np.isneginf(reals).any()
    if values.size > 5 and dtype.is_integer:
        assert {int(values.min()), int(values.max())} == set(samples.limits(dtype))


# -- shapes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "shape"),
    [
        ({}, (2, 3, 4, 5)),
        ({"rank": 0}, ()),
        ({"rank": 1, "channels": 17}, (17,)),
        ({"rank": 2}, (4, 5)),
        ({"rank": 6}, (1, 2, 2, 3, 4, 5)),
        ({"rank": 5, "batch": 0}, (2, 0, 3, 4, 5)),
        ({"elements": 9, "rank": 3}, (1, 1, 9)),
        ({"elements": 2, "rank": 0}, None),
    ],
)
def test_shape_of(changes, shape):
    assert shape_of({**DEFAULTS, **changes}) == shape


def test_narrowed_shapes_broadcast_to_the_whole():
    for rank in range(7):
        whole = shape_of({**DEFAULTS, "rank": rank})
        found = {how: narrowed(whole, how) for how in BROADCASTS}
        assert all(np.broadcast_shapes(whole, one) == whole for one in found.values() if one is not None)
        assert (found["scalar"], found["none"]) == ((), whole)
    assert narrowed((2, 3, 4, 5), "channel") == (3, 1, 1)
    assert narrowed((2, 3, 4, 5), "outer") == (2, 1, 4, 1)
    assert narrowed((5,), "row") is None


def test_both_sides_of_a_claimed_limit_are_tried(rng):
    claims = read_claims({"dovetail.ElementwiseBinary": [{"dtypes": ["float32"], "where": {"output.3": {"multiple_of": 8}}}]})
    operator = elementwise_binary.OPERATOR
    tried = variants(operator, DType.FLOAT32, claims[operator.kind])
    cases = [operator.make(variant.parameters, DType.FLOAT32, rng) for variant in tried]
    widths = {case.expected[0].shape[-1] for case in cases if case is not None and case.expected[0].ndim == 4}
    assert {7, 8, 9, 16} <= widths


# -- binary ----------------------------------------------------------------------------------------


def test_every_operation_is_judged():
    covered = {*elementwise_binary._ON_REALS, *elementwise_binary._ON_INTEGERS, *elementwise_binary._ON_BOOLS}
    assert covered | {BinaryOperation.SHIFT_LEFT} == set(BinaryOperation)
    assert {*elementwise_unary.FUNCTIONS, *elementwise_unary._TO_BOOL, *elementwise_unary._ON_INTEGERS} == set(
        UnaryOperation
    ) - {UnaryOperation.LOGICAL_NOT}
    assert set(comparison._FUNCTIONS) == set(ComparisonOperation)
    assert {function for function in PARAMETERS if function is not None} == set(ActivationFunction)


@pytest.mark.parametrize(
    ("operation", "a", "b", "expected"),
    [
        # ONNX, Mod: mod_mixed_sign_int64, and the same with fmod = 1
        (BinaryOperation.MOD, [-4, 7, 5, 4, -7, 8], [2, -3, 8, -2, 3, 5], [0, -2, 5, 0, 2, 3]),
        (BinaryOperation.FMOD, [-4, 7, 5, 4, -7, 8], [2, -3, 8, -2, 3, 5], [0, 1, 5, 0, -1, 3]),
        (BinaryOperation.DIV, [-7, 7, -7, 7, 0], [2, -2, -2, 2, -3], [-3, -3, 3, 3, 0]),
        (BinaryOperation.SHIFT_RIGHT, [16, 4, 1], [1, 2, 3], [8, 1, 0]),  # ONNX, BitShift
        (BinaryOperation.POW, [1, 2, 3], [4, 5, 6], [1, 32, 729]),  # ONNX, Pow
    ],
)
def test_integers(operation, a, b, expected):
    found = elementwise_binary._combine_integers(operation, np.asarray(a), np.asarray(b), DType.INT64)
    assert found.tolist() == expected


def test_left_shift_by_the_width_gives_zero():
    a, b = np.asarray([16, 4, 1, 200, 255], np.uint8), np.asarray([1, 2, 3, 1, 8], np.uint8)
    found = elementwise_binary._combine_integers(BinaryOperation.SHIFT_LEFT, a, b, DType.UINT8)
    assert found.tolist() == [32, 16, 8, 144, 0]


@pytest.mark.parametrize("dtype", samples.INTEGERS)
def test_no_result_of_integers_overflows(dtype, rng):
    for operation, function in elementwise_binary._ON_INTEGERS.items():
        if operation is BinaryOperation.SHIFT_RIGHT and dtype.is_signed:
            continue
        a, b = elementwise_binary._integers(operation, dtype, (30, 20), (30, 20), rng)
        minimum, maximum = samples.limits(dtype)
        results = [function(p, q) for p, q in zip(a.ravel().tolist(), b.ravel().tolist(), strict=True)]
        assert minimum <= min(results), operation
        assert max(results) <= maximum, operation


@pytest.mark.parametrize(
    ("function", "x", "y"),
    [
        (None, 3.5, 3.5),
        (ActivationFunction.RELU, -1.0, 0.0),
        (ActivationFunction.BOUNDED_RELU, 7.0, 6.0),
        (ActivationFunction.BOUNDED_RELU, -3.0, -1.0),
        (ActivationFunction.LEAKY_RELU, -4.0, -0.5),
        (ActivationFunction.HARD_SWISH, 1.0, 2 / 3),
        (ActivationFunction.HARD_SWISH, -3.0, 0.0),
        (ActivationFunction.HARD_SIGMOID, 1.0, 0.75),
        (ActivationFunction.SIGMOID, 0.0, 0.5),
        (ActivationFunction.TANH, 0.5 * math.log(3), 0.5),
        (ActivationFunction.ELU, -1.0, 1.5 * (1 / math.e - 1)),
        (ActivationFunction.SWISH, math.log(3), 0.75 * math.log(3)),
        (ActivationFunction.GELU, 1.0, 0.8413447460685429),  # the normal distribution at 1
        (ActivationFunction.GELU_TANH, 1.0, 0.8411919906082768),
        (ActivationFunction.LINEAR, 2.0, 2.75),
        (ActivationFunction.THRESHOLDED_RELU, 0.75, 0.0),
        (ActivationFunction.THRESHOLDED_RELU, 1.0, 1.0),
        (ActivationFunction.SELU, 1.0, 1.05070102214813232421875),  # Klambauer et al. 2017, as float32
        (ActivationFunction.SELU, -1.0, 1.05070102214813232421875 * 1.67326319217681884765625 * (1 / math.e - 1)),
        (ActivationFunction.CELU, -0.75, 0.75 * (1 / math.e - 1)),
        (ActivationFunction.SOFTPLUS, 0.0, math.log(2)),
        (ActivationFunction.SOFTSIGN, -3.0, -0.75),
        (ActivationFunction.MISH, 0.0, 0.0),
        (ActivationFunction.MISH, math.log(math.e - 1), math.log(math.e - 1) * math.tanh(1)),
        (ActivationFunction.SHRINK, 2.0, 1.5),
        (ActivationFunction.SHRINK, -0.5, 0.0),
    ],
)
def test_fused_activations(function, x, y):
    assert activated(np.asarray([x]), function)[0] == pytest.approx(y, rel=1e-14, abs=1e-15)


def test_clamps_of_integers_stay_in_their_type():
    for dtype in (np.int8, np.uint8):
        x = np.asarray([0, 3, 100], dtype)
        assert activated(x, ActivationFunction.BOUNDED_RELU).tolist() == [0, 3, 6]
        assert activated(x, ActivationFunction.RELU).dtype == dtype
    assert activated(np.asarray([-5, -1, 9], np.int8), ActivationFunction.BOUNDED_RELU).tolist() == [-1, -1, 6]


def test_erf_of_nothing():
    assert erf(np.zeros((0, 3))).shape == (0, 3)


# -- quantized -------------------------------------------------------------------------------------


def test_quantized_addition():
    a, b, result = Quantization.per_tensor(0.5), Quantization.per_tensor(0.25, 4), Quantization.per_tensor(0.125, -3)
    x, y = np.asarray([10, 127], np.int8), np.asarray([20, 127], np.int8)
    assert real(y, b).tolist() == [4.0, 30.75]
    # 5 + 4 = 9 = 72 eighths, minus 3; 63.5 + 30.75 does not fit
    assert combined(np.add, (x, y), (a, b, result), DType.INT8).tolist() == [69, 127]
    assert combined(np.subtract, (x, y), (a, b, result), DType.INT8).tolist() == [5, 127]
    assert combined(np.multiply, (x, y), (a, b, result), DType.INT8).tolist() == [127, 127]


def test_quantized_activation_is_a_clamp_of_real_numbers():
    q = Quantization.per_tensor(0.5, 10)
    values = np.asarray([-9.0, -0.5, 2.0, 9.0])
    assert quantized(values, q, DType.UINT8).tolist() == [0, 9, 14, 28]
    assert quantized(values, q, DType.UINT8, ActivationFunction.RELU).tolist() == [10, 10, 14, 28]
    assert quantized(values, q, DType.UINT8, ActivationFunction.BOUNDED_RELU).tolist() == [8, 9, 14, 22]


# -- tolerances ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [DType.FLOAT64, DType.FLOAT32, DType.FLOAT16])
def test_units_are_those_of_numpy(dtype):
    assert UNIT[dtype] == np.finfo(dtype.numpy).eps
    tolerance = units(dtype, 3, "three")
    assert tolerance.relative == 3 * np.finfo(dtype.numpy).eps
    assert tolerance.absolute == np.finfo(dtype.numpy).tiny


@pytest.mark.parametrize("operation", sorted(set(elementwise_unary.FUNCTIONS) - {UnaryOperation.ERF}))  # NumPy has no erf
def test_a_kernel_in_the_type_itself_is_within_tolerance(operation, rng):
    """NumPy's own float32 and float16 kernels stand for a correct backend."""
    function = elementwise_unary.FUNCTIONS[operation]
    for dtype in (DType.FLOAT32, DType.FLOAT16):
        x = samples.uniform(dtype, (2000,), rng, function.low, function.high)
        exact, tolerance = function.of(x.astype(np.float64)), function.tolerance(dtype)
        error = np.abs(function.of(x).astype(np.float64) - exact)
        assert (error <= tolerance.absolute + tolerance.relative * np.abs(exact)).all()
