"""Inputs whose values are attributes: known ones are absorbed, sizes come of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dovetail import layers as kinds
from dovetail.graph.descriptor import Descriptor
from dovetail.graph.element_types import DType
from dovetail.graph.tensor import TensorInfo
from dovetail.ground.errors import GraphError
from dovetail.layers.network import Network

I64 = DType.INT64

RESOLVED: dict[str, tuple[Callable[[Network, Any], Any], Descriptor]] = {
    "reshape": (lambda n, x: n.reshape(x, n.constant([4, 6])), kinds.Reshape(shape=(4, 6))),
    "expand dims": (lambda n, x: n.expand_dims(x, n.constant([0])), kinds.ExpandDims(axes=(0,))),
    "broadcast": (lambda n, x: n.broadcast_to(x, n.constant([5, 2, 3, 4])), kinds.BroadcastTo(shape=(5, 2, 3, 4))),
    "tile": (lambda n, x: n.tile(x, n.constant([1, 2, 1])), kinds.Tile(repeats=(1, 2, 1))),
    "slice": (
        lambda n, x: n.strided_slice(x, n.constant([0]), [2], axes=[1], stride=[1]),
        kinds.StridedSlice(begin=(0,), end=(2,), axes=(1,), stride=(1,)),
    ),
    "split": (lambda n, x: n.split(x, 2, 1, sizes=n.constant([1, 2]))[0], kinds.Split(parts=2, axis=1, sizes=(1, 2))),
    "reduce": (
        lambda n, x: n.reduce(x, "sum", n.constant([1])),
        kinds.Reduce(function=kinds.ReduceFunction.SUM, axes=(1,)),
    ),
    "reduce by no axes": (
        lambda n, x: n.reduce(x, "sum", n.constant(np.zeros(0, np.int64))),
        kinds.Reduce(function=kinds.ReduceFunction.SUM, axes=None),
    ),
    "reduce by no axes, meaning none": (
        lambda n, x: n.reduce(x, "sum", n.constant(np.zeros(0, np.int64)), empty_means_none=True),
        kinds.Reduce(function=kinds.ReduceFunction.SUM, axes=(), empty_means_none=True),
    ),
    "cumulative sum": (lambda n, x: n.cumulative_sum(x, n.constant(np.int64(2))), kinds.CumulativeSum(axis=2)),
    "top k": (lambda n, x: n.top_k(x, n.constant([2]))[0], kinds.TopK(k=2)),
    "trilu": (lambda n, x: n.trilu(x, n.constant(np.int64(-1))), kinds.Trilu(k=-1)),
    "resize sizes": (
        lambda n, x: n.resize(x, n.constant([2, 6, 4])),
        kinds.Resize(method=kinds.ResizeMethod.LINEAR, sizes=(2, 6, 4), scales=(1.0, 2.0, 1.0)),
    ),
    "resize scales": (
        lambda n, x: n.resize(x, scales=n.constant(np.array([1, 1.5, 1], np.float32))),
        kinds.Resize(method=kinds.ResizeMethod.LINEAR, sizes=(2, 4, 4), scales=(1.0, 1.5, 1.0)),
    ),
}


@pytest.mark.parametrize("name", RESOLVED)
def test_value_inputs_become_attributes(name: str) -> None:
    build, wanted = RESOLVED[name]
    net = Network()
    layer = build(net, net.input("x", (2, 3, 4))).layer
    assert layer.descriptor == wanted
    assert len(layer.inputs) == 1
    again = layer.descriptor.resolve(layer.input_infos, [None])
    assert again == wanted, "resolving twice must change nothing"


def test_pads_by_input_for_some_axes() -> None:
    net = Network()
    x = net.input("x", (2, 3, 4))
    pads, value, axes = net.constant([1, 2]), net.constant(np.float32(7)), net.constant([-1])
    layer = net.add(kinds.Pad(), x, pads, value, axes)
    assert layer.descriptor == kinds.Pad(before=(0, 0, 1), after=(0, 0, 2), value=7.0)
    assert layer.output.shape == (2, 3, 7)


@pytest.mark.parametrize(
    ("aspect", "wanted"),
    [(kinds.AspectPolicy.NOT_LARGER, (1, 1, 6, 4)), (kinds.AspectPolicy.NOT_SMALLER, (1, 1, 12, 8))],
)
def test_resize_keeps_the_aspect_ratio(aspect: kinds.AspectPolicy, wanted: tuple[int, ...]) -> None:
    net = Network()
    x = net.input("x", (1, 1, 3, 2))
    layer = net.add(kinds.Resize(aspect=aspect, axes=(2, 3)), x, None, net.constant([6, 8]))
    assert layer.output.shape == wanted


def test_range_takes_its_size_from_values() -> None:
    net = Network()
    slot = net.range(net.constant(np.int64(7)), net.constant(np.int64(0)), net.constant(np.int64(-3)))
    assert slot.known_info == TensorInfo.of((3,), I64)
    with pytest.raises(GraphError, match="delta is 0"):
        net.range(net.constant(np.int64(7)), net.constant(np.int64(0)), net.constant(np.int64(0)))
