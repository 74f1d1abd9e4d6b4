"""What is inferred already is not inferred again, and what changed is."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

import dovetail.layers as kinds
from dovetail.graph.descriptor import Constant, Descriptor, Infos, descriptor_class
from dovetail.graph.element_types import DType
from dovetail.graph.graph import Graph
from dovetail.graph.tensor import Quantization, TensorInfo
from dovetail.ground.errors import GraphError
from dovetail.layers.network import Network


def counted() -> tuple[Network, Any]:
    """A network of one layer with known sizes, and the layer's kind, which counts questions."""

    @descriptor_class
    class Doubled(Descriptor, kind="test.Doubled"):
        asked: ClassVar[int] = 0

        def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
            type(self).asked += 1
            assert inputs[0] is not None
            return [inputs[0].with_shape([2 * size for size in inputs[0].sizes])]

    net = Network()
    net.output(net.add(Doubled(), net.input("x", (2, 3)), name="doubled").output, "y")
    return net, Doubled


def test_what_is_inferred_already_is_not_inferred_again() -> None:
    net, kind = counted()
    for graph in (net, net.copy()):
        graph.infer(graph.layer("doubled"))
        assert graph.layer("doubled").output.shape == (4, 6)
    assert kind.asked == 1


def test_what_changed_is_inferred_again() -> None:
    net, kind = counted()
    layer, source = net.layer("doubled"), net.layer("x").output
    source.info = TensorInfo((5,), DType.FLOAT32)
    net.infer(layer)
    assert layer.output.shape == (10,)
    layer.output.info = None
    net.infer(layer)
    assert layer.output.shape == (10,)
    layer.output.info = TensorInfo((1,), DType.FLOAT32)
    net.infer(layer)
    assert layer.output.shape == (10,)
    layer.output.quantization = Quantization.per_tensor(0.5)
    net.infer(layer)
    assert layer.output.known_info.quantization == Quantization.per_tensor(0.5)
    layer.output.quantization = None
    net.infer(layer)
    assert layer.output.known_info.quantization is None
    net.replace_descriptor(layer, kind())
    before = kind.asked
    net.infer(layer)
    assert kind.asked == before + 1


def test_what_was_inferred_keeps_no_constant() -> None:
    graph = Graph("weights")
    layer = graph.constant(np.ones(3, np.float32)).layer
    graph.infer(layer)
    kept = weakref.ref(layer.descriptor)
    layer.descriptor = Constant(value=np.empty(0, np.uint8))
    assert kept() is None


def test_the_value_of_a_member_stands_for_the_member() -> None:
    descriptor = kinds.Activation(function="relu")  # type: ignore[arg-type]  # what people write
    assert descriptor.function is kinds.ActivationFunction.RELU
    assert descriptor == kinds.Activation(function=kinds.ActivationFunction.RELU)
    assert kinds.Cast(dtype="float16").dtype is DType.FLOAT16  # type: ignore[arg-type]
    assert kinds.Convolution2d(activation="relu").activation is kinds.ActivationFunction.RELU  # type: ignore[arg-type]
    with pytest.raises(GraphError, match=r"'function' of dovetail\.Activation is 'rule'"):
        kinds.Activation(function="rule")  # type: ignore[arg-type]


def test_so_it_does_in_kinds_that_dataclass_made() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Bordered(Descriptor, kind="acme.Bordered"):
        mode: kinds.PadMode = "edge"  # type: ignore[assignment]
        label: str = "edge"

    assert (Bordered().mode, Bordered().label) == (kinds.PadMode.EDGE, "edge")
    assert Bordered(mode="wrap").mode is kinds.PadMode.WRAP  # type: ignore[arg-type]
