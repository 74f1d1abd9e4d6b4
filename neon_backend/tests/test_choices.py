"""Check what CpuAcc offers to be tuned: every way against NumPy, nothing without a choice."""

import numpy as np
import pytest

import dovetail
from dovetail import Network
from dovetail_neon.backend import CpuAccBackend
from dovetail_neon.convolution.algorithms import tile_vectors
from dovetail_neon.geometry.layouts import Image
from dovetail_sdk.tuning import tune


class Way:
    """Chooses the way of this number, or of this name, wherever there is one."""

    def __init__(self, way):
        self.way = way
        self.taken = []
        self.offers = []

    def wants(self, candidate):
        return candidate.backend.id == "CpuAcc"

    def choose(self, candidate, choice):
        self.offers.append(choice.names)
        return self.way if self.way in choice.names else None

    def placed(self, choice, name, layers):
        self.taken.append((name, layers))


def sample(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def block(channels, size, *, filters=None, batch=1, adds=False, relu=False, **window):
    """A point-wise convolution, so that images are blocked, then a windowed one; their results."""
    filters = filters or channels
    network = Network("block")
    x = network.input("x", (batch, channels, *size))
    first, weights = sample(channels, channels, 1, 1) / channels**0.5, sample(filters, channels, 3, 3) / (9 * channels) ** 0.5
    bias = sample(filters)
    entry = network.convolution2d(x, first, name="entry")
    y = network.convolution2d(entry, weights, bias, padding=(1, 1, 1, 1), name="windows", **window)
    if adds:
        y = network.addition(y, entry)
    if relu:
        y = network.relu(y)
    network.output(y, "y")
    feed = sample(batch, channels, *size)
    inner = np.einsum("nchw,fc->nfhw", feed.astype(np.float64), first[:, :, 0, 0].astype(np.float64))
    framed = np.pad(inner, ((0, 0), (0, 0), (1, 1), (1, 1)))
    expected = bias[None, :, None, None] + sum(
        np.einsum(
            "nchw,fc->nfhw",
            framed[:, :, i : i + size[0], j : j + size[1]],
            weights[:, :, i, j].astype(np.float64),
            optimize=True,
        )
        for i in range(3)
        for j in range(3)
    )
    expected = expected + inner if adds else expected
    return network, feed, np.maximum(expected, 0) if relu else expected


def load(network, way, isa="auto", **arguments):
    return dovetail.load(network, CpuAccBackend(), tuned=way, options={"CpuAcc": {"isa": isa}}, **arguments)


CASES = {
    "plain": {"channels": 32, "size": (9, 7)},
    "few pixels": {"channels": 16, "size": (2, 2)},
    "two rows": {"channels": 17, "size": (2, 13)},
    "channels that fill no block": {"channels": 21, "size": (5, 6), "filters": 35},
    "a residual": {"channels": 32, "size": (8, 8), "adds": True, "relu": True},
    "a batch": {"channels": 24, "size": (6, 5), "batch": 3, "relu": True},
    "many filters": {"channels": 16, "size": (14, 14), "filters": 200},
}


@pytest.mark.parametrize("way", ["direct", "winograd 2", "winograd 4"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_every_algorithm_computes_the_same(case, way, kernels):
    network, feed, expected = block(**case)
    chooser = Way(way)
    with load(network, chooser, kernels.name) as net:
        kind = net.placement.layer("windows").kind
        y = net.run({"x": feed})["y"]
    assert chooser.taken == [(way, ("windows",))] or (case.get("adds") and [name for name, _ in chooser.taken] == [way])
    assert kind == ("CpuAcc.Convolve" if way == "direct" else "CpuAcc.WinogradConvolve")
    assert np.abs(y - expected).max() <= 3e-6 * np.sqrt(case["channels"]) * np.abs(expected).max()


@pytest.mark.parametrize(
    "window", [{"stride": (2, 2)}, {"dilation": (2, 2)}, {"groups": 2}], ids=["a stride", "a dilation", "groups"]
)
def test_no_algorithm_is_offered_where_there_is_but_one(window):
    network = Network("block")
    x = network.input("x", (1, 64, 12, 12))
    entry = network.convolution2d(x, sample(64, 64, 1, 1))
    weights = sample(64, 64 // window.get("groups", 1), 3, 3)
    network.output(network.convolution2d(entry, weights, padding=(2, 2, 2, 2), **window), "y")
    chooser = Way("direct")
    with load(network, chooser):
        assert "direct" not in {name for names in chooser.offers for name in names}


def test_a_first_layer_of_few_channels_has_no_choice(kernels):
    network = Network("picture")
    x = network.input("x", (1, 3, 16, 16))
    network.output(network.convolution2d(x, sample(4, 3, 3, 3), padding=(1, 1, 1, 1)), "y")
    chooser = Way("winograd 2")
    with load(network, chooser, kernels.name) as net:
        kinds = [row.kind for row in net.placement.layers]
    assert ("CpuAcc.Frame" in kinds, len(chooser.offers)) == ((True, 0) if kernels.lanes > 3 else (False, 1))


def test_the_default_is_among_the_names_and_changes_nothing():
    network, feed, _ = block(32, (12, 12))
    survey = Way("none of them")
    with load(network, survey) as net:
        default = net.run({"x": feed})["y"]
    (names,) = (names for names in survey.offers if "direct" in names)
    assert sorted(names) == ["direct", "winograd 2", "winograd 4"]
    with load(network, Way(names[0])) as net:
        assert np.array_equal(net.run({"x": feed})["y"], default)
        assert net.placement.layer("windows").tuned == f"tuned: {names[0]}, as by default"


def test_a_tuned_network_computes_the_same_for_any_number_of_busy_threads(tmp_path, monkeypatch):
    monkeypatch.setenv("DOVETAIL_CACHE_DIR", str(tmp_path / "cache"))
    network, feed, expected = block(48, (10, 10), adds=True, relu=True)
    with dovetail.Runtime(threads=2) as runtime:
        report = tune(network, CpuAccBackend(), threads=2, rounds=3, runtime=runtime)
        (windows,) = (row for row in report.layers if "windows" in row.sources)
        assert set(windows.seconds) == {"direct", "winograd 2", "winograd 4"}
        assert all(seconds > 0 for seconds in windows.seconds.values())
        with dovetail.load(network, CpuAccBackend(), threads=2, runtime=runtime) as net:
            assert net.placement.layer("windows").tuned.startswith(f"tuned: {windows.winner}")
            assert net.optimized.placement == net.placement  # made anew: weights are let go of
            results = [future.result()["y"] for future in [net.submit({"x": feed}) for _ in range(20)]]
    assert all(np.array_equal(result, results[0]) for result in results)
    assert np.abs(results[0] - expected).max() <= 2e-5 * np.abs(expected).max()


def expansion(channels, filters, size, stride, batch=1, relu=True):
    """A point-wise convolution and a depthwise one that alone reads it; and what they compute."""
    network = Network("expansion")
    x = network.input("x", (batch, channels, *size))
    first, weights = sample(filters, channels, 1, 1) / channels**0.5, sample(filters, 1, 3, 3) / 3
    bias = sample(filters)
    y = network.convolution2d(x, first, bias, name="expand")
    y = network.relu(y) if relu else y
    y = network.depthwise_convolution2d(y, weights, stride=stride, padding=(1, 1, 1, 1), name="depthwise")
    network.output(y, "y")
    feed = sample(batch, channels, *size)
    inner = np.einsum("nchw,fc->nfhw", feed.astype(np.float64), first[:, :, 0, 0].astype(np.float64)) + bias[:, None, None]
    inner = np.maximum(inner, 0) if relu else inner
    framed = np.pad(inner, ((0, 0), (0, 0), (1, 1), (1, 1)))
    rows, columns = ((size[axis] - 1) // stride + 1 for axis in range(2))
    expected = sum(
        framed[:, :, i : i + stride * rows : stride, j : j + stride * columns : stride] * weights[:, 0, i, j, None, None]
        for i in range(3)
        for j in range(3)
    )
    return network, feed, expected


EXPANSIONS = {
    "small": {"channels": 16, "filters": 40, "size": (7, 9), "stride": 1},
    "a row": {"channels": 16, "filters": 16, "size": (1, 9), "stride": 1},
    "a stride": {"channels": 24, "filters": 50, "size": (15, 14), "stride": 2, "relu": False},
    "a batch": {"channels": 17, "filters": 33, "size": (6, 11), "stride": 2, "batch": 2},
    "what is joined by default": {"channels": 16, "filters": 112, "size": (56, 56), "stride": 1},
}


@pytest.mark.parametrize("way", ["apart", "strips"])
@pytest.mark.parametrize("case", EXPANSIONS.values(), ids=EXPANSIONS)
def test_strips_and_layers_apart_compute_the_same(case, way, kernels):
    network, feed, expected = expansion(**case)
    chooser = Way(way)
    with load(network, chooser, kernels.name) as net:
        kinds = [row.kind for row in net.placement.layers]
        y = net.run({"x": feed})["y"]
    assert [name for name, _ in chooser.taken] == [way]
    assert ("CpuAcc.Strips" in kinds, "CpuAcc.Depthwise" in kinds) == (way == "strips", way == "apart")
    assert np.abs(y - expected).max() <= 2e-6 * np.sqrt(case["channels"]) * np.abs(expected).max()


def test_what_is_taken_apart_stands_for_the_same_layers():
    network, _, _ = expansion(**EXPANSIONS["what is joined by default"])
    rows = {}
    for way in ("strips", "apart"):
        with load(network, Way(way)) as net:
            rows[way] = net.placement.layers
    covered = {way: {source for row in found for source in row.sources} for way, found in rows.items()}
    assert covered["strips"] == covered["apart"] >= {"expand", "depthwise"}


def test_an_expansion_that_others_read_too_is_not_joined():
    network = Network("shared")
    x = network.input("x", (1, 32, 12, 12))
    y = network.convolution2d(x, sample(32, 32, 1, 1))
    z = network.depthwise_convolution2d(y, sample(32, 1, 3, 3), padding=(1, 1, 1, 1))
    network.output(network.addition(y, z), "z")
    chooser = Way("strips")
    with load(network, chooser):
        assert "strips" not in {name for names in chooser.offers for name in names}


def products(rows):
    """A product with a constant matrix; and what it computes."""
    network = Network("product")
    x = network.input("x", (rows, 50))
    weights, bias = sample(77, 50) / 50**0.5, sample(77)
    network.output(network.fully_connected(x, weights, bias), "y")
    feed = sample(rows, 50)
    return network, feed, feed.astype(np.float64) @ weights.T.astype(np.float64) + bias


@pytest.mark.parametrize(
    "make",
    [
        lambda: block(21, (9, 11), filters=100, adds=False, relu=True),
        lambda: expansion(40, 130, (10, 9), 2)[:3],
        lambda: products(13),
    ],
    ids=["windows", "an expansion", "a product"],
)
def test_tiles_of_any_number_of_vectors_give_the_same_bits(make, kernels):
    network, feed, expected = make()
    results = {}
    for count in range(2, kernels.vectors + 1):
        chooser = OnlyTiles(f"{count} vectors")
        with load(network, chooser, kernels.name) as net:
            results[count] = net.run({"x": feed})["y"]
        assert {name for name, _ in chooser.taken} <= {f"{count} vectors"}
        assert np.abs(results[count] - expected).max() <= 2e-5 * np.abs(expected).max()
    assert all(np.array_equal(result, results[2]) for result in results.values())


class OnlyTiles(Way):
    """Keeps two layers apart where they could be joined, so that each has its own tile."""

    def choose(self, candidate, choice):
        return super().choose(candidate, choice) or ("apart" if "apart" in choice.names else None)

    def placed(self, choice, name, layers):
        if name != "apart":
            super().placed(choice, name, layers)


def test_one_row_or_one_vector_of_filters_has_no_tiles_to_choose(kernels):
    for network, _, _ in (products(1), block(kernels.lanes, (8, 8))):
        chooser = Way("2 vectors")
        with load(network, chooser, kernels.name):
            offered = [names for names in chooser.offers if "2 vectors" in names]
        assert len(offered) == 0


@pytest.mark.parametrize("way", ["direct", "winograd 2", "winograd 4"])
def test_a_convolution_that_stores_its_channels_innermost_is_no_other(kernels, way):
    """Winograd's kernel writes blocks: where none are wanted it must not be offered."""
    network, feed, expected = block(17, (3, 3))
    (output,) = network.outputs
    source = output.inputs[0].source
    turned = network.permute(source, (0, 2, 3, 1), name="turned")
    network.output(turned, "z")
    network.remove(output)
    chooser = Way(way)
    with load(network, chooser, kernels.name) as loaded:
        found = loaded.run({"x": feed})["z"]
    np.testing.assert_allclose(found, expected.transpose(0, 2, 3, 1), rtol=1e-4, atol=1e-4)
    assert not [names for names in chooser.offers if "winograd 2" in names]


@pytest.mark.parametrize(("size", "vectors"), [((1, 1), 0), ((2, 3), 0), ((7, 7), 2), ((7, 8), 2), ((8, 8), 0), ((28, 28), 0)])
def test_small_images_take_tiles_of_many_pixels(size, vectors):
    assert tile_vectors(Image(1, 512, *size)) == vectors
    assert tile_vectors(Image(3, 512, *size)) == (2 if 6 < 3 * size[0] * size[1] <= 56 else 0)


@pytest.mark.parametrize(("size", "vectors"), [((1, 1), 0), ((7, 7), 2), ((14, 14), 2), ((10, 20), 2), ((15, 15), 0)])
def test_points_take_such_tiles_of_larger_images_too(size, vectors):
    assert tile_vectors(Image(1, 512, *size), channels=256) == vectors


def test_weights_that_stay_in_the_first_cache_may_be_read_often():
    assert tile_vectors(Image(1, 64, 25, 5), channels=64) == 0
    assert tile_vectors(Image(1, 512, 14, 14), lanes=4, channels=256) == 0
