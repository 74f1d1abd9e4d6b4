"""Convolutions in groups that share vectors: what each lane reads; nothing crosses groups."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import dovetail
from dovetail import SubgraphView
from dovetail_neon.convolution.grouped import MAX_VECTORS, lane_sources, most_vectors
from dovetail_neon.fusion.rewriting import lower
from dovetail_neon.kernels import instruction_sets, precisions

HERE = [name for name, here in instruction_sets().items() if here]
STEP = 1000
WIDTHS = [1, 2, 3, 4, 5, 6, 7, 8, 12, 20, 24, 33]


TAKEN = [case for case in itertools.product([11], WIDTHS, WIDTHS, [4, 8, 16]) if most_vectors(*case) <= MAX_VECTORS]


@pytest.mark.parametrize(("groups", "channels", "filters", "lanes"), TAKEN)
def test_each_lane_reads_the_channels_of_its_group(groups, channels, filters, lanes):
    found = lane_sources(groups, channels, filters, lanes, STEP)
    for number in range(groups * filters):
        block, lane = divmod(number, lanes)
        wanted = number // filters * channels + np.arange(channels)
        picked = found.lanes[block, :, :, lane]
        if found.groups[block] == 1:
            offsets = found.offsets[block, :, 0]
        elif found.groups[block] == 2 and found.vectors[block] > 1:
            offsets = found.offsets[block, :, :2][np.arange(channels), (picked[:, 1] >= 0).astype(int)]
        else:  # the last vector that has it, as a kernel merges them
            vector = np.array([np.flatnonzero(row >= 0)[-1] for row in picked])
            assert vector.max() < found.vectors[block] <= most_vectors(groups, channels, filters, lanes)
            offsets = found.offsets[block][np.arange(channels), vector] + picked[np.arange(channels), vector]
        np.testing.assert_array_equal(offsets, wanted // lanes * STEP + wanted % lanes)
    last = (groups * channels - 1) // lanes * STEP
    assert found.offsets.min() >= 0
    assert found.offsets.max() <= last + lanes - 1, "a read beyond the image"


def run(network, feeds, isa, threads=1, precision="float32"):
    options = {"CpuAcc": {"isa": isa, "precision": precision}}
    with dovetail.load(network, backends=["CpuAcc"], threads=threads, options=options) as net:
        return net.run(feeds), [row.kind for row in net.placement.layers]


@pytest.mark.parametrize("isa", HERE)
@pytest.mark.parametrize(("groups", "channels", "filters"), [(8, 4, 4), (5, 12, 12), (6, 1, 3), (3, 20, 20), (9, 5, 5)])
@pytest.mark.parametrize("kernel", [1, 3])
def test_what_is_no_number_stays_in_its_group(isa, groups, channels, filters, kernel):
    rng = np.random.default_rng(groups)
    network = dovetail.Network("groups")
    x = rng.standard_normal((1, groups * channels, 6, 9), np.float32)
    weights = rng.standard_normal((groups * filters, channels, kernel, kernel), np.float32)
    y = network.convolution2d(network.input("x", x.shape), weights, padding=kernel // 2, groups=groups)
    network.output(y, "y")
    clean = run(network, {"x": x}, isa)[0]["y"]
    for group in range(groups):
        spoilt = x.copy()
        spoilt[:, group * channels : (group + 1) * channels] = np.array([np.inf, np.nan])[group % 2]
        found = run(network, {"x": spoilt}, isa)[0]["y"]
        own = slice(group * filters, (group + 1) * filters)
        assert not np.isfinite(found[:, own]).any()
        found[:, own] = clean[:, own]
        np.testing.assert_array_equal(found, clean)


@pytest.mark.parametrize("isa", HERE)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("function", ["relu", "sigmoid"])
def test_a_residual_is_added_before_the_function(isa, layout, function, convolved):
    rng = np.random.default_rng(4)
    x, added = (rng.standard_normal((2, count, 7, 11), np.float32) for count in (12, 18))
    weights, bias = rng.standard_normal((18, 2, 3, 3), np.float32), rng.standard_normal(18, np.float32)

    def turned(array):
        return array if layout == "NCHW" else np.ascontiguousarray(array.transpose(0, 2, 3, 1))

    network = dovetail.Network("residual")
    a, b = network.input("x", turned(x).shape), network.input("added", turned(added).shape)
    y = network.addition(network.convolution2d(a, turned(weights), bias, padding=1, groups=6, layout=layout), b)
    network.output(network.relu(y) if function == "relu" else network.sigmoid(y), "y")
    found, kinds = run(network, {"x": turned(x), "added": turned(added)}, isa, threads=2)
    sums = convolved(x, weights, bias, (1, 1), (1, 1, 1, 1), (1, 1), 6) + added
    expected = np.maximum(sums, 0) if function == "relu" else 1 / (1 + np.exp(-sums))
    assert kinds.count("CpuAcc.ConvolveGrouped") == 1
    assert not any("Combine" in kind for kind in kinds)
    np.testing.assert_allclose(found["y"], turned(expected), rtol=0, atol=2e-5)


@pytest.mark.parametrize(
    ("filters", "precision", "kind"),
    [
        (6, "float16", "CpuAcc.ConvolveGrouped"),
        (18, "float16", "CpuAcc.ConvolveFloat16"),
        (18, "float32", "CpuAcc.ConvolveGrouped"),
    ],
)
def test_groups_that_fill_vectors_of_float16_are_rounded(filters, precision, kind):
    network = dovetail.Network("groups")
    x = network.input("x", (1, 30, 6, 7))
    network.output(network.convolution2d(x, np.ones((3 * filters, 10, 3, 3), np.float32), groups=3), "y")
    view = SubgraphView(network, [layer for layer in network.layers if layer.kind.endswith("Convolution2d")])
    assert kind in [layer.kind for layer in lower(view, 4, precision).layers]


@pytest.mark.parametrize("precision", precisions(HERE[0]))
def test_neighbours_share_their_blocks(precision):
    """A bottleneck of 8 channels a group: nothing is laid out anew between its convolutions."""
    rng = np.random.default_rng(6)
    network = dovetail.Network("bottleneck")
    y = x = network.input("x", (1, 64, 12, 12))
    for shape, groups in (((64, 64, 1, 1), 1), ((64, 8, 3, 3), 8), ((64, 64, 1, 1), 1)):
        weights = (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)
        y = network.relu(network.convolution2d(y, weights, padding=shape[2] // 2, groups=groups))
    network.output(network.addition(x, y), "y")
    image = rng.standard_normal((1, 64, 12, 12), np.float32)
    found, kinds = run(network, {"x": image}, HERE[0], precision=precision)
    assert kinds.count("CpuAcc.Reorder") <= 2
    exact, _ = run(network, {"x": image}, "scalar")
    np.testing.assert_allclose(found["y"], exact["y"], rtol=0, atol=1e-5 if precision == "float32" else 0.1)


@pytest.mark.parametrize("isa", HERE)
@pytest.mark.parametrize(
    ("filters", "where", "size"),
    [
        (8, {"stride": 200}, (200, 200)),
        (8, {"stride": 2}, (2, 2)),
        (8, {"padding": (0, 0, 2, 3)}, (2, 2)),
        (128, {"stride": (7, 1)}, (2, 16)),
        (128, {}, (3, 5)),
    ],
    ids=str,
)
def test_points_of_images_that_are_not_as_large_as_the_results(isa, filters, where, size, convolved):
    """Steps that leave one result, and padding behind the image, are clipped to a point."""
    rng = np.random.default_rng(filters)
    x = rng.standard_normal((2, filters, *size), np.float32)
    weights = rng.standard_normal((filters, filters // 4, 1, 1), np.float32)
    network = dovetail.Network("points")
    network.output(network.convolution2d(network.input("x", x.shape), weights, groups=4, **where), "y")
    with dovetail.load(network, ["CpuAcc"], options={"CpuAcc": {"isa": isa}}) as net:
        found = net.run({"x": x})["y"]
    stride = where.get("stride", 1)
    stride = stride if isinstance(stride, tuple) else (stride, stride)
    expected = convolved(x, weights, np.zeros(filters), stride, where.get("padding", (0, 0, 0, 0)), (1, 1), 4)
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-5)
