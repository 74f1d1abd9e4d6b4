"""Check that `dovetail_onnx.export` round-trips every kind ONNX can say, by ONNX Runtime too.

The cases and what they must give are those of the conformance kit, from NumPy in float64.
"""

import re
from collections import Counter
from dataclasses import replace

import numpy as np
import onnx
import pytest

import dovetail
import dovetail_onnx
from dovetail import DType, Network, PlacementError, UnsupportedModelError
from dovetail.contract.subgraph import SubgraphView
from dovetail.graph.descriptor import Constant, Input, Output
from dovetail.graph.tensor import Quantization
from dovetail.layers import MatMul
from dovetail.optimizer.passes import FixShapes, InferAndFold
from dovetail_sdk.conformance.catalogue import all_operators
from dovetail_sdk.conformance.comparing import mismatch
from dovetail_sdk.conformance.trials import add_case
from dovetail_sdk.conformance.variants import variants

KINDS = all_operators(())
UNIT = {DType.FLOAT16: 2.0**-10, DType.BFLOAT16: 2.0**-7}
ROUNDINGS = 4  # of narrow floats between nodes: a product and a sum, a cast

# Cases in which ONNX Runtime gives something else, by kind and element type, and why that is no
# fault of the export.
ELSEWHERE = {
    r".*/float64/.*=(swish|gelu_tanh|shrink)": "it computes these in float32",
    r"GroupNormalization/float64": "it computes this in float32",
    r"ArgMinMax/.*values=special": "ONNX does not say where the extreme is beside a NaN",
    r"Reduce/.*values=special": "ONNX does not say what the extreme is beside a NaN",
    r"Reduce/.*values=large": "ONNX does not say what an overflow of integers gives",
    r"Quantize/.*values=special": "ONNX does not say which integer stands for a NaN",
    r"Softmax/uint8/channels=1": "its fused softmax of bytes gives 0 for what is alone",
    r"TopK/.*values=special": "ONNX does not say how a NaN compares",
    r"Resize/u?int8/.*(cubic|antialias)": "its sums wrap where they leave the range of the type",
    r"(GlobalPooling/float32/.*height=1,width=1|Pooling2d/float32/.*padding=1x1x1x1)": "its maximum of -inf is finite",
    r"Pooling2d/u?int8/function=average.*ceil_mode=True": "its fused average of bytes counts other elements at the edge",
}

# Kinds that ONNX has no operator for.
UNSAID = {
    "dovetail.QuantizedLstm": "its LSTM is one of floats, whose states are not rounded",
    "dovetail.QuantizedSvdf": "it has no filters over time in integers",
    "dovetail.DetectionPostProcess": "NonMaxSuppression gives as many positions as there happen to be",
}

# What ONNX Runtime says of what ONNX allows and it has no kernel for; its own fusion makes a node
# that it then refuses.
REFUSALS = ("NOT_IMPLEMENTED", "RUNTIME_EXCEPTION", "FAIL", "Unrecognized attribute: dilations for operator QLinearAveragePool")


def members(network):
    return [layer for layer in network.topological_order() if not isinstance(layer.descriptor, Input | Output | Constant)]


def whole(network):
    return SubgraphView(network, members(network))


def in_onnxruntime(data, feeds):
    runtime = pytest.importorskip(
        "onnxruntime", reason="the reference of exports is ONNX Runtime; see [bench] in pyproject.toml"
    )
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    return runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"]).run(None, feeds)


def wrong(case, results, order, dtypes):
    for number, at in enumerate(order):
        dtype, expected, tolerance = dtypes[at], case.expected[number], case.tolerances[number]
        if dtype in UNIT and expected.size:
            # Nodes store what one layer keeps in float32: each rounding is of numbers as large as
            # the largest.
            finite = np.abs(expected[np.isfinite(expected)])
            more = ROUNDINGS * UNIT[dtype] * float(finite.max(initial=0))
            tolerance = replace(tolerance, absolute=tolerance.absolute + more)
        problem = mismatch(np.asarray(results[at]), expected, tolerance, dtype)
        if problem:
            return problem
    return ""


def try_case(operator, dtype, variant, counts):
    """Export one case and run it twice; return what is wrong."""
    case = operator.make(variant.parameters, dtype, np.random.default_rng(0))
    if case is None:
        return ""
    network = Network("case")
    feeds, slots = add_case(network, case, "case")
    view = whole(network)
    for number, slot in enumerate(slots):
        network.output(slot, f"output {number}")
    view = SubgraphView(network, view.layers)
    if any(dovetail_onnx.unexportable(layer) for layer in view.layers):
        counts["unexportable"] += 1
        return ""
    model = dovetail_onnx.export(view)
    data = model.to_bytes()
    onnx.checker.check_model(data, full_check=True)
    values = {network.layer(name).output: feed.value for name, feed in feeds.items()}
    arrays = {name: values[slot] for name, slot in zip(model.inputs, view.inputs, strict=True)}
    dtypes, order = [slot.dtype for slot in view.outputs], [view.outputs.index(slot) for slot in slots]
    try:
        with dovetail.load(dovetail_onnx.parse(data), ["CpuRef"]) as net:
            results = net.run(arrays)
    except PlacementError:
        counts["no kernel"] += 1
        return ""
    problem = wrong(case, [results[name] for name in model.outputs], order, dtypes)
    if problem:
        return f"through the parser: {problem}"
    counts["parsed"] += 1
    empty = any(0 in array.shape for array in (*arrays.values(), *case.expected))
    narrow = DType.BFLOAT16 in [slot.dtype for slot in (*view.inputs, *view.outputs)]
    if empty or narrow:  # ONNX Runtime 1.31 ends the process at some empty tensors, and takes no bfloat16 from NumPy
        return ""
    try:
        results = in_onnxruntime(data, arrays)
    except Exception as error:
        if not any(text in str(error) for text in REFUSALS):
            raise
        counts["refused"] += 1
        return ""
    counts["ran"] += 1
    problem = wrong(case, results, order, dtypes)
    return f"in ONNX Runtime: {problem}" if problem else ""


def try_all(kind, step):
    """Try every `step`-th case of a kind."""
    operator, counts, problems = KINDS[kind], Counter(), []
    name = kind.removeprefix("dovetail.")
    number = 0
    for dtype in operator.dtypes:
        for variant in variants(operator, dtype, ()):
            number += 1
            if number % step and variant.label != "default":
                continue
            label = f"{name}/{dtype}/{variant.label}"
            problem = try_case(operator, dtype, variant, counts)
            known = problem.startswith("in ONNX Runtime") and any(re.match(pattern, label) for pattern in ELSEWHERE)
            if problem and not known:
                problems.append(f"{label}: {problem}")
    assert not problems, f"{len(problems)} of {counts}:\n" + "\n".join(problems[:20])
    assert counts["parsed"], counts
    return counts


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - UNSAID))
def test_some_cases_of_each_kind_come_back(kind):
    try_all(kind, 37)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", sorted(KINDS.keys() - UNSAID))
def test_all_cases_of_each_kind_come_back(kind):
    try_all(kind, 1)


@pytest.mark.parametrize("kind", UNSAID)
def test_kinds_that_onnx_has_no_operator_for(kind):
    operator = KINDS[kind]
    for variant in variants(operator, operator.dtypes[0], ()):
        case = operator.make(variant.parameters, operator.dtypes[0], np.random.default_rng(0))
        if case is None:
            continue
        network = Network("case")
        add_case(network, case, "case")
        for layer in members(network):
            assert dovetail_onnx.unexportable(layer) == f"there is no operator for the kind {kind}"


# --- parts ----------------------------------------------------------------------------------------


def small_network():
    """Six kinds of layers of a CNN."""
    rng = np.random.default_rng(0)
    network = Network("small")
    x = network.input("x", (1, 3, 16, 16))
    weights = rng.standard_normal((8, 3, 3, 3), np.float32)
    y = network.relu(network.convolution2d(x, weights, rng.standard_normal(8, np.float32), padding=1))
    y = network.pooling2d(y, "max", 2, stride=2)
    y = network.flatten(network.global_pooling(y))
    y = network.fully_connected(y, rng.standard_normal((10, 8), np.float32))
    network.output(network.softmax(y), name="probabilities")
    return network


def test_a_network_becomes_one_model():
    network = small_network()
    model = dovetail_onnx.export(whole(network))
    feed = np.random.default_rng(1).standard_normal((1, 3, 16, 16), np.float32)
    (result,) = in_onnxruntime(model.to_bytes(), {model.inputs[0]: feed})
    with dovetail.load(network, ["CpuRef"]) as net:
        np.testing.assert_allclose(result, net.run({"x": feed})["probabilities"], rtol=1e-5, atol=1e-7)


def test_inputs_and_outputs_come_in_the_order_of_the_part():
    network = Network("crossed")
    a, b = network.input("a", (2,)), network.input("b", (2,))
    difference = network.subtraction(b, a, name="difference")
    both = network.addition(difference, a, name="both")
    for slot in (both, difference):
        network.output(slot)
    view = whole(network)
    model = dovetail_onnx.export(view)
    assert model.inputs == tuple(slot.name for slot in view.inputs)
    assert model.outputs == tuple(slot.name for slot in view.outputs)
    results = in_onnxruntime(model.to_bytes(), {"a": np.float32([1, 2]), "b": np.float32([5, 7])})
    assert {name: list(value) for name, value in zip(model.outputs, results, strict=True)} == {
        "difference": [4, 5],
        "both": [5, 7],
    }


def test_a_layer_that_passes_its_input_on_has_an_output_of_its_own():
    network = Network("passing")
    x = network.input("x", (2,), "int32")
    y = network.unary(x, "floor")
    network.output(y, name="y")
    network.output(network.unary(y, "ceil"), name="z")
    model = dovetail_onnx.export(whole(network))
    onnx.checker.check_model(model.to_bytes(), full_check=True)
    assert len({*model.inputs, *model.outputs}) == 3
    for result in in_onnxruntime(model.to_bytes(), {"x": np.int32([3, 4])}):
        np.testing.assert_array_equal(result, [3, 4])


def test_all_that_cannot_be_said_is_listed():
    network = Network("odd")
    x = network.input("x", (4,))
    y = network.pad(x, [1], [1], mode="symmetric", name="mirrored")
    y = network.relu(y, name="fine")
    network.output(network.pad(y, [2], [2], mode="symmetric", name="again"), name="y")
    reasons = {layer.name: dovetail_onnx.unexportable(layer) for layer in members(network)}
    assert reasons["fine"] is None
    assert "repeats the edge" in reasons["mirrored"]
    with pytest.raises(UnsupportedModelError, match=r"layer 'mirrored' .* and 1 more") as raised:
        dovetail_onnx.export(whole(network))
    assert set(raised.value.details["unsupported"]) == {"mirrored", "again"}


def test_a_kind_that_onnx_does_not_know_is_named():
    from dovetail.graph.descriptor import Descriptor, descriptor_class

    @descriptor_class
    class Odd(Descriptor, kind="test.Odd"):
        def infer(self, inputs):
            return list(inputs)

    network = Network("odd")
    layer = network.add(Odd(), network.input("x", (4,)))
    assert dovetail_onnx.unexportable(layer) == "there is no operator for the kind test.Odd"


def test_a_saved_model_keeps_its_weights_beside_it(tmp_path):
    network = Network("wide")
    x = network.input("x", (1, 256))
    weights = np.random.default_rng(0).standard_normal((128, 256), np.float32)
    network.output(network.fully_connected(x, weights), name="y")
    model = dovetail_onnx.export(whole(network))
    path = model.save(tmp_path / "model.onnx")
    assert path.stat().st_size < 2000
    assert (tmp_path / "model.onnx.data").stat().st_size == weights.nbytes
    feed = np.ones((1, 256), np.float32)
    (result,) = in_onnxruntime(str(path), {"x": feed})
    np.testing.assert_allclose(result, feed @ weights.T, rtol=1e-4, atol=1e-4)
    with dovetail.load(path, ["CpuRef"]) as net:
        np.testing.assert_allclose(net.run({"x": feed})[model.outputs[0]], result, rtol=1e-4, atol=1e-4)


def test_weights_that_no_message_of_protobuf_holds_are_refused_before_they_are_copied():
    network = Network("huge")
    weights = np.zeros((1 << 15, 1 << 15), np.float32)  # 4 GiB of pages that nobody touches
    x = network.input("x", (1, 1 << 15))
    network.output(network.fully_connected(x, network.constant(weights, copy=False)), name="y")
    model = dovetail_onnx.export(whole(network))
    assert model.bytes_of_constants == 1 << 32
    with pytest.raises(dovetail.ModelError, match="save"):
        model.to_bytes()


@pytest.mark.parametrize("transposed", ["a", "b"])
def test_integers_are_transposed_before_they_become_real_numbers(transposed):
    """onnxruntime's optimizer spoils a product that reads a Transpose of DequantizeLinear."""
    network = Network("int8")
    quantization = Quantization.per_tensor(0.05, -3)
    shapes = {"a": (3, 8, 4) if transposed == "a" else (3, 4, 8), "b": (3, 5, 8) if transposed == "b" else (3, 8, 5)}
    a, b = (network.input(name, shapes[name], DType.INT8, quantization) for name in "ab")
    product = MatMul(**{f"transpose_{transposed}": True})
    network.output(network.add(product, a, b, quantization=Quantization.per_tensor(0.4, -7)).output, name="y")
    model = dovetail_onnx.export(whole(network))
    rng = np.random.default_rng(0)
    feeds = {name: rng.integers(-128, 128, shapes[name], np.int8) for name in "ab"}
    real = {name: 0.05 * (value.astype(np.float64) + 3) for name, value in feeds.items()}
    real[transposed] = real[transposed].swapaxes(1, 2)
    expected = np.clip(np.rint(real["a"] @ real["b"] / np.float32(0.4)) - 7, -128, 127)
    (result,) = in_onnxruntime(model.to_bytes(), dict(zip(model.inputs, feeds.values(), strict=True)))
    assert np.abs(result - expected).max() <= 1


def named_shapes(infos):
    return {one.name: [size.dim_param or size.dim_value for size in one.type.tensor_type.shape.dim] for one in infos}


def test_a_whole_network_keeps_its_names_and_open_sizes():
    network = Network("whole")
    x, unread = network.input("x", ("N", 2, 4)), network.input("unread", (3,))
    del unread
    flat = network.relu(network.reshape(x, (0, 8), zero_copies=True), name="y_2")
    weights = np.random.default_rng(0).standard_normal((3, 8), np.float32)
    network.output(network.fully_connected(flat, weights, name="scores"), name="y")
    network.output(flat, name="flat")
    network.output(flat, name="again")

    def sized(sizes):
        graph = network.copy()
        for step in (FixShapes(sizes), InferAndFold()):
            step.run(graph)
        return graph

    model = dovetail_onnx.export_network(sized, ["N"])
    onnx.checker.check_model(model, full_check=True)
    assert named_shapes(model.graph.input) == {"x": ["N", 2, 4], "unread": [3]}
    assert named_shapes(model.graph.output) == {"y": ["N", 3], "flat": ["N", 8], "again": ["N", 8]}
    feed = np.random.default_rng(1).standard_normal((5, 2, 4), np.float32)
    y, first, second = in_onnxruntime(model.SerializeToString(), {"x": feed, "unread": np.zeros(3, np.float32)})
    np.testing.assert_array_equal(first, np.maximum(feed.reshape(5, 8), 0))
    np.testing.assert_array_equal(second, first)
    np.testing.assert_allclose(y, first.astype(np.float64) @ weights.T, rtol=1e-5, atol=1e-6)


def test_sizes_that_constants_depend_on_are_fixed():
    def sized(sizes):
        graph = Network("counted")
        x = graph.input("x", (sizes["N"], 4))
        graph.output(graph.addition(x, np.full((sizes["N"], 4), sizes["N"], np.float32)), name="y")
        return graph

    model = dovetail_onnx.export_network(sized, ["N"], {"N": 3})
    assert named_shapes([*model.graph.input, *model.graph.output]) == {"x": [3, 4], "y": [3, 4]}
    (result,) = in_onnxruntime(model.SerializeToString(), {"x": np.zeros((3, 4), np.float32)})
    assert (result == 3).all()


def test_an_output_that_nothing_computes_is_refused():
    network = Network("passing")
    network.output(network.input("x", (2,)), name="y")
    with pytest.raises(dovetail.ModelError, match="output 'y' is an input or a constant"):
        dovetail_onnx.export_network(lambda sizes: network)
