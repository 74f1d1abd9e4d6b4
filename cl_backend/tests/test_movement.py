"""What moves elements: against NumPy, with odd sizes, on CPU and GPU ways through the kernels."""

import numpy as np
import pytest

from dovetail_cl.devices import opened
from dovetail_cl.programs import Programs

rng = np.random.default_rng(11)


def values(*shape, dtype=np.float32):
    return rng.integers(0, 100, shape).astype(dtype)


def test_sources_are_built_for_the_way(run, way, monkeypatch):
    """What was opened may have served the other way before."""
    wanted, kernel = [], Programs.kernel

    def noted(programs, files, name, building, **defined):
        wanted.append(programs.text(files, **defined))
        return kernel(programs, files, name, building, **defined)

    monkeypatch.setattr(Programs, "kernel", noted)
    run(way, lambda net, x: net.permute(x, (1, 0)), values(3, 5))
    is_cpu = opened(0).facts["kind"] == "cpu"
    assert wanted
    assert all(f"#define ON_CPU {int(is_cpu)}\n" in text for text in wanted)


@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32, np.int64])
@pytest.mark.parametrize(
    ("shape", "order"),
    [
        ((2, 3, 33, 35), (0, 2, 3, 1)),
        ((2, 33, 35, 3), (0, 3, 1, 2)),
        ((1, 40, 9, 70), (0, 2, 3, 1)),
        ((1, 37, 12, 64), (0, 2, 1, 3)),
        ((2, 37, 12, 64), (0, 2, 3, 1)),
        ((5, 4, 3, 2, 6), (4, 1, 3, 0, 2)),
        ((3, 0, 5), (2, 1, 0)),
        ((), ()),
    ],
)
def test_permute(run, way, shape, order, dtype):
    x = values(*shape, dtype=dtype)
    (y,) = run(way, lambda net, x: net.permute(x, order), x)
    np.testing.assert_array_equal(y, x.transpose(order))


@pytest.mark.parametrize("sizes", [(70, 40), (7, 65), (129, 8), (8, 8), (1, 30)])
def test_transpose(run, way, sizes):
    x = values(*sizes)
    (y,) = run(way, lambda net, x: net.permute(x, (1, 0)), x)
    np.testing.assert_array_equal(y, x.T)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concat_and_split(run, way, axis):
    parts = [values(2, 3, 4), values(2, 3, 4), values(2, 3, 4)]
    (y,) = run(way, lambda net, *x: net.concat(x, axis), *parts)
    np.testing.assert_array_equal(y, np.concatenate(parts, axis))
    pieces = run(way, lambda net, x: net.split(x, 3, axis), y)
    for piece, part in zip(pieces, parts, strict=True):
        np.testing.assert_array_equal(piece, part)


def test_parts_that_are_only_partly_placed(run, backend):
    """Of a join along the outermost axis one part is computed in place, and others are copied."""
    a, b = values(3, 5), values(2, 5)
    constant = np.full((1, 5), 7, np.float32)

    def build(net, a, b):
        sum_ = net.addition(a, a)
        joined = net.concat([sum_, b, net.constant(constant), sum_], 0)
        return joined, net.multiplication(joined, joined)

    y, squared = run(backend, build, a, b)
    expected = np.concatenate([a + a, b, constant, a + a])
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(squared, expected * expected)


def test_views_of_what_is_overwritten(run, backend):
    """A view, and what is computed from its source, in the order of the network."""
    x = values(6, 4)

    def build(net, x):
        first, second = net.split(net.addition(x, x), 2, 0)
        flat = net.reshape(second, (12,))
        return net.subtraction(net.multiplication(flat, flat), net.reshape(first, (12,))), flat

    y, flat = run(backend, build, x)
    first, second = (x + x).reshape(2, 12)
    np.testing.assert_array_equal(y, second * second - first)
    np.testing.assert_array_equal(flat, second)


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric", "wrap"])
@pytest.mark.parametrize("dtype", [np.int8, np.float32])
def test_pad(run, way, mode, dtype):
    x = values(2, 5, 4, 3, dtype=dtype)
    before, after = (0, 2, 3, 0), (1, 4, 1, 0)
    (y,) = run(way, lambda net, x: net.pad(x, before, after, mode=mode, value=3), x)
    given = {"constant_values": 3} if mode == "constant" else {}
    np.testing.assert_array_equal(y, np.pad(x, list(zip(before, after, strict=True)), mode, **given))


def test_pad_that_removes(run, way):
    x = values(4, 6, 5)
    (y,) = run(way, lambda net, x: net.pad(x, (-1, 2, -3), (1, -4, 1), value=9), x)
    padded = np.pad(x[1:, :2, 3:], [(0, 1), (2, 0), (0, 1)], constant_values=9)
    np.testing.assert_array_equal(y, padded)


@pytest.mark.parametrize(("upper", "k"), [(True, 0), (False, 2), (True, -9), (False, -2), (False, 2**40)])
def test_trilu(run, way, upper, k):
    x = values(3, 5, 7)
    (y,) = run(way, lambda net, x: net.trilu(x, k, upper=upper), x)
    np.testing.assert_array_equal(y, (np.triu if upper else np.tril)(x, min(k, 9)))


def test_slices_backward_and_repetitions(run, way):
    x = values(5, 6, 7, dtype=np.int64)
    (y,) = run(way, lambda net, x: net.tile(net.strided_slice(x, (4, 1), (-9, 6), axes=(0, 2), stride=(-2, 3)), (1, 2, 3)), x)
    np.testing.assert_array_equal(y, np.tile(x[::-2, :, 1:6:3], (1, 2, 3)))


def test_one_element(run, way):
    x = values(3, 5)
    (y,) = run(way, lambda net, x: net.strided_slice(x, (1, 3), (2, 4)), x)
    np.testing.assert_array_equal(y, x[1:2, 3:4])


@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.int64])
def test_views_at_odd_offsets(run, way, dtype):
    """A part that is a view begins at any multiple of its element; so do the vectors of kernels."""
    x = values(3, 9, 35, dtype=dtype)

    def build(net, x):
        parts = net.split(x, 3, 0)
        return tuple(net.permute(part, (2, 0, 1)) for part in parts)

    for found, part in zip(run(way, build, x), np.split(x, 3), strict=True):
        np.testing.assert_array_equal(found, part.transpose(2, 0, 1))


@pytest.mark.parametrize("rows", [2, 3, 4, 5])
@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32])
def test_rows_take_turns(run, way, rows, dtype):
    """Images of a few channels, from planes to pixels and back."""
    planes = values(2, rows, 5, 9, dtype=dtype)
    pixels, back = run(
        way, lambda net, x: (net.permute(x, (0, 2, 3, 1)), net.permute(net.reshape(x, (2, 5, 9, rows)), (0, 3, 1, 2))), planes
    )
    np.testing.assert_array_equal(pixels, planes.transpose(0, 2, 3, 1))
    np.testing.assert_array_equal(back, planes.reshape(2, 5, 9, rows).transpose(0, 3, 1, 2))


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("column_first", [False, True])
def test_blocks_of_pixels(run, way, layout, column_first):
    x = values(2, 12, 6, 10)
    to_depth = np.moveaxis(x.reshape(2, 12, 3, 2, 5, 2), (3, 5), (1, 2)).reshape(2, 48, 3, 5)
    split = (2, 3, 2, 2, 6, 10) if column_first else (2, 2, 2, 3, 6, 10)
    order = (0, 1, 4, 2, 5, 3) if column_first else (0, 3, 4, 1, 5, 2)
    to_space = x.reshape(split).transpose(order).reshape(2, 3, 12, 20)
    given, moved = (x, lambda y: y) if layout == "NCHW" else (x.transpose(0, 2, 3, 1).copy(), lambda y: y.transpose(0, 3, 1, 2))

    def build(net, x):
        back = net.depth_to_space(x, 2, column_first=column_first, layout=layout)
        return net.space_to_depth(x, 2, layout=layout), back

    found = run(way, build, given)
    np.testing.assert_array_equal(moved(found[0]), to_depth)
    np.testing.assert_array_equal(moved(found[1]), to_space)
