"""Compute layers that depend on constants alone once, by an oracle, while a network is loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from constant_networks import (
    CASES,
    POSITIONS,
    RANDOM,
    REF,
    A,
    Array,
    Fake,
    bits,
    network_of,
    normal,
    registered,
    result,
    softmax64,
    working,
)

import dovetail
from dovetail import DType, Layer, Network, OptionError, Quantization
from dovetail.discovery.registry import Registry
from dovetail.graph.descriptor import Constant, Descriptor, descriptor_class
from dovetail.optimizer import constant_layers, oracles
from dovetail.optimizer.assignment import is_workload
from dovetail.optimizer.oracles import InstalledOracles
from dovetail.runtime.runtime import run_once


@pytest.mark.parametrize("name", CASES)
def test_a_folded_result_is_right_and_has_the_bits_of_the_oracle_in_a_run(name: str) -> None:
    make, expected, tolerance = CASES[name]
    assert working(network_of(make)) == []
    (folded,) = result(network_of(make))
    (computed,) = result(network_of(make), oracle=False)
    assert bits(folded) == bits(computed)
    np.testing.assert_allclose(folded, expected(), rtol=tolerance, atol=tolerance)


def random_chain(seed: int, *, layers: int = 12) -> Network:
    """Return a network in which every third layer or so reads the input, and others constants."""
    random = np.random.default_rng(seed)
    net = Network("chain")
    constant = [net.constant(random.standard_normal((3, 4)).astype(np.float32)) for _ in range(2)]
    varying = [net.input("x", (3, 4))]
    makes: list[Callable[[Any, Any], Any]] = [
        lambda a, b: net.softmax(a),
        lambda a, b: net.addition(a, b),
        lambda a, b: net.cumulative_sum(a, 1),
        lambda a, b: net.maximum(a, b),
        lambda a, b: net.matmul(net.matmul(a, b, transpose_b=True), b),
        lambda a, b: net.tanh(a),
        lambda a, b: net.scatter_elements(a, np.zeros((1, 4), np.int64), net.strided_slice(b, [0, 0], [1, 4])),
    ]
    for _ in range(layers):
        of = constant if random.random() < 0.6 else constant + varying
        a, b = (of[random.integers(len(of))] for _ in range(2))
        made = makes[random.integers(len(makes))](a, b)
        (constant if a in constant and b in constant else varying).append(made)
    for number, slot in enumerate((*constant[-3:], *varying[-2:])):
        net.output(slot, f"y{number}")
    return net


@pytest.mark.parametrize("seed", range(30))
def test_random_networks_keep_their_bits_and_no_layer_of_constants(seed: int) -> None:
    folded = dovetail.optimize(random_chain(seed), REF)
    constant: set[Layer] = set()
    for layer in folded.graph.topological_order():
        if all(slot.source is None or slot.source.layer in constant for slot in layer.inputs) and layer.outputs:
            constant |= {layer} if isinstance(layer.descriptor, Constant) or is_workload(layer) else set()
            assert not is_workload(layer)
    x = {"x": normal(3, 4)}
    with dovetail.load(random_chain(seed), REF) as with_oracle, dovetail.load(random_chain(seed), REF, oracle=False) as without:
        one, other = with_oracle.run(x), without.run(x)
    assert [bits(array) for array in one.values()] == [bits(array) for array in other.values()]


# -- networks that a runtime loads -----------------------------------------------------------------


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the layers that an oracle is asked to compute."""
    names: list[str] = []
    evaluate = InstalledOracles.evaluate

    def noted(self: Any, layer: Layer, *more: Any) -> Any:
        names.append(layer.name)
        return evaluate(self, layer, *more)

    monkeypatch.setattr(InstalledOracles, "evaluate", noted)
    return names


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("backends", [REF, ["CpuAcc", "CpuRef"]], ids=",".join)
def test_a_runtime_folds_as_load_does(seed: int, backends: list[str], asked: list[str]) -> None:
    pytest.importorskip("dovetail_neon", reason="CpuAcc is one of the backends")
    x = {"x": normal(3, 4)}
    with dovetail.load(random_chain(seed), backends) as loaded:
        expected, kinds = loaded.run(x), [row.kind for row in loaded.placement.layers]
    by_load = len(asked)
    with dovetail.Runtime(threads=1) as runtime, runtime.load(random_chain(seed), optimize={"backends": backends}) as net:
        assert len(asked) == 2 * by_load
        assert [row.kind for row in net.placement.layers] == kinds
        for _ in range(3):
            assert [bits(array) for array in net.run(x).values()] == [bits(array) for array in expected.values()]
        assert len(asked) == 2 * by_load


def test_runs_of_what_a_runtime_loaded_compute_no_constants(asked: list[str]) -> None:
    with dovetail.Runtime(threads=1) as runtime:
        with runtime.load(network_of(CASES["chain"][0]), optimize={"backends": REF}) as net:
            assert len(asked) == 3
            assert [step.layer_kind for step in net.plan.steps] == ["dovetail.OutputCopy"]
            np.testing.assert_allclose(net.run({})["y0"], CASES["chain"][1](), rtol=1e-6, atol=1e-6)
        asked.clear()
        with runtime.load(network_of(CASES["chain"][0]), optimize={"backends": REF, "oracle": False}) as net:
            assert not asked
            assert len(net.plan.steps) == 4


def test_a_runtime_folds_for_sizes_and_outputs_that_runs_ask_for(asked: list[str]) -> None:
    net = Network()
    row = net.strided_slice(net.softmax(net.constant(A), name="s"), [0, 0], [1, 7])
    net.output(net.addition(net.input("x", ("n", 7)), row), "y")
    with dovetail.Runtime(threads=1) as runtime, runtime.load(net, optimize={"backends": REF}) as loaded:
        for count in (1, 3, 3, 1):
            x = normal(count, 7)
            np.testing.assert_allclose(loaded.run({"x": x})["y"], x + softmax64(A)[:1], rtol=1e-5)
        assert asked == ["s"] * 2  # once for each size
        for _ in range(2):
            (found,) = loaded.run({"x": normal(2, 7)}, outputs=["s"]).values()
            np.testing.assert_allclose(found, softmax64(A), rtol=1e-6)
        assert asked == ["s"] * 3


@pytest.mark.parametrize(("large", "times"), [(False, 1), (True, 3)])
def test_what_depends_on_no_size_is_computed_for_the_first_alone(
    monkeypatch: pytest.MonkeyPatch, *, large: bool, times: int
) -> None:
    """Layers of one kind and shape differ by their constants; what is large is not kept."""
    computed: list[str] = []
    run = InstalledOracles._run
    monkeypatch.setattr(
        InstalledOracles, "_run", lambda self, layer, *more: computed.append(layer.name) or run(self, layer, *more)
    )
    if large:
        monkeypatch.setattr(oracles, "KEPT_BYTES", A.nbytes - 1)
    net = Network()
    rows = [
        net.strided_slice(net.softmax(net.constant(value), name=name), [0, 0], [1, 7]) for name, value in (("s", A), ("t", -A))
    ]
    net.output(net.addition(net.addition(net.input("x", ("n", 7)), rows[0]), rows[1]), "y")
    expected = softmax64(A)[:1] + softmax64(-A)[:1]
    with dovetail.load(net, REF) as loaded:
        for count in (1, 3, 5, 3):
            x = normal(count, 7)
            np.testing.assert_allclose(loaded.run({"x": x})["y"], x + expected, rtol=1e-5)
            assert loaded.placement.constants[0].layers == ("s", "t")
        assert computed == ["s", "t"] * times
        (found,) = loaded.run({"x": normal(2, 7)}, outputs=["s"]).values()
        found[:] = 0  # which is the caller's own
        np.testing.assert_allclose(loaded.run({"x": normal(2, 7)}, outputs=["s"])["s"], softmax64(A), rtol=1e-6)
        np.testing.assert_allclose(loaded.run({"x": x})["y"], x + expected, rtol=1e-5)
        computed.clear()
    with dovetail.load(net, REF) as loaded:
        loaded.run({"x": x})
    assert computed == ["s", "t"]  # another network asks for itself


def test_a_runtime_leaves_what_is_optimized_as_it_is(asked: list[str]) -> None:
    optimized = dovetail.optimize(network_of(CASES["chain"][0]), REF, oracle=False)
    with dovetail.Runtime(threads=1) as runtime, runtime.load(optimized) as net:
        assert not asked
        assert len(net.plan.steps) == 4


# -- values and types that are easily lost ---------------------------------------------------------


def payload(net: Network) -> Any:
    words = np.array([0x7FC01234, 0xFFC0BEEF, 0x80000000, 0x7F800000], np.uint32)
    return net.gather_nd(net.constant(words.view(np.float32)), np.array([[3], [0], [1], [2]]))


def strided(net: Network) -> Any:
    return net.cumulative_sum(net.constant(np.arange(48, dtype=np.int32).reshape(6, 8)[::-2, 1::3], copy=False), 0)


def words(net: Network) -> Any:
    quantization = Quantization.per_tensor(0.25, 3)
    return net.dequantize(net.quantize(net.constant(A), quantization), quantization)


def channels(net: Network) -> Any:
    weights = net.constant(RANDOM.standard_normal((4, 3)).astype(np.float32))
    quantization = Quantization.per_axis([0.1, 0.2, 0.3, 0.4], [0, 0, 0, 0], axis=0)
    return net.quantize(weights, quantization)


PRESERVED: Mapping[str, Callable[[Network], Any]] = {
    "payload of NaN": payload,
    "strides": strided,
    "quantized": words,
    "quantized by channel": channels,
    "one quantized end": lambda n: n.quantize(n.constant(A), Quantization.per_tensor(0.5, -2)),
    "empty": lambda n: n.softmax(n.constant(np.empty((0, 5), np.float32))),
    "empty sums": lambda n: n.cumulative_sum(n.constant(np.empty((3, 0, 2), np.int64)), 1),
    "scalar": lambda n: n.relu(n.constant(np.float32(-0.0))),
    "float16": lambda n: n.softmax(n.constant(A.astype(np.float16))),
    "bfloat16": lambda n: n.relu(n.constant((A.view(np.uint32) >> 16).astype(np.uint16), dtype=DType.BFLOAT16)),
    "bools": lambda n: n.gather_nd(n.constant(A > 0), POSITIONS),
    "int64": lambda n: n.top_k(n.constant(np.array([1 << 62, 3, -(1 << 63)])), 2),
    "two outputs": lambda n: n.top_k(n.constant(A), 3, largest=False),
    "infinities": lambda n: n.softmax(n.constant(np.array([[np.inf, 1], [-np.inf, -np.inf]], np.float32))),
}


@pytest.mark.parametrize("name", PRESERVED)
def test_types_shapes_and_bits_are_those_of_a_run(name: str) -> None:
    net = network_of(PRESERVED[name])
    assert working(net) == []
    folded, computed = result(net), result(net, oracle=False)
    assert [bits(array) for array in folded] == [bits(array) for array in computed]
    with dovetail.load(net, REF) as one, dovetail.load(net, REF, oracle=False) as other:
        assert [spec.quantization for spec in one.outputs] == [spec.quantization for spec in other.outputs]
        assert [spec.dtype for spec in one.outputs] == [spec.dtype for spec in other.outputs]


def test_quantization_that_is_spelled_out_still_becomes_integer_layers() -> None:
    net = Network()
    of_x, of_weights, of_y = Quantization.per_tensor(0.1), Quantization.per_tensor(0.02), Quantization.per_tensor(0.3)
    weights = net.constant(RANDOM.integers(-127, 128, (5, 7)).astype(np.int8))
    x = net.dequantize(net.quantize(net.input("x", (3, 7)), of_x), of_x)
    product = net.fully_connected(x, net.dequantize(weights, of_weights))
    net.output(net.dequantize(net.quantize(product, of_y), of_y), "y")
    kinds = [working(net, backends=["CpuAcc", "CpuRef"], oracle=oracle) for oracle in (True, False)]
    assert kinds[0] == kinds[1]
    feeds = {"x": normal(3, 7)}
    found = []
    for oracle in (True, False):
        with dovetail.load(net, ["CpuAcc", "CpuRef"], oracle=oracle) as loaded:
            assert "int8" in loaded.placement.explain(200)
            found.append(bits(loaded.run(feeds)["y"]))
    assert found[0] == found[1]


def test_outputs_of_which_some_are_not_read_fold() -> None:
    net = network_of(lambda n: n.top_k(n.constant(A), 2)[1])
    assert working(net) == []
    np.testing.assert_array_equal(result(net)[0], np.argsort(-A, axis=-1, kind="stable")[:, :2])


def test_a_shape_that_only_an_oracle_knows_is_known() -> None:
    def make(oracle: bool) -> list[Array]:
        net = Network()
        shape, _ = net.top_k(net.constant(np.array([2, 1, 3])), 2)  # 3, 2
        net.output(net.reshape(net.input("x", (6,)), shape), "y")
        return result(net, oracle=oracle)

    assert make(True)[0].shape == (3, 2)
    with pytest.raises(dovetail.GraphError, match="which the core does not evaluate"):
        make(False)


@pytest.mark.parametrize("taken", [True, False])
def test_a_condition_that_only_an_oracle_knows_takes_its_branch(taken: bool) -> None:
    net = Network()
    largest, _ = net.top_k(net.constant(np.array([2, 7 if taken else 3, 3])), 1)
    x = net.input("x", (2, 2))
    condition = net.comparison(largest, np.array([5]), "greater")
    chosen = net.conditional(condition, net.softmax(x), net.tanh(x))
    net.output(chosen if not isinstance(chosen, Sequence) else chosen[0], "y")
    assert working(net) == (["Softmax"] if taken else ["Activation"])


def test_layers_inside_a_branch_fold_too() -> None:
    net = Network()
    x, b = net.input("x", (3, 7)), net.input("b", (), DType.BOOL)
    chosen = net.conditional(
        b, net.addition(x, net.softmax(net.constant(A))), net.addition(x, net.cumulative_sum(net.constant(A), 0))
    )
    net.output(chosen if not isinstance(chosen, Sequence) else chosen[0], "y")
    for taken in (True, False):
        with dovetail.load(net, REF) as loaded:
            found = loaded.run({"x": np.zeros((3, 7), np.float32), "b": np.array(taken)})["y"]
            assert {row.kind for row in loaded.placement.layers}.isdisjoint({"dovetail.Softmax", "dovetail.CumulativeSum"})
        np.testing.assert_allclose(found, softmax64(A) if taken else A.cumsum(0), rtol=1e-5)


# -- what must not fold ----------------------------------------------------------------------------


@descriptor_class
class Dice(Descriptor, kind="mine.Dice"):
    """Adds a random number: another one in each run."""

    def infer(self, inputs: Any) -> Any:
        return [inputs[0]]


class Rolls:
    def execute(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        outputs[0][...] = inputs[0] + np.random.default_rng().integers(1, 1 << 30)


def test_a_kind_of_somebody_else_runs_in_each_run_though_its_backend_is_an_oracle() -> None:
    net = Network()
    net.output(net.add(Dice(), net.constant(np.zeros(2, np.int64))).output, "y")
    registry = registered(Fake("CpuDice", ["mine.Dice"], lambda layer: Rolls()))
    with dovetail.load(net, ["CpuDice"], registry=registry) as loaded:
        assert len({loaded.run({})["y"].tobytes() for _ in range(8)}) > 1
        (left,) = loaded.placement.left_constant
    assert "mine.Dice" in left.reason


def test_a_layer_that_reads_an_input_stays() -> None:
    net = Network()
    net.output(net.matmul(net.input("x", (2, 3)), A), "y")
    placement = dovetail.optimize(net, REF).placement
    assert (placement.constants, placement.left_constant) == ((), ())


def test_a_state_is_no_constant() -> None:
    net = Network()
    before = net.state("before", (1, 2), initial=np.ones((1, 2), np.float32))
    after = net.softmax(before)
    net.write_state("before", after)
    net.output(after, "y")
    assert working(net) == ["Softmax"]


def test_what_a_given_value_decides_runs_where_the_user_wants_it() -> None:
    net = Network()
    x = net.input("x", (3, 7))
    y = net.addition(net.softmax(net.addition(x, x)), net.softmax(net.constant(A)))
    net.output(net.addition(y, net.input("z", ())), "y")
    placement = dovetail.optimize(net, REF, values={"x": A}).placement
    assert [(row.layer, row.reason) for row in placement.left_constant] == [
        ("softmax", "it depends on the value that is given for the input 'x'")
    ]
    assert [one.layers for one in placement.constants] == [("softmax_2",)]
    assert placement.layer("softmax").backend == "CpuRef"
    (found,) = result(net, values={"x": A})
    np.testing.assert_allclose(found, softmax64(2 * A) + softmax64(A), rtol=1e-6)


def test_a_result_that_would_blow_the_network_up_is_left_to_the_runs() -> None:
    net = Network()
    hot = net.one_hot(net.constant(np.zeros(1 << 12, np.int64)), 1 << 12, np.array([0, 1], np.float32))  # 64 MiB of 32 KiB
    net.output(net.reduce(net.addition(net.input("x", ()), hot), "max"), "y")
    placement = dovetail.optimize(net, REF).placement
    (left,) = placement.left_constant
    assert "larger than what folding may add" in left.reason
    assert "OneHot" in working(net)


def test_many_results_together_stay_within_what_folding_may_add() -> None:
    net = Network()
    total = net.input("x", (1024, 1024))
    for number in range(16):  # 4 MiB each
        total = net.addition(total, net.one_hot(net.constant(np.full(1024, number)), 1024, np.array([0, 1], np.float32)))
    net.output(total, "y")
    assert working(net).count("OneHot") == 8


def test_a_product_of_too_many_steps_is_left_to_the_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constant_layers, "FOLDED_MACS", 3 * 7 * 5 - 1)
    net = network_of(CASES["product"][0])
    (left,) = dovetail.optimize(net, REF).placement.left_constant
    assert "105 multiply-accumulates" in left.reason
    monkeypatch.setattr(constant_layers, "FOLDED_MACS", 3 * 7 * 5)
    assert working(net) == []


def test_nothing_folds_where_it_is_not_wanted() -> None:
    net = network_of(CASES["softmax"][0])
    assert working(net, oracle=False) == ["Softmax"]
    assert working(net, passes=False) == ["Softmax"]
    assert dovetail.optimize(net, REF, oracle=False).placement.left_constant == ()


@pytest.mark.parametrize("given", ["CpuRef", ["CpuRef"], 1, object()])
def test_what_computes_nothing_is_no_oracle(given: Any) -> None:
    """Ids are a natural thing to give: all that is asked of backends takes them."""
    for make in (dovetail.load, dovetail.optimize):
        with pytest.raises(OptionError, match=r"OPTION_INVALID.*oracle is .*computes nothing"):
            make(network_of(CASES["softmax"][0]), REF, oracle=given)


def test_no_oracle_is_asked_where_the_core_folds_all() -> None:
    net = Network()
    net.output(
        net.softmax(net.addition(net.input("x", (2, 2)), net.cast(net.constant(np.ones((2, 2), np.int8)), DType.FLOAT32))), "y"
    )

    class Never(InstalledOracles):
        def evaluate(self, layer: Layer, barred: Any, seconds: float) -> Any:
            raise AssertionError(layer.name)

    assert len(working(net, oracle=Never(run_once, Registry()))) == 2
