"""Builder, slots, editing, copying and dumping of graphs."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest
from fakes.errors import error_of

from dovetail.graph.descriptor import Constant
from dovetail.graph.element_types import DType
from dovetail.graph.layer import Layer, OutputSlot
from dovetail.ground.errors import ErrorCode, GraphError
from dovetail.layers import BinaryOperation, ElementwiseBinary, Permute, Reshape
from dovetail.layers.network import Network


def chain() -> Network:
    net = Network("chain")
    x = net.input("x", ("N", 3, 4, 4))
    y = net.convolution2d(x, np.ones((2, 3, 1, 1), np.float32), np.zeros(2, np.float32), name="conv")
    net.output(net.relu(y, name="relu"), "y")
    return net


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


def held(slot: OutputSlot) -> np.ndarray[Any, Any]:
    value: np.ndarray[Any, Any] = slot.layer.descriptor.value  # type: ignore[attr-defined]
    return value


def test_arrays_become_constants_that_nobody_can_write_to() -> None:
    net = Network()
    value = np.arange(6, dtype=np.float32).reshape(2, 3)
    window = value[:1]
    window.flags.writeable = False  # its base is not
    copies = [held(net.constant(one)) for one in (value, window)]
    copies.append(held(net.add(ElementwiseBinary(operation=BinaryOperation.ADD), value, value).inputs[0].source))  # type: ignore[arg-type]
    buffer = bytearray(8)
    copies.append(held(net.constant(np.frombuffer(buffer, np.float32))))
    value[:] = 7
    buffer[:] = b"\1" * 8
    for one, expected in zip(copies, ([[0, 1, 2], [3, 4, 5]], [[0, 1, 2]], [[0, 1, 2], [3, 4, 5]], [0, 0]), strict=True):
        assert one.tolist() == expected
        assert not one.flags.writeable
        assert np.shares_memory(held(net.constant(one)), one)  # ours by now
    assert value.flags.writeable


def test_read_only_arrays_are_shared_as_constants() -> None:
    net = Network()
    value = np.arange(6, dtype=np.float32)
    assert np.shares_memory(held(net.constant(value, copy=False)), value)
    assert value.flags.writeable
    value.flags.writeable = False
    assert np.shares_memory(held(net.constant(value, "c")), value)
    assert np.shares_memory(held(net.constant(value.reshape(2, 3))), value)
    assert not np.shares_memory(held(net.constant(value, copy=True)), value)
    data = np.frombuffer(bytes(8), np.float32)
    assert np.shares_memory(held(net.constant(data)), data)


def test_constants_have_an_element_type() -> None:
    net = Network()
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


def test_what_a_graph_says_of_itself_follows_every_edit() -> None:
    random = np.random.default_rng(11)
    net = Network("edited")
    slots = [net.input("a", (2,)), net.input("b", (2,))]
    for step in range(400):
        plain = [layer for layer in net if layer.kind == "dovetail.Activation"]
        match random.integers(8):
            case 0:
                slots.append(net.relu(slots[random.integers(len(slots))]))
            case 1:
                slots.append(net.addition(slots[random.integers(len(slots))], slots[random.integers(len(slots))]))
            case 2:
                net.output(slots[random.integers(len(slots))], f"out{step}")
            case 3 if plain:
                chosen = plain[random.integers(len(plain))]
                net.rename(chosen, f"renamed{step}")
            case 4 if plain:  # let a layer read another one, made before it
                chosen = plain[random.integers(len(plain))]
                net.disconnect(chosen.inputs[0])
                assert len(net.topological_order()) == len(net)
                net.connect(slots[random.integers(slots.index(chosen.output))], chosen.inputs[0])
            case 5 if plain:
                chosen = plain[random.integers(len(plain))]
                net.redirect(chosen.output, slots[0])
                net.remove(chosen)
                slots.remove(chosen.output)
            case 6 if net.outputs:
                net.remove(net.outputs[0])
            case 7 if len(net.inputs) > 1 and step > 300:
                net.replace_descriptor(net.inputs[1], Constant(value=np.zeros(2, np.float32)))
        order = net.topological_order()
        position = {layer: place for place, layer in enumerate(order)}
        assert sorted(position, key=lambda layer: layer.id) == sorted(net.layers, key=lambda layer: layer.id)
        for layer in order:
            assert all(slot.source and position[slot.source.layer] < position[layer] for slot in layer.inputs)
        assert net.inputs == tuple(layer for layer in net if layer.kind == "dovetail.Input")
        assert net.outputs == tuple(layer for layer in net if layer.kind == "dovetail.Output")
        if step % 5 == 0:
            twin = net.copy()
            assert [layer.name for layer in twin.topological_order()] == [layer.name for layer in order]
            readers = [[[read.layer.name for read in slot.consumers] for slot in layer.outputs] for layer in order]
            assert [
                [[read.layer.name for read in slot.consumers] for slot in twin.layer(layer.name).outputs] for layer in order
            ] == readers
        order.clear()  # the caller's own


def test_slots_joined_through_another_graph_are_found() -> None:
    first, second = Network("first"), Network("second")
    x = first.input("x", (2,))
    second.output(second.relu(second.input("z", (2,))), "y")
    target = second.layers[1].inputs[0]
    first.disconnect(target)
    first.connect(x, target)
    assert "no layer of network 'second'" in error_of(second.validate).message


def test_a_copy_that_fails_midway_is_seen() -> None:
    net, target = Network("copied"), Network("target")
    kept = net.relu(net.input("x", (2,)))
    left_out = net.relu(kept)
    net.output(net.addition(left_out, kept), "y")
    target.input("q", (2,))
    assert len(target.topological_order()) == 1
    with pytest.raises(KeyError):
        net.copy_into(target, wanted=lambda layer: layer is not left_out.layer)
    assert len(target.topological_order()) == len(target)


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


def test_unique_names_are_the_first_that_are_free() -> None:
    """Held against trying one after the other, while layers come, go and change their names."""
    luck = np.random.default_rng(7)
    net = Network("names")
    x = net.input("x", (1,))
    made: list[Layer] = []
    for _ in range(800):
        wish = str(luck.choice(["a", "a", "a_2", "b", "a_3_2", "a_03", "b_2"]))
        expected = next(n for n in (wish, *(f"{wish}_{i}" for i in range(2, 1000))) if n not in net)
        draw = luck.random()
        if made and draw < 0.3:
            net.remove(made.pop(luck.integers(len(made))))
        elif made and draw < 0.5:
            chosen = made[luck.integers(len(made))]
            expected = wish if chosen.name == wish else expected
            net.rename(chosen, wish)
            assert chosen.name == expected
        else:
            assert net.unique_name(wish) == expected
            made.append(net.relu(x, name=wish).layer)
            assert made[-1].name == expected
        assert net.newest(1)[0].id == max(layer.id for layer in net)
    assert [layer.id for layer in net] == sorted(layer.id for layer in net), "the order of creation stays"
    assert all(net.layer(layer.name) is layer for layer in made)


def test_positions_follow_edits() -> None:
    net = Network("positions")
    a = net.relu(net.input("x", (1,)), name="a")
    b = net.relu(a, name="b")
    assert net.positions()[a.layer] < net.positions()[b.layer]
    c = net.tanh(a, name="c")
    net.disconnect(b.layer.inputs[0])
    net.connect(c, b.layer.inputs[0])
    net.topological_order()
    assert net.positions()[a.layer] < net.positions()[c.layer] < net.positions()[b.layer]


def test_a_layer_that_is_discarded_is_freed_without_the_collector() -> None:
    net = chain()
    layer = net.add(Reshape(shape=(1, -1)), net.inputs[0].output, name="unread")
    descriptor = weakref.ref(layer.descriptor)
    gc.disable()
    try:
        net.discard(layer)
        del layer
        assert descriptor() is None
    finally:
        gc.enable()
    assert "unread" not in net
    with pytest.raises(GraphError, match="'relu' reads it"):
        net.discard(net.layer("conv"))
    assert len(net.layer("conv").outputs) == 1
