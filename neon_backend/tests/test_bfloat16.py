"""Check products of bfloat16 against NumPy in float64: rounded factors, sums in float32."""

from __future__ import annotations

import math

import numpy as np
import pytest

import dovetail
from dovetail_neon.convolution.kinds import ConvolveBfloat16
from dovetail_neon.elementwise.codes import FUNCTIONS
from dovetail_neon.elementwise.functions import Function
from dovetail_neon.geometry.layouts import Image, plain_info
from dovetail_neon.geometry.window import Geometry
from dovetail_neon.kernels import Kernels, instruction_sets, precisions
from dovetail_neon.windows.kinds import DepthwiseBfloat16

HERE = [name for name, here in instruction_sets().items() if here]
REDUCED = [name for name in HERE if "bfloat16" in precisions(name)]
UNITS = ["amx", "avx512_bf16"]
needs_bfloat16 = pytest.mark.skipif(not REDUCED, reason="no instruction set of this machine multiplies bfloat16")


def rounded(x):
    """To the nearest bfloat16, ties to even; numbers are finite."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


@pytest.fixture(params=UNITS)
def kernels(request):
    """The kernels of each unit that this machine has."""
    if not REDUCED:
        pytest.skip("no instruction set of this machine multiplies bfloat16")
    try:
        return Kernels(REDUCED[0], "bfloat16", request.param)
    except ValueError:
        pytest.skip(f"this machine has no {request.param}")


@needs_bfloat16
def test_convolutions_equal_their_definition(products, convolved, bfloat16_case, layout, passes):
    x, weights, bias, where = products.convolution_of(bfloat16_case)
    found, kinds = products.run_convolution(x, weights, bias, where, layout, "bfloat16", passes=passes)
    assert not passes or "CpuAcc.ConvolveBfloat16" in kinds
    expected = convolved(rounded(x), rounded(weights), bias, **where)
    products.close(found, np.maximum(expected, 0), weights[0].size)


@pytest.mark.parametrize("rows", [1, 2, 15, 16, 17, 33, 128])
@pytest.mark.parametrize(("channels", "filters"), [(1, 1), (31, 17), (32, 32), (33, 48), (300, 95)])
@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize("function", [Function(), Function(FUNCTIONS["clamp"], 0.0, 6.0), Function(FUNCTIONS["swish"], 1.0)])
def test_products_equal_their_definition(products, run_layer, rows, channels, filters, adds, function):
    """Each unit: one row and many, sizes near those of tiles, additions, functions in and after."""
    case = rows, channels, filters, adds, function
    found, x, weights, bias, added = products.run_product(run_layer, ConvolveBfloat16, *case)
    expected = rounded(x).astype(np.float64) @ rounded(weights).astype(np.float64).T + bias + added
    if function.code == 1:
        expected = np.clip(expected, 0, 6)
    if function.code == 12:
        expected = expected / (1 + np.exp(-expected))
    products.close(found, expected, channels)


@pytest.mark.parametrize("geometry", [Geometry((3, 3), (2, 1), (1, 2), (1, 2)), Geometry((1, 1), (3, 3))])
def test_channels_last_in_each_unit(products, run_layer, convolved, geometry):
    """Windows, strides, dilation and groups; what lies between groups is not read."""
    products.close(*products.run_groups(run_layer, convolved, ConvolveBfloat16, geometry, products.normal, rounded))


CLAMP, SWISH, LOGARITHM = Function(FUNCTIONS["clamp"], 0.0, 6.0), Function(FUNCTIONS["swish"], 1.0), Function(FUNCTIONS["log"])
WINDOWS = [
    # channels, height, width, kernel, stride, padding, dilation
    (5, 7, 7, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    (32, 9, 20, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    (33, 8, 13, (3, 3), (2, 2), (0, 0, 1, 1), (1, 1)),
    (70, 11, 15, (5, 5), (1, 1), (2, 2, 2, 2), (1, 1)),
    (17, 10, 12, (5, 5), (2, 2), (1, 2, 2, 1), (1, 1)),
    (40, 6, 9, (2, 3), (1, 3), (1, 0, 0, 2), (2, 1)),
    (16, 9, 9, (3, 3), (1, 1), (2, 2, 2, 2), (2, 2)),
    (3, 1, 1, (3, 3), (1, 1), (3, 3, 3, 3), (1, 1)),
]


def blocks_of(x):
    """Images [N, C, H, W] in bfloat16 blocks, two elements to a float32; unread lanes are zero."""
    batch, channels, height, width = x.shape
    count = -(-channels // 32)
    whole = np.zeros((batch, count * 32, height, width), np.float32)
    whole[:, :channels] = rounded(x)
    halves = (whole.view(np.uint32) >> 16).reshape(batch, count, 2, 16, height, width)
    return np.ascontiguousarray((halves[:, :, 0] | halves[:, :, 1] << 16).transpose(0, 1, 3, 4, 2)).view(np.float32)


def images_of(blocked, channels):
    """The other way; also what lies in lanes that nobody should read."""
    bits = blocked.view(np.uint32)
    halves = np.stack([bits << 16, bits & 0xFFFF0000], axis=-2).astype(np.uint32)  # [N, blocks, H, W, 2, 16]
    batch, count, height, width = blocked.shape[:4]
    whole = np.ascontiguousarray(halves.transpose(0, 1, 4, 5, 2, 3)).view(np.float32).reshape(batch, count * 32, height, width)
    return whole[:, :channels], whole[:, channels:]


@pytest.mark.parametrize("function", [Function(), CLAMP, SWISH, LOGARITHM])
@pytest.mark.parametrize("case", WINDOWS, ids=str)
def test_depthwise_equals_its_definition(run_layer, convolved, case, function):
    """The bfloat16 nearest to an exact sum; nothing in lanes that do not exist."""
    channels, height, width, kernel, stride, padding, dilation = case
    rng = np.random.default_rng(channels)
    x = rounded(rng.standard_normal((2, channels, height, width), np.float32))
    weights = rng.standard_normal((channels, 1, *kernel), np.float32)
    bias = rng.standard_normal(channels, np.float32) + np.float32(60 if function is LOGARITHM else 0)
    expected = convolved(x, weights, bias, stride, padding, dilation, channels)
    target = Image(2, channels, *expected.shape[2:])
    descriptor = DepthwiseBfloat16(
        infos=(plain_info((2, -(-channels // 32), target.height, target.width, 16)),),
        weights=weights.reshape(channels, -1),
        bias=bias,
        source=Image(2, channels, height, width),
        target=target,
        geometry=Geometry(kernel, stride, dilation, padding[:2]),
        function=function,
    )
    [y] = run_layer(lambda net, slot: net.add(descriptor, slot), blocks_of(x))
    found, beyond = images_of(y, channels)
    assert (beyond == 0).all()
    if function is CLAMP:
        expected = np.clip(expected, 0, 6)
    elif function is SWISH:
        expected = expected / (1 + np.exp(-expected))
    elif function is LOGARITHM:
        expected = np.log(expected)
    np.testing.assert_allclose(found, expected, rtol=2.0**-8 * 1.001, atol=1e-5)


@needs_bfloat16
@pytest.mark.parametrize("inside", [True, False])
def test_a_block_of_a_mobile_network(products, convolved, inside):
    """Expansion, depthwise, projection, residual: bfloat16 in between, but for what others read."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((1, 40, 9, 11), np.float32)
    first, last = (rng.standard_normal(shape).astype(np.float32) / 6 for shape in ((72, 40, 1, 1), (40, 72, 1, 1)))
    middle = rng.standard_normal((72, 1, 3, 3)).astype(np.float32) / 3
    network = dovetail.Network("block")
    source = network.input("x", x.shape)
    start = network.convolution2d(source, last[:, :40])
    y = network.relu(network.convolution2d(start, first))
    y = network.relu(network.depthwise_convolution2d(y, middle, padding=(1, 1, 1, 1)))
    if not inside:
        network.output(y, "middle")
    y = network.addition(network.convolution2d(y, last), start)
    network.output(network.convolution2d(y, first), "y")
    none = np.zeros(72, np.float32)
    begun = convolved(x, last[:, :40], none[:40], (1, 1), (0,) * 4, (1, 1), 1)
    expected = np.maximum(convolved(begun, first, none, (1, 1), (0,) * 4, (1, 1), 1), 0)
    expected = np.maximum(convolved(expected, middle, none, (1, 1), (1,) * 4, (1, 1), 72), 0)
    expected = convolved(
        convolved(expected, last, none[:40], (1, 1), (0,) * 4, (1, 1), 1) + begun, first, none, (1, 1), (0,) * 4, (1, 1), 1
    )
    with products.load(network, "bfloat16") as net:
        found, kinds = net.run({"x": x})["y"], products.kinds_of(net, {"x": x})
    assert kinds.count("CpuAcc.DepthwiseBfloat16") == inside
    assert kinds.count("CpuAcc.Depthwise") == (not inside)
    # Ten roundings to 8 bits, of half a unit at most, whose errors add up as those of independent
    # numbers do.
    error = np.sqrt(np.mean((found - expected) ** 2)) / np.sqrt(np.mean(expected**2))
    assert 2.0**-12 < error < 2.0**-8 * np.sqrt(10)


def chain(*, all_out):
    """Chain convolutions, the last with a residual; with `all_out` every image is an output."""
    rng = np.random.default_rng(8)
    network = dovetail.Network("chain")
    y = network.input("x", (2, 24, 13, 11))
    for number, (channels, filters, size, stride) in enumerate(
        [(24, 40, 3, 1), (40, 72, 1, 1), (72, 33, 3, 2), (33, 48, 1, 1), (48, 64, 5, 1)]
    ):
        weights = (rng.standard_normal((filters, channels, size, size)) / math.sqrt(channels * size * size)).astype(np.float32)
        padding = (size // 2,) * 4
        y = network.relu(network.convolution2d(y, weights, stride=(stride, stride), padding=padding))
        if all_out:
            network.output(y, f"y{number}")
    if not all_out:
        network.output(y, "y4")
    return network, {"x": rng.standard_normal((2, 24, 13, 11), np.float32)}


@needs_bfloat16
def test_what_lies_between_changes_no_bit(products):
    """Images that products alone read are kept in bfloat16, as they would round them."""
    (network, feeds), (open_network, _) = chain(all_out=False), chain(all_out=True)
    with products.load(network, "bfloat16") as net, products.load(open_network, "bfloat16") as apart:
        assert net.run(feeds)["y4"].tobytes() == apart.run(feeds)["y4"].tobytes()
        assert products.kinds_of(net, feeds).count("CpuAcc.ConvolveBfloat16") == 5


@needs_bfloat16
def test_the_bits_depend_on_nothing_but_the_input(products):
    assert len(products.bits_of_a_network("bfloat16", 90, ((3, 40, 3), (40, 72, 3), (72, 64, 3)), 6)) == 1


@needs_bfloat16
@pytest.mark.parametrize("function", ["gelu", "gelu_tanh", "sigmoid", "swish"])
def test_functions_before_rounding(products, function):
    """Between products with unit matrices nothing but the function and its rounding is left."""
    x = rounded(
        np.concatenate([np.linspace(-12, 12, 3000), np.geomspace(1e-30, 90, 520), -np.geomspace(1e-30, 90, 520), np.zeros(24)])
    )
    x = x[: x.size // 32 * 32].reshape(-1, 32)
    unit = np.eye(32, dtype=np.float32)
    network = dovetail.Network("function")
    y = network.fully_connected(network.input("x", x.shape), unit)
    y = network.multiplication(y, network.sigmoid(y)) if function == "swish" else network.activation(y, function)
    network.output(network.fully_connected(y, unit), "y")
    with products.load(network, "bfloat16") as net:
        found = net.run({"x": x})["y"]
        assert products.kinds_of(net, {"x": x}) == ["CpuAcc.ConvolveBfloat16"] * 2
    wide = x.astype(np.float64)
    exact = {
        "gelu": lambda: wide * 0.5 * np.vectorize(math.erfc)(-wide / math.sqrt(2)),
        "gelu_tanh": lambda: wide / (1 + np.exp(-2 * math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3))),
        "sigmoid": lambda: 1 / (1 + np.exp(-wide)),
        "swish": lambda: wide / (1 + np.exp(-wide)),
    }
    with np.errstate(over="ignore"):
        expected = exact[function]()
    np.testing.assert_allclose(found, expected, rtol=2.0**-8 * 1.1, atol=2e-8)
