"""References of windows, products and activations by hand; cases see one missing term."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

from dovetail import Device, DType, Network, Quantization
from dovetail.contract.claims import read_claims
from dovetail.layers import ActivationFunction, PoolingFunction
from dovetail_sdk.conformance.comparing import mismatch, to_bfloat16
from dovetail_sdk.conformance.operators import mat_mul, prelu, softmax
from dovetail_sdk.conformance.references import activations, pooling, products, quantized, windows
from dovetail_sdk.conformance.trials import add_case
from dovetail_sdk.conformance.variants import variants

NINE = np.arange(1.0, 10.0).reshape(1, 1, 3, 3)


def operator(name):
    """The module of a kind, and its OPERATOR."""
    module = importlib.import_module(f"dovetail_sdk.conformance.operators.{name}")
    return module, module.OPERATOR


# -- windows ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "window", "stride", "before", "after", "dilation", "whole", "partial"),
    [
        (3, 2, 1, 0, 0, 1, 2, 2),
        (5, 2, 2, 0, 0, 1, 2, 3),
        (6, 3, 2, 1, 1, 1, 3, 4),
        (5, 3, 1, 0, 0, 2, 1, 1),
        (4, 2, 3, 0, 2, 1, 2, 2),  # a third window would start at 6, in the padding
        (1, 3, 1, 0, 0, 1, 0, 0),
        (2, 1, 3, 0, 2, 1, 2, 1),
    ],
)
def test_positions_of_a_window(size, window, stride, before, after, dilation, whole, partial):
    assert windows.positions(size, window, stride, before, after, dilation) == whole
    assert windows.positions(size, window, stride, before, after, dilation, partial=True) == partial


def test_a_convolution_by_hand():
    weights = np.asarray([[[[1.0, 10.0], [100.0, 1000.0]]]])
    assert windows.convolution(NINE, weights).tolist() == [[[[5421, 6532], [8754, 9865]]]]
    assert windows.convolution(NINE, weights, stride=(2, 2), padding=(1, 1, 0, 0)).tolist() == [[[[1000, 3200], [7040, 9865]]]]
    assert windows.convolution(NINE, weights, dilation=(2, 2)).tolist() == [[[[9731]]]]


def test_groups_read_their_own_channels():
    x = np.asarray([1, 2, 3, 4], np.int64).reshape(1, 4, 1, 1)
    weights = np.asarray([[1, 10], [100, 1000]], np.int64).reshape(2, 2, 1, 1)
    result = windows.convolution(x, weights, groups=2)
    assert result.reshape(-1).tolist() == [21, 4300]
    assert result.dtype == np.int64


def test_depthwise_filters_of_one_channel_are_neighbours():
    x = np.asarray([1.0, 2.0]).reshape(1, 2, 1, 1)
    weights = np.asarray([3.0, 5.0, 7.0, 11.0]).reshape(4, 1, 1, 1)
    assert windows.depthwise(x, weights, (1, 1), (0, 0, 0, 0), (1, 1)).reshape(-1).tolist() == [3, 5, 14, 22]


def test_a_transposed_convolution_by_hand():
    x = np.asarray([1.0, 2.0]).reshape(1, 1, 1, 2)
    weights = np.asarray([1.0, 10.0, 100.0]).reshape(1, 1, 1, 3)
    plain = windows.transpose_convolution(x, weights, (1, 2), (0, 0, 0, 0), (1, 1))
    assert plain.reshape(-1).tolist() == [1, 10, 102, 20, 200]
    padded = windows.transpose_convolution(x, weights, (1, 2), (0, 1, 0, 2), (1, 1), output_padding=(0, 1))
    assert padded.reshape(-1).tolist() == [10, 102, 20]
    spread = windows.transpose_convolution(x, weights, (1, 1), (0, 0, 0, 0), (1, 2))
    assert spread.reshape(-1).tolist() == [1, 2, 10, 20, 100, 200]


def test_a_transposed_convolution_is_the_gradient_of_a_convolution():
    rng = np.random.default_rng(0)
    options = {"stride": (2, 3), "padding": (1, 0, 2, 1), "dilation": (2, 1), "groups": 2}
    weights, x = rng.standard_normal((6, 2, 3, 2)), rng.standard_normal((2, 4, 9, 8))
    y = windows.convolution(x, weights, **options)
    other = rng.standard_normal(y.shape)
    # Windows leave one row and one column of the input unread; output padding makes up for them.
    back = windows.transpose_convolution(other, weights, output_padding=(1, 1), **options)
    assert back.shape == x.shape
    assert np.sum(back * x) == pytest.approx(np.sum(other * y), rel=1e-12)


# -- sums of products ------------------------------------------------------------------------------


def test_quantized_sums_by_hand():
    x, weights = np.asarray([[3, -5]], np.int8), np.asarray([[2, 4]], np.int8)
    quantizations = (Quantization.per_tensor(0.5, 1), Quantization.per_tensor(0.25, 0), Quantization.per_tensor(0.5, 10))
    # (3 - 1) * 2 + (-5 - 1) * 4 + 8 = -12; -12 * 0.125 = -1.5; -1.5 / 0.5 + 10 = 7
    litert = quantized.CONVOLUTIONS
    got, bits = quantized.quantized_sums(
        lambda a, b: a @ b.T, (x, weights), np.asarray([8]), quantizations, 1, DType.INT8, litert=litert
    )
    assert got.tolist() == bits["litert"].values.tolist() == bits["onnx"].values.tolist() == [[7]]
    quantizations = (quantizations[0], Quantization.per_axis([0.25, 1.0], axis=0), quantizations[2])
    weights = np.asarray([[2, 4], [1, 1]], np.int8)
    got, _ = quantized.quantized_sums(lambda a, b: a @ b.T, (x, weights), None, quantizations, 1, DType.INT8, litert=litert)
    assert got.tolist() == [[5, 6]]  # -20 * 0.125 / 0.5 + 10 and -4 * 0.5 / 0.5 + 10


def test_each_standard_breaks_a_tie_by_its_own_rule():
    """Sums of 1, 3 and 5 halves, either sign, and an even zero point."""
    sums = 4 * np.asarray([[1, -1, 3, -3, 5, -5]], np.int8)
    scales = (Quantization.per_tensor(0.5, 0), Quantization.per_tensor(0.25, 0), Quantization.per_tensor(1.0, 10))
    litert = quantized.CONVOLUTIONS
    _, bits = quantized.quantized_sums(lambda a, b: a, (sums, sums), None, scales, 1, DType.INT8, litert=litert)
    assert (bits["litert"].values - 10).tolist() == [[1, -1, 2, -2, 3, -3]]  # away from zero
    assert (bits["onnx"].values - 10).tolist() == [[0, 0, 2, -2, 2, -2]]  # to even
    assert not bits["onnx"].undefined.any()


def test_every_order_of_a_float32_sum_is_within_its_tolerance():
    rng = np.random.default_rng(3)
    for terms in (1, 9, 100, 3000):
        a = products.operand(DType.FLOAT32, (terms,), rng)
        b = products.operand(DType.FLOAT32, (terms,), rng, products.weight_scale(terms))
        exact = float(np.dot(a.astype(np.float64), b.astype(np.float64)))
        tolerance = products.sum_tolerance(terms, float(np.abs(a.astype(np.float64) * b).sum()), DType.FLOAT32)
        terms32 = a * b
        for order in (np.arange(terms), np.argsort(terms32), np.argsort(-np.abs(terms32)), rng.permutation(terms)):
            running = np.float32(0)
            for value in terms32[order]:
                running = np.float32(running + value)
            assert abs(float(running) - exact) <= tolerance.absolute


def differing(module, op, dtype, patch, monkeypatch):
    """Return (label, mismatch text) of cases whose values change with a patched reference."""
    made = variants(op, dtype, ())
    right = {v.label: op.make(v.parameters, dtype, np.random.default_rng(1)) for v in made}
    with monkeypatch.context() as context:
        context.setattr(module, *patch(module))
        wrong = {v.label: op.make(v.parameters, dtype, np.random.default_rng(1)) for v in made}
    for label, case in right.items():
        if case is None:
            continue
        good, bad, tolerance = case.expected[0], wrong[label].expected[0], case.tolerances[0]
        if good.size and (good != bad).any():
            network = Network("case")
            [slot] = add_case(network, case, "case")[1]
            assert slot.dtype is dtype
            got = to_bfloat16(bad) if dtype is DType.BFLOAT16 else bad.astype(dtype.numpy)
            yield label, mismatch(got, good, tolerance, dtype)


def without_one_weight(name):
    """Patch a function of input and weights: one weight of the first filter is taken for zero."""

    def patch(module):
        function = getattr(module, name)

        def spoilt(x, weights, *rest, **keywords):
            weights = np.array(weights)
            weights[(0, *(size // 2 for size in weights.shape[1:]))] = 0
            return function(x, weights, *rest, **keywords)

        return name, spoilt

    return patch


WEIGHTED = [
    ("convolution2d", "convolution"),
    ("depthwise_convolution2d", "depthwise"),
    ("transpose_convolution2d", "transpose_convolution"),
    ("fully_connected", "rows_by_weights"),
]


@pytest.mark.parametrize(("name", "function"), WEIGHTED)
@pytest.mark.parametrize("label", ["float64", "float32", "float16", "bfloat16", "int8", "uint8"])
def test_a_weight_that_is_left_out_is_seen(name, function, label, monkeypatch):
    module, op = operator(name)
    found = dict(differing(module, op, DType.of(label), without_one_weight(function), monkeypatch))
    assert len(found) > 20
    # What an activation flattens, and a clamp cuts off, cannot be seen.
    unseen = [case for case, text in found.items() if not text and "activation" not in case]
    # One unit of a bfloat16 is 1/128 of a sum, which one of dozens of terms may be.
    assert len(unseen) <= (len(found) // 20 if label == "bfloat16" else 0), unseen


@pytest.mark.parametrize("label", ["float64", "float32", "float16", "bfloat16", "int16", "int64", "uint32"])
def test_a_product_that_is_left_out_is_seen(label, monkeypatch):
    def patch(module):
        function = module.product

        def spoilt(a, b):
            a = np.array(a)
            a.reshape(-1)[-1:] = 0
            return function(a, b)

        return "product", spoilt

    module, op = operator("mat_mul")
    found = dict(differing(module, op, DType.of(label), patch, monkeypatch))
    assert len(found) > 20
    assert [case for case, text in found.items() if not text] == []


@pytest.mark.parametrize("label", ["float64", "float32", "float16", "bfloat16", "int8", "uint8", "int16"])
def test_an_element_that_a_window_overlooks_is_seen(label, monkeypatch):
    def patch(module):
        function = module.seen

        def spoilt(x, *rest, **keywords):
            values = np.array(function(x, *rest, **keywords))
            if x.dtype != np.bool_ and values.size:
                values[..., -1, -1] = values[..., 0, 0]
            return values

        return "seen", spoilt

    module, op = operator("pooling2d")
    found = dict(differing(module, op, DType.of(label), patch, monkeypatch))
    assert len(found) > 20
    assert [case for case, text in found.items() if not text] == []


# -- pooling and products of matrices --------------------------------------------------------------


def test_a_window_by_hand():
    values, inside = np.asarray([[[3.0, -4.0]]]), np.asarray([[[True, False]]])
    everything = np.asarray([[[True, True]]])
    assert pooling.pooled(-values, inside, PoolingFunction.MAX, np.asarray(1), 2).tolist() == [-3]
    assert pooling.pooled(values, inside, PoolingFunction.AVERAGE, np.asarray(2), 2).tolist() == [1.5]
    assert pooling.pooled(values, everything, PoolingFunction.LP, np.asarray(1), 2).tolist() == [5]
    assert pooling.pooled(values, everything, PoolingFunction.LP, np.asarray(1), 1).tolist() == [7]


@pytest.mark.parametrize(
    ("values", "zero", "average"), [([1, 2], 0, 2), ([-1, -2], 0, -2), ([1, 2], 100, 2), ([7, 100], 10, 54)]
)
def test_averages_of_integers_round_away_from_zero(values, zero, average):
    windows_of_two = np.asarray(values, np.int8).reshape(1, 1, 2)
    got = pooling.pooled(
        windows_of_two, np.ones_like(windows_of_two, np.bool_), PoolingFunction.AVERAGE, np.asarray(2), 2, zero, DType.INT8
    )
    assert got.tolist() == [average]


@pytest.mark.parametrize(
    ("a", "b", "shape"),
    [
        ((2,), (2,), ()),
        ((2,), (2, 3), (3,)),
        ((3, 2), (2,), (3,)),
        ((4, 1, 3, 2), (5, 2, 6), (4, 5, 3, 6)),
        ((2,), (5, 2, 3), (5, 3)),
    ],
)
def test_products_follow_the_rules_of_numpy(a, b, shape):
    first, second = (np.random.default_rng(0).integers(-9, 9, one) for one in (a, b))
    got = mat_mul.product(first, second)
    assert got.shape == shape
    assert np.array_equal(got, np.matmul(first, second))


# -- activations, softmax, prelu -------------------------------------------------------------------


def test_every_activation_is_judged():
    assert set(activations.FUNCTIONS) == set(ActivationFunction)


@pytest.mark.parametrize(
    ("function", "x", "y"),
    [
        ("linear", 2.0, 2.75),
        ("relu", -2.0, 0.0),
        ("bounded_relu", 7.0, 6.0),
        ("bounded_relu", -7.0, -1.0),
        ("leaky_relu", -8.0, -1.0),
        ("thresholded_relu", 0.75, 0.0),
        ("thresholded_relu", 0.875, 0.875),
        ("elu", -1.0, -0.9481808382),  # 1.5 (1 / e - 1)
        ("selu", -1.0, -1.1113307),
        ("selu", 2.0, 2.10140204),
        ("celu", -0.75, -0.4740904191),  # 0.75 (1 / e - 1)
        ("sigmoid", 2.0, 0.8807970780),
        ("tanh", 0.5, 0.4621171573),
        ("hard_sigmoid", 1.0, 0.75),
        ("hard_swish", 1.0, 2 / 3),
        ("swish", 1.0, 0.7310585786),
        ("gelu", 1.0, 0.8413447461),  # the normal distribution's value at 1
        ("gelu_tanh", 1.0, 0.8411919906),
        ("softplus", 0.0, 0.6931471806),
        ("softsign", -3.0, -0.75),
        ("mish", 1.0, 0.8650983883),
        ("shrink", 0.5, 0.0),
        ("shrink", -1.0, -0.75),
    ],
)
def test_activations_at_known_points(function, x, y):
    assert float(activations.FUNCTIONS[ActivationFunction(function)].of(np.asarray(x))) == pytest.approx(y, rel=1e-7)


@pytest.mark.parametrize("function", [one for one, how in activations.FUNCTIONS.items() if how.ends])
def test_activations_tend_to_a_limit(function):
    with np.errstate(all="raise", under="ignore"):
        ends = activations.FUNCTIONS[function].of(np.asarray([-np.inf, np.inf]))
    near = activations.FUNCTIONS[function].of(np.asarray([-700.0, 700.0]))
    assert not np.isnan(ends).any()
    assert np.allclose(ends[np.isfinite(ends)], near[np.isfinite(ends)], rtol=0, atol=1e-290)


def test_softmax_by_hand():
    x = np.log([[1.0, 3.0], [2.0, 2.0]])
    assert softmax.softmax(x, 1, 1.0, False) == pytest.approx(np.asarray([[0.25, 0.75], [0.5, 0.5]]))
    assert softmax.softmax(x, 0, 1.0, False) == pytest.approx(np.asarray([[1 / 3, 0.6], [2 / 3, 0.4]]))
    assert softmax.softmax(x, 1, 2.0, False)[0] == pytest.approx([0.1, 0.9])
    assert softmax.softmax(x, 1, 1.0, True)[0] == pytest.approx(np.log([0.25, 0.75]))
    assert softmax.softmax(np.asarray([1000.0, 1000.0]), 0, 1.0, False).tolist() == [0.5, 0.5]


@pytest.mark.parametrize("label", ["float64", "float32", "float16", "bfloat16", "int8", "uint8"])
def test_an_exponential_that_is_left_out_is_seen(label, monkeypatch):
    def patch(module):
        function = module.softmax

        def spoilt(x, axis, beta, log):
            if not x.size:
                return x
            without = np.moveaxis(np.array(x), axis, 0)
            without[0] = -np.inf if beta > 0 else np.inf
            kept = np.moveaxis(function(np.moveaxis(without, 0, axis), axis, beta, log), axis, 0)
            kept[0] = np.moveaxis(function(x, axis, beta, log), axis, 0)[0]
            return np.moveaxis(kept, 0, axis)

        return "softmax", spoilt

    module, op = operator("softmax")
    dtype = DType.of(label)
    with np.errstate(all="ignore"):
        found = dict(differing(module, op, dtype, patch, monkeypatch))
    assert len(found) > 15
    # One of 513 terms is less than what types of few bits keep.
    wide = ("float64", "float32")
    unseen = [case for case, text in found.items() if not text and (label in wide or "channels=513" not in case)]
    assert len(unseen) <= (1 if label == "bfloat16" else 0), unseen


def test_prelu_by_hand():
    x, slope = np.asarray([[-2.0, 3.0], [-1.0, 0.0]]), np.asarray([0.5, -4.0])
    assert prelu.prelu(x, slope).tolist() == [[-1.0, 3.0], [-0.5, 0.0]]


# -- what a restricted device claims ---------------------------------------------------------------

NPU = {
    "dovetail.Convolution2d": (
        "convolution2d",
        {
            "layout": "NHWC",
            "stride": {"min": 1, "max": 2},
            "dilation": 1,
            "groups": 1,
            "input.channels": {"multiple_of": 8},
            "weights.filters": {"multiple_of": 16},
            "weights.height": {"max": 11},
            "input.batch": 1,
            "input.quantization": "per_tensor",
            "weights.quantization": "per_axis",
            "bias.dtype": [None, "int32"],
            "activation": [None, "relu"],
        },
    ),
    "dovetail.Pooling2d": (
        "pooling2d",
        {"layout": "NHWC", "function": "average", "size": {"max": 9}, "ceil_mode": False, "input.channels": {"multiple_of": 8}},
    ),
    "dovetail.FullyConnected": (
        "fully_connected",
        {"input.-1": {"multiple_of": 32, "max": 1024}, "output.-1": {"max": 256}, "weights.quantization": "per_tensor"},
    ),
    "dovetail.MatMul": ("mat_mul", {"a.rank": 3, "b.rank": 3, "a.quantization": "per_tensor", "transpose_b": True}),
}


@pytest.mark.parametrize("kind", NPU)
def test_a_restricted_device_is_tried_on_both_sides_of_its_limits(kind):
    name, where = NPU[kind]
    claims = read_claims({kind: [{"dtypes": ["int8"], "where": where}]})
    _, op = operator(name)
    inside = outside = 0
    broken = set()
    for variant in variants(op, DType.INT8, claims[kind]):
        case = op.make(variant.parameters, DType.INT8, np.random.default_rng(0))
        if case is None:
            continue
        network = Network("case")
        add_case(network, case, "case")
        [layer] = [layer for layer in network.layers if layer.kind == kind]
        failing = [one.quantity.name for one in claims[kind][0].where if not one.holds(layer, Device())]
        inside += not failing
        outside += bool(failing)
        if len(failing) == 1:
            broken |= set(failing)
    assert inside >= 10
    assert outside >= 10
    # A quantized product has a quantization everywhere and an int32 bias, so that some limits
    # cannot be passed.
    limits = set(where) - {"input.quantization", "a.quantization", "bias.dtype"}
    assert broken >= limits, limits - broken
