"""Test fault 48 of docs/faults.md: substitutions that are unsound."""

import numpy as np
import pytest
from faults.misbehaving import RIGHT, Factory, FaultyBackend, load, network, run

from dovetail import BackendError, ErrorCode, Network, PlacementError
from dovetail.contract.subgraph import OptimizationViews


def _private(network, view, kind=None):
    """A replacement of a whole view by one ReLU per output."""
    made = [network.input(f"in{i}", slot.shape) for i, slot in enumerate(view.inputs)]
    for i, _ in enumerate(view.outputs):
        network.output(network.relu(made[0], name=f"private{i}"), f"out{i}")
    return network


def lost_output(view):
    views, replacement = OptimizationViews(view), Network("lost")
    replacement.input("in0", view.inputs[0].shape)
    views.substitute(view, replacement)
    return views


def other_shape(view):
    views, replacement = OptimizationViews(view), Network("shape")
    replacement.output(replacement.reshape(replacement.input("in0", view.inputs[0].shape), (3, 4)), "out0")
    views.substitute(view, replacement)
    return views


def cycle(view):
    views, replacement = OptimizationViews(view), Network("cycle")
    first = replacement.relu(replacement.input("in0", view.inputs[0].shape), name="one").layer
    second = replacement.relu(first.output, name="two").layer
    replacement.output(second.output, "out0")
    replacement.disconnect(first.inputs[0])
    replacement.connect(second.output, first.inputs[0])
    views.substitute(view, replacement)
    return views


def dangling(view):
    views, replacement = OptimizationViews(view), Network("dangling")
    layer = replacement.relu(replacement.input("in0", view.inputs[0].shape), name="one").layer
    replacement.output(layer.output, "out0")
    replacement.disconnect(layer.inputs[0])
    views.substitute(view, replacement)
    return views


def nothing_said(view):
    return OptimizationViews(view)


def said_twice(view):
    views = OptimizationViews(view)
    views.untouched(view)
    views.untouched(view)
    return views


@pytest.mark.fault(48)
@pytest.mark.parametrize("answer", [lost_output, other_shape, cycle, dangling, nothing_said, said_twice])
def test_an_unsound_substitution_is_refused_and_the_network_unharmed(runtime, neighbour, answer):
    class Optimizing(FaultyBackend):
        def optimize_subgraph(self, view, options, device):
            return answer(view)

    net = network()
    before = [(layer.name, [slot.source and slot.source.name for slot in layer.inputs]) for layer in net]
    with pytest.raises(BackendError) as caught:
        runtime.load(net, optimize={"backends": [Optimizing()], "fallback": False})
    assert caught.value.code is ErrorCode.SUBSTITUTION_INVALID
    assert "Faulty" in str(caught.value)
    with pytest.raises(PlacementError, match=r"Faulty: \[failed\] optimize_subgraph\(\)"):
        runtime.load(net, optimize={"backends": [Optimizing()]})
    assert [(layer.name, [slot.source and slot.source.name for slot in layer.inputs]) for layer in net] == before
    np.testing.assert_array_equal(run(runtime.load(net, optimize={"backends": [FaultyBackend()]})), RIGHT)


@pytest.mark.fault(48)
def test_a_private_layer_that_cannot_be_made_is_named(runtime, neighbour):
    class Optimizing(FaultyBackend):
        def optimize_subgraph(self, view, options, device):
            views = OptimizationViews(view)
            views.substitute(view, _private(Network("private"), view))
            return views

        def create_workload_factory(self, context, resources, options):
            factory = Factory(self.fault)
            factory.create_workload = lambda layer: {}[layer.name]
            return factory

    with pytest.raises(BackendError, match=r"'private0'.*create_workload\(\) raised KeyError"):
        load(runtime, Optimizing())
