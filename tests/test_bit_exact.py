"""The bits that the kit asks for are those of LiteRT and ONNX Runtime, and backends keep them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from dovetail import DType, Quantization
from dovetail.discovery.registry import default_registry
from dovetail_sdk.conformance.catalogue import standard_operators
from dovetail_sdk.conformance.checks import all_checks
from dovetail_sdk.conformance.references import samples, standards
from dovetail_sdk.conformance.references.quantized import BATCHED_PRODUCTS, FULLY_CONNECTED, TIES, quantized_sums, ties
from dovetail_sdk.conformance.results import Status
from dovetail_sdk.conformance.runner import run_check
from dovetail_sdk.conformance.subject import Settings
from dovetail_sdk.conformance.target import Target
from dovetail_sdk.conformance.variants import variants

LITERT = Path(__file__).parents[1] / "reference_backend" / "tests" / "data" / "litert.npz"
WEIGHTED = ("Convolution2d", "DepthwiseConvolution2d", "FullyConnected")


def weighted_cases(kind, dtype):
    """Every case of a kind that has ties, and what the standards say of it."""
    operator = standard_operators()[f"dovetail.{kind}"]
    for variant in variants(operator, dtype, ()):
        if variant.parameters.get("values") == TIES:
            case = operator.make(variant.parameters, dtype, np.random.default_rng(2))
            if case is not None and case.expected[0].size:
                yield case


@pytest.mark.parametrize("kind", WEIGHTED)
def test_ties_tell_the_standards_apart(kind):
    for dtype in (DType.INT8, DType.UINT8):
        (case, *_) = weighted_cases(kind, dtype)
        litert, onnx_ = case.bits_of(0)["litert"], case.bits_of(0)["onnx"]
        apart = litert.values != onnx_.values
        assert 0.1 < apart.mean() < 0.6  # half of the results are ties, and half of those go the same way
        assert not onnx_.undefined[apart].any()


def litert_cases():
    """Yield facts and arrays of each case; the last array is what LiteRT made of the others."""
    with np.load(LITERT, allow_pickle=False) as archive:
        facts, data, at = json.loads(archive["facts"].tobytes()), archive["bytes"].tobytes(), 0
    for case in facts:
        arrays = []
        for shape, tensor in zip(case["shapes"], [*case["inputs"], case["result"]], strict=True):
            count = int(np.prod(shape))
            arrays.append(np.frombuffer(data, tensor["dtype"], count, at).reshape(shape))
            at += count * np.dtype(tensor["dtype"]).itemsize
        yield case, arrays


def test_sums_and_products_have_the_bits_of_litert():
    seen = dict.fromkeys(("add", "sub", "mul"), 0)
    for case, (*operands, wanted) in litert_cases():
        operation = case["attributes"].get("operation")
        tensors = [*case["inputs"], case["result"]]
        if case["kind"] != "ElementwiseBinary" or operation not in seen or case["attributes"].get("activation"):
            continue
        x, y = (one.astype(np.int64) - tensor["zeros"][0] for one, tensor in zip(operands, tensors, strict=False))
        scales = tuple(tensor["scales"][0] for tensor in tensors)
        if operation == "mul":
            rescaled = standards.litert_product(x, y, scales)
        else:
            rescaled = standards.litert_sum(x, y, scales, 1 if operation == "add" else -1)
        result = Quantization.per_tensor(tensors[2]["scales"][0], tensors[2]["zeros"][0])
        np.testing.assert_array_equal(standards.litert_bits(rescaled, result, DType.of(wanted.dtype)).values, wanted)
        seen[operation] += wanted.size
    assert all(seen.values()), seen


def swapped_where(x, asked):
    return np.swapaxes(x, -1, -2) if asked else x


@pytest.mark.parametrize(("kind", "litert"), [("MatMul", BATCHED_PRODUCTS), ("FullyConnected", FULLY_CONNECTED)])
def test_products_of_matrices_have_the_bits_of_litert(kind, litert):
    count = 0
    for case, arrays in litert_cases():
        if case["kind"] != kind or case["attributes"].get("activation") or "per_axis" in case["name"]:
            continue
        a, b, *bias, wanted = arrays
        a = swapped_where(a, case["attributes"].get("transpose_a"))
        b = swapped_where(b, case["attributes"].get("transpose_b", True))
        tensors = [*case["inputs"][:2], case["result"]]
        quantizations = tuple(Quantization.per_tensor(one["scales"][0], one["zeros"][0]) for one in tensors)
        added = bias[0] if bias else None
        _, bits = quantized_sums(
            np.matmul, (a, b), added, quantizations, wanted.ndim - 1, DType.of(wanted.dtype), litert=litert
        )
        np.testing.assert_array_equal(bits["litert"].values, wanted)
        count += wanted.size
    assert count


def by_onnxruntime(a, b, quantizations):
    """Multiply quantized matrices as QLinearMatMul of ONNX Runtime."""
    names = ("a", "b", "y")
    element = {"int8": onnx.TensorProto.INT8, "uint8": onnx.TensorProto.UINT8}[str(a.dtype)]
    facts = []
    for name, one in zip(names, quantizations, strict=True):
        facts.append(onnx.numpy_helper.from_array(np.float32(one.scale[0]), f"{name}_scale"))
        facts.append(onnx.numpy_helper.from_array(a.dtype.type(one.zero_point[0]), f"{name}_zero"))
    inputs = ["a", "a_scale", "a_zero", "b", "b_scale", "b_zero", "y_scale", "y_zero"]
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("QLinearMatMul", inputs, ["y"])],
        "product",
        [onnx.helper.make_tensor_value_info(name, element, x.shape) for name, x in (("a", a), ("b", b))],
        [onnx.helper.make_tensor_value_info("y", element, (a.shape[0], b.shape[1]))],
        facts,
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"a": a, "b": b})[0]


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
@pytest.mark.parametrize("how", ["ties", "plain"])
def test_products_of_matrices_have_the_bits_of_onnxruntime(dtype, how):
    rng, shapes = np.random.default_rng(3), ((40, 16), (16, 40))
    if how == "ties":
        a, b, quantizations = ties(dtype, dtype, shapes, 16, rng)
    else:
        a, b = (samples.anything(dtype, shape, rng) for shape in shapes)
        quantizations = tuple(Quantization.per_tensor(scale, 3) for scale in (0.05, 0.013, 3.1))
    _, bits = quantized_sums(np.matmul, (a, b), None, quantizations, 0, dtype, litert=BATCHED_PRODUCTS)
    defined = ~bits["onnx"].undefined
    assert defined.mean() > 0.99
    np.testing.assert_array_equal(by_onnxruntime(a, b, quantizations)[defined], bits["onnx"].values[defined])


def judged(id, kind, change=lambda promises: promises):
    """Judge a backend's kind at level 2, with its promises changed."""
    (check,) = (one for one in all_checks() if one.id == f"operators.computes[dovetail.{kind}]")
    backend = default_registry().get(id)
    return run_check(check, Target(backend, id, manifest=change(json.loads(json.dumps(dict(backend.manifest))))), Settings())


@pytest.mark.parametrize(("id", "standard", "other"), [("CpuRef", "litert", "onnx"), ("CpuAcc", "onnx", "litert")])
def test_a_backend_keeps_the_bits_that_it_promises_and_not_those_of_the_other_standard(id, standard, other):
    def swapped(manifest):
        (name,) = (name for name in manifest["bit_exact"] if "FullyConnected" in name)
        manifest["bit_exact"][name][0]["standard"] = other
        return manifest

    kept = judged(id, "FullyConnected")
    assert kept.status is Status.PASSED, kept.text
    assert sum(number for (one, _, _), number in kept.bits.items() if one == standard) > 50
    wrong = judged(id, "FullyConnected", swapped)
    assert wrong.status is Status.FAILED
    assert all(f"bit-exact by {other}" in case.text for case in wrong.cases)
    assert any("values=ties" in case.id for case in wrong.cases)
