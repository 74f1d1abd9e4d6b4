"""What `print` and debuggers show of the objects that users are handed."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import dovetail
from dovetail import Network, Runtime
from dovetail.contract.subgraph import Choices, OptimizationViews, SubgraphView
from dovetail.optimizer.policy import Answers

pytest.importorskip("dovetail_reference", reason="what is run here needs a backend")

TO_DERIVE_FROM = {
    "Backend",
    "IBackend",
    "IBackendContext",
    "IMemoryManager",
    "IParser",
    "ITensorHandle",
    "IWorkloadFactory",
    "PlacementPolicy",
    "Run",
}
"""Classes of the package whose objects are those of others."""


def test_each_class_of_the_package_says_something_of_its_objects() -> None:
    silent = {
        name
        for name in dovetail.__all__
        if inspect.isclass(kind := getattr(dovetail, name)) and kind.__repr__ is object.__repr__
    }
    assert silent == TO_DERIVE_FROM


def test_runtimes_plans_and_bindings() -> None:
    network = Network("sum")
    first, second = network.input("first", ("N", 3)), network.input("second", (3,))
    network.output(network.addition(first, second), "total")
    feeds = {"first": np.ones((2, 3), np.float32), "second": np.ones(3, np.float32)}
    with Runtime(threads=1) as runtime:
        assert repr(runtime) == "<Runtime: 1 thread(s), 0 network(s)>"
        net = dovetail.load(network, backends="CpuRef", runtime=runtime)
        assert repr(runtime) == "<Runtime: 1 thread(s), 1 network(s)>"
        bound = net.bind(feeds)
        tensors = "'first' float32[2, 3], 'second' float32[3] -> 'total' float32[2, 3]"
        assert repr(bound) == f"<Binding of 'sum': {tensors}>"
        assert repr(net.plan) == f"<Plan of {len(net.plan.steps)} step(s): {tensors}>"
        bound.close()
        assert repr(bound) == "<Binding of 'sum', closed>"
        del bound
        kept = net.bind(feeds)
    assert repr(runtime) == "<Runtime: 1 thread(s), closed>"
    assert repr(kept) == "<Binding of 'sum', closed>"


def test_many_and_hostile_names_stay_on_one_line() -> None:
    network = Network("many")
    slots = [network.input(f"x{number}\n" * 30, (1,)) for number in range(9)]
    network.output(network.concat(slots, axis=0), "y")
    with dovetail.load(network, backends="CpuRef") as net:
        shown = repr(net.bind({slot.name: np.zeros(1, np.float32) for slot in slots}))
    assert " and 5 more -> 'y' float32[9]>" in shown
    assert "\n" not in shown
    assert len(shown) < 500


def test_states() -> None:
    network = Network("count")
    before = network.state("before", (2,))
    after = network.addition(before, network.input("x", (2,)))
    network.write_state("before", after)
    network.output(after, "y")
    with dovetail.load(network, backends="CpuRef") as net:
        assert repr(net.state) == "<NetworkState of 'count': 'before' at its beginning>"
        net.run({"x": np.ones(2, np.float32)})
        assert repr(net.state) == "<NetworkState of 'count': 'before'>"
    forgetful = Network("none")
    forgetful.output(forgetful.relu(forgetful.input("x", (2,))), "y")
    with dovetail.load(forgetful, backends="CpuRef") as net:
        assert repr(net.state) == "<NetworkState of 'none': nothing>"


def test_answers_of_backends() -> None:
    network = Network("one")
    slot = network.relu(network.input("x", (2,)))
    network.output(slot, "y")
    view = SubgraphView(network, [slot.layer])
    views, choices = OptimizationViews(view), Choices(view)
    assert repr(views) == f"<OptimizationViews of {view!r}: 0 substitutions, 0 failures, 0 kept, 0 deletions>"
    assert repr(choices) == f"<Choices of {view!r}: 0 offer(s)>"
    asked: list[object] = []
    answers = Answers(["first", "second"], lambda one: asked.append(one), {})  # type: ignore[list-item]  # which are not looked into
    assert repr(answers) == "<Answers: 0 of 2 backend(s) asked>"
    answers[0]
    assert repr(answers) == "<Answers: 1 of 2 backend(s) asked>"
