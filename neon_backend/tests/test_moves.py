"""Chains of layers that only move elements become one copy, and move the same elements."""

from __future__ import annotations

import numpy as np
import pytest

import dovetail
from dovetail_neon.kernels import instruction_sets
from dovetail_neon.movement.joining import MAX_MOVES
from dovetail_neon.movement.strides import contiguous, reshaped

HERE = [name for name, here in instruction_sets().items() if here]


def numbers(*shape, dtype=np.float32, seed=0):
    values = np.random.default_rng(seed).standard_normal(shape) * 100
    return values.astype(dtype)


def kinds_of(net, **options):
    graph = dovetail.optimize(net, ["CpuAcc"], options={"CpuAcc": options}).graph
    unmoved = ("dovetail.Input", "dovetail.Output", "dovetail.Constant")
    return [layer.kind.rpartition(".")[2] for layer in graph.topological_order() if layer.kind not in unmoved]


def run(net, feeds, threads=1, **options):
    with dovetail.load(net, ["CpuAcc"], threads=threads, fallback=False, options={"CpuAcc": options}) as loaded:
        return {name: np.array(array) for name, array in loaded.run(feeds).items()}


@pytest.mark.parametrize("seed", range(200))
def test_another_shape_of_a_view_is_what_numpy_has(seed):
    """NumPy's reshape copies where a view would not do; then its result lies elsewhere."""
    random = np.random.default_rng(seed)
    sizes = tuple(random.choice([1, 2, 3, 4, 6], random.integers(0, 5)).tolist())
    view = np.arange(max(int(np.prod(sizes)), 1), dtype=np.int32).reshape(sizes).transpose(random.permutation(len(sizes)))
    if random.random() < 0.3 and view.ndim:
        view = view[..., ::2]
    wanted, left = [], view.size
    while left > 1:
        fitting = [factor for factor in (2, 3, 4, 6) if left % factor == 0] or [left]
        wanted.append(int(random.choice([*fitting, left])))
        left //= wanted[-1]
    random.shuffle(wanted)
    wanted = tuple(size for one in wanted for size in ((one, 1) if random.random() < 0.2 else (one,)))
    found = reshaped(view.shape, view.strides, wanted)
    shaped = view.reshape(wanted)
    if not np.shares_memory(shaped, view):
        assert found is None
    else:
        assert found is not None
        assert np.array_equal(np.lib.stride_tricks.as_strided(view, wanted, found), shaped)


def test_a_shape_without_elements_is_no_view():
    assert reshaped((2, 0, 3), contiguous((2, 0, 3), 4), (0, 6)) is None


def head(filters=24, parts=2, side=6, channels=16):
    """A detector's work on one scale: (channels of each part), innermost; four are computed."""
    weights = numbers(parts * filters, channels, 1, 1, seed=3) * 0.01
    net = dovetail.Network("head")
    x = net.input("x", (1, channels, side, side))
    y = net.convolution2d(x, weights, np.zeros(parts * filters, np.float32))
    y = net.reshape(y, (1, parts, filters, side * side))
    y = net.sigmoid(net.permute(y, (0, 1, 3, 2)))
    first = net.addition(net.strided_slice(y, [0], [2], axes=[3]), np.float32(1.5))
    second = net.multiplication(net.strided_slice(y, [2], [4], axes=[3]), np.float32(2))
    joined = net.concat([first, second, net.strided_slice(y, [4], [filters], axes=[3])], 3)
    net.output(joined, "y")
    return net, weights


def expected_of(x, weights, parts=2, filters=24):
    y = np.einsum("nchw,fc->nfhw", x.astype(np.float64), weights[:, :, 0, 0].astype(np.float64))
    y = 1 / (1 + np.exp(-y.reshape(1, parts, filters, -1).transpose(0, 1, 3, 2)))
    return np.concatenate([y[..., :2] + 1.5, y[..., 2:4] * 2, y[..., 4:]], 3)


@pytest.mark.parametrize("isa", HERE)
@pytest.mark.parametrize(("filters", "parts"), [(24, 2), (85, 3), (17, 1)])
def test_the_head_of_a_detector(isa, filters, parts):
    net, weights = head(filters, parts)
    x = numbers(1, 16, 6, 6) * 0.01
    found = run(net, {"x": x}, isa=isa)["y"]
    np.testing.assert_allclose(found, expected_of(x, weights, parts, filters), rtol=1e-5, atol=1e-6)
    kinds = kinds_of(net, isa=isa)
    assert kinds.count("Rearrange") == 2
    assert "Permute" not in kinds
    assert "Concat" not in kinds


def test_all_scales_are_put_together_at_once():
    net = dovetail.Network("scales")
    x, parts = net.input("x", (1, 8, 6, 10)), []
    for begin in (0, 3):
        cut = net.strided_slice(x, [begin], [begin + 3], axes=[2])
        parts.append(net.reshape(net.concat([cut, net.relu(cut)], 3), (1, 24, 20)))
    net.output(net.concat([*parts, net.reshape(x, (1, 24, 20))], 1), "y")
    assert kinds_of(net).count("Rearrange") == 1
    data = numbers(1, 8, 6, 10)
    halves = [np.concatenate([half, np.maximum(half, 0)], 3).reshape(1, 24, 20) for half in (data[:, :, :3], data[:, :, 3:])]
    expected = np.concatenate([*halves, data.reshape(1, 24, 20)], 1)
    for threads in (1, 2):
        np.testing.assert_array_equal(run(net, {"x": data}, threads)["y"], expected)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint8, np.float16])
def test_slices_in_steps_and_backwards(dtype):
    net = dovetail.Network("slices")
    x = net.input("x", (5, 7, 9), dtype)
    a = net.strided_slice(x, [8, 1], [-10, 7], axes=[2, 1], stride=[-2, 3])
    b = net.strided_slice(x, [0, 0], [5, 2], axes=[2, 1])
    net.output(net.concat([a, b], 2), "y")
    assert kinds_of(net) == ["Rearrange"]
    data = numbers(5, 7, 9, dtype=dtype)
    expected = np.concatenate([data[:, 1:7:3, 8::-2], data[:, :2, :5]], 2)
    np.testing.assert_array_equal(run(net, {"x": data})["y"], expected)


def test_a_slice_that_others_read_stays():
    net = dovetail.Network("shared")
    x = net.input("x", (4, 6))
    cut = net.strided_slice(x, [1], [4], axes=[1])
    net.output(net.concat([cut, net.strided_slice(x, [0], [2], axes=[1])], 1), "y")
    net.output(cut, "z")
    assert sorted(kinds_of(net)) == ["Rearrange", "StridedSlice"]
    data = numbers(4, 6)
    found = run(net, {"x": data})
    np.testing.assert_array_equal(found["y"], np.concatenate([data[:, 1:4], data[:, :2]], 1))
    np.testing.assert_array_equal(found["z"], data[:, 1:4])


def test_parts_that_can_be_computed_in_place_are():
    net = dovetail.Network("in place")
    x = net.input("x", (4, 6))
    joined = net.concat([net.relu(x), net.strided_slice(x, [1], [3], axes=[0])], 0)
    net.output(net.sigmoid(joined), "y")
    assert "Rearrange" not in kinds_of(net)


@pytest.mark.parametrize("shape", [(1, 5, 4, 3), (2, 40, 5, 7)])
def test_channels_that_end_up_innermost_leave_the_blocks_that_way(shape):
    net = dovetail.Network("last")
    x = net.input("x", shape)
    y = net.permute(net.pooling2d(x, "max", 2, stride=1), (0, 2, 3, 1))
    net.output(y, "y")
    assert kinds_of(net) == ["Reorder", "Pool", "Reorder", "Rearrange"]
    data = numbers(*shape)
    windows = np.lib.stride_tricks.sliding_window_view(data, (2, 2), (2, 3))
    np.testing.assert_array_equal(run(net, {"x": data})["y"], windows.max((4, 5)).transpose(0, 2, 3, 1))


def test_a_short_run_is_no_gain():
    net = dovetail.Network("short")
    x = net.input("x", (1, 6, 5, 5))
    y = net.reshape(net.pooling2d(x, "max", 2, stride=1), (1, 2, 3, 16))
    net.output(net.permute(y, (0, 1, 3, 2)), "y")
    assert "Permute" in kinds_of(net)


def test_a_transposition_is_part_of_the_concatenation():
    net = dovetail.Network("turned parts")
    x, y = net.input("x", (3, 5, 4)), net.input("y", (3, 2, 5))
    net.output(net.concat([net.permute(x, (0, 2, 1)), y, net.permute(x, (0, 2, 1))], 1), "z")
    assert kinds_of(net) == ["Rearrange"]
    a, b = numbers(3, 5, 4), numbers(3, 2, 5, seed=1)
    expected = np.concatenate([a.transpose(0, 2, 1), b, a.transpose(0, 2, 1)], 1)
    np.testing.assert_array_equal(run(net, {"x": a, "y": b})["z"], expected)


def test_what_runs_strip_by_strip_still_does():
    net = dovetail.Network("strips")
    x = net.input("x", (1, 64, 80, 80))
    y = net.depthwise_convolution2d(x, numbers(64, 1, 3, 3), padding=1)
    y = net.convolution2d(y, numbers(24, 64, 1, 1) * 0.01)
    net.output(net.permute(y, (0, 2, 3, 1)), "y")
    assert kinds_of(net) == ["Reorder", "Strips", "Reorder", "Rearrange"]


def test_a_reorder_keeps_its_name():
    net = dovetail.Network("names")
    x = net.input("x", (1, 16, 8, 8))
    y = net.pooling2d(x, "max", 2, stride=1, name="pool")
    net.output(net.permute(y, (0, 2, 3, 1), name="turn"), "y")
    names = [layer.name for layer in dovetail.optimize(net, ["CpuAcc"]).graph.topological_order()]
    assert names == ["x", "pool.reorder", "pool", "pool.reorder_2", "turn", "y"]


def test_a_chain_of_concatenations_lists_no_more_copies_than_it_has_layers_by_much():
    """Each link would list all that came before it, and write all of it again."""
    net = dovetail.Network()
    x = net.input("x", (1, 2))
    y = net.unary(x, "exp")
    for _ in range(600):
        y = net.concat([y, x], 1)
    net.output(net.unary(y, "abs"), "y")
    graph = dovetail.optimize(net, ["CpuAcc"]).graph
    counts = [len(layer.descriptor.moves) for layer in graph.layers if layer.kind == "CpuAcc.Rearrange"]
    assert max(counts, default=0) <= MAX_MOVES
    feed = np.array([[1.0, -2.0]], np.float32)
    [found] = run(net, {"x": feed}).values()
    np.testing.assert_allclose(found, np.abs(np.concatenate([np.exp(feed)] + [feed] * 600, 1)), rtol=1e-6)
