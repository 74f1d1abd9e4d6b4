"""Check that `infer`, constant folding and the reference agree on the types of each kind."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dovetail
from dovetail import Descriptor, DovetailError, DType, ErrorCode, GraphError, Network, PlacementError, TensorInfo
from dovetail import layers as kinds
from dovetail.graph.descriptor import evaluated

sys.path.append(str(Path(__file__).parents[1] / "core/tests"))
from test_layers_shapes import CASES as SHAPES

CASES: dict[str, tuple[Descriptor, list[Any]]] = {name: (kind, inputs) for name, (kind, inputs, _) in SHAPES.items()}
for unary in kinds.UnaryOperation:
    CASES[f"unary {unary}"] = kinds.ElementwiseUnary(operation=unary), [(2, 3)]
    CASES[f"unary {unary} of nothing"] = kinds.ElementwiseUnary(operation=unary), [(2, 0)]
for binary in kinds.BinaryOperation:
    CASES[f"binary {binary}"] = kinds.ElementwiseBinary(operation=binary), [(2, 3), (3,)]
    CASES[f"binary {binary} of nothing"] = kinds.ElementwiseBinary(operation=binary), [(2, 0), (1,)]
for comparison in kinds.ComparisonOperation:
    CASES[f"comparison {comparison}"] = kinds.Comparison(operation=comparison), [(2, 3), (3,)]
for function in kinds.ActivationFunction:
    CASES[f"activation {function}"] = kinds.Activation(function=function), [(2, 3)]
for reduction in kinds.ReduceFunction:
    CASES[f"reduce {reduction}"] = kinds.Reduce(function=reduction, axes=(1,)), [(2, 3)]
for target in DType:
    CASES[f"cast to {target}"] = kinds.Cast(dtype=target), [(2, 3)]

PRODUCTS = ("conv", "depthwise", "transpose conv", "fully connected")
"""Integer products: slots have quantizations, which the optimizer may write after the layer."""
REFUSED = {
    "conditional": "no backend meets it",
    "conv int8": "as all products of integers",
    **dict.fromkeys(
        ("quantized svdf", "quantized svdf without bias"), "what its result stands for is said by the slot, after the layer"
    ),
    "pool ceil starting in padding": "averages of plain integers are computed of 16 bits alone",
}
"""Kinds that `infer` takes and the reference does not compute, with the reason."""


def value(info: TensorInfo, random: np.random.Generator) -> Any:
    drawn = random.uniform(0.25, 3, info.sizes)
    if info.dtype is DType.BFLOAT16:
        return np.asarray(np.asarray(drawn, np.float32).view(np.uint32) >> 16, np.uint16)
    return np.asarray(drawn, info.dtype.numpy)


def infos_of(inputs: list[Any], dtype: DType) -> list[TensorInfo | None]:
    """Return infos in which sizes that a case states without a type have this one."""
    return [
        None if one is None else TensorInfo.of(*one) if one and isinstance(one[0], tuple) else TensorInfo.of(one, dtype)
        for one in inputs
    ]


def taken(descriptor: Descriptor, infos: list[TensorInfo | None]) -> tuple[Descriptor, list[TensorInfo]] | None:
    try:
        resolved = descriptor.resolve(infos, [None] * len(infos))
        return resolved, list(resolved.infer(infos))
    except DovetailError as error:
        if error.code not in (ErrorCode.DTYPE_MISMATCH, ErrorCode.ATTRIBUTE_INVALID):
            raise
        return None


@pytest.mark.parametrize("dtype", list(DType), ids=lambda dtype: dtype.label)
def test_what_infer_takes_the_reference_computes_and_folding_gives_the_same(dtype: DType) -> None:
    random = np.random.default_rng(3)
    computed = folded = 0
    for name, (descriptor, inputs) in CASES.items():
        infos = infos_of(inputs, dtype)
        found = taken(descriptor, infos)
        if found is None:
            continue
        resolved, outputs = found
        values = [None if info is None else value(info, random) for info in infos]
        folds = type(resolved).evaluate is not Descriptor.evaluate
        constants = evaluated(resolved, infos, values, outputs) if folds else None
        network = Network()
        slots = [
            None if info is None else network.input(f"i{at}", info.shape, info.dtype, info.quantization)
            for at, info in enumerate(infos)
        ]
        layer = network.add(resolved, *slots)
        for at, slot in enumerate(layer.outputs):
            network.output(slot, f"o{at}")
        try:
            optimized = dovetail.optimize(network, ["CpuRef"], passes=False)
        except (PlacementError, GraphError):
            if name not in REFUSED and not (dtype.is_integer and name.startswith(PRODUCTS)):
                raise
            if constants is not None:
                pytest.fail(f"{name} of {dtype} is folded and not computed")
            continue
        computed += 1
        if constants is None:
            continue
        folded += 1
        with dovetail.Runtime(threads=1).load(optimized) as net:
            results = net.run({f"i{at}": one for at, one in enumerate(values) if one is not None})
        for result, constant in zip(results.values(), constants, strict=True):
            np.testing.assert_array_equal(result, constant, err_msg=f"{name} of {dtype}", strict=True)
    assert computed > (60 if dtype is DType.BOOL else 100)
    assert folded > 30


@pytest.mark.parametrize("name", ["unary neg", "binary add", "activation relu", "reduce sum", "matmul", "conv", "pool"])
def test_bools_are_no_numbers(name: str) -> None:
    descriptor, inputs = CASES[name]
    with pytest.raises(GraphError, match="bool") as caught:
        descriptor.infer(infos_of(inputs, DType.BOOL))
    assert caught.value.code is ErrorCode.DTYPE_MISMATCH


@pytest.mark.parametrize("dtype", [DType.INT64, DType.UINT8, DType.BOOL])
@pytest.mark.parametrize("operation", ["log", "sqrt", "erf", "is_nan"])
def test_functions_of_real_numbers_refuse_others(operation: str, dtype: DType) -> None:
    network = Network()
    with pytest.raises(GraphError, match=f"input is {dtype}") as caught:
        network.unary(network.input("x", (0,), dtype), operation)
    assert caught.value.code is ErrorCode.DTYPE_MISMATCH
