"""Partitions: convex, maximal, jointly acyclic, deterministic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from dovetail.contract.subgraph import SubgraphView
from dovetail.graph.layer import Layer
from dovetail.layers.network import Network
from dovetail.optimizer.assignment import is_workload
from dovetail.optimizer.partition import partition

Parts = list[tuple[str, list[Layer]]]


def random_network(seed: int, size: int, n_homes: int) -> tuple[Network, dict[Layer, str]]:
    """A random graph of additions, each with a random home; one in ten layers has none."""
    random = np.random.default_rng(seed)
    net = Network(f"random{seed}")
    slots = [net.input("a", (2,)), net.input("b", (2,))]
    for i in range(size):
        recent = slots[-int(random.integers(2, 9)) :]
        first, second = random.choice(len(recent), 2)
        slots.append(net.addition(recent[first], recent[second], name=f"n{i}"))
    for slot in slots:
        if not slot.consumers:
            net.output(slot)
    names = [chr(ord("A") + i) for i in range(n_homes)]
    homes = {layer: str(random.choice(names)) for layer in net if is_workload(layer) and random.random() > 0.1}
    return net, homes


def contracted(order: Sequence[Layer], parts: Parts) -> dict[object, set[object]]:
    node: dict[Layer, object] = {layer: layer for layer in order}
    for number, (_, layers) in enumerate(parts):
        node.update(dict.fromkeys(layers, number))
    edges: dict[object, set[object]] = {one: set() for one in node.values()}
    for layer in order:
        for slot in layer.inputs:
            if slot.source is not None and node[slot.source.layer] != node[layer]:
                edges[node[layer]].add(node[slot.source.layer])
    return edges


def is_acyclic(edges: Mapping[object, set[object]]) -> bool:
    left = {node: set(sources) for node, sources in edges.items()}
    while left:
        ready = [node for node, sources in left.items() if not sources]
        if not ready:
            return False
        for node in ready:
            del left[node]
        for sources in left.values():
            sources.difference_update(ready)
    return True


@pytest.mark.parametrize("seed", range(40))
def test_random_graphs(seed: int) -> None:
    net, homes = random_network(seed, size=5 + seed * 2, n_homes=2 + seed % 3)
    order = net.topological_order()
    parts = partition(order, homes)
    assert sorted(layer.name for _, layers in parts for layer in layers) == sorted(layer.name for layer in homes)
    assert all(homes[layer] == home for home, layers in parts for layer in layers)
    assert all(SubgraphView(net, layers).is_convex for _, layers in parts)
    assert is_acyclic(contracted(order, parts))
    # maximal: joining any two of one home that touch makes a cycle
    for i, (home, layers) in enumerate(parts):
        for j, (other_home, others) in enumerate(parts):
            touches = any(c.layer in others for layer in layers for slot in layer.outputs for c in slot.consumers)
            if i != j and home == other_home and touches:
                joined = [part for k, part in enumerate(parts) if k not in (i, j)] + [(home, layers + others)]
                assert not is_acyclic(contracted(order, joined))
    # in an order in which they can run
    place = {layer: number for number, (_, layers) in enumerate(parts) for layer in layers}
    assert all(
        place[slot.source.layer] <= place[layer]
        for layer in place
        for slot in layer.inputs
        if slot.source is not None and slot.source.layer in place
    )


def test_the_result_depends_on_the_graph_alone() -> None:
    first = [[layer.name for layer in layers] for _, layers in partition(*_ordered(random_network(3, 60, 3)))]
    again = [[layer.name for layer in layers] for _, layers in partition(*_ordered(random_network(3, 60, 3)))]
    assert first == again


def _ordered(made: tuple[Network, dict[Layer, str]]) -> tuple[list[Layer], dict[Layer, str]]:
    return made[0].topological_order(), made[1]


def names(parts: Parts) -> list[tuple[str, str]]:
    return [(home, " ".join(layer.name for layer in layers)) for home, layers in parts]


def test_a_detour_through_another_backend_parts_a_piece() -> None:
    net = Network()
    a = net.relu(net.input("x", (2,)), name="a")
    b = net.relu(a, name="b")
    net.output(net.addition(a, b, name="c"), "y")
    homes = {a.layer: "P", b.layer: "Q", net.layer("c"): "P"}
    assert names(partition(net.topological_order(), homes)) == [("P", "a"), ("Q", "b"), ("P", "c")]


def test_a_detour_through_a_layer_without_a_home_counts() -> None:
    net = Network()
    a = net.relu(net.input("x", (2,)), name="a")
    b = net.relu(a, name="b")
    net.output(net.addition(a, b, name="c"), "y")
    parts = partition(net.topological_order(), {a.layer: "P", net.layer("c"): "P"})
    assert names(parts) == [("P", "a"), ("P", "c")]


def test_two_pieces_that_would_wait_for_each_other_are_not_both_made() -> None:
    # P: a -> d and Q: c -> b cross: either may be one piece, not both.
    net = Network()
    x = net.input("x", (2,))
    a, c = net.relu(x, name="a"), net.relu(x, name="c")
    net.output(net.addition(c, a, name="b"), "y")
    net.output(net.addition(a, c, name="d"), "z")
    homes = {a.layer: "P", net.layer("d"): "P", c.layer: "Q", net.layer("b"): "Q"}
    parts = partition(net.topological_order(), homes)
    assert len(parts) == 3
    assert is_acyclic(contracted(net.topological_order(), parts))


def test_branches_of_one_backend_are_one_piece() -> None:
    net = Network()
    x = net.input("x", (2,))
    a, b = net.relu(x, name="a"), net.tanh(x, name="b")
    net.output(net.addition(a, b, name="c"), "y")
    homes = dict.fromkeys((layer for layer in net if is_workload(layer)), "P")
    assert names(partition(net.topological_order(), homes)) == [("P", "a b c")]
