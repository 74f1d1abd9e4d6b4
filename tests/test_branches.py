"""ONNX's If: only what the taken branch needs may fail, or decide a shape."""

from __future__ import annotations

import random
import time
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import dovetail
from dovetail import DovetailError, ErrorCode, GraphError, RunError
from dovetail_onnx import parse

Feeds = dict[str, np.ndarray[Any, Any]]


def model(text: str, **constants: Any) -> onnx.ModelProto:
    proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]> {text}')
    for name, value in constants.items():
        proto.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
    return proto


X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)

# A text, constants, and feeds to try one after the other.
CASES: dict[str, tuple[str, dict[str, Any], list[Feeds]]] = {
    "a position out of range, decided by an input": (
        """g (bool c, float[2,3] x, int64[1] i) => (float[1,3] y) { y = If (c)
        <then_branch = t () => (float[1,3] a) { a = Gather(x, i) },
        else_branch = e () => (float[1,3] b) { b = Slice(x, zero, one) }> }""",
        {"zero": np.array([0]), "one": np.array([1])},
        [
            {"c": np.array(True), "x": X, "i": np.array([1])},
            {"c": np.array(False), "x": X, "i": np.array([7])},
            {"c": np.array(True), "x": X, "i": np.array([-2])},
        ],
    ),
    "a position out of range, decided by data": (
        """g (float[2,3] x, int64[1] i) => (float[1,3] y) { m = ReduceMax<keepdims = 0>(x)  c = Greater(m, half)  y = If (c)
        <then_branch = t () => (float[1,3] a) { p = Gather(x, i)  a = Neg(p) },
        else_branch = e () => (float[1,3] b) { b = Slice(x, zero, one) }> }""",
        {"half": np.float32(0.5), "zero": np.array([0]), "one": np.array([1])},
        [{"x": X, "i": np.array([1])}, {"x": X * 0, "i": np.array([99])}, {"x": X, "i": np.array([-1])}],
    ),
    "positions of all kinds, decided by data": (
        """g (float[2,3] x, int64[2,3] i) => (float[2,3] y) { m = ReduceMax<keepdims = 0>(x)  c = Greater(m, half)  y = If (c)
        <then_branch = t () => (float[2,3] a) { a = Neg(x) },
        else_branch = e () => (float[2,3] b) {
        p = GatherElements<axis = 1>(x, i)  q = ScatterElements<axis = 1>(p, i, x)  r = GatherND(q, nd)  s = ScatterND(q, nd, r)
        k = Cast<to = 1>(i)  b = Sub(s, k) }> }""",
        {"half": np.float32(0.5), "nd": np.array([[0], [1]])},
        [{"x": X, "i": np.full((2, 3), 1000)}, {"x": -X * X, "i": np.array([[0, 2, 1], [1, 0, 2]])}],
    ),
    "results of different shapes, decided by an input": (
        """g (bool c, float[2,3] x) => (float[N,M] y) { y = If (c)
        <then_branch = t () => (float[3,2] a) { a = Transpose(x) },
        else_branch = e () => (float[2,6] b) { b = Concat<axis = 1>(x, x) }> }""",
        {},
        [{"c": np.array(True), "x": X}, {"c": np.array(False), "x": X}, {"c": np.array(True), "x": -X}],
    ),
    "results of different ranks, decided by a number": (
        """g (int64 n, float[2,3] x) => (float y) { c = Greater(n, two)  y = If (c)
        <then_branch = t () => (float[6] a) { a = Reshape(x, flat) },
        else_branch = e () => (float[2,3] b) { b = Exp(x) }> }""",
        {"two": np.array(2), "flat": np.array([-1])},
        [{"n": np.array(5), "x": X}, {"n": np.array(1), "x": X}, {"n": np.array(3), "x": -X}],
    ),
    "a branch that fits some sizes alone": (
        """g (float[N,M] x) => (float y) { s = Shape<start = 0, end = 1>(x)  c = Equal(s, one)  y = If (c)
        <then_branch = t () => (float[M] a) { a = Squeeze(x, zero) },
        else_branch = e () => (float[N,M] b) { b = Neg(x) }> }""",
        {"one": np.array([1]), "zero": np.array([0])},
        [{"x": X}, {"x": X[:1]}, {"x": X.T.copy()}],
    ),
    "one in the other": (
        """g (bool c, bool d, float[2,3] x, int64[1] i) => (float[1,3] y) { y = If (c)
        <then_branch = t () => (float[1,3] a) { a = If (d) <then_branch = tt () => (float[1,3] aa) { aa = Gather(x, i) },
        else_branch = te () => (float[1,3] ab) { j = Add(i, one)  ab = Gather(x, j) }> },
        else_branch = e () => (float[1,3] b) { b = ReduceSum(x, zero) }> }""",
        {"zero": np.array([0]), "one": np.array([1])},
        [
            {"c": np.array(c), "d": np.array(d), "x": X, "i": np.array([i])}
            for c, d, i in [(True, True, 1), (True, False, 0), (False, True, 5), (False, False, -9)]
        ],
    ),
    "one after the other, of two results, by a condition of rank 1": (
        """g (float[2,3] x, int64 i) => (float y, float z) { s = ReduceMax<keepdims = 0>(x)  v = Reshape(s, flat)
        c = Greater(v, half)
        p, q = If (c) <then_branch = t () => (float a, float[3] b) { a = ReduceMin<keepdims = 0>(x)  b = Gather(x, i) },
        else_branch = e () => (float d, float[3] f) { d = ReduceMax<keepdims = 0>(x)  f = Gather(x, one) }>
        h = Less(p, half) y = If (h) <then_branch = u () => (float[3] k) { k = Neg(q) },
        else_branch = w () => (float[3] l) { l = Abs(q) }>
        z = Identity(p) }""",
        {"half": np.float32(0.5), "flat": np.array([1]), "one": np.array(1)},
        [{"x": X, "i": np.array(0)}, {"x": X * 0, "i": np.array(4)}, {"x": X + 4, "i": np.array(-1)}],
    ),
}


@pytest.mark.parametrize("passes", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_branches(name: str, passes: bool) -> None:
    text, constants, several = CASES[name]
    proto = model(text, **constants)
    with dovetail.load(parse(proto), passes=passes) as net:
        for feeds in several:
            wanted = ReferenceEvaluator(proto).run(None, feeds)
            for array, expected in zip(net.run(feeds).values(), wanted, strict=True):
                np.testing.assert_allclose(array, expected, rtol=1e-6)


@pytest.mark.parametrize("name", [name for name in CASES if "position" in name])
def test_a_position_out_of_range_in_the_branch_that_is_taken_fails(name: str) -> None:
    text, constants, several = CASES[name]
    feeds = next(feeds for feeds in several if feeds["i"].max() < 3)
    with dovetail.load(parse(model(text, **constants))) as net, pytest.raises(DovetailError):
        net.run({**feeds, "i": np.full_like(feeds["i"], 7)})


FAILING: dict[str, tuple[str, str, Feeds]] = {
    "gather from an empty axis": ("Gather<axis = 1>(e, i)", "float[2,N] e, int64[3] i", {"i": np.arange(3)}),
    "gather elements": ("GatherElements<axis = 1>(e, i)", "float[2,N] e, int64[2,3] i", {"i": np.zeros((2, 3), np.int64)}),
    "gather slices": ("GatherND(t, i)", "float[2,N] e, int64[2,1] i", {"i": np.zeros((2, 1), np.int64)}),
    "of declared sizes": ("Gather<axis = 1>(none, three)", "float[2,N] e", {}),
    "divide by 0": ("Cast<to = 1>(q)", "float[2,N] e, int64[2,3] i", {"i": np.full((2, 3), -(2**63))}),
    "reshape": ("Reshape(x, i)", "float[2,N] e, int64[2] i", {"i": np.array([2, 4])}),
    "reshape to a constant": ("Reshape(x, wrong)", "float[2,N] e", {}),
    "expand": ("Expand(x, i)", "float[2,N] e, int64[2] i", {"i": np.array([2, -4])}),
    "expand beyond all memory": ("Expand(x, i)", "float[2,N] e, int64[3] i", {"i": np.array([2**38, 2, 3])}),
    "tile": ("Tile(x, i)", "float[2,N] e, int64[2] i", {"i": np.array([1, -1])}),
    "slice": ("Slice(x, wrong, wrong, three, i)", "float[2,N] e, int64[2] i", {"i": np.array([0, 0])}),
    "split": ("Neg(u)", "float[2,N] e", {}),
    "pad": ("Pad(x, i)", "float[2,N] e, int64[4] i", {"i": np.array([-7, 2, 2, 2])}),
    "cumulate": ("CumSum(x, i)", "float[2,N] e, int64 i", {"i": np.array(5)}),
    "resize": ("Resize(x, , i)", "float[2,N] e, float[2] i", {"i": np.array([-1, 2], np.float32)}),
    "unsqueeze": ("Unsqueeze(x, i)", "float[2,N] e, int64[1] i", {"i": np.array([9])}),
    "range without end": ("Add(x, r)", "float[2,N] e, float i", {"i": np.array(1e18, np.float32)}),
    "two branches of another If": (
        """If (d) <then_branch = tt () => (float[2,3] u) { u = Gather<axis = 1>(none, three) },
        else_branch = te () => (float[2,3] v) { v = Reshape(x, wrong) }>""",
        "float[2,N] e, bool d",
        {"d": np.array(True)},
    ),
    "one branch of another If": (
        """If (f) <then_branch = tt () => (float[2,3] u) { u = Gather<axis = 1>(none, three) },
        else_branch = te () => (float[2,3] v) { v = Neg(x) }>""",
        "float[2,N] e",
        {},
    ),
}
BEFORE = {
    "gather slices": "t = Transpose(e)",
    "divide by 0": "q = Div(i, nought)",
    "split": "u, v = Split<axis = 1>(x, wrong)",
    "range without end": "r = Range(zero, i, one)",
}
SMALL = {
    "none": np.zeros((2, 0), np.float32),
    "three": np.arange(3) % 2,
    "wrong": np.array([2, 4]),
    "nought": np.array(0),
    "zero": np.float32(0),
    "one": np.float32(1),
    "half": np.float32(0.5),
}
CONDITIONS = {
    "by data": "m = ReduceMax<keepdims = 0>(x)",
    "by data that the core does not compute": "k = ReduceMax<keepdims = 0>(x)  m = Erf(k)",
}


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("name", FAILING)
def test_what_is_wrong_in_a_branch_fails_only_the_run_that_takes_it(name: str, condition: str) -> None:
    call, inputs, feeds = FAILING[name]
    proto = model(
        f"""g (float[2,3] x, {inputs}) => (float y) {{ {CONDITIONS[condition]}
        c = Greater(m, half)  l = ReduceMin<keepdims = 0>(x)  f = Less(l, half)  y = If (c)
        <then_branch = t () => (float a) {{ {BEFORE.get(name, "")} a = {call} }},
        else_branch = e () => (float[2,3] b) {{ b = Gather<axis = 1>(x, three) }}> }}""",
        **SMALL,
    )
    feeds = {**feeds, "e": np.zeros((2, 0), np.float32)}
    with dovetail.load(parse(proto), ["CpuAcc", "CpuRef"]) as net:
        for factor in (1, 0.5):
            x = np.float32(-factor) * np.abs(X)
            np.testing.assert_array_equal(net.run({**feeds, "x": x})["y"], x[:, [0, 1, 0]])
        if name not in ("divide by 0", "one branch of another If"):
            with pytest.raises(DovetailError):
                net.run({**feeds, "x": np.abs(X) + 1})
        np.testing.assert_array_equal(net.run({**feeds, "x": -np.abs(X)})["y"], -np.abs(X)[:, [0, 1, 0]])


def test_an_error_says_what_is_wrong_with_the_branch_that_was_taken() -> None:
    text = """g (float[2,3] x) => (float y) { s = Erf(x)  m = ReduceMax<keepdims = 0>(s)  c = Greater(m, half)  y = If (c)
    <then_branch = t () => (float[2,3] a) { a = Neg(x) }, else_branch = e () => (float b) { b = Reshape(x, wrong) }> }"""
    with dovetail.load(parse(model(text, **SMALL))) as net:
        np.testing.assert_array_equal(net.run({"x": X + 2})["y"], -X - 2)
        with pytest.raises(RunError, match=r"branch 'other' cannot run: .* cannot take the shape \[2, 4\]"):
            net.run({"x": X - 2})


def test_only_the_branch_that_a_single_bool_takes_is_planned() -> None:
    text = """g (bool c, float[2,3] x) => (float[2,3] y) { y = If (c)
    <then_branch = t () => (float[2,3] a) { a = Exp(x) },
        else_branch = e () => (float[2,3] b) { b = Tanh(x) }> }"""
    network = parse(model(text))
    with pytest.raises(GraphError) as caught:
        dovetail.optimize(network)
    assert (caught.value.code, caught.value.details["inputs"]) == (ErrorCode.VALUE_REQUIRED, ["c"])
    layers = [row.sources for row in dovetail.optimize(network, values={"c": False}).placement.layers]
    assert layers == [("y/If/else_branch/b",)]
    with dovetail.load(network) as net:  # both give the same shape, which is known before
        assert [spec.shape for spec in net.outputs] == [(2, 3)]
        for value in (True, False, True):
            wanted = np.exp(X) if value else np.tanh(X)
            np.testing.assert_allclose(net.run({"c": np.array(value), "x": X})["y"], wanted, rtol=1e-5)


def test_branches_that_differ_and_that_nothing_known_decides_are_named() -> None:
    text = """g (float[2,3] x) => (float y) { s = Erf(k)  m = ReduceMax<keepdims = 0>(s)  c = Greater(m, k)  y = If (c)
    <then_branch = t () => (float[6] a) { a = Reshape(x, flat) },
        else_branch = e () => (float[2,3] b) { b = Exp(x) }> }"""
    network = parse(model(text, k=np.float32(0.5), flat=np.array([-1])))
    with pytest.raises(GraphError, match="has branches that give") as caught:
        dovetail.optimize(network, oracle=False)  # which would know the condition
    assert caught.value.code is ErrorCode.SHAPE_UNKNOWN
    assert [row.sources for row in dovetail.optimize(network).placement.layers] == [("y/If/then_branch/a",)]  # erf(0.5) > 0.5


def test_branches_of_different_types_are_malformed() -> None:
    text = """g (bool c, float[2] x) => (float[2] y) { y = If (c)
    <then_branch = t () => (float[2] a) { a = Exp(x) },
        else_branch = e () => (int64[2] b) { b = Cast<to = 7>(x) }> }"""
    with pytest.raises(DovetailError, match="branches whose output 0 is float32 and int64"):
        parse(model(text))


@pytest.mark.parametrize("kind", ["bool", "data"])
def test_thousands_of_branches_are_settled_in_time(kind: str) -> None:
    count = 1000
    nodes = [helper.make_node("Identity", ["x"], ["x0"])]
    for index in range(count):
        branches = {
            name: helper.make_graph(
                [helper.make_node(op, [f"x{index}"], [f"{name}{index}"])],
                name,
                [],
                [helper.make_tensor_value_info(f"{name}{index}", TensorProto.FLOAT, [2])],
            )
            for name, op in (("then_branch", "Neg"), ("else_branch", "Abs"))
        }
        nodes.append(helper.make_node("If", ["c" if kind == "bool" else f"d{index}"], [f"x{index + 1}"], **branches))
        if kind == "data":
            nodes.insert(-1, helper.make_node("ReduceMax", [f"x{index}"], [f"m{index}"], keepdims=0))
            nodes.insert(-1, helper.make_node("Greater", [f"m{index}", "half"], [f"d{index}"]))
    inputs = [
        helper.make_tensor_value_info("c", TensorProto.BOOL, []),
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [2]),
    ]
    outputs = [helper.make_tensor_value_info(f"x{count}", TensorProto.FLOAT, [2])]
    graph = helper.make_graph(nodes, "g", inputs, outputs, [numpy_helper.from_array(np.float32(0.5), "half")])
    network = parse(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    started = time.process_time()
    result = dovetail.optimize(network, ["CpuRef"], values={"c": np.array(True)})
    assert time.process_time() - started < 20  # it takes a tenth of it
    assert len(result.placement.layers) <= (1 if kind == "bool" else 5) * count


# -- random networks -------------------------------------------------------------------------------


class Nested:
    """A random network of vectors of three: nested and chained branches, positions out of range."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = 0
        nodes = [
            helper.make_node("ReduceMax", ["x"], ["largest"], keepdims=0),
            helper.make_node("Greater", ["largest", "half"], ["by_data"]),
        ]
        known, conditions = self.body(nodes, ["x", "w"], ["single", "of_rank_1", "by_data"], 0)
        known, _ = self.body(nodes, known, conditions, 0)
        nodes.append(helper.make_node("Identity", [known[-1]], ["y"]))
        inputs = [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, self.random.choice([[3], ["N"]])),
            helper.make_tensor_value_info("w", TensorProto.FLOAT, [3]),
            helper.make_tensor_value_info("single", TensorProto.BOOL, []),
            helper.make_tensor_value_info("of_rank_1", TensorProto.BOOL, [1]),
            helper.make_tensor_value_info("wild", TensorProto.INT64, [3]),
            helper.make_tensor_value_info("tame", TensorProto.INT64, [3]),
        ]
        results = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
        constants = [numpy_helper.from_array(np.float32(0.5), "half"), numpy_helper.from_array(np.zeros(0, np.float32), "none")]
        graph = helper.make_graph(nodes, "g", inputs, results, constants)
        self.model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)

    def new(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def body(self, nodes: list[Any], known: list[str], conditions: list[str], depth: int) -> tuple[list[str], list[str]]:
        known, conditions = list(known), list(conditions)
        pick = self.random.choice
        for _ in range(self.random.randint(1, 4)):
            kind, made = self.random.random(), self.new()
            if kind < 0.2:
                nodes.append(helper.make_node(pick(["Neg", "Abs", "Tanh"]), [pick(known)], [made]))
            elif kind < 0.35:
                nodes.append(helper.make_node("Add", [pick(known), pick(known)], [made]))
            elif kind < 0.5:
                source = "none" if depth and self.random.random() < 0.1 else pick(known)
                nodes.append(helper.make_node("Gather", [source, pick(["wild", "tame"])], [made]))
            elif kind < 0.6:
                nodes.append(helper.make_node("ReduceMax", [pick(known)], [f"{made}_largest"], keepdims=0))
                nodes.append(helper.make_node("Greater", [f"{made}_largest", "half"], [made]))
            elif kind < 0.67:
                nodes.append(helper.make_node(pick(["And", "Or"]), [pick(conditions), pick(conditions)], [made]))
            elif depth < 3:
                several = [made, self.new()][: pick([1, 1, 2])]
                branches = {
                    name: self.branch(known, conditions, depth, len(several)) for name in ("then_branch", "else_branch")
                }
                nodes.append(helper.make_node("If", [pick(conditions)], several, **branches))
                known += several[1:]
            else:
                continue
            (conditions if 0.5 <= kind < 0.67 else known).append(made)
        return known, conditions

    def branch(self, known: list[str], conditions: list[str], depth: int, count: int) -> Any:
        nodes: list[Any] = []
        inside, _ = self.body(nodes, known, conditions, depth + 1)
        results = [self.new() for _ in range(count)]
        nodes += [helper.make_node("Identity", [self.random.choice(inside[-3:])], [name]) for name in results]
        return helper.make_graph(
            nodes, "branch", [], [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in results]
        )

    def feeds(self, random: np.random.Generator) -> Feeds:
        return {
            "x": random.uniform(-1, 1, 3).astype(np.float32),
            "w": random.uniform(-1, 1, 3).astype(np.float32),
            "single": np.array(bool(random.integers(2))),
            "of_rank_1": random.integers(0, 2, 1).astype(bool),
            "wild": random.integers(0, 3, 3) + 9 * (random.random() < 0.4),
            "tame": random.integers(0, 3, 3),
        }


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_random_branches(first: int) -> None:
    compared = 0
    for seed in range(first, first + 10):
        nested, random_feeds = Nested(seed), np.random.default_rng(seed)
        reference = ReferenceEvaluator(nested.model)
        with dovetail.load(parse(nested.model), passes=seed % 3 > 0) as net:
            for _ in range(4):
                feeds = nested.feeds(random_feeds)
                try:
                    (wanted,) = reference.run(None, feeds)
                except IndexError:  # it runs what nobody reads, too
                    continue
                np.testing.assert_allclose(net.run(feeds)["y"], wanted, rtol=1e-5, atol=1e-6)
                compared += 1
    assert compared >= 20
