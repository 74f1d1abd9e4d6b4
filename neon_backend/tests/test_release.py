"""Weights that were packed are let go of, and whoever wants the layers again gets them whole."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import dovetail
from dovetail import PrivateLayer, optimize
from dovetail_neon.convolution.kinds import Convolve, WinogradConvolve
from dovetail_neon.fusion import rewriting
from dovetail_neon.strips.kinds import Strips
from dovetail_neon.windows.kinds import Depthwise

RNG = np.random.default_rng(3)


def network() -> dovetail.Network:
    """Direct, Winograd's, expanded depthwise and a product of rows."""
    net = dovetail.Network("all that packs")
    x = net.input("x", (1, 64, 28, 28))
    x = net.relu(net.convolution2d(x, RNG.standard_normal((128, 64, 3, 3), np.float32) / 24, padding=(1, 1, 1, 1)))
    x = net.relu6(net.convolution2d(x, RNG.standard_normal((192, 128, 1, 1), np.float32) / 11))
    x = net.relu6(net.depthwise_convolution2d(x, RNG.standard_normal((192, 1, 3, 3), np.float32) / 3, padding=(1, 1, 1, 1)))
    x = net.convolution2d(x, RNG.standard_normal((24, 192, 1, 1), np.float32) / 14)
    x = net.reshape(net.global_pooling(x, "average"), (1, 24))
    net.output(net.fully_connected(x, RNG.standard_normal((10, 24), np.float32)), "y")
    return net


def private(graph) -> list[PrivateLayer]:
    """Descriptors of private layers, those within others included."""
    found = [layer.descriptor for layer in graph if isinstance(layer.descriptor, PrivateLayer)]
    return found + [stage for one in found if isinstance(one, Strips) for stage in one.stages]


@pytest.fixture
def feeds() -> dict[str, np.ndarray]:
    return {"x": RNG.standard_normal((1, 64, 28, 28), np.float32)}


def test_no_weights_are_left_once_they_are_packed(feeds, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def lower(view, lanes, precision):
        graph = whole(view, lanes, precision)
        made.extend(weakref.ref(d.weights) for d in private(graph) if getattr(d, "weights", None) is not None)
        return graph

    whole = rewriting.lower
    monkeypatch.setattr(rewriting, "lower", lower)
    net = network()
    gc.disable()
    try:
        loaded = dovetail.load(net, ["CpuAcc"])
    finally:
        gc.enable()
    assert len(made) >= 4
    assert [ref() for ref in made] == [None] * len(made)
    (y,) = loaded.run(feeds).values()

    kept = optimize(net, ["CpuAcc"])
    kinds = {type(descriptor) for descriptor in private(kept.graph)}
    assert {Convolve, WinogradConvolve} < kinds
    assert kinds & {Strips, Depthwise}
    with dovetail.Runtime(threads=1) as runtime:
        for _ in range(2):  # what the caller holds can be loaded as often as they like
            np.testing.assert_array_equal(runtime.load(kept).run(feeds)["y"], y)
        again = runtime.load(loaded.optimized)
        np.testing.assert_array_equal(again.run(feeds)["y"], y)
    np.testing.assert_array_equal(dovetail.load(net, ["CpuAcc"]).run(feeds)["y"], y)
