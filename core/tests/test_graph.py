"""Builder, slots, editing, copying and dumping of graphs."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from dovetail.descriptor import Descriptor
from dovetail.errors import ErrorCode, GraphError
from dovetail.graph import Graph
from dovetail.graph_dump import to_dict, to_dot, to_json
from dovetail.layers import Activation, ActivationFunction, Permute, Reshape
from dovetail.network import Network
from dovetail.tensor import DType, Quantization


def chain() -> Network:
    net = Network("chain")
    x = net.input("x", ("N", 3, 4, 4))
    y = net.convolution2d(x, np.ones((2, 3, 1, 1), np.float32), np.zeros(2, np.float32), name="conv")
    net.output(net.relu(y, name="relu"), "y")
    return net


def error_of(call: Any, *arguments: Any, **named: Any) -> GraphError:
    with pytest.raises(GraphError) as caught:
        call(*arguments, **named)
    return caught.value


def test_slots_know_both_ends() -> None:
    net = chain()
    conv, relu = net.layer("conv"), net.layer("relu")
    assert relu.inputs[0].source is conv.output
    assert conv.output.consumers == [relu.inputs[0]]
    assert [slot.name for slot in conv.inputs] == ["input", "weights", "bias"]
    assert [layer.name for layer in net.inputs] == ["x"]
    assert [layer.name for layer in net.outputs] == ["y"]
    assert conv.constant(1) is not None
    assert conv.constant(0) is None
    assert conv.constant(7) is None


def test_shapes_stay_unknown_behind_a_symbol() -> None:
    net = chain()
    assert net.layer("x").output.shape == ("N", 3, 4, 4)
    assert net.layer("conv").output.info is None
    assert error_of(lambda: net.layer("conv").output.shape).code is ErrorCode.SHAPE_UNKNOWN


def test_arrays_become_read_only_constants_without_a_copy() -> None:
    net = Network()
    value = np.arange(6, dtype=np.float32).reshape(2, 3)
    slot = net.constant(value, "c")
    held = slot.layer.descriptor.value  # type: ignore[attr-defined]
    assert np.shares_memory(held, value)
    assert not held.flags.writeable
    assert value.flags.writeable
    assert net.constant([1.5, 2.0]).dtype is DType.FLOAT32
    assert net.constant([1, 2]).dtype is DType.INT64
    assert net.constant(np.float64(1.5)).dtype is DType.FLOAT64
    assert net.constant(np.zeros(3, ">f4")).dtype is DType.FLOAT32
    assert net.constant(np.zeros(3, np.uint16), dtype=DType.BFLOAT16).dtype is DType.BFLOAT16
    assert error_of(net.constant, np.zeros(2, np.complex64)).code is ErrorCode.DTYPE_MISMATCH


def test_names_are_made_unique_except_those_of_inputs_and_outputs() -> None:
    net = Network()
    x = net.input("x", (2,))
    first, second = net.relu(x), net.relu(x)
    assert [first.name, second.name, net.relu(x).name] == ["relu", "relu_2", "relu_3"]
    net.output(first, "y")
    assert "taken" in error_of(net.input, "x", (1,)).message
    assert "taken" in error_of(net.output, second, "y").message
    assert "name" in error_of(net.input, "", (1,)).message
    net.rename(first.layer, "relu_3")
    assert first.name == "relu_3_2"


def test_missing_and_superfluous_inputs_are_refused() -> None:
    net = Network()
    x = net.input("x", (1, 2))
    missing = error_of(net.add, Permute())
    assert missing.code is ErrorCode.GRAPH_DANGLING
    assert "'input'" in missing.message
    assert "got 2 inputs" in error_of(net.add, Permute(), x, x).message
    assert [layer.name for layer in net] == ["x"]


def test_slots_of_another_network_are_refused() -> None:
    other = Network("other").input("x", (1,))
    assert "another network" in error_of(Network("mine").relu, other).message


def test_a_refused_layer_leaves_no_trace() -> None:
    net = Network()
    x = net.input("x", (2, 3))
    error = error_of(net.reshape, x, (4, 4), name="bad")
    assert error.code is ErrorCode.SHAPE_MISMATCH
    assert error.message.startswith("layer 'bad' (dovetail.Reshape)")
    assert error.details["layer"] == "bad"
    assert "bad" not in net
    assert x.consumers == []


def test_a_cycle_is_refused_by_name() -> None:
    net = Network("loop")
    x = net.input("x", (2,))
    a = net.addition(x, x, name="a")
    b = net.relu(a, name="b")
    net.output(b, "y")
    net.disconnect(a.layer.inputs[1])
    net.connect(b, a.layer.inputs[1])
    error = error_of(net.validate)
    assert error.code is ErrorCode.GRAPH_CYCLE
    assert "a -> b -> a" in error.message or "b -> a -> b" in error.message
    assert set(error.details["cycle"]) == {"a", "b"}


def test_dangling_inputs_and_missing_outputs_are_refused() -> None:
    net = chain()
    net.disconnect(net.layer("relu").inputs[0])
    error = error_of(net.validate)
    assert error.code is ErrorCode.GRAPH_DANGLING
    assert "'relu'" in error.message
    assert "no output" in error_of(Network("empty").validate).message


def test_an_input_slot_has_one_producer() -> None:
    net = chain()
    relu = net.layer("relu")
    assert "already fed" in error_of(net.connect, net.layer("x").output, relu.inputs[0]).message


def test_editing() -> None:
    net = chain()
    conv, relu = net.layer("conv"), net.layer("relu")
    assert "reads it" in error_of(net.remove, conv).message
    net.redirect(relu.output, conv.output)
    net.remove(relu)
    assert "relu" not in net
    assert net.outputs[0].inputs[0].source is conv.output
    assert "no layer 'relu'" in error_of(net.layer, "relu").message
    assert "outputs" in error_of(net.replace_descriptor, conv, net.outputs[0].descriptor).message
    with pytest.raises(GraphError, match="got 4 inputs"):
        net.append_input(conv, net.constant([1.0]))


def test_topological_order_keeps_the_order_of_creation_among_equals() -> None:
    net = Network()
    x = net.input("x", (2,))
    names = [net.relu(x, name=name).name for name in ("c", "a", "b")]
    assert [layer.name for layer in net.topological_order()] == ["x", *names]


def test_a_copy_is_independent_and_keeps_the_order_of_inputs_and_outputs() -> None:
    net = Network("twin")
    x, z = net.input("x", (2,)), net.input("z", (2,))
    deep = net.relu(net.relu(net.relu(x)))
    net.output(deep, "late")
    net.output(z, "early")
    twin = net.copy()
    assert type(twin) is Network
    assert [layer.name for layer in twin] == [layer.name for layer in net]
    assert [layer.name for layer in twin.outputs] == ["late", "early"]
    assert [layer.id for layer in twin] == list(range(len(net)))
    twin.redirect(twin.layer("relu_3").output, twin.layer("x").output)
    assert net.outputs[0].inputs[0].source is deep
    assert twin.layer("relu").descriptor is net.layer("relu").descriptor


def test_copy_into_feeds_from_slots_that_the_target_has() -> None:
    part = Network("part")
    p = part.input("p", (2,))
    inner = part.relu(p, name="inner")
    target = Network("target")
    x = target.input("x", (2,))
    twins = part.copy_into(target, {p: x}, wanted=lambda layer: layer.name == "inner")
    assert twins[inner].layer.inputs[0].source is x
    assert twins[inner].shape == (2,)


@dataclass(frozen=True, kw_only=True)
class Swish2(Descriptor, kind="acme.Swish2", version=2):
    """A kind from elsewhere."""

    beta: float = 1.0
    gamma: float = field(default=0.5, metadata={"since": 2})

    def infer(self, inputs: Any) -> Any:
        return [inputs[0]]


def test_the_set_of_kinds_is_open() -> None:
    net = Network()
    y = net.add(Swish2(gamma=0.25), net.input("x", (2, 3)), name="mine").output
    assert (y.layer.kind, y.shape) == ("acme.Swish2", (2, 3))
    assert Swish2(gamma=0.25).newer_attributes(1) == ["gamma"]
    assert Swish2().newer_attributes(1) == []
    assert Swish2(gamma=0.25).newer_attributes(2) == []
    with pytest.raises(GraphError, match="namespace"):
        type("Bad", (Descriptor,), {}, kind="Bad")


def test_value_inputs_are_absorbed_when_they_are_constant() -> None:
    net = Network()
    x = net.input("x", (2, 3))
    y = net.reshape(x, net.constant(np.array([3, 2])))
    assert y.layer.descriptor == Reshape(shape=(3, 2))
    assert len(y.layer.inputs) == 1
    late = net.reshape(x, net.input("shape", (2,), DType.INT64))
    assert late.info is None
    assert len(late.layer.inputs) == 2


def test_quantization_given_to_the_builder_stands_on_the_slot() -> None:
    net = Network()
    q = Quantization.per_tensor(0.5, 3)
    x = net.input("x", (1, 2), DType.INT8, q)
    layer = net.add(Activation(function=ActivationFunction.RELU), x, quantization=Quantization.per_tensor(0.25))
    assert x.known_info.quantization == q
    assert layer.output.known_info.quantization == Quantization.per_tensor(0.25)


def test_dumps() -> None:
    net = chain()
    plain = json.loads(to_json(net))
    assert plain == to_dict(net)
    assert plain["inputs"] == ["x"]
    by_name = {layer["name"]: layer for layer in plain["layers"]}
    conv = by_name["conv"]
    assert conv["attributes"]["layout"] == "NCHW"
    assert conv["attributes"]["stride"] == [1, 1]
    assert conv["inputs"][0] == {"name": "input", "from": ["x", 0]}
    assert by_name["conv.1"]["attributes"]["value"] == {"shape": [2, 3, 1, 1], "dtype": "float32"}
    assert by_name["x"]["outputs"] == [{"shape": ["N", 3, 4, 4], "dtype": "float32"}]
    dot = to_dot(net)
    assert '"conv" -> "relu"' in dot
    assert "weights: float32[2, 3, 1, 1]" in dot
    assert '"conv.1" ->' in to_dot(net, constants=True)


def test_names_are_escaped_in_dot() -> None:
    net = Graph('a"b')
    net.input('in"put', (1,))
    assert '"in\\"put"' in to_dot(net)


def test_infinite_attributes_cross_json() -> None:
    net = Network()
    net.output(net.activation(net.input("x", (1,)), "bounded_relu", alpha=float("inf")), "y")
    attributes = json.loads(to_json(net))["layers"][1]["attributes"]
    assert attributes["alpha"] == "inf"
