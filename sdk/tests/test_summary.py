from __future__ import annotations

import json

import numpy as np
import pytest

from dovetail import ErrorCode, GraphError, Network
from dovetail_sdk.commands.show import total_lines
from dovetail_sdk.summary import NetworkSummary, as_dict, as_dot, summarize, with_known_shapes, with_sizes_of_one


def network(batch: int | str = "N") -> Network:
    """Make a convolution, a reshape to a computed shape, and a matrix product.

    The convolution has 2 x 3 x 3 x 3 weights and 2 biases, the product 4 x 128 weights."""
    net = Network("example")
    x = net.input("x", (batch, 3, 8, 8))
    y = net.relu(net.convolution2d(x, np.ones((2, 3, 3, 3), np.float32), np.ones(2, np.float32), padding=1, name="stem"))
    flat = net.flatten(y, name="flat")
    net.output(net.fully_connected(flat, np.ones((4, 128), np.float32), name="classes"), "scores")
    return net


def summary(batch: int | str = "N", **shapes: int) -> NetworkSummary:
    return summarize(*with_known_shapes(network(batch), shapes))


def test_counts() -> None:
    found = summary(N=2)
    assert [(layer.name, layer.parameters, layer.macs) for layer in found.layers] == [
        ("stem", 56, 2 * 2 * 64 * 27),
        ("relu", 0, 0),
        ("flat", 0, 0),
        ("classes", 512, 2 * 4 * 128),
    ]
    assert (found.parameters, found.parameter_bytes, found.macs) == (568, 2272, 2 * (2 * 64 * 27 + 512))
    assert found.inputs[0].shape == (2, 3, 8, 8)
    assert found.outputs[0].shape == (2, 4)
    assert found.open_reason == ""


@pytest.mark.parametrize("batch", [2, "N"])
def test_states_are_neither_inputs_nor_outputs(batch: int | str) -> None:
    net = Network("remembering")
    x, before = net.input("x", (batch, 4)), net.state("before", (batch, 4))
    after = net.addition(before, x, name="after")
    net.write_state("before", after)
    net.output(net.relu(after), "y")
    found = summarize(*with_known_shapes(net, {}))
    assert [[one.name for one in some] for some in (found.inputs, found.outputs, found.states)] == [["x"], ["y"], ["before"]]
    assert found.states[0].shape == (batch, 4)
    document = as_dict(found)
    assert document["states"] == [{"name": "before", "dtype": "float32", "shape": [batch, 4]}]
    assert len(document["inputs"]) == len(document["outputs"]) == 1


def test_open_sizes_leave_counts_unknown_and_say_why() -> None:
    found = summary()
    assert found.macs is None
    assert found.parameters == 568
    assert found.inputs[0].shape == ("N", 3, 8, 8)
    assert [layer.outputs[0].shape for layer in found.layers if layer.outputs[0]] == [
        ("N", 2, 8, 8),
        ("N", 2, 8, 8),
        ("N", 128),
        ("N", 4),
    ]
    assert found.outputs[0].shape == ("N", 4)
    assert "'N'" in found.open_reason
    assert "--shape N=SIZE" in total_lines(found)[-1]


def test_open_sizes_of_one_are_counted_by() -> None:
    net = network()
    found = summarize(*with_known_shapes(net, {}), *with_sizes_of_one(net, {}))
    assert [layer.macs for layer in found.layers] == [layer.macs for layer in summary(N=1).layers]
    assert found.outputs[0].shape == ("N", 4)
    assert found.assumed == {"N": 1}
    assert total_lines(found)[-1].endswith("multiply-accumulates for N = 1")


def test_network_that_a_size_of_one_does_not_get_through() -> None:
    net = Network("large")
    net.output(net.convolution2d(net.input("x", (1, 3, "H", 8)), np.ones((2, 3, 3, 3), np.float32)), "y")
    assert with_sizes_of_one(net, {}) == (None, {})
    found = summarize(*with_known_shapes(net, {}), *with_sizes_of_one(net, {}))
    assert found.macs is None
    assert "--shape H=SIZE" in total_lines(found)[-1]


def test_size_worked_out_from_symbols_says_how() -> None:
    net = Network("joined")
    parts = [net.input("a", ("A", 2)), net.input("b", ("B", 2))]
    net.output(net.concat(parts, axis=0, name="joined"), "y")
    graph, reason = with_known_shapes(net, {})
    assert graph.layer("joined").output.shape == ("A + B", 2)
    assert reason
    graph, _ = with_known_shapes(net, {"b": (3, 2)})
    assert graph.layer("b").output.shape == (3, 2)
    assert graph.layer("a").output.shape == ("A", 2)


def test_shapes_that_do_not_fit_are_an_error() -> None:
    with pytest.raises(GraphError) as caught:
        with_known_shapes(network(1), {"x": (2, 3, 8, 8)})
    assert caught.value.code == ErrorCode.SHAPE_MISMATCH


def test_network_itself_is_left_alone() -> None:
    net = network()
    with_known_shapes(net, {"N": 2})
    assert net.inputs[0].output.shape == ("N", 3, 8, 8)


def test_weights_read_twice_are_counted_once() -> None:
    net = Network("shared")
    x = net.input("x", (2, 2))
    weights = net.constant(np.ones((2, 2), np.float32), name="weights")
    net.output(net.matmul(net.matmul(x, weights, name="first"), weights, name="second"), "y")
    found = summarize(net)
    assert [layer.parameters for layer in found.layers] == [4, 0]
    assert found.layers[1].reads == ("first",)


def test_json() -> None:
    text = json.dumps(as_dict(summary(N=1)))
    found = json.loads(text)
    assert found["inputs"] == [{"name": "x", "dtype": "float32", "shape": [1, 3, 8, 8]}]
    assert found["layers"][0]["outputs"] == [{"dtype": "float32", "shape": [1, 2, 8, 8]}]
    assert found["parameters"] == 568
    assert json.loads(json.dumps(as_dict(summary())))["macs"] is None


def test_dot() -> None:
    net = Network('with "quotes"')
    net.output(net.relu(net.input("x", (1,)), name='a "name"'), "y")
    lines = as_dot(net).splitlines()
    assert lines[0] == 'digraph "with \\"quotes\\"" {'
    assert '  1 [label="Activation\\na \\"name\\""];' in lines
    assert '  0 -> 1 [label="float32[1]"];' in lines
    assert lines[-1] == "}"


def test_kinds_most_frequent_first() -> None:
    assert list(summary(N=1).kinds().values()) == [1, 1, 1, 1]
    assert total_lines(summary(N=1))[0].startswith("4 layers: 1 Activation, 1 Convolution2d")
