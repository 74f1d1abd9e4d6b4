"""Quantizations of slots: each fits the type and the shape of its tensor, whoever made it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dovetail import layers as kinds
from dovetail.graph.descriptor import Descriptor, descriptor_class
from dovetail.graph.element_types import DType
from dovetail.graph.tensor import Quantization, TensorInfo
from dovetail.ground.errors import GraphError
from dovetail.layers.network import Network
from dovetail.optimizer.passes import FixShapes

I8, I64 = DType.INT8, DType.INT64


@pytest.mark.parametrize(
    ("shape", "axis", "result", "wanted"),
    [
        ((2, 3), 0, (2, 1, 3), 0),
        ((2, 3), 1, (2, 3, 1), 1),
        ((2, 3), -1, (1, 2, 3), 2),
        ((6, 2), 0, (6, 2, 1), 0),
        ((6, 2), 0, (3, 2, 2), None),
        ((2, 2, 4), 1, (4, 2, 2), None),
        ((2, 3), 1, (6,), None),
    ],
)
def test_the_axis_of_a_quantization_follows_a_reshape(shape: Any, axis: int, result: Any, wanted: int | None) -> None:
    x = TensorInfo.of(shape, I8, Quantization.per_axis((0.5,) * shape[axis], axis=axis))
    if wanted is None:
        with pytest.raises(GraphError, match="dequantize before") as caught:
            kinds.Reshape(shape=result).infer([x])
        assert caught.value.code == "SHAPE_MISMATCH"
    else:
        found = kinds.Reshape(shape=result).infer([x])[0].quantization
        assert found is not None
        assert found.axis == wanted


def test_one_scale_is_that_of_a_tensor_where_its_axis_goes() -> None:
    x = TensorInfo.of((1, 3), I8, Quantization.per_axis((0.5,), (2,), axis=0))
    assert kinds.Squeeze(axes=(0,)).infer([x])[0].quantization == Quantization.per_tensor(0.5, 2)


@pytest.mark.parametrize(
    ("descriptor", "wanted"),
    [
        (kinds.StridedSlice(begin=(0,), end=(2,), axes=(1,)), 0),
        (kinds.StridedSlice(begin=(0,), end=(2,), axes=(0,)), None),
        (kinds.StridedSlice(begin=(2,), end=(-4,), axes=(0,), stride=(-1,)), None),
        (kinds.Gather(axis=1), 0),
        (kinds.Gather(axis=0), None),
    ],
)
def test_picking_along_the_axis_of_a_quantization_is_refused(descriptor: Descriptor, wanted: int | None) -> None:
    x = TensorInfo.of((3, 3), I8, Quantization.per_axis((1, 2, 3), axis=0))
    inputs = [x, TensorInfo.of((3, 1), I64)] if isinstance(descriptor, kinds.Gather) else [x]
    if wanted is None:
        with pytest.raises(GraphError, match="dequantize before"):
            descriptor.infer(inputs)
    else:
        found = descriptor.infer(inputs)[0].quantization
        assert found is not None
        assert found.axis == wanted


def test_gathering_before_the_axis_of_a_quantization_moves_it() -> None:
    x = TensorInfo.of((3, 2), I8, Quantization.per_axis((1, 2), axis=-1))
    (found,) = kinds.Gather(axis=0).infer([x, TensorInfo.of((4, 5), I64)])
    assert found == TensorInfo.of((4, 5, 2), I8, Quantization.per_axis((1, 2), axis=2))


@descriptor_class
class Annotating(Descriptor, kind="tests.Annotating"):
    """A vendor's kind whose result has any quantization."""

    quantization: Quantization

    def infer(self, inputs: Any) -> list[TensorInfo]:
        return [inputs[0].with_quantization(self.quantization)]


MISFITS = {
    "too few scales": (Quantization.per_axis((1, 2), axis=1), "SHAPE_MISMATCH"),
    "too many scales": (Quantization.per_axis((1, 2, 3), axis=0), "SHAPE_MISMATCH"),
    "no such axis": (Quantization.per_axis((1, 2), axis=2), "ATTRIBUTE_INVALID"),
    "no such axis from the end": (Quantization.per_axis((1, 2), axis=-3), "ATTRIBUTE_INVALID"),
    "a zero point outside of the type": (Quantization.per_axis((1, 2), (0, 128), axis=0), "ATTRIBUTE_INVALID"),
}


@pytest.mark.parametrize("name", MISFITS)
def test_a_quantization_that_does_not_fit_its_slot_is_refused_on_any_slot(name: str) -> None:
    quantization, code = MISFITS[name]

    def refused(add: Callable[[Network], object]) -> None:
        with pytest.raises(GraphError) as caught:
            add(Network())
        assert caught.value.code == code

    refused(lambda net: net.input("x", (2, 3), I8, quantization))
    refused(lambda net: net.constant(np.zeros((2, 3), np.int8), quantization=quantization))
    refused(lambda net: net.add(Annotating(quantization=quantization), net.input("x", (2, 3), I8)))
    relu = kinds.Activation(function=kinds.ActivationFunction.RELU)
    refused(lambda net: net.add(relu, net.input("x", (2, 3), I8), quantization=quantization))
    refused(lambda net: net.quantize(net.input("x", (2, 3)), quantization))
    refused(lambda net: net.dequantize(net.input("x", (2, 3), I8), quantization))


def test_a_quantization_of_an_open_size_is_checked_once_it_is_known() -> None:
    net = Network()
    x = net.input("x", ("N", 3), I8, Quantization.per_axis((1, 2), axis=0))
    net.output(net.dequantize(x, Quantization.per_tensor(1)), "y")
    FixShapes({"N": 2}).run(net.copy())
    with pytest.raises(GraphError, match="2 scales for 5 elements"):
        FixShapes({"N": 5}).run(net)


@pytest.mark.parametrize(
    "given",
    [
        {"scale": (float("nan"),)},
        {"scale": (float("inf"),)},
        {"scale": (0.0,)},
        {"scale": (-1.0,)},
        {"scale": ("1e",)},
        {"scale": 1.0},
        {"scale": ()},
        {"scale": (1.0, 2.0)},
        {"scale": (1.0,), "zero_point": (0.5,)},
        {"scale": (1.0,), "zero_point": (0, 1)},
        {"scale": (1.0,), "axis": 0.0},
    ],
)
def test_what_is_no_quantization_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(GraphError) as caught:
        Quantization(**given)
    assert caught.value.code == "ATTRIBUTE_INVALID"
