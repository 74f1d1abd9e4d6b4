"""Attention that is spelled out is found, and nothing that only looks like it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import dovetail
from dovetail import Constant, Network, SubgraphView
from dovetail.graph.descriptor import Input, Output
from dovetail.graph.graph import Graph
from dovetail.layers import ActivationFunction, BinaryOperation, ElementwiseBinary
from dovetail_neon.attention.matching import emit_attention, find_attention


@dataclass(frozen=True)
class Spelling:
    """How attention is written down; the defaults are what exporters write."""

    heads: int = 3
    size: int = 5
    value_size: int = 5
    keys: int = 9
    scale: str = "divide"
    factor: object = np.float32(2.5)
    mask: tuple[int, ...] | None = (2, 1, 1, 9)
    mask_first: bool = False
    transposed_by_product: bool = False
    transposed_twice: bool = False
    key_order: tuple[int, ...] = (0, 2, 3, 1)
    value_order: tuple[int, ...] = (0, 2, 1, 3)
    last_order: tuple[int, ...] = (0, 2, 1, 3)
    last_shape: tuple[int, ...] = (2, 7, 15)
    axis: int = -1
    beta: float = 1.0
    log: bool = False
    activation: ActivationFunction | None = None
    also_read: str | None = None
    same: bool = False


def spell(how: Spelling) -> Network:
    net = Network("attention")
    width = how.heads * how.size
    q = net.input("q", (2, 7, width))
    k = q if how.same else net.input("k", (2, how.keys, width))
    v = net.input("v", (2, how.keys, how.heads * how.value_size))
    inner = {}

    def cut(slot, order, size, name):
        inner[name] = net.reshape(slot, (2, slot.known_info.sizes[1], how.heads, size))
        return net.permute(inner[name], order)

    q, v = cut(q, (0, 2, 1, 3), how.size, "q_cut"), cut(v, how.value_order, how.value_size, "v_cut")
    if how.transposed_twice:
        k = net.permute(cut(k, (0, 2, 1, 3), how.size, "k_cut"), (0, 1, 3, 2))
    else:
        k = cut(k, (0, 2, 1, 3) if how.transposed_by_product else how.key_order, how.size, "k_cut")
    x = inner["product"] = net.matmul(q, k, transpose_b=how.transposed_by_product)
    if how.scale == "divide":
        x = net.division(x, how.factor)
    elif how.scale == "multiply":
        x = net.multiplication(x, how.factor)
    elif how.scale == "multiply first":
        x = net.multiplication(how.factor, x)
    elif how.scale == "divide by":
        x = net.division(how.factor, x)
    inner["scaled"] = x
    if how.mask is not None:
        mask = net.input("mask", how.mask)
        addition = ElementwiseBinary(operation=BinaryOperation.ADD, activation=how.activation)
        x = net.add(addition, *((mask, x) if how.mask_first else (x, mask))).output
    x = inner["softmax"] = net.log_softmax(x, how.axis) if how.log else net.softmax(x, how.axis, beta=how.beta)
    x = inner["weighed"] = net.matmul(x, v)
    x = net.reshape(net.permute(x, how.last_order), how.last_shape)
    net.output(net.relu(x), "y")
    if how.also_read:
        net.output(net.relu(inner[how.also_read]), "z")
    return net


def view_of(net: Network) -> SubgraphView:
    return SubgraphView(net, [layer for layer in net.layers if not isinstance(layer.descriptor, Input | Output | Constant)])


MATCHES = [
    Spelling(),
    Spelling(mask_first=True),
    Spelling(mask=None),
    Spelling(mask=(2, 3, 7, 9)),
    Spelling(mask=(1, 1, 7, 1)),
    Spelling(scale="multiply"),
    Spelling(scale="multiply first", mask=None),
    Spelling(scale="none"),
    Spelling(scale="none", mask=None),
    Spelling(transposed_by_product=True),
    Spelling(transposed_twice=True),
    Spelling(axis=3),
    Spelling(factor=np.full((1, 1, 1, 1), 2.5, np.float32)),
    Spelling(value_size=4, last_shape=(2, 7, 12)),
    Spelling(same=True, keys=7, mask=(2, 1, 1, 7)),
]


@pytest.mark.parametrize("how", MATCHES)
def test_found(how):
    net = spell(how)
    view = view_of(net)
    [match] = find_attention(view)
    assert (match.q, match.k, match.v) == tuple(net.layer(name).output for name in ("q", "q" if how.same else "k", "v"))
    assert match.mask is (None if how.mask is None else net.layer("mask").output)
    assert (match.heads, match.size) == (how.heads, how.size)
    expected = {"divide": 0.4, "multiply": 2.5, "multiply first": 2.5, "none": 1.0}[how.scale]
    assert match.scale == pytest.approx(expected)
    part = view.part(match.layers)
    assert part.is_convex
    assert part.outputs == (match.output,)
    assert match.layers[-1] is match.output.layer
    # All but what follows.
    assert len(part) == len(view) - 1


NOT = {
    "another axis": Spelling(axis=2),
    "a sharper softmax": Spelling(beta=2.0),
    "a logarithm": Spelling(log=True),
    "an activation in between": Spelling(activation=ActivationFunction.RELU),
    "a factor per key": Spelling(factor=np.arange(1, 10, dtype=np.float32)),
    "one over the scores": Spelling(scale="divide by"),
    "a division by zero": Spelling(factor=np.float32(0)),
    "a mask of rank 2": Spelling(mask=(7, 9)),
    "keys that are as many as elements, not transposed": Spelling(keys=5, key_order=(0, 2, 1, 3), mask=None),
    "values transposed": Spelling(keys=5, value_order=(0, 2, 3, 1), mask=None),
    "heads in another order": Spelling(last_order=(0, 2, 3, 1)),
    "a result of rank 2": Spelling(last_shape=(14, 15)),
    "heads cut from the batch": Spelling(last_shape=(7, 2, 15)),
    "scores that are read": Spelling(also_read="scaled"),
    "products that are read": Spelling(also_read="product"),
    "weights that are read": Spelling(also_read="softmax"),
    "results that are read in heads": Spelling(also_read="weighed"),
    "keys that are read in heads": Spelling(also_read="k_cut"),
}


@pytest.mark.parametrize("how", NOT.values(), ids=NOT.keys())
def test_left_alone(how):
    assert find_attention(view_of(spell(how))) == []


@pytest.mark.parametrize("index", range(len(view_of(spell(Spelling())).layers)))
def test_all_layers_must_be_in_the_view(index):
    view = view_of(spell(Spelling()))
    layers = [layer for number, layer in enumerate(view.layers) if number != index]
    assert len(find_attention(view.part(layers))) == (view.layers[index].kind == "dovetail.Activation")


def test_two_in_a_row():
    net = Network("two")
    x = net.input("x", (1, 4, 6))
    for _ in range(2):
        q, v = (net.permute(net.reshape(net.relu(x), (1, 4, 2, 3)), (0, 2, 1, 3)) for _ in range(2))
        k = net.permute(net.reshape(net.relu(x), (1, 4, 2, 3)), (0, 2, 3, 1))
        x = net.reshape(net.permute(net.matmul(net.softmax(net.matmul(q, k)), v), (0, 2, 1, 3)), (1, 4, 6))
    net.output(x, "y")
    first, second = find_attention(view_of(net))
    assert not set(first.layers) & set(second.layers)


@pytest.mark.parametrize("how", MATCHES)
def test_the_layer_that_is_emitted(run_layer, how):
    net = spell(how)
    [match] = find_attention(view_of(net))
    names = ["q", "v"] if how.same else ["q", "k", "v"]
    names += [] if how.mask is None else ["mask"]
    rng = np.random.default_rng(1)
    feeds = {name: rng.standard_normal(net.layer(name).output.known_info.sizes).astype(np.float32) for name in names}

    def build(graph: Graph, *slots):
        inside = dict(zip((net.layer(name).output for name in names), slots, strict=True))
        mask = None if match.mask is None else inside[match.mask]
        return emit_attention(graph, match, inside[match.q], inside[match.k], inside[match.v], mask)

    [y] = run_layer(build, *feeds.values())
    q, k, v = (feeds[name].astype(np.float64) for name in ("q", "q" if how.same else "k", "v"))
    q, k, v = (x.reshape(*x.shape[:2], how.heads, -1).transpose(0, 2, 1, 3) for x in (q, k, v))
    scores = q @ k.swapaxes(2, 3) * match.scale + (0 if how.mask is None else feeds["mask"])
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = (weights / weights.sum(-1, keepdims=True) @ v).transpose(0, 2, 1, 3).reshape(how.last_shape)
    np.testing.assert_allclose(y, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("how", MATCHES[:6])
def test_in_a_network(how):
    """Match CpuRef's results for the spelled-out layers; the bits do not depend on threads."""
    net = spell(how)
    rng = np.random.default_rng(2)
    feeds = {layer.name: rng.standard_normal(layer.output.known_info.sizes).astype(np.float32) for layer in net.inputs}
    if "mask" in feeds:
        feeds["mask"] = np.where(feeds["mask"] < 0.5, np.float32(0), np.float32(-10000))
        feeds["mask"][..., 0] = 0
    [expected] = dovetail.load(net, ["CpuRef"], fallback=False).run(feeds).values()
    alone, shared = (dovetail.load(net, ["CpuAcc"], threads=count, fallback=False).run(feeds)["y"] for count in (1, 2))
    np.testing.assert_allclose(alone, expected, rtol=0, atol=1e-5)
    np.testing.assert_array_equal(alone, shared)
