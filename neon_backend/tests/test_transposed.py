"""Check transposed convolutions: steps, dilations, paddings, both orders of axes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import dovetail
from dovetail import Device
from dovetail_neon import CpuAccBackend, CpuAccOptions
from dovetail_neon.kernels import instruction_sets, precisions

HERE = [name for name, here in instruction_sets().items() if here]

CASES = [
    # channels, filters, height, width, kernel, stride, padding, dilation, output padding
    (16, 16, 5, 6, (2, 2), (2, 2), (0, 0, 0, 0), (1, 1), (0, 0)),
    (3, 5, 4, 7, (3, 3), (2, 2), (1, 1, 1, 1), (1, 1), (1, 1)),
    (17, 33, 6, 5, (4, 4), (2, 2), (1, 1, 1, 1), (1, 1), (0, 0)),
    (8, 24, 7, 4, (5, 3), (3, 2), (2, 0, 1, 1), (1, 1), (2, 1)),
    (20, 18, 6, 6, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), (0, 0)),  # as it is, by Winograd convolution where that pays
    (64, 64, 12, 12, (3, 3), (1, 1), (0, 0, 0, 0), (1, 1), (0, 0)),
    (5, 6, 8, 9, (3, 3), (1, 1), (3, 2, 4, 3), (1, 1), (0, 0)),  # more padding than the window reaches: rows are dropped
    (6, 7, 5, 5, (2, 2), (2, 2), (3, 2, 2, 5), (1, 1), (0, 0)),
    (9, 20, 4, 5, (3, 2), (2, 3), (1, 2, 0, 1), (2, 3), (0, 1)),
    (4, 4, 3, 3, (1, 1), (3, 2), (0, 0, 0, 0), (1, 1), (0, 0)),  # a step wider than the window: results that nothing adds to
    (4, 3, 3, 4, (2, 2), (5, 4), (0, 1, 0, 0), (1, 1), (3, 2)),
    (2, 1, 1, 1, (3, 3), (2, 2), (1, 1, 1, 1), (1, 1), (0, 0)),
    (33, 2, 6, 3, (1, 7), (1, 4), (0, 3, 0, 3), (1, 1), (0, 3)),
]


def transposed(x, weights, bias, stride, padding, dilation, output_padding):
    """Add each element's filter [C, O, h, w], in float64; padding is (top, left, bottom, right)."""
    x, weights = x.astype(np.float64), weights.astype(np.float64)
    kernel, sizes = weights.shape[2:], x.shape[2:]
    reach = [stride[i] * (sizes[i] - 1) + dilation[i] * (kernel[i] - 1) + 1 for i in range(2)]
    full = np.zeros((x.shape[0], weights.shape[1], reach[0] + output_padding[0], reach[1] + output_padding[1]))
    rows, columns = (stride[i] * (sizes[i] - 1) + 1 for i in range(2))
    for ky, kx in itertools.product(*map(range, kernel)):
        y, x0 = ky * dilation[0], kx * dilation[1]
        part = full[:, :, y : y + rows : stride[0], x0 : x0 + columns : stride[1]]
        part += np.einsum("nchw,co->nohw", x, weights[:, :, ky, kx])
    top, left, bottom, right = padding
    result = full[:, :, top : full.shape[2] - bottom, left : full.shape[3] - right]
    return result + bias.astype(np.float64)[None, :, None, None]


def network_of(case, layout, weights, bias, activation=False):
    channels, _, height, width, _, stride, padding, dilation, output_padding = case
    nhwc = layout == "NHWC"
    net = dovetail.Network("transposed")
    x = net.input("x", (2, height, width, channels) if nhwc else (2, channels, height, width))
    own = np.ascontiguousarray(weights.transpose(1, 2, 3, 0)) if nhwc else weights
    y = net.transpose_convolution2d(
        x, own, bias, stride=stride, padding=padding, dilation=dilation, output_padding=output_padding, layout=layout
    )
    net.output(net.relu(y) if activation else y, "y")
    return net


def arrays(case, seed=0):
    channels, filters, height, width, kernel, *_ = case
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((2, channels, height, width), np.float32)
    return x, rng.standard_normal((channels, filters, *kernel), np.float32), rng.standard_normal(filters, np.float32)


def run(net, x, layout, **options):
    options = {"threads": 1, **options}
    threads = options.pop("threads")
    with dovetail.load(net, ["CpuAcc"], threads=threads, fallback=False, options={"CpuAcc": options}) as loaded:
        fed = np.ascontiguousarray(x.transpose(0, 2, 3, 1)) if layout == "NHWC" else x
        found = np.array(loaded.run({"x": fed})["y"])
    return found.transpose(0, 3, 1, 2) if layout == "NHWC" else found


@pytest.mark.parametrize("isa", HERE)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_transposed_convolutions_equal_their_definition(products, case, layout, isa):
    x, weights, bias = arrays(case)
    expected = transposed(x, weights, bias, *case[5:])
    found = run(network_of(case, layout, weights, bias), x, layout, isa=isa)
    products.close(found, expected, case[0] * weights.shape[2] * weights.shape[3])


@pytest.mark.parametrize("isa", HERE)
def test_a_function_is_applied_where_the_phases_are_computed(products, isa):
    case = CASES[2]
    x, weights, bias = arrays(case)
    net = network_of(case, "NCHW", weights, bias, activation=True)
    optimized = dovetail.optimize(net, ["CpuAcc"], options={"CpuAcc": {"isa": isa}})
    kinds = [layer.kind for layer in optimized.graph.topological_order()]
    assert kinds.count("CpuAcc.Interleave") == 1
    assert "dovetail.Activation" not in kinds
    products.close(run(net, x, "NCHW", isa=isa), np.maximum(transposed(x, weights, bias, *case[5:]), 0), 17 * 16)


@pytest.mark.parametrize(
    ("kernel", "stride", "convolutions"),
    [((4, 4), (2, 2), 1), ((3, 3), (2, 2), 4), ((5, 4), (3, 2), 6), ((5, 5), (3, 3), 9), ((2, 2), (5, 5), 1)],
)
def test_phases_are_apart_where_zeros_would_be_multiplied(kernel, stride, convolutions):
    case = (8, 8, 6, 6, kernel, stride, (1, 1, 1, 1), (1, 1), (0, 0))
    _, weights, bias = arrays(case)
    optimized = dovetail.optimize(network_of(case, "NCHW", weights, bias), ["CpuAcc"])
    kinds = [layer.kind for layer in optimized.graph.layers]
    assert kinds.count("CpuAcc.Convolve") == convolutions


SPREADING = [
    ((3, 3), (2, 2), (0, 0, 0, 0), (1, 1)),
    ((9, 9), (2, 2), (4, 4, 4, 4), (1, 1)),
    ((1, 5), (1, 2), (0, 2, 0, 1), (1, 1)),
    ((5, 4), (3, 2), (1, 1, 1, 1), (1, 1)),
    ((2, 1), (3, 2), (0, 0, 0, 0), (1, 1)),
    ((3, 3), (2, 3), (2, 3, 1, 0), (3, 2)),
    ((3, 2), (4, 2), (3, 1, 2, 2), (2, 3)),
    ((4, 3), (1, 1), (2, 1, 2, 3), (2, 2)),
    ((3, 3), (4, 4), (9, 8, 3, 2), (4, 4)),
    ((8, 8), (8, 8), (3, 3, 3, 3), (1, 1)),
]


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize(("kernel", "stride", "padding", "dilation"), SPREADING)
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_stays_in_the_windows_that_read_it(products, value, kernel, stride, padding, dilation, layout):
    case = (5, 7, 6, 5, kernel, stride, padding, dilation, (0, 0))
    x, weights, bias = arrays(case)
    x[1, 2, 3, 1] = x[0, 4, 0, 4] = value
    with np.errstate(invalid="ignore"):
        expected = transposed(x, weights, bias, *case[5:])
    found = run(network_of(case, layout, weights, bias), x, layout)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    finite = np.isfinite(expected)
    assert finite.any()
    np.testing.assert_array_equal(np.where(finite, 0, found), np.where(finite, 0, expected))
    products.close(np.where(finite, found, 0), np.where(finite, expected, 0), case[0] * weights.shape[2] * weights.shape[3])


def test_a_step_of_one_is_a_convolution():
    case = CASES[4]
    _, weights, bias = arrays(case)
    optimized = dovetail.optimize(network_of(case, "NCHW", weights, bias), ["CpuAcc"])
    assert "CpuAcc.Interleave" not in [layer.kind for layer in optimized.graph.layers]


def test_threads_change_nothing():
    case = (48, 40, 20, 22, (4, 4), (2, 2), (1, 1, 1, 1), (1, 1), (0, 0))
    x, weights, bias = arrays(case)
    found = {run(network_of(case, "NCHW", weights, bias), x, "NCHW", threads=threads).tobytes() for threads in (1, 2, 3)}
    assert len(found) == 1


@pytest.mark.skipif(
    not any("bfloat16" in precisions(isa) for isa in HERE), reason="no instruction set of this machine multiplies bfloat16"
)
def test_bfloat16_is_as_exact_as_its_factors():
    case = (64, 32, 9, 9, (3, 3), (2, 2), (1, 1, 1, 1), (1, 1), (1, 1))
    x, weights, bias = arrays(case)
    found = run(network_of(case, "NCHW", weights, bias), x, "NCHW", precision="bfloat16")
    expected = transposed(x, weights, bias, *case[5:])
    assert np.abs(found - expected).max() < np.abs(expected).max() * 2.0**-6


def test_groups_are_refused_with_the_reason():
    net = dovetail.Network()
    x = net.input("x", (1, 4, 5, 5))
    net.output(net.transpose_convolution2d(x, np.ones((4, 2, 3, 3), np.float32), groups=2, name="up"), "y")
    optimized = dovetail.optimize(net, ["CpuAcc", "CpuRef"])
    (row,) = [row for row in optimized.placement.layers if "up" in row.sources]
    assert row.backend == "CpuRef"
    assert row.refusals[0].attribute == "groups"


@pytest.mark.parametrize(
    ("case", "subject"),
    [
        ((1, 1, 2, 1, (1, 1), (1 << 24, 1), (0, 0, 0, 0), (1, 1), (0, 0)), "stride"),
        ((1, 1, 3, 3, (1, 1), (1024, 1024), (0, 0, 0, 0), (1, 1), (0, 0)), "stride"),
        ((1, 1, 3, 3, (2, 2), (1, 1), (0, 0, 0, 0), (1 << 16, 1 << 16), (0, 0)), "stride"),
        ((1, 1, 401, 401, (64, 64), (64, 64), (12800, 12800, 12800, 12800), (1, 1), (0, 0)), "padding"),
        ((3, 5, 4, 7, (64, 64), (32, 32), (16, 16, 16, 16), (1, 1), (0, 0)), None),
        ((4, 4, 3, 3, (1, 1), (8, 8), (0, 0, 0, 0), (1, 1), (0, 0)), None),
    ],
)
def test_phases_out_of_proportion_are_left_to_others(case, subject):
    channels, filters, height, width, kernel, stride, padding, dilation, _ = case
    net = dovetail.Network()
    weights = np.ones((channels, filters, *kernel), np.float32)
    x = net.input("x", (1, channels, height, width))
    y = net.transpose_convolution2d(x, weights, stride=stride, padding=padding, dilation=dilation)
    support = CpuAccBackend().supports(y.layer, CpuAccOptions(), Device())
    assert support.supported is (subject is None)
    assert support.attribute == subject
