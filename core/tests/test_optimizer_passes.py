"""Each pass that rewrites the structure, run alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dovetail.graph.descriptor import Constant
from dovetail.graph.element_types import DType
from dovetail.graph.graph import Graph
from dovetail.graph.tensor import Quantization, TensorInfo
from dovetail.ground.errors import ErrorCode, GraphError, OptionError
from dovetail.layers import Permute, Reshape
from dovetail.layers.network import Network
from dovetail.optimizer.passes import (
    DropUnused,
    FixShapes,
    FixValues,
    InferAndFold,
    InsertDebug,
    InversePermutes,
    MergeConstants,
    MergeReshapes,
    PermuteAsReshape,
    RemoveIdentities,
    Validate,
)


def kinds(graph: Graph) -> list[str]:
    """Kinds in topological order, inputs, outputs and constants left out."""
    names = [layer.kind.rsplit(".", 1)[-1] for layer in graph.topological_order()]
    return [name for name in names if name not in ("Input", "Output", "Constant")]


def refused(one: Any, graph: Graph) -> Any:
    with pytest.raises((GraphError, OptionError)) as caught:
        one.run(graph)
    return caught.value


# -- validate --------------------------------------------------------------------------------------


def test_validate_accepts_a_sound_graph() -> None:
    net = Network()
    net.output(net.relu(net.input("x", (1,))), "y")
    assert Validate().run(net) == 0


def test_validate_refuses_a_slot_of_a_removed_layer() -> None:
    net = Network()
    x = net.input("x", (1,))
    y = net.relu(net.relu(x, name="gone"), name="kept")
    net.output(y, "y")
    del net._layers["gone"]
    error = refused(Validate(), net)
    assert error.code is ErrorCode.GRAPH_DANGLING
    assert "'kept'" in error.message
    assert "'gone'" in error.message


# -- fix shapes and values -------------------------------------------------------------------------


def symbolic() -> Network:
    net = Network("symbolic")
    a, b = net.input("a", ("N", "C", 4)), net.input("b", ("N", 4))
    net.output(net.relu(a), "y")
    net.output(net.relu(b), "z")
    return net


@pytest.mark.parametrize(
    "shapes", [{"N": 2, "C": 3}, {"a": (2, 3, 4)}, {"a": (2, None, 4), "C": 3}, {"N": np.int64(2), "a": [2, 3, 4], "b": (2, 4)}]
)
def test_sizes_by_symbol_or_by_input(shapes: Any) -> None:
    net = symbolic()
    assert FixShapes(shapes).run(net) == 2
    InferAndFold().run(net)
    assert [layer.output.shape for layer in net.inputs] == [(2, 3, 4), (2, 4)]
    assert net.layer("relu").output.shape == (2, 3, 4)


@pytest.mark.parametrize(
    ("shapes", "code", "message"),
    [
        ({"N": 2, "a": (3, 1, 4)}, ErrorCode.SHAPE_MISMATCH, "'N' is 2 by shapes\\['N'\\], but 3"),
        ({"a": (2, 3, 4), "b": (3, 4)}, ErrorCode.SHAPE_MISMATCH, "'N'"),
        ({"a": (2, 3, 5)}, ErrorCode.SHAPE_MISMATCH, r"shape \[2, 3, 5\], but the network declares \[N, C, 4\]"),
        ({"a": (2, 3)}, ErrorCode.SHAPE_MISMATCH, "declares"),
        ({"M": 2}, ErrorCode.OPTION_UNKNOWN, "neither a symbolic dimension nor an input"),
        ({"N": -1}, ErrorCode.OPTION_INVALID, "not a size"),
        ({"N": True}, ErrorCode.OPTION_INVALID, "'N'"),
        ({"N": (1, 2)}, ErrorCode.OPTION_INVALID, "is a symbol"),
        ({"a": 3}, ErrorCode.OPTION_INVALID, "not a shape"),
        ({"a": "abc"}, ErrorCode.OPTION_INVALID, "not a shape"),
    ],
)
def test_conflicting_sizes_are_refused(shapes: Any, code: ErrorCode, message: str) -> None:
    with pytest.raises((GraphError, OptionError), match=message) as caught:
        FixShapes(shapes).run(symbolic())
    assert caught.value.code is code


def test_close_names_are_suggested() -> None:
    net = Network()
    net.output(net.relu(net.input("image", ("batch", 3))), "y")
    assert "'image'" in str(refused(FixShapes({"imaeg": (1, 3)}), net))
    assert "'image'" in str(refused(FixValues({"Image": 1}), net))


def test_open_symbols_are_listed_with_a_way_out() -> None:
    error = refused(InferAndFold(), symbolic())
    assert error.code is ErrorCode.SHAPE_UNKNOWN
    assert error.details["symbols"] == ["N", "C"]
    assert "shapes={'N': 1, 'C': 1}" in error.hint


def test_a_value_turns_an_input_into_a_constant_and_binds_its_symbols() -> None:
    net = symbolic()
    assert FixValues({"b": np.ones((5, 4), np.float32)}).run(net) == 1
    assert [layer.name for layer in net.inputs] == ["a"]
    assert isinstance(net.layer("b").descriptor, Constant)
    assert net.layer("a").output.shape == (5, "C", 4)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.ones((5, 4)), "is float64, but the input is float32"),
        (np.ones((5, 3), np.float32), "declares"),
        ("abc", "input is float32"),
    ],
)
def test_values_that_do_not_fit_are_refused(value: Any, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        FixValues({"b": value}).run(symbolic())


def test_python_numbers_take_the_dtype_of_the_input() -> None:
    net = Network()
    net.output(net.reshape(net.input("x", (4,)), net.input("shape", (2,), DType.INT64)), "y")
    FixValues({"shape": [2, -1]}).run(net)
    InferAndFold().run(net)
    assert net.outputs[0].inputs[0].info is not None
    assert net.outputs[0].inputs[0].info.shape == (2, 2)


# -- infer and fold --------------------------------------------------------------------------------


def test_a_shape_computed_from_shapes_is_folded() -> None:
    net = Network()
    x = net.input("x", ("N", 3, 4))
    n = net.gather(net.shape_of(x), np.int64(0))
    target = net.concat([net.expand_dims(n, 0), net.constant([-1])])
    net.output(net.reshape(x, target, name="flat"), "y")
    FixShapes({"N": 2}).run(net)
    InferAndFold().run(net)
    assert kinds(net) == ["Reshape"]
    assert net.layer("flat").output.shape == (2, 12)
    assert [layer.name for layer in net] == ["x", "flat", "y"]  # constants that nobody reads any more are gone


def test_a_permuted_constant_is_a_constant() -> None:
    net = Network()
    w = np.arange(6, dtype=np.float32).reshape(2, 3)
    net.output(net.addition(net.input("x", (3, 2)), net.permute(w, name="wt")), "y")
    assert InferAndFold().run(net) == 1
    np.testing.assert_array_equal(net.layer("wt").descriptor.value, w.T)  # type: ignore[attr-defined]
    assert net.layer("wt").sources == ("wt",)


def test_every_part_of_a_folded_split_stays() -> None:
    net = Network()
    x = net.input("x", (2,))
    parts = net.split(np.arange(6, dtype=np.float32), 3, name="parts")
    net.output(net.addition(x, parts[0]), "a")
    net.output(net.addition(x, parts[2]), "b")
    InferAndFold().run(net)
    assert [layer.name for layer in net if isinstance(layer.descriptor, Constant)] == ["parts:0", "parts:2"]


def test_a_shape_that_depends_on_an_input_value_says_which() -> None:
    net = Network()
    x, wanted = net.input("x", (2, 6)), net.input("wanted", (2,), DType.INT64)
    net.output(net.reshape(x, net.multiplication(wanted, np.array([1, 1])), name="late"), "y")
    error = refused(InferAndFold(), net)
    assert error.code is ErrorCode.VALUE_REQUIRED
    assert error.details["inputs"] == ["wanted"]
    assert "values={'wanted'" in error.hint


def test_a_range_over_an_input_value_says_which() -> None:
    net = Network()
    limit = net.input("limit", (), DType.INT64)
    net.output(net.range(np.int64(0), limit, np.int64(1)), "y")
    error = refused(InferAndFold(), net)
    assert (error.code, error.details["inputs"]) == (ErrorCode.VALUE_REQUIRED, ["limit"])


def test_a_shape_that_no_input_explains_is_unknown() -> None:
    net = Network()
    computed = net.cast(net.unary(np.array([2.0, 3.0], np.float32), "exp"), DType.INT64)
    net.output(net.reshape(net.input("x", (6,)), computed), "y")
    error = refused(InferAndFold(), net)
    assert error.code is ErrorCode.SHAPE_UNKNOWN
    assert "cast" in error.message.lower()


def test_huge_folds_are_left_to_the_run() -> None:
    net = Network()
    net.output(net.broadcast_to(np.zeros((1, 1), np.float32), (4096, 4096), name="bomb"), "y")
    assert InferAndFold().run(net) == 0
    assert net.layer("bomb").kind == "dovetail.BroadcastTo"


def test_dequantized_constants_may_be_kept() -> None:
    net = Network()
    q = net.constant(np.array([1, 2], np.int8))
    net.output(net.addition(net.input("x", (2,)), net.dequantize(q, Quantization.per_tensor(0.5))), "y")
    assert InferAndFold(keep_dequantize=True).run(net) == 0
    assert InferAndFold().run(net) == 1


# -- clean-up --------------------------------------------------------------------------------------


def test_what_nobody_needs_goes_but_inputs_stay() -> None:
    net = Network()
    x, unused = net.input("x", (2,)), net.input("unused", (2,))
    net.relu(net.addition(unused, np.ones(2, np.float32)))
    net.output(net.tanh(x), "y")
    assert DropUnused().run(net) == 3
    assert [layer.name for layer in net] == ["x", "unused", "tanh", "y"]
    assert DropUnused().run(net) == 0


@pytest.mark.parametrize(
    ("first", "second", "left"),
    [((0, 2, 3, 1), (0, 3, 1, 2), []), ((1, 0, 2, 3), (0, 2, 1, 3), ["Permute"]), (None, None, [])],
)
def test_permutes_compose(first: Any, second: Any, left: list[str]) -> None:
    net = Network()
    x = net.input("x", (2, 3, 4, 5))
    y = net.permute(net.permute(x, first, name="p"), second, name="q")
    net.output(net.relu(y), "y")
    wanted = y.shape
    assert InversePermutes().run(net) > 0
    assert kinds(net) == [*left, "Activation"]
    assert net.layer("relu").input_infos[0].shape == wanted  # type: ignore[union-attr]
    if left:
        assert net.layer("q").descriptor == Permute(permutation=(1, 2, 0, 3))
        assert net.layer("q").sources == ("p", "q")


def test_a_permute_with_other_readers_stays() -> None:
    net = Network()
    p = net.permute(net.input("x", (2, 3)), name="p")
    net.output(p, "y")
    net.output(net.permute(p, name="q"), "z")
    InversePermutes().run(net)
    assert kinds(net) == ["Permute"]
    assert net.layer("z").inputs[0].source is net.layer("x").output


def test_reshapes_merge() -> None:
    net = Network()
    y = net.flatten(net.squeeze(net.expand_dims(net.reshape(net.input("x", (2, 6)), (3, 4)), 0), 0), name="last")
    net.output(y, "y")
    assert MergeReshapes().run(net) == 3
    assert kinds(net) == ["Reshape"]
    assert net.layer("last").descriptor == Reshape(shape=(3, 4))
    assert net.layer("last").sources == ("reshape", "expanddims", "squeeze", "last")


def test_permutes_of_single_elements_are_reshapes() -> None:
    net = Network()
    x = net.input("x", (1, 3, 1, 5))
    net.output(net.permute(x, (0, 2, 1, 3), name="free"), "y")
    net.output(net.permute(x, (0, 3, 2, 1), name="moves"), "z")
    assert PermuteAsReshape().run(net) == 1
    assert net.layer("free").descriptor == Reshape(shape=(1, 1, 3, 5))
    assert net.layer("moves").kind == "dovetail.Permute"


def test_per_axis_quantization_stops_moves_into_reshape() -> None:
    net = Network()
    x = net.input("x", (1, 3), DType.INT8, Quantization.per_axis((1.0, 2.0, 3.0), axis=1))
    net.output(net.permute(x, (1, 0)), "y")
    net.output(net.reshape(net.reshape(x, (3, 1)), (3,)), "z")
    assert PermuteAsReshape().run(net) == 0
    assert MergeReshapes().run(net) == 0


IDENTITIES: dict[str, Any] = {
    "cast": lambda n, x: n.cast(x, DType.FLOAT32),
    "reshape": lambda n, x: n.reshape(x, (2, -1)),
    "pad": lambda n, x: n.pad(x, (0, 0), (0, 0)),
    "slice": lambda n, x: n.strided_slice(x, (0, -9), (9, 9)),
    "permute": lambda n, x: n.permute(x, (0, 1)),
    "tile": lambda n, x: n.tile(x, (1, 1)),
    "concat": lambda n, x: n.concat([x]),
    "split": lambda n, x: n.split(x, 1)[0],
    "reduce": lambda n, x: n.reduce(x, "mean", ()),
    "resize": lambda n, x: n.resize(x, (2, 3)),
    "linear": lambda n, x: n.activation(x, "linear", 1.0, 0.0),
    "broadcast": lambda n, x: n.broadcast_to(x, (1, 3)),
}
CHANGES: dict[str, Any] = {
    "cast": lambda n, x: n.cast(x, DType.FLOAT16),
    "shifting pad": lambda n, x: n.pad(x, (1, 0), (-1, 0)),
    "reversing slice": lambda n, x: n.strided_slice(x, (-1,), (-9,), stride=(-1,)),
    "square permute": lambda n, x: n.permute(n.reshape(x, (2, 3)), (1, 0)),
    "absolute sum over nothing": lambda n, x: n.reduce(x, "l1", ()),
    "linear": lambda n, x: n.activation(x, "linear", 2.0, 0.0),
    "resize whose scale is not one": lambda n, x: n.resize(x, scales=(1.2, 1.0)),
    "stack": lambda n, x: n.stack([x]),
}


@pytest.mark.parametrize("name", IDENTITIES)
def test_identities_go(name: str) -> None:
    net = Network()
    net.output(net.relu(IDENTITIES[name](net, net.input("x", (2, 3)))), "y")
    assert RemoveIdentities().run(net) == 1
    assert kinds(net) == ["Activation"]


@pytest.mark.parametrize("name", CHANGES)
def test_what_changes_something_stays(name: str) -> None:
    net = Network()
    net.output(net.relu(CHANGES[name](net, net.input("x", (2, 3)))), "y")
    before = kinds(net)
    assert RemoveIdentities().run(net) == before.count("Reshape")
    assert kinds(net) == [kind for kind in before if kind != "Reshape"]


def test_a_change_of_quantization_is_no_identity() -> None:
    net = Network()
    x = net.input("x", (2, 3), DType.INT8, Quantization.per_tensor(0.5))
    layer = net.add(Reshape(shape=(2, 3)), x, quantization=Quantization.per_tensor(0.25))
    net.output(layer.output, "y")
    assert RemoveIdentities().run(net) == 0


def test_equal_constants_are_kept_once() -> None:
    net = Network()
    x = net.input("x", (2,))
    big = np.zeros(5000, np.float32)
    big.flags.writeable = False  # so that it is shared
    for value in (np.ones(2, np.float32), np.ones(2, np.float32), np.zeros(2, np.float32)):
        net.output(net.addition(x, value))
    net.output(net.concat([net.constant(big), net.constant(big), net.constant(big.copy())]))
    assert MergeConstants().run(net) == 2
    assert MergeConstants().run(net) == 0


def test_constants_of_other_types_are_not_merged() -> None:
    net = Network()
    a, b = net.constant(np.zeros(2, np.int32)), net.constant(np.zeros(2, np.float32))
    net.output(net.addition(net.cast(a, DType.FLOAT32), b), "y")
    assert MergeConstants().run(net) == 0


def test_debug_layers_stand_on_the_way_of_every_result() -> None:
    net = Network()
    x = net.input("x", (4,))
    parts = net.split(x, 2, name="parts")
    net.output(net.addition(parts[0], parts[1], name="sum"), "y")
    assert InsertDebug().run(net) == 3
    assert kinds(net) == ["Split", "Debug", "Debug", "ElementwiseBinary", "Debug"]
    shown = [(layer.descriptor.layer, layer.descriptor.index) for layer in net if layer.kind == "dovetail.Debug"]  # type: ignore[attr-defined]
    assert shown == [("parts", 0), ("parts", 1), ("sum", 0)]
    assert net.layer("y").inputs[0].source is net.layer("sum.debug").output


def test_sizes_that_no_machine_can_hold_are_refused_before_any_backend_is_asked() -> None:
    net = Network()
    net.output(net.relu(net.input("x", ("N", 4))), "y")
    with pytest.raises(GraphError, match="'x'") as caught:
        FixShapes({"N": 2**46}).run(net)
    assert caught.value.code is ErrorCode.SHAPE_MISMATCH


def branching(condition: Any, *, wrong: bool = False) -> Network:
    """Return a conditional: a gather of a relu, else a slice of a negation.

    With `wrong` the other branch is a reshape that does not fit.
    """
    net = Network()
    x = net.input("x", ("N",))
    positions = net.input("positions", (2,), DType.INT64)
    then = net.gather(net.relu(x, name="then"), positions, name="picked")
    other = net.reshape(x, (2,), name="other") if wrong else net.slice(net.unary(x, "neg", name="other"), (0,), (2,))
    decides = net.input(*condition) if isinstance(condition, tuple) else condition
    net.output(net.conditional(decides, then, other, name="y0"), "y")
    FixShapes({"N": 3}).run(net)
    return net


@pytest.mark.parametrize(("value", "left"), [(True, "then"), (False, "other")])
def test_a_known_condition_takes_its_branch_alone(value: bool, left: str) -> None:
    net = branching(np.array(value))
    InferAndFold().run(net)
    assert [name in net for name in ("then", "other")] == [left == "then", left == "other"]
    assert "y0" not in net


def test_the_branch_that_is_not_taken_may_be_wrong() -> None:
    net = branching(np.array([True]), wrong=True)
    InferAndFold().run(net)
    assert "other" not in net
    with pytest.raises(GraphError, match="other"):
        InferAndFold().run(branching(np.array(False), wrong=True))


@pytest.mark.parametrize("shape", [(), (1, 1)])
def test_a_single_bool_decides(shape: tuple[int, ...]) -> None:
    with pytest.raises(GraphError) as caught:
        InferAndFold().run(branching(("c", shape, DType.BOOL)))
    assert (caught.value.code, caught.value.details["inputs"]) == (ErrorCode.VALUE_REQUIRED, ["c"])
    both = branching(("c", shape, DType.BOOL))
    InferAndFold(both=True).run(both)
    assert both.layer("y").inputs[0].info == TensorInfo((2,), DType.FLOAT32)


def test_what_only_the_run_decides_is_computed_both_ways_and_cannot_fail() -> None:
    net = Network()
    x = net.input("x", (3,))
    positions = net.input("positions", (2,), DType.INT64)
    shared = net.gather(x, positions, name="shared")
    condition = net.comparison(net.reduce(x, "max"), np.float32(0), "greater")
    then = net.addition(net.gather(x, positions, name="guarded"), shared)
    known = net.gather(x, np.array([0, -1]), name="known")
    net.output(net.conditional(condition, then, known, name="chosen"), "y")
    net.output(shared, "z")
    InferAndFold().run(net)
    assert net.layer("chosen").kind == "dovetail.Where"
    assert net.layer("guarded").inputs[1].source is not positions
    assert net.layer("shared").inputs[1].source is positions
    assert net.layer("known").constant(1) is not None


def test_what_one_condition_decides_twice_is_read_by_more_than_one_branch() -> None:
    net = Network()
    x = net.input("x", (3,))
    condition = net.comparison(net.reduce(x, "max"), np.float32(0), "greater")
    picked = net.gather(x, net.input("positions", (3,), DType.INT64), name="picked")
    inner = net.conditional(condition, x, picked)
    net.output(net.conditional(condition, picked, inner), "y")
    InferAndFold().run(net)
    source = net.layer("picked").inputs[1].source
    assert source is net.layer("positions").output


def test_what_nobody_reads_in_a_branch_is_not_run() -> None:
    net = branching(("c", (), DType.BOOL))
    net.gather(net.input("z", (4,)), net.layer("positions").output, name="unread")
    InferAndFold(both=True).run(net)
    assert "unread" not in net
    assert net.layer("z").output.info is not None
