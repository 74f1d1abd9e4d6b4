"""What CpuAcc says of its private layers."""

import numpy as np
import pytest

from dovetail import IBackend, Network, Support, optimize


def explained(net, **arguments):
    return [row.words for row in optimize(net, ["CpuAcc"], **arguments).placement.layers]


def mobile_network():
    """Kinds of layers of a MobileNet: an image, a stem, separable blocks with residuals, a head."""
    rng, net = np.random.default_rng(1), Network("mobile")

    def normal(*shape):
        return rng.normal(0, 0.2, shape).astype(np.float32)

    def normalized(y, name):
        ones = np.ones(y.shape[1], np.float32)
        return net.batch_normalization(y, ones, ones, ones, ones, name=f"{name}.norm")

    def block(y, filters, stride):
        wide = normalized(net.convolution2d(y, normal(y.shape[1] * 6, y.shape[1], 1, 1)), "expand")
        wide = net.activation(wide, "bounded_relu", 6.0)
        wide = net.depthwise_convolution2d(wide, normal(wide.shape[1], 1, 3, 3), stride=stride, padding=1)
        made = normalized(
            net.convolution2d(net.activation(wide, "bounded_relu", 6.0), normal(filters, wide.shape[1], 1, 1)), "project"
        )
        return net.addition(y, made) if made.shape == y.shape else made

    y = net.relu(
        normalized(net.convolution2d(net.input("image", (1, 3, 64, 64)), normal(32, 3, 3, 3), stride=2, padding=1), "stem")
    )
    for filters, stride in ((16, 1), (24, 2), (24, 1), (64, 2), (64, 1), (160, 2)):
        y = block(y, filters, stride)
    y = net.relu(net.convolution2d(y, normal(64, 160, 3, 3), padding=1))
    flat = net.flatten(net.global_pooling(y, "average"))
    net.output(net.softmax(net.fully_connected(flat, normal(10, 64), normal(10))), "probabilities")
    return net


def test_every_layer_of_a_mobilenet_is_named():
    words = explained(mobile_network())
    assert len(words) > 10
    assert all(words), words
    assert not any("private" in said or "." in said for said in words)
    told = "; ".join(words)
    for expected in (
        "convolution 3x3 of stride 2 + ReLU",
        "depthwise convolution 3x3",
        "ReLU6",
        "batch norm folded in",
        "blocked by ",
        "softmax",
    ):
        assert expected in told, told
    text = optimize(mobile_network(), ["CpuAcc"]).placement.explain()
    assert text.count("first choice") == len(words) + 1  # the last is in the line on fallbacks


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda net, x, w: net.relu(net.convolution2d(x, w, padding=1)), "convolution 3x3 + ReLU, Winograd"),
        (lambda net, x, w: net.sigmoid(x), "sigmoid"),
        (lambda net, x, w: net.pooling2d(x, "max", 2, stride=2), "max pooling 2x2 of stride 2"),
    ],
)
def test_single_layers(build, expected):
    net = Network("one")
    weights = np.random.default_rng(2).normal(0, 0.1, (64, 64, 3, 3)).astype(np.float32)
    net.output(build(net, net.input("x", (1, 64, 28, 28)), weights), "y")
    words = explained(net)
    assert any(expected in said for said in words), words


def test_without_optimization_each_layer_is_named_by_itself():
    net = Network("apart")
    weights = np.random.default_rng(2).normal(0, 0.1, (64, 64, 3, 3)).astype(np.float32)
    net.output(net.relu(net.convolution2d(net.input("x", (1, 64, 28, 28)), weights, padding=1)), "y")
    words = explained(net, passes=False)
    assert any(said.startswith("convolution 3x3, Winograd") for said in words), words
    assert "ReLU" in words


@pytest.mark.parametrize(("reverse", "expected"), [(False, "LSTM"), (True, "LSTM, from the last step to the first")])
def test_recurrent_layers(reverse, expected):
    net = Network("sequence")
    states = net.lstm(net.input("x", (3, 1, 4)), np.ones((20, 4), np.float32), np.ones((20, 5), np.float32), reverse=reverse)
    net.output(states[0], "y")
    assert explained(net) == [expected]


class Nothing(IBackend):
    """Takes nothing, and names what it was asked for."""

    id = "Nothing"

    def supports(self, layer, options, device):
        return Support.no("kind", f"no {layer.kind}")

    def create_workload_factory(self, context, resources, options):
        raise AssertionError("it takes nothing")


def test_each_layer_has_the_refusals_of_what_it_stands_for():
    net = mobile_network()
    kinds = {layer.name: layer.kind for layer in net.layers}
    rows = optimize(net, [Nothing(), "CpuAcc"]).placement.layers
    assert len(rows) > 10
    for row in rows:
        said = {one.reason for one in row.refusals}
        assert said
        assert said <= {f"no {kinds[name]}" for name in row.sources}, row.name
