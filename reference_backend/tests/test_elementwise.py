"""Check elementwise kinds against NumPy, exact Python integers, and TensorFlow Lite's rules."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dovetail import Device, DType, Quantization, TensorInfo
from dovetail.layers import ActivationFunction, BinaryOperation, ElementwiseBinary, UnaryOperation
from dovetail_reference import ReferenceBackend

FLOATS = ["float64", "float32", "float16", "bfloat16"]
INTEGERS = [d.label for d in DType if d.is_integer]


def _erf(x):
    return np.vectorize(math.erf, otypes=[np.float64])(x)


UNARY = {
    "abs": np.abs,
    "neg": np.negative,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "exp": np.exp,
    "log": np.log,
    "erf": _erf,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "sign": np.sign,
}
BINARY = ["add", "sub", "mul", "div", "maximum", "minimum", "pow", "mod", "fmod", "squared_difference"]
TO_BOOL = {"is_nan": np.isnan, "is_inf": np.isinf, "is_positive_inf": np.isposinf, "is_negative_inf": np.isneginf}


def truncated(a: int, b: int) -> int:
    quotient = abs(a) // abs(b) if b else 0
    return -quotient if (a < 0) != (b < 0) else quotient


def shifted_right(a: int, b: int) -> int:
    return (-1 if a < 0 else 0) if b < 0 else a >> b


INTEGER = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": truncated,
    "maximum": max,
    "minimum": min,
    "mod": lambda a, b: a % b if b else 0,
    "fmod": lambda a, b: a - b * truncated(a, b) if b else 0,
    "squared_difference": lambda a, b: (a - b) ** 2,
    "bitwise_and": lambda a, b: a & b,
    "bitwise_or": lambda a, b: a | b,
    "bitwise_xor": lambda a, b: a ^ b,
}


def test_every_operation_is_tested():
    assert {*UNARY, *TO_BOOL, "logical_not", "bitwise_not"} == {o.value for o in UnaryOperation}
    shifts, logical = {"shift_left", "shift_right"}, {"logical_and", "logical_or", "logical_xor"}
    assert {*BINARY, *INTEGER, *shifts, *logical} == {o.value for o in BinaryOperation}


@pytest.mark.parametrize("label", FLOATS)
@pytest.mark.parametrize("operation", UNARY)
def test_unary_of_floats(run_layer, samples, operation, label):
    special = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, np.inf, -np.inf, np.nan, 80.0, -80.0]
    x = np.concatenate([samples.array(label, 300), np.asarray(special).astype(samples.dtype(label))]).reshape(1, -1)
    with np.errstate(all="ignore"):
        [y] = run_layer(lambda net, a: net.unary(a, operation), x)
        assert y.dtype == x.dtype
        samples.rounded_equal(y, UNARY[operation](x.astype(np.float64)), ulps=4 if label == "float64" else 1)


@pytest.mark.parametrize("label", FLOATS)
@pytest.mark.parametrize("operation", TO_BOOL)
def test_unary_to_bool(run_layer, samples, operation, label):
    x = np.asarray([0.0, 1.0, np.nan, np.inf, -np.inf]).astype(samples.dtype(label))
    [y] = run_layer(lambda net, a: net.unary(a, operation), x)
    samples.same_bits(y, TO_BOOL[operation](x.astype(np.float64)))


@pytest.mark.parametrize("label", INTEGERS)
@pytest.mark.parametrize("operation", ["abs", "neg", "sign", "floor", "ceil", "round", "bitwise_not"])
def test_unary_of_integers(run_layer, samples, operation, label):
    limits = np.iinfo(samples.dtype(label))
    x = np.concatenate([samples.array(label, 99), np.asarray([0, 1, limits.min, limits.max], limits.dtype)])
    [y] = run_layer(lambda net, a: net.unary(a, operation), x)
    exact = {"abs": abs, "neg": lambda v: -v, "sign": lambda v: (v > 0) - (v < 0), "bitwise_not": lambda v: ~v}
    assert y.tolist() == [samples.wrapped(exact.get(operation, int)(v), label) for v in x.tolist()]


def test_logical_not(run_layer):
    x = np.asarray([[True, False], [False, False]])
    assert np.array_equal(run_layer(lambda net, a: net.unary(a, "logical_not"), x)[0], ~x)


@pytest.mark.parametrize("label", FLOATS)
@pytest.mark.parametrize("operation", BINARY)
def test_binary_of_floats(run_layer, reference, samples, operation, label):
    special = np.asarray([0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan, 3.0]).astype(samples.dtype(label))
    a = np.concatenate([samples.array(label, 300, 1), np.repeat(special, 8)])
    b = np.concatenate([samples.array(label, 300, 2), np.tile(special, 8)])
    if operation == "pow":
        a = np.concatenate([np.abs(a[:200]), a[200:]])
    with np.errstate(all="ignore"):
        [y] = run_layer(lambda net, p, q: net.binary(p, q, operation), a, b)
        exact = reference.BINARY[operation](a.astype(np.float64), b.astype(np.float64))
        samples.rounded_equal(y, exact, ulps=2 if label == "float64" else 1)


@pytest.mark.parametrize("label", ["float32", "float16"])
@pytest.mark.parametrize("operation", ["add", "sub", "mul", "div"])
def test_arithmetic_has_the_bits_of_ieee(run_layer, reference, samples, operation, label):
    """Double, rounded once, is what the narrow type itself gives."""
    a, b = samples.array(label, 5000, 3), samples.array(label, 5000, 4)
    with np.errstate(all="ignore"):
        samples.same_bits(run_layer(lambda net, p, q: net.binary(p, q, operation), a, b)[0], reference.BINARY[operation](a, b))


@pytest.mark.parametrize("label", INTEGERS)
@pytest.mark.parametrize("operation", INTEGER)
def test_binary_of_integers(run_layer, samples, operation, label):
    limits = np.iinfo(samples.dtype(label))
    edges = np.asarray([0, 1, 2, 3, limits.min, limits.max, limits.max // 2 + 1, 7], limits.dtype)
    edges[-1] = -1 if limits.min else 7
    a = np.concatenate([samples.array(label, 200, 1), np.repeat(edges, 8)])
    b = np.concatenate([samples.small(label, 100, 2), samples.array(label, 100, 3), np.tile(edges, 8)])
    [y] = run_layer(lambda net, p, q: net.binary(p, q, operation), a, b)
    assert y.tolist() == [samples.wrapped(INTEGER[operation](p, q), label) for p, q in zip(a.tolist(), b.tolist(), strict=True)]


@pytest.mark.parametrize("label", INTEGERS)
def test_shifts(run_layer, samples, label):
    bits = DType.of(label).bits
    a = np.repeat(samples.array(label, 20, 5), 6)
    b = np.tile(np.asarray([0, 1, bits - 1, bits, bits + 1, 100], samples.dtype(label)), 20)
    pairs = list(zip(a.tolist(), b.tolist(), strict=True))
    [left] = run_layer(lambda net, p, q: net.binary(p, q, "shift_left"), a, b)
    assert left.tolist() == [samples.wrapped(p << q, label) for p, q in pairs]
    [right] = run_layer(lambda net, p, q: net.binary(p, q, "shift_right"), a, b)
    assert right.tolist() == [shifted_right(p, q) for p, q in pairs]


@pytest.mark.parametrize("operation", ["logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor"])
def test_logic(run_layer, operation):
    a, b = np.asarray([[True], [False]]), np.asarray([[True, False]])
    [y] = run_layer(lambda net, p, q: net.binary(p, q, operation), a, b)
    assert np.array_equal(y, {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}[operation.split("_")[1]](a, b))


@pytest.mark.parametrize("base", ["float32", "float16", "bfloat16", "float64", "int32", "int64", "uint8"])
@pytest.mark.parametrize("exponent", ["float32", "float64", "bfloat16", "int8", "int32", "int64", "uint64"])
def test_pow_takes_another_exponent(run_layer, samples, base, exponent):
    a = samples.small(base, (4, 5), 1, maximum=5)
    b = np.asarray([0, 1, 2, 3, 5]).astype(samples.dtype(exponent))
    [y] = run_layer(lambda net, p, q: net.binary(p, q, "pow"), a, b)
    exact = a.astype(np.float64) ** b.astype(np.float64)
    if DType.of(base).is_integer:
        assert y.tolist() == [[samples.wrapped(int(v), base) for v in row] for row in exact]
    else:
        samples.rounded_equal(y, exact)


def test_pow_of_integers_with_negative_exponents(run_layer, samples):
    a = np.asarray([0, 1, -1, -1, 2, -2, 3], np.int32)
    b = np.asarray([-1, -5, -3, -4, -1, -3, 40], np.int32)
    [y] = run_layer(lambda net, p, q: net.binary(p, q, "pow"), a, b)
    assert y.tolist() == [0, 1, -1, 1, 0, 0, samples.wrapped(3**40, "int32")]


SHAPES = [
    ((), ()),
    ((3,), ()),
    ((), (2, 3)),
    ((2, 1, 3), (4, 1)),
    ((5, 1), (1, 7)),
    ((2, 3, 4), (3, 4)),
    ((3, 4), (2, 3, 4)),
    ((2, 3, 4), (2, 1, 4)),
    ((1, 3, 1, 5), (2, 3, 4, 1)),
    ((2, 1, 2, 1, 2), (1, 3, 1, 3, 1)),
    ((0, 3), (1, 3)),
    ((2, 0), (1,)),
    ((1, 600), (3, 1)),
    ((300, 2), (1, 2)),
]


@pytest.mark.parametrize(("left", "right"), SHAPES)
@pytest.mark.parametrize("label", ["float32", "int16"])
def test_broadcast(run_layer, samples, label, left, right):
    a, b = samples.small(label, left, 1), samples.small(label, right, 2)
    [y] = run_layer(lambda net, p, q: net.subtraction(p, q), a, b)
    samples.same_bits(y, a - b)


@pytest.mark.parametrize("in_place", [0, 1])
def test_in_place(run_layer, in_place):
    a, b = np.arange(12, dtype=np.float32).reshape(3, 4), np.arange(4, dtype=np.float32)
    if in_place:
        assert np.array_equal(run_layer(lambda net, p, q: net.subtraction(p, q), b, a, in_place=1)[0], b - a)
    else:
        assert np.array_equal(run_layer(lambda net, p, q: net.subtraction(p, q), a, b, in_place=0)[0], a - b)


def _fused(operation, activation, alpha=0.0, beta=0.0):
    descriptor = ElementwiseBinary(
        operation=BinaryOperation(operation),
        activation=activation and ActivationFunction(activation),
        activation_alpha=alpha,
        activation_beta=beta,
    )
    return lambda net, p, q: net.add(descriptor, p, q).output


def test_fused_activation(run_layer, samples):
    a, b = samples.array("float32", (7, 9), 1), samples.array("float32", (9,), 2)
    total = a.astype(np.float64) + b
    [y] = run_layer(_fused("add", "bounded_relu", 6.0, 0.0), a, b)
    samples.rounded_equal(y, np.clip(total, 0, 6), 0)
    [y] = run_layer(_fused("add", "tanh"), a, b)
    samples.rounded_equal(y, np.tanh(total))
    [y] = run_layer(_fused("sub", "relu"), np.asarray([3, 100, 5], np.int8), np.asarray([5, -100, 1], np.int8))
    assert y.tolist() == [0, 0, 4]  # 200 wraps to -56 before the activation sees it


# -- quantized -------------------------------------------------------------------------------------


def _round_away(numerator: int, denominator: int) -> int:
    magnitude = (2 * abs(numerator) + denominator) // (2 * denominator)
    return -magnitude if numerator < 0 else magnitude


def fixed_point(x: int, factor: float) -> int:
    """TensorFlow Lite's MultiplyByQuantizedMultiplier, in unbounded integers."""
    mantissa, shift = math.frexp(factor)
    multiplier = math.floor(mantissa * 2**31 + 0.5)
    if multiplier == 2**31:
        multiplier, shift = multiplier // 2, shift + 1
    product = x * 2 ** max(shift, 0) * multiplier
    nudge = 2**30 if product >= 0 else 1 - 2**30
    high = abs(product + nudge) // 2**31 * (1 if product + nudge >= 0 else -1)
    return _round_away(high, 2 ** max(-shift, 0))


def quantized(operation, p, q, qa, qb, qy):
    sa, sb, sy = (np.float32(v.scale[0]) for v in (qa, qb, qy))
    x, y = p - qa.zero_point[0], q - qb.zero_point[0]
    if operation == "mul":
        return fixed_point(x * y, float(sa * sb / sy)) + qy.zero_point[0]
    widest = 2 * float(max(sa, sb))
    left, right = fixed_point(x << 20, float(sa) / widest), fixed_point(y << 20, float(sb) / widest)
    total = left + right if operation == "add" else left - right
    return fixed_point(total, widest / (2**20 * float(sy))) + qy.zero_point[0]


@pytest.mark.parametrize("scales", [(0.05, 0.02, 0.1), (0.5, 0.003, 0.7), (1.0, 1.0, 1.0), (0.013, 0.25, 0.011)])
@pytest.mark.parametrize("operation", ["add", "sub", "mul"])
@pytest.mark.parametrize("label", ["int8", "uint8"])
def test_quantized_follows_tensorflow_lite(run_layer, samples, label, operation, scales):
    zeros = (3, -7, 5) if label == "int8" else (120, 131, 128)
    qa, qb, qy = (Quantization.per_tensor(s, z) for s, z in zip(scales, zeros, strict=True))
    a, b = samples.array(label, (40, 30), 1), samples.array(label, (30,), 2)

    def build(net, p, q):
        y = net.binary(p, q, operation)
        y.quantization = qy
        net.infer(y.layer)
        return y

    [found] = run_layer(build, a, b, quantizations=[qa, qb])
    limits = np.iinfo(a.dtype)
    pairs = zip(*(v.ravel().tolist() for v in np.broadcast_arrays(a, b)), strict=True)
    expected = [min(max(quantized(operation, p, q, qa, qb, qy), limits.min), limits.max) for p, q in pairs]
    assert found.ravel().tolist() == expected


def test_quantized_activation_clamps(run_layer, samples):
    q = Quantization.per_tensor(0.05, -10)
    a, b = samples.array("int8", 500, 1), samples.array("int8", 500, 2)

    def build(activation, alpha=0.0):
        def made(net, p, r):
            y = _fused("add", activation, alpha)(net, p, r)
            y.quantization = q
            net.infer(y.layer)
            return y

        return made

    plain, relu, relu6 = (
        run_layer(build(*f), a, b, quantizations=[q, q])[0] for f in [(None,), ("relu",), ("bounded_relu", 6.0)]
    )
    assert np.array_equal(relu, np.maximum(plain, -10))
    assert np.array_equal(relu6, np.clip(plain, -10, 110))


@pytest.mark.parametrize(
    ("result", "activation", "code"),
    [((0.05, -10), None, ""), ((0.07, -10), None, "quantization"), ((0.05, -10), "relu", "attribute")],
)
def test_quantized_maximum_compares_integers_that_mean_the_same(direct, result, activation, code):
    q = Quantization.per_tensor(0.05, -10)
    x = np.zeros(8, np.int8)

    def build(net, a, b):
        y = _fused("maximum", activation)(net, a, b)
        y.quantization = Quantization.per_tensor(*result)
        net.infer(y.layer)
        return y

    layer, _ = direct.build_layer(build, x, x, quantizations=[q, q])
    assert ReferenceBackend().supports(layer, None, Device()).code == code


def test_quantized_unary_goes_through_real_numbers(run_layer):
    q = Quantization.per_tensor(0.02, 1)
    x = np.arange(-128, 128, dtype=np.int8)

    def build(net, p):
        y = net.unary(p, "exp")
        y.quantization = Quantization.per_tensor(0.1, -100)
        net.infer(y.layer)
        return y

    [y] = run_layer(build, x, quantizations=[q], in_place=0)
    exact = np.exp((x.astype(np.float64) - 1) * 0.02) / 0.1 - 100
    assert np.abs(y - np.clip(exact, -128, 127)).max() <= 0.5001


# -- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "labels", "code"),
    [
        (_fused("add", "tanh"), ["int32", "int32"], "attribute"),
    ],
)
def test_refusals_have_a_reason(direct, samples, build, labels, code):
    from dovetail_reference import ReferenceBackend

    layer, _ = direct.build_layer(build, *(samples.array(label, 3) for label in labels))
    support = ReferenceBackend().supports(layer, None, Device())
    assert not support.supported
    assert support.code == code
    assert support.reason


def test_cancelled(run_layer, direct):
    x = np.zeros((300, 300), np.float32)
    with pytest.raises(direct.Cancelled):
        run_layer(lambda net, a, b: net.addition(a, b), x, x, cancel=True)
    with pytest.raises(direct.Cancelled):
        run_layer(lambda net, a: net.unary(a, "exp"), x, cancel=True)


def test_a_clamp_beyond_the_type_saturates(run_layer):
    """50 / 0.05 + 3 does not fit int8."""
    q = Quantization.per_tensor(0.05, 3)

    def build(net, a, b):
        y = _fused("add", "bounded_relu", 100.0, 50.0)(net, a, b)
        y.quantization = q
        net.infer(y.layer)
        return y

    zeros = np.zeros(4, np.int8)
    [y] = run_layer(build, zeros, zeros, quantizations=[q, q])
    np.testing.assert_array_equal(y, np.full(4, 127, np.int8))


@pytest.mark.parametrize("operation", ["div", "mod", "fmod", "add", "sub", "mul"])
@pytest.mark.parametrize("label", INTEGERS)
def test_what_is_folded_is_what_the_kernel_computes(run_layer, label, operation):
    """At the ends of every integer type, divisors of zero and of minus one included."""
    limits = np.iinfo(label)
    minimum, maximum = int(limits.min), int(limits.max)
    ends = {
        minimum,
        minimum + 1,
        minimum // 2,
        max(minimum, -2),
        max(minimum, -1),
        0,
        1,
        2,
        3,
        maximum // 2,
        maximum - 1,
        maximum,
    }
    a, b = (grid.reshape(-1) for grid in np.meshgrid(*[np.array(sorted(ends), label)] * 2))
    [found] = run_layer(lambda net, x, y: net.binary(x, y, operation), a, b)
    with np.errstate(all="ignore"):
        infos = [TensorInfo.of_array(a), TensorInfo.of_array(b)]
        [folded] = ElementwiseBinary(operation=BinaryOperation(operation)).evaluate(infos, [a, b])
    assert np.array_equal(folded, found)
    if operation == "div":
        bits = limits.bits
        pairs = zip(a.tolist(), b.tolist(), strict=True)
        exact = [0 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1) for x, y in pairs]
        wrapped = [(value - minimum) % 2**bits + minimum for value in exact]
        assert folded.tolist() == wrapped
