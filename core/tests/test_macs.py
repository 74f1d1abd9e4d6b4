"""Who does the work of layers: of each multiply-accumulate one, whatever backends make of them."""

from __future__ import annotations

import random

import numpy as np
import pytest

import dovetail
from dovetail.graph.descriptor import descriptor_class
from dovetail.optimizer.macs import LayerWork, Worker, shared_out, told_macs


def work(**macs: int | None) -> list[LayerWork]:
    return [LayerWork(name, (name,), count) for name, count in macs.items()]


def worker(name: str, *sources: str, own: int = 0, rank: float = 0) -> Worker:
    return Worker(name, sources or (name,), own, rank)


def test_the_step_of_the_name_does_the_work() -> None:
    workers = [worker("conv.reorder", "conv", rank=9), worker("conv"), worker("dense", own=3)]
    assert shared_out(work(conv=100, dense=50, gone=7), workers) == [0, 100, 50]


def test_only_who_multiplies_does_work() -> None:
    workers = [worker("up.left", "up", own=30), worker("up.right", "up", own=10), worker("up", rank=9)]
    assert shared_out(work(up=1_000), workers) == [750, 250, 0]
    assert shared_out(work(up=1_000), [one._replace(own=0) for one in workers]) == [0, 0, 1_000]


def test_who_reads_of_a_layer_has_work_of_its_own() -> None:
    """The rescaling of a result is merged into the next product, which then stands for both."""
    workers = [worker("act", "conv", "act", own=40), worker("next", "conv", "next", own=60)]
    assert shared_out(work(conv=40, act=0, next=60), workers) == [40, 60]


def test_one_step_does_the_work_of_many() -> None:
    assert shared_out(work(a=1, b=2, c=3), [worker("c", "a", "b", "c", own=6)]) == [6]
    assert shared_out(work(a=1, b=2, c=3), [worker("whole", "a", "b", "c")]) == [6]


def test_what_is_not_known_makes_nothing_else_unknown() -> None:
    workers = [worker("loop", "loop", "conv", own=4), worker("dense", own=5)]
    assert shared_out(work(conv=4, loop=None, dense=5), workers) == [None, 5]


@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_lost_or_counted_twice(seed: int) -> None:
    source = random.Random(seed)
    names = [f"layer {number}" for number in range(30)]
    layers = [LayerWork(name, (name,), source.randrange(10**6) * source.randrange(2)) for name in names]
    workers = []
    for name in names:
        for part in range(source.randint(1, 4)):
            sources = (name, *source.sample(names, source.randrange(3)))
            own = source.randrange(1, 1_000) * source.randrange(2)
            workers.append(Worker(name if part == 0 else f"{name}.{part}", sources, own, source.random()))
    source.shuffle(workers)
    found = shared_out(layers, workers)
    assert sum(macs for macs in found if macs) == sum(layer.macs or 0 for layer in layers)
    told = {source for one in workers if one.own for source in one.sources}
    for one, macs in zip(workers, found, strict=True):
        assert one.own or not macs or not told.issuperset(one.sources), f"{one} does what others do"


def test_a_kind_that_cannot_tell_tells_of_nothing() -> None:
    @descriptor_class
    class Vague(dovetail.Descriptor, kind="test.Vague"):
        def infer(self, inputs):
            return [inputs[0]]

        def macs(self, inputs, outputs):
            raise ZeroDivisionError

    network = dovetail.Network()
    x = network.input("x", (2, 3))
    assert told_macs(network.add(Vague(), x)) == 0
    assert told_macs(network.activation(x, "relu").layer) == 0
    assert told_macs(network.fully_connected(x, np.ones((5, 3), np.float32)).layer) == 30
