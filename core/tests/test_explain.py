"""What placement reports say: of every layer what it computes, where, and why; in any width."""

import re

import numpy as np
import pytest
from fakes.backends import Choosing, all_but

import dovetail
from dovetail import Network, optimize
from dovetail.graph.descriptor import descriptor_class
from dovetail.layers.kind_words import kind_in_words


def many_kinds():
    """A layer of many kinds, with names as converters make them."""
    net, rng = Network("kinds"), np.random.default_rng(3)

    def weights(*shape):
        return rng.normal(0, 0.1, shape).astype(np.float32)

    x = net.input("image", (1, 8, 16, 16))
    y = net.convolution2d(
        x, weights(16, 4, 3, 3), stride=(2, 1), padding=1, groups=2, name="backbone/stage_0/unit_0/conv/Conv2D"
    )
    y = net.activation(y, "bounded_relu", 6.0, name="backbone/stage_0/unit_0/activation/Relu6")
    y = net.depthwise_convolution2d(y, weights(16, 1, 3, 3), dilation=2, padding=2, name="backbone/stage_0/unit_1/depthwise")
    y = net.batch_normalization(y, *(np.ones(16, np.float32) for _ in range(4)), name="backbone/stage_0/unit_1/norm")
    y = net.pooling2d(y, "max", 3, stride=2)
    y = net.addition(y, net.activation(y, "swish", 1.0))
    y = net.global_pooling(y, "average")
    y = net.fully_connected(net.flatten(y), weights(10, 16), weights(10))
    net.output(net.softmax(y), "probabilities")
    return net


def test_every_layer_says_what_it_computes():
    rows = {row.name: row for row in optimize(many_kinds(), [Choosing("First")]).placement.layers}
    assert all(row.words and row.reason and row.output for row in rows.values())
    words = {name: row.words for name, row in rows.items()}
    assert words["backbone/stage_0/unit_0/conv/Conv2D"] == "convolution 3x3 of stride 2x1 in 2 groups + ReLU6"
    assert words["backbone/stage_0/unit_1/depthwise"] == "depthwise convolution 3x3 of dilation 2, batch norm folded in"
    told = list(words.values())
    for expected in ("swish", "average pooling of the whole image", "fully connected", "softmax"):
        assert expected in told
    assert any(re.fullmatch(r"max pooling 3x3 of stride 2", one) for one in told)


def test_macs_are_those_of_the_network():
    placement = optimize(many_kinds(), [Choosing("First", all_but("FullyConnected")), Choosing("Second")]).placement
    by_kind = {row.kind: row.macs for row in placement.layers if row.macs}
    # By hand: outputs times factors of each.
    assert by_kind["dovetail.Convolution2d"] == 16 * 8 * 16 * 4 * 9
    assert by_kind["dovetail.DepthwiseConvolution2d"] == 16 * 8 * 16 * 9
    assert by_kind["dovetail.FullyConnected"] == 160
    first, second = placement.totals()
    assert (first.label, second.label, second.layers, second.macs) == ("First", "Second", 1, 160)
    assert first.layers + second.layers == len(placement.layers)
    assert [one["label"] for one in placement.to_dict()["totals"]] == ["First", "Second"]


@pytest.mark.parametrize("width", [40, 80, 100, 120, 200])
def test_reports_fit_their_columns(width):
    placement = optimize(many_kinds(), [Choosing("First", all_but("Softmax")), Choosing("Second")]).placement
    text = placement.explain(width)
    if width >= 80:
        assert all(len(line) <= width for line in text.splitlines()), text
    assert set(re.findall(r"[A-Za-z0-9+]+", "convolution 3x3 of stride 2x1 in 2 groups + ReLU6")) <= set(text.split())
    for said in ("no Softmax on this chip", "fell back (1 to Second)", "First", "Second"):
        assert said in " ".join(text.split())


def test_wide_reports_show_more():
    placement = optimize(many_kinds(), [Choosing("First")]).placement
    narrow, wide = placement.explain(80), placement.explain(400)
    assert "stands for" in wide
    assert "stands for" not in narrow
    assert "float32[1, 16, 8, 16]" in wide
    assert placement.explain() == placement.explain(10**6)  # standard output is no terminal here


def test_kinds_of_others_are_named_by_their_kind():
    @descriptor_class
    class FancyNorm2d(dovetail.Descriptor, kind="acme.FancyNorm2d"):
        def infer(self, inputs):
            return [inputs[0]]

        def macs(self, inputs, outputs):
            raise ValueError("not counted")

    @descriptor_class
    class Pooling2d(dovetail.Descriptor, kind="acme.Pooling2d"):
        def infer(self, inputs):
            return [inputs[0]]

    net = Network("own")
    y = net.add(FancyNorm2d(), net.input("x", (2, 3)), name="norm")
    y = net.add(Pooling2d(), y.output, name="pool")
    net.output(y.output, "y")
    assert [kind_in_words(net.layer(name)) for name in ("norm", "pool")] == ["fancy norm2d", "pooling2d"]
    placement = optimize(net, [Choosing("First")]).placement
    assert [row.macs for row in placement.layers] == [0, 0]


def test_names_cannot_forge_a_row_or_command_a_terminal() -> None:
    net = Network("hostile")
    name = "conv\x1b[2J\r\nforged   CpuRef   first choice\u202e"
    net.output(net.relu(net.input("x", (2,)), name=name), "y")
    optimized = optimize(net, [Choosing("First")])
    text = optimized.placement.explain()
    assert all(character.isprintable() or character == "\n" for character in text)
    assert not any(line.startswith("forged") for line in text.splitlines())
    assert repr(net.layer(name).output).isprintable()
