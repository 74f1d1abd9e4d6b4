"""Kinds of layers: the set is open, and their attributes are checked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from fakes.errors import error_of

from dovetail.graph.descriptor import Descriptor
from dovetail.graph.element_types import DType
from dovetail.graph.tensor import Quantization
from dovetail.ground.errors import ErrorCode, GraphError
from dovetail.layers import Activation, ActivationFunction, Fill, Reshape
from dovetail.layers.network import Network


@dataclass(frozen=True, kw_only=True)
class Swish2(Descriptor, kind="acme.Swish2", version=2):
    """A kind from elsewhere."""

    beta: float = 1.0
    gamma: float = field(default=0.5, metadata={"since": 2})

    def infer(self, inputs: Any) -> Any:
        return [inputs[0]]


def test_the_set_of_kinds_is_open() -> None:
    net = Network()
    y = net.add(Swish2(gamma=0.25), net.input("x", (2, 3)), name="mine").output
    assert (y.layer.kind, y.shape) == ("acme.Swish2", (2, 3))
    assert Swish2(gamma=0.25).newer_attributes(1) == ["gamma"]
    assert Swish2().newer_attributes(1) == []
    assert Swish2(gamma=0.25).newer_attributes(2) == []
    with pytest.raises(GraphError, match="namespace"):
        type("Bad", (Descriptor,), {}, kind="Bad")


def test_value_inputs_are_absorbed_when_they_are_constant() -> None:
    net = Network()
    x = net.input("x", (2, 3))
    y = net.reshape(x, net.constant(np.array([3, 2])))
    assert y.layer.descriptor == Reshape(shape=(3, 2))
    assert len(y.layer.inputs) == 1
    late = net.reshape(x, net.input("shape", (2,), DType.INT64))
    assert late.info is None
    assert len(late.layer.inputs) == 2


def test_quantization_given_to_the_builder_stands_on_the_slot() -> None:
    net = Network()
    q = Quantization.per_tensor(0.5, 3)
    x = net.input("x", (1, 2), DType.INT8, q)
    layer = net.add(Activation(function=ActivationFunction.RELU), x, quantization=Quantization.per_tensor(0.25))
    assert x.known_info.quantization == q
    assert layer.output.known_info.quantization == Quantization.per_tensor(0.25)


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda net, x: net.tile(x, (2**62, 1)), "[9223372036854775808, 3]"),
        (lambda net, x: net.pad(x, (2**62, 0), (0, 0)), "4611686018427387906"),
        (lambda net, x: net.one_hot(np.int64(0), 2**62, np.zeros(2, np.float32)), "[4611686018427387904]"),
        (lambda net, x: net.fill((2**40, 2**40), 0.0), "[1099511627776, 1099511627776]"),
        (lambda net, x: net.fill((2**47, 0), 0.0), "[140737488355328, 0]"),
        (lambda net, x: net.fill((2**44,), 0.0, DType.FLOAT64), "140737488355328 bytes"),
        (lambda net, x: net.input("huge", ("N", 2**50)), "[N, 1125899906842624]"),
    ],
)
def test_tensors_that_no_machine_can_hold_are_refused(build: Any, said: str) -> None:
    net = Network()
    error = error_of(build, net, net.input("x", (2, 3)))
    assert error.code is ErrorCode.SHAPE_MISMATCH
    assert said in error.message
    assert error.details["layer"] in error.message
    assert error.hint is not None
    assert net.fill((2**44 - 1,), 0.0, DType.FLOAT64).info is not None


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda net, x: net.activation(x, "nope"), ("function is 'nope'", "'relu'")),
        (lambda net, x: net.global_pooling(x, layout="NCDHW"), ("layout is 'NCDHW'", "'NCHW', 'NHWC'")),
        (lambda net, x: net.global_pooling(x, ["max"]), ("function is ['max']", "'average'")),
        (lambda net, x: net.pooling2d(x, "max", 2, stride=1.5), ("stride is 1.5 (float)", "integer")),
        (lambda net, x: net.pooling2d(x, "max", (2, "2")), ("size[1] is '2'", "integer")),
        (lambda net, x: net.pooling2d(x, "max", 2, padding=(1, None)), ("padding[1] is None", "integer")),
        (lambda net, x: net.softmax(x, axis="c"), ("axis is 'c' (str)", "integer")),
        (lambda net, x: net.softmax(x, beta="1"), ("beta is '1' (str)", "number")),
        (lambda net, x: net.reshape(x, ("N", 2)), ("shape[0] is 'N'", "integer")),
        (lambda net, x: net.permute(x, "0213"), ("permutation is '0213'", "integer")),
        (lambda net, x: net.concat(x), ("tensors is", "sequence")),
        (lambda net, x: net.concat([]), ("tensors is empty", "one")),
        (lambda net, x: net.split(x, 0), ("parts must be at least 1", "")),
        (lambda net, x: net.slice(x, (0, 0), (1,)), ("differ in length", "one of each")),
        (lambda net, x: net.one_hot(np.int64(1), -2, np.zeros(2)), ("depth is -2", "non-negative")),
        (lambda net, x: net.range(0.0, np.inf, 1.0), ("does not end", "")),
        (lambda net, x: net.resize(x, scales=2), ("scales is 2", "sequence")),
        (lambda net, x: net.input("q", 3), ("shape is 3 (int)", "sequence")),
        (lambda net, x: net.input("q", "NCHW"), ("shape is 'NCHW' (str)", "sequence")),
        (lambda net, x: net.constant([[1, 2], [3]], "ragged"), ("constant 'ragged' is no array", "equally long")),
        (lambda net, x: net.add(Fill), ("Fill", "instance")),
        (
            lambda net, x: net.quantize(x, Quantization.per_tensor(0.1, 300)),
            ("zero point 300 does not fit int8", "-128 to 127"),
        ),
        (
            lambda net, x: net.dequantize(np.zeros(2, np.uint8), Quantization.per_tensor(0.1, -1)),
            ("zero point -1 does not fit uint8", "0 to 255"),
        ),
        (lambda net, x: net.input("q", (2,), DType.INT8, Quantization.per_tensor(0.1, 128)), ("zero point 128", "127")),
        (lambda net, x: net.constant(np.zeros(2, np.int8), quantization=Quantization.per_tensor(1, 200)), ("200", "127")),
    ],
)
def test_attributes_of_the_wrong_type_are_named(build: Any, said: tuple[str, str]) -> None:
    net = Network()
    error = error_of(build, net, net.input("x", (1, 2, 4, 4)))
    assert error.code is ErrorCode.ATTRIBUTE_INVALID
    assert said[0] in error.message
    assert said[1] in (error.hint or "")


def test_a_descriptor_class_without_a_kind_says_how_to_declare_it() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Swirl(Descriptor):
        pass

    net = Network()
    error = error_of(net.add, Swirl(), net.input("x", (2,)))
    assert error.code is ErrorCode.ATTRIBUTE_INVALID
    assert error.hint == "declare it: class Swirl(Descriptor, kind='vendor.Swirl')"


def test_newer_attributes_may_have_factories_and_arrays_as_defaults() -> None:
    @dataclass(frozen=True, kw_only=True, eq=False)
    class Tabled(Descriptor, kind="test.Tabled", version=2):
        table: np.ndarray[Any, Any] = field(default_factory=lambda: np.array([1.0, np.nan]), metadata={"since": 2})
        tables: tuple[Any, ...] = field(default=(), metadata={"since": 2})
        order: tuple[int, ...] = field(default_factory=tuple, metadata={"since": 2})
        needed: int = field(metadata={"since": 2})

    assert Tabled(needed=0).newer_attributes(1) == ["needed"]
    assert Tabled(needed=0).newer_attributes(2) == []
    assert Tabled(needed=0, table=np.array([1.0, 2.0]), order=(1,)).newer_attributes(1) == ["table", "order", "needed"]
    assert Tabled(needed=0, tables=(np.zeros(2),)).newer_attributes(1) == ["tables", "needed"]
