"""`optimize` as a whole: its result, its report, its promises."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fakes.backends import Choosing, all_but

from dovetail.contract.interfaces import Capabilities, Support
from dovetail.graph.descriptor import Constant, Input, Output
from dovetail.graph.element_types import DType
from dovetail.graph.graph import Graph
from dovetail.graph.layer import Layer
from dovetail.graph.tensor import Quantization, TensorInfo
from dovetail.ground.errors import ErrorCode, GraphError
from dovetail.layers import Quantize
from dovetail.layers.network import Network
from dovetail.optimizer import PIPELINE, Assigned, TensorSpec, optimize
from dovetail.optimizer.symbolic import symbolic_outputs


def network(blocks: int = 2) -> Network:
    """Blocks of convolution, batch normalization, activation and addition, symbolic batch."""
    net = Network("blocks")
    random = np.random.default_rng(0)
    y = net.input("image", ("N", 4, 8, 8))
    for i in range(blocks):
        z = net.convolution2d(y, random.standard_normal((4, 4, 3, 3)).astype(np.float32), padding=1, name=f"conv{i}")
        z = net.batch_normalization(z, *(np.ones(4, np.float32) for _ in range(4)), name=f"bn{i}")
        y = net.addition(y, net.relu(z, name=f"act{i}"), name=f"add{i}")
    net.output(net.softmax(net.reshape(net.global_pooling(y, name="pool"), (-1, 4), name="flat"), name="soft"), "scores")
    return net


def test_the_result() -> None:
    net = network()
    first, second = Choosing("First", all_but("Softmax")), Choosing("Second")
    result = optimize(net, [first, second], shapes={"N": 3})
    assert result.source.network is net
    assert result.name == "blocks"
    assert result.inputs == (TensorSpec("image", ("N", 4, 8, 8), DType.FLOAT32),)
    assert result.outputs == (TensorSpec("scores", ("N", 4), DType.FLOAT32),)
    assert list(result.assignment) == ["conv0", "add0", "conv1", "add1", "pool", "flat", "soft"]
    assert all(isinstance(one, Assigned) for one in result.assignment.values())
    assert set(result.partition_of) == set(result.assignment)
    assert result.partition_of["soft"] == 1
    assert all(slot.known_info.is_concrete for layer in result.graph for slot in layer.outputs)
    assert set(result.domains) == {slot for layer in result.graph for slot in layer.outputs}
    assert type(result.graph) is Network


def told(graph: Graph) -> list[tuple[Any, ...]]:
    """Tell all that a graph says, as plain data."""
    return [
        (
            layer.name,
            layer.kind,
            [(name, value.tobytes() if isinstance(value, np.ndarray) else value) for name, value in attributes.items()],
            layer.sources,
            [slot.source and (slot.source.layer.name, slot.source.index) for slot in layer.inputs],
            [slot.info for slot in layer.outputs],
        )
        for layer in graph.topological_order()
        for attributes in [layer.descriptor.attributes()]
    ]


def test_the_original_is_not_touched() -> None:
    net = network()
    before = told(net)
    optimize(net, [Choosing("First")], shapes={"N": 3}, debug=True, values=None)
    assert told(net) == before


def test_the_same_arguments_give_the_same_result() -> None:
    def dump() -> tuple[Any, Any]:
        result = optimize(network(4), [Choosing("First", all_but("ElementwiseBinary")), Choosing("Second")], shapes={"N": 2})
        return told(result.graph), result.placement.to_dict()

    assert dump() == dump()


def test_replanning_for_other_sizes() -> None:
    first = optimize(network(), [Choosing("First")], shapes={"N": 3})
    again = first.replan(shapes={"image": (5, 4, 8, 8)})
    assert again.graph.layer("conv0").output.shape == (5, 4, 8, 8)
    assert first.graph.layer("conv0").output.shape == (3, 4, 8, 8)
    assert again.replan().graph.layer("conv0").output.shape == (5, 4, 8, 8)


def test_replanning_adds_values() -> None:
    net = Network()
    x, shape = net.input("x", ("N", 6)), net.input("shape", (2,), DType.INT64)
    net.output(net.reshape(x, shape, name="r"), "y")
    with pytest.raises(GraphError) as caught:
        optimize(net, [Choosing("First")], shapes={"N": 2})
    assert caught.value.code is ErrorCode.VALUE_REQUIRED
    first = optimize(net, [Choosing("First")], shapes={"N": 2}, values={"shape": [3, 4]})
    assert [spec.name for spec in first.inputs] == ["x"]
    assert first.outputs[0].shape == (3, 4)
    assert first.replan(shapes={"N": 4}, values={"shape": [4, 6]}).outputs[0].shape == (4, 6)
    assert first.replan(shapes={"N": 2}, values={}).outputs[0].shape == (3, 4)


def test_a_value_and_a_size_may_name_the_same_symbol() -> None:
    net = Network()
    net.output(net.addition(net.input("a", ("N",)), net.input("b", ("N",))), "y")
    ones = np.ones(3, np.float32)
    for shapes in ({"N": 3}, {}):
        result = optimize(net, [Choosing("First")], shapes=shapes, values={"b": ones})
        assert result.graph.outputs[0].inputs[0].info == TensorInfo.of((3,))
        assert result.outputs[0].shape == ("N",)
    with pytest.raises(GraphError) as caught:
        optimize(net, [Choosing("First")], shapes={"N": 4}, values={"b": ones})
    assert caught.value.code is ErrorCode.SHAPE_MISMATCH


def test_without_passes_layers_stay_as_they_are() -> None:
    result = optimize(network(1), [Choosing("First")], shapes={"N": 1}, passes=False)
    assert list(result.assignment) == ["conv0", "bn0", "act0", "add0", "pool", "flat", "soft"]
    ran = {name for name, _ in result.placement.passes}
    assert ran == {
        "validate",
        "fix_shapes",
        "fix_values",
        "fold_constants",
        "assign_backends",
        "require_homes",
        "optimize_subgraphs",
        "insert_copies",
    }


def test_what_the_caller_named_stays_the_callers() -> None:
    net = Network()
    x, z = net.input("x", (2,)), net.input("unused", (2,))
    net.output(net.reshape(x, (2,)), "same")
    net.output(net.permute(np.ones((1, 2), np.float32)), "fixed")
    result = optimize(net, [Choosing("First")])
    assert z.name == "unused"
    assert [spec.name for spec in result.inputs] == ["x", "unused"]
    assert [spec.name for spec in result.outputs] == ["same", "fixed"]
    assert result.assignment == {}
    sources = [layer.inputs[0].source for layer in result.graph.outputs]
    assert [isinstance(s.layer.descriptor, Input | Constant) for s in sources if s] == [True, True]


def test_quantization_of_inputs_and_outputs_is_told() -> None:
    net = Network()
    q = Quantization.per_tensor(0.5, 1)
    net.output(net.relu(net.input("x", (2,), DType.INT8, q)), "y")
    result = optimize(net, [Choosing("First")])
    assert (result.inputs[0].quantization, result.outputs[0].quantization) == (q, q)


def quantized_product(scale: Quantization) -> Network:
    net = Network()
    x = net.dequantize(net.input("x", (1, 3), DType.INT8), scale)
    w = net.dequantize(net.constant(np.ones((2, 3), np.int8)), scale)
    net.output(net.quantize(net.fully_connected(x, w, name="fc"), scale, name="q"), "y")
    return net


class Integers(Choosing):
    def capabilities(self) -> Capabilities:
        return Capabilities(integers=True)


@pytest.mark.parametrize(
    ("wanted", "backends", "integer"),
    [
        (None, [Choosing("First")], False),
        (True, [Choosing("First")], True),
        (None, [Integers("First")], True),
        (False, [Integers("First")], False),
        (None, [Choosing("First"), Integers("Second")], False),
    ],
)
def test_integer_layers_are_for_backends_that_are_faster_so_or_asked_for(
    wanted: bool | None, backends: list[Choosing], integer: bool
) -> None:
    result = optimize(quantized_product(Quantization.per_tensor(0.1)), backends, integer_layers=wanted)
    assert list(result.assignment) == (["fc"] if integer else ["dequantize", "fc", "q"])


def test_layers_that_are_required_of_different_backends_stay_apart() -> None:
    backends = [Integers("First"), Choosing("Second")]
    result = optimize(quantized_product(Quantization.per_tensor(0.1)), backends, require={"q": "Second", "fc": "First"})
    assert list(result.assignment) == ["dequantize", "fc", "q"]


def test_integer_layers_that_no_backend_takes_stay_literal() -> None:
    class NoIntegers(Choosing):
        def supports(self, layer: Layer, options: Any, device: Any) -> Support:
            info = layer.input_infos[0]
            integer = layer.kind == "dovetail.GlobalPooling" and info is not None and info.dtype.is_integer
            return Support.no("dtype", "floats only") if integer else Support.yes()

    net = Network()
    scale = Quantization.per_tensor(0.1)
    x = net.dequantize(net.input("x", (1, 3, 2, 2), DType.INT8), scale)
    net.output(net.quantize(net.global_pooling(x, name="pool"), scale, name="q"), "y")
    result = optimize(net, [NoIntegers("First")], integer_layers=True)
    assert list(result.assignment) == ["dequantize", "pool", "q"]


def moved_product(moves: Callable[[Network, Any], Any]) -> Network:
    """A product of integers that come in as they are and are moved first."""
    net, scale = Network(), Quantization.per_tensor(0.1)
    x = moves(net, net.input("x", (1, 3, 1, 1), DType.INT8))
    weights = net.dequantize(net.constant(np.ones((2, 3, 1, 1), np.int8)), scale)
    net.output(net.quantize(net.convolution2d(net.dequantize(x, scale), weights, name="core"), scale), "y")
    return net


MOVES: dict[str, Callable[[Network, Any], Any]] = {
    "reshape": lambda n, x: n.reshape(x, (1, 3, 1, 1), name="move"),
    "concat": lambda n, x: n.concat([x, x], 2, name="move"),
    "max pool": lambda n, x: n.pooling2d(x, "max", 1, name="move"),
    "several": lambda n, x: n.expand_dims(n.where(np.array([True]), n.squeeze(x, 2), np.int8(4)), 2, name="move"),
}


@pytest.mark.parametrize("name", MOVES)
def test_integers_that_are_moved_say_what_they_stand_for_all_the_way(name: str) -> None:
    result = optimize(moved_product(MOVES[name]), [Integers("First")])
    assert dict(result.placement.passes)["integer_layers"] == 1
    assert result.graph.layer("x").output.known_info.quantization == Quantization.per_tensor(0.1)


@pytest.mark.parametrize("name", MOVES)
def test_a_layer_that_nobody_would_move_quantized_integers_with_keeps_the_others_literal(name: str) -> None:
    class PlainMoves(Integers):
        def supports(self, layer: Layer, options: Any, device: Any) -> Support:
            quantized = any(info is not None and info.quantization for info in layer.input_infos)
            return Support.no("quantization", "plain only") if quantized and layer.name == "move" else Support.yes()

    net = moved_product(MOVES[name])
    result = optimize(net, [PlainMoves("First")])
    assert dict(result.placement.passes)["integer_layers"] == 0
    assert result.graph.layer("x").output.known_info.quantization is None
    # A backend of less preference would take the move: to bring it there is not worth an integer
    # layer.
    result = optimize(net, [PlainMoves("First"), Choosing("Second")])
    assert dict(result.placement.passes)["integer_layers"] == 0


COMPUTES: dict[str, Callable[[Network, Any], Any]] = {
    "relu": lambda n, x: n.relu(x),
    "addition": lambda n, x: n.addition(x, np.int8(1)),
    "cast": lambda n, x: n.cast(x, DType.INT32),
    "average pool": lambda n, x: n.pooling2d(x, "average", 1),
    "behind a move": lambda n, x: n.unary(n.reshape(x, (3, 1)), "abs"),
}


@pytest.mark.parametrize("name", COMPUTES)
@pytest.mark.parametrize("side", ["operand", "result"])
def test_integers_that_are_computed_with_stand_for_themselves(name: str, side: str) -> None:
    net, scale = Network(), Quantization.per_tensor(0.1, 5)
    x = net.input("x", (1, 3, 1, 1), DType.INT8)
    weights = net.dequantize(net.constant(np.ones((3, 3, 1, 1), np.int8)), Quantization.per_tensor(0.1))
    product = net.convolution2d(net.dequantize(x, scale), weights)
    y = net.add(Quantize(dtype=DType.INT8, quantization=scale), product).output
    net.output(COMPUTES[name](net, x if side == "operand" else y), "also")
    net.output(y, "y")
    result = optimize(net, [Integers("First")])
    assert dict(result.placement.passes)["integer_layers"] == 0
    assert not any(slot.info and slot.info.quantization for layer in result.graph for slot in layer.outputs)


def test_debug_callbacks_reach_the_result() -> None:
    def show(name: str, index: int, array: Any) -> None: ...

    result = optimize(network(1), [Choosing("First")], shapes={"N": 1}, debug=show)
    assert result.debug is show
    assert result.assignment["soft.debug"] is None
    assert result.placement.layer("soft.debug").reason == "core"
    assert optimize(network(1), [Choosing("First")], shapes={"N": 1}).debug is None


def test_the_report_reads_well() -> None:
    result = optimize(network(1), [Choosing("First", all_but("Softmax")), Choosing("Second")], shapes={"N": 2})
    text = result.placement.explain()
    lines = text.splitlines()
    assert lines[0] == "network 'blocks': 5 layers on First (4), Second (1); 1 fallback; 2 partitions; no copies"
    first = next(line for line in lines if line.startswith("conv0"))
    for told in (
        "convolution 3x3 + ReLU, batch norm folded in",
        "Convolution2d",
        " First ",
        "first choice",
        "conv0, bn0, act0",
    ):
        assert told in first
    soft = next(i for i, line in enumerate(lines) if line.startswith("soft"))
    assert lines[soft + 1] == "    First: [kind] no Softmax on this chip (attribute kind)"
    assert "fold_batch_normalization 1" in text
    assert lines[-1] == "fallback: 1 of 5 layers fell back (1 to Second): soft"
    assert all(line == line.rstrip() for line in lines)
    plain = json.loads(result.placement.to_json())
    assert plain["layers"][0]["sources"] == ["conv0", "bn0", "act0"]
    assert plain["layers"][-1]["refusals"][0]["code"] == "kind"
    with pytest.raises(KeyError):
        result.placement.layer("nowhere")


def test_layers_that_disappeared_are_listed() -> None:
    net = Network()
    net.output(net.relu(net.reshape(net.input("x", (2, 3)), (2, 3), name="nothing")), "y")
    placement = optimize(net, [Choosing("First")]).placement
    assert placement.folded == ("nothing",)
    assert "folded away: nothing" in placement.explain()


def test_every_pass_explains_itself() -> None:
    from dovetail.optimizer import passes

    every = [getattr(passes, name) for name in passes.__all__ if name != "Pass"]
    assert len({one.name for one in every}) == len(every)
    assert all(one.__doc__ for one in every)
    assert PIPELINE


def test_symbolic_outputs() -> None:
    (spec,) = symbolic_outputs(network()) or ()
    assert spec.shape == ("N", 4)


def test_work_grows_with_the_layers() -> None:
    """Four times the layers make about four times the calls; a look at each pair makes sixteen."""
    backends = [Choosing("First", all_but("ElementwiseBinary")), Choosing("Second")]
    few, many = (_calls(network(size), backends) for size in (25, 100))
    assert 3 < many / few < 6


def _calls(net: Network, backends: list[Choosing]) -> int:
    """How many functions are called: a measure that a busy machine does not change."""
    optimize(net, backends, shapes={"N": 2})  # fills what is kept between calls
    calls = 0

    def count(_frame: object, event: str, _what: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        optimize(net, backends, shapes={"N": 2})
    finally:
        sys.setprofile(before)
    return calls


def test_outputs_read_by_name_only() -> None:
    result = optimize(network(1), [Choosing("First")], shapes={"N": 1})
    assert [layer.name for layer in result.graph.outputs] == ["scores"]
    assert all(isinstance(layer.descriptor, Output) for layer in result.graph.outputs)


def test_outputs_of_fixed_sizes_tell_what_they_follow_from() -> None:
    net = Network("fixed")
    x = net.input("x", ("n", 4))
    net.output(net.concat([x, x], axis=0), "both")
    net.output(net.reshape(x, net.input("target", (2,), np.int64)), "any")
    result = optimize(net, [Choosing("First")], shapes={"n": 3}, values={"target": np.array([2, 6])})
    assert [spec.shape for spec in result.outputs] == [("2*n", 4), (2, 6)]
    assert [spec.shape for spec in result.replan(shapes={"n": 6}, values={"target": [4, 6]}).outputs] == [("2*n", 4), (4, 6)]
