"""Check Winograd convolution against NumPy in float64, on each instruction set."""

import numpy as np
import pytest

import dovetail
from dovetail_neon.convolution.algorithms import AMPLIFICATION, LARGEST_ELEMENT, allows_winograd, winograd_tile
from dovetail_neon.convolution.kinds import WinogradConvolve
from dovetail_neon.elementwise.codes import FUNCTIONS
from dovetail_neon.elementwise.functions import IDENTITY, Function
from dovetail_neon.geometry.layouts import Image, blocks, plain_info
from dovetail_neon.geometry.window import Geometry

CLAMP, SWISH = Function(FUNCTIONS["clamp"], -0.5, 0.75), Function(FUNCTIONS["swish"], 1.0)


def sample(shape, seed):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def blocked(x, lanes, padding=np.nan):
    images, channels, height, width = x.shape
    whole = np.full((images, blocks(channels, lanes) * lanes, height, width), padding, np.float32)
    whole[:, :channels] = x
    return np.ascontiguousarray(whole.reshape(images, blocks(channels, lanes), lanes, height, width).transpose(0, 1, 3, 4, 2))


def channels_first(y, channels):
    images, count, height, width, lanes = y.shape
    return y.transpose(0, 1, 4, 2, 3).reshape(images, count * lanes, height, width)[:, :channels]


def expected_of(x, weights, bias, adds, padding, function, size):
    x = x.astype(np.float64)
    images, channels, height, width = x.shape
    framed = np.zeros((images, channels, padding[0] + max(height, size[0]) + 2, padding[1] + max(width, size[1]) + 2))
    framed[:, :, padding[0] : padding[0] + height, padding[1] : padding[1] + width] = x
    y = np.zeros((images, len(weights), *size))
    for tap in range(9):
        part = framed[:, :, tap // 3 : tap // 3 + size[0], tap % 3 : tap % 3 + size[1]]
        y += np.einsum("nchw,fc->nfhw", part, weights[:, tap].astype(np.float64), optimize=True)
    y += 0 if bias is None else bias[None, :, None, None]
    y += 0 if adds is None else adds
    if function == CLAMP:
        return np.clip(y, CLAMP.a, CLAMP.b)
    return y / (1 + np.exp(-y)) if function == SWISH else y


@pytest.fixture
def convolve(run_layer, kernels):
    """Run one convolution: results as [N, C, H, W]. Padding lanes of the inputs are NaN."""

    def run(x, weights, tile, bias=None, adds=None, padding=(1, 1), function=IDENTITY, size=None):
        source = Image(*x.shape)
        target = Image(source.batch, len(weights), *(size or x.shape[2:]))
        shape = (target.batch, blocks(target.channels, kernels.lanes), target.height, target.width, kernels.lanes)
        descriptor = WinogradConvolve(
            infos=(plain_info(shape),),
            weights=weights,
            bias=bias,
            source=source,
            target=target,
            geometry=Geometry((3, 3), padding=padding),
            function=function,
            tile=tile,
        )
        inputs = [blocked(each, kernels.lanes) for each in (x, adds) if each is not None]
        [y] = run_layer(lambda net, *slots: net.add(descriptor, *slots), *inputs)
        return channels_first(y, target.channels)

    return run


def check(convolve, source, filters, tile, padding=(1, 1), size=None, function=IDENTITY, bias=True, adds=False):
    size = size or source[2:]
    x, weights = sample(source, 1), sample((filters, 9, source[1]), 2) * np.float32(np.sqrt(2 / (9 * source[1])))
    offset = sample((filters,), 3) if bias else None
    added = sample((source[0], filters, *size), 4) if adds else None
    y = convolve(x, weights, tile, offset, added, padding, function, size)
    expected = expected_of(x, weights, offset, added, padding, function, size)
    # Sums of a few terms of magnitude one, through transforms that multiply errors.
    assert np.abs(y - expected).max() <= (2e-6 if tile == 2 else 1e-5) * max(1.0, np.abs(expected).max())


@pytest.mark.parametrize("tile", [2, 4])
@pytest.mark.parametrize("channels", [1, 3, 17, 33])
@pytest.mark.parametrize("size", [(1, 1), (5, 7), (8, 8), (4, 13)])
def test_odd_sizes(convolve, channels, size, tile):
    check(convolve, (1, channels, *size), 19, tile)
    check(convolve, (2, channels, *size), 70, tile)


@pytest.mark.parametrize("tile", [2, 4])
@pytest.mark.parametrize(
    ("source", "padding", "size"),
    [
        ((6, 9), (0, 0), (4, 7)),
        ((3, 3), (0, 0), (1, 1)),
        ((5, 6), (2, 1), (7, 6)),
        ((5, 6), (0, 1), (5, 9)),
        ((2, 2), (5, 6), (11, 13)),
    ],
)
def test_padding(convolve, source, padding, size, tile):
    """Also results that see nothing of the image."""
    check(convolve, (2, 5, *source), 6, tile, padding, size)


@pytest.mark.parametrize("tile", [2, 4])
@pytest.mark.parametrize("function", [IDENTITY, CLAMP, SWISH])
@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_what_follows(convolve, function, adds, bias, tile):
    check(convolve, (2, 18, 9, 10), 35, tile, function=function, bias=bias, adds=adds)


@pytest.mark.parametrize("tile", [2, 4])
def test_bands(convolve, tile):
    """Tiles enough for bands that each transform their own, from two images."""
    check(convolve, (2, 20, 60, 57), 40, tile, adds=True, function=CLAMP)


@pytest.mark.parametrize("tile", [2, 4])
def test_many_channels(convolve, tile):
    """Rows a multiple of a page apart, and several groups of filters."""
    check(convolve, (1, 512, 7, 7), 144, tile)


@pytest.mark.parametrize("tile", [2, 4])
@pytest.mark.parametrize("source", [(0, 3, 5, 5), (1, 3, 0, 5), (1, 0, 5, 5)])
def test_nothing(convolve, source, tile):
    y = convolve(sample(source, 1), sample((4, 9, source[1]), 2), tile, np.ones(4, np.float32))
    assert y.shape == (source[0], 4, *source[2:])
    assert (y == 1).all()


@pytest.mark.parametrize("tile", [2, 4])
def test_what_is_not_finite_stays_in_its_tiles(convolve, tile):
    x, weights = sample((1, 5, 16, 16), 1), sample((7, 9, 5), 2)
    expected = expected_of(x, weights, None, None, (1, 1), IDENTITY, (16, 16))
    x[0, 2, 0, 0] = np.nan
    y = convolve(x, weights, tile).copy()
    assert np.isnan(y[:, :, :2, :2]).all()
    y[:, :, :tile, :tile] = expected[:, :, :tile, :tile]
    assert np.abs(y - expected).max() <= 1e-4


@pytest.mark.parametrize("tile", [2, 4])
def test_results_do_not_depend_on_neighbours(convolve, tile):
    """Bit for bit: an image alone and in a batch, where bands are cut elsewhere."""
    x, weights = sample((3, 33, 22, 23), 1), sample((40, 9, 33), 2)
    together = convolve(x, weights, tile)
    for image in range(3):
        assert (convolve(x[image : image + 1], weights, tile) == together[image]).all()


@pytest.mark.parametrize(("tile", "geometry"), [(3, Geometry((3, 3))), (2, Geometry((3, 3), (2, 2))), (4, Geometry((1, 3)))])
def test_refuses_other_windows(run_layer, kernels, tile, geometry):
    image = Image(1, 1, 4, 4)
    descriptor = WinogradConvolve(
        infos=(plain_info((1, 1, 4, 4, kernels.lanes)),),
        weights=sample((1, 9, 1), 1),
        bias=None,
        source=image,
        target=image,
        geometry=geometry,
        tile=tile,
    )
    with pytest.raises(ValueError, match="no tiles of"):
        run_layer(lambda net, x: net.add(descriptor, x), sample((1, 1, 4, 4, kernels.lanes), 2))


@pytest.mark.parametrize(
    ("channels", "filters", "size", "tile"),
    [
        (64, 64, 56, 4),  # many tiles, channels enough
        (512, 512, 7, 2),  # few tiles: weights have to be fetched
        (2048, 2048, 2, 0),
        (1, 1, 100, 0),  # nothing but transforms
        (0, 4, 8, 0),
        (16, 16, 0, 0),
    ],
)
def test_choice(channels, filters, size, tile):
    assert winograd_tile(Image(1, channels, size, size), Image(1, filters, size, size)) == tile


@pytest.mark.parametrize(
    ("magnitude", "allowed"),
    [(1.0, True), (0.0, True), (1e8, True), (1e-20, True), (1e37, False), (np.inf, False), (1e-37, False)],
)
def test_magnitudes_of_weights(magnitude, allowed):
    weights = np.zeros((4, 9, 64), np.float32)
    weights[1, 2, 3] = -magnitude
    assert allows_winograd(weights) is allowed
    weights[2, 2, 2] = np.nan
    assert not allows_winograd(weights)


@pytest.mark.parametrize("tile", [2, 4])
def test_the_largest_weights_that_are_allowed_stay_finite(convolve, tile):
    """The largest elements allowed, with the signs that add up most; sums stay within float32."""
    channels = 16
    limit = np.float32(np.finfo(np.float32).max / (AMPLIFICATION * LARGEST_ELEMENT * channels))
    weights = np.full((16, 9, channels), limit, np.float32)
    assert allows_winograd(weights)
    x = np.full((1, channels, 8, 8), LARGEST_ELEMENT, np.float32) * np.random.default_rng(1).choice(
        [-1, 1], (1, channels, 8, 8)
    )
    found = convolve(x.astype(np.float32), weights, tile)
    assert np.isfinite(found).all()


@pytest.mark.parametrize("magnitude", [1e37, 1e-37])
def test_extreme_weights_give_what_the_definition_gives(magnitude):
    numbers = np.random.default_rng(2)
    x = (numbers.standard_normal((1, 64, 28, 28)) * (1e-2 if magnitude > 1 else 1e30)).astype(np.float32)
    weights = (numbers.standard_normal((64, 64, 3, 3)) * magnitude).astype(np.float32)
    net = dovetail.Network()
    net.output(net.convolution2d(net.input("x", x.shape), weights, padding=1), "y")
    found = {}
    for backend in ("CpuAcc", "CpuRef"):
        with dovetail.load(net, [backend], fallback=False) as loaded:
            found[backend] = loaded.run({"x": x})["y"]
    assert np.isfinite(found["CpuRef"]).all()
    np.testing.assert_allclose(found["CpuAcc"], found["CpuRef"], rtol=1e-3, atol=1e-5 * np.abs(found["CpuRef"]).max())
