"""What is done because a backend says that it can: activations and 16-bit floats."""

from __future__ import annotations

import numpy as np
import pytest
from fakes.backends import Choosing, only
from fakes.placements import homes, small

from dovetail.contract.interfaces import Support
from dovetail.graph.element_types import DType
from dovetail.graph.layer import Layer
from dovetail.ground.errors import DovetailError
from dovetail.layers import ElementwiseBinary
from dovetail.layers.network import Network
from dovetail.optimizer import optimize


def activated(function: str = "relu", dtype: DType = DType.FLOAT32) -> Network:
    net = Network()
    y = net.addition(net.input("x", (4,), dtype), net.input("z", (4,), dtype), name="add")
    net.output(net.activation(y, function, name="act"), "y")
    return net


def test_an_activation_is_folded_where_the_backend_takes_it() -> None:
    network = optimize(activated(), [Choosing("First")])
    assert homes(network) == {"add": "First"}
    layer = network.graph.layer("add")
    assert isinstance(layer.descriptor, ElementwiseBinary)
    assert layer.descriptor.activation == "relu"
    assert layer.sources == ("add", "act")
    assert network.placement.layer("act").name == "add"


def test_an_activation_stays_where_the_backend_refuses() -> None:
    def answer(layer: Layer) -> Support:
        fused = getattr(layer.descriptor, "activation", None) is not None
        return Support.no("attribute", "no folded activation", "activation") if fused else Support.yes()

    network = optimize(activated(), [Choosing("First", answer)])
    assert homes(network) == {"add": "First", "act": "First"}
    assert getattr(network.graph.layer("add").descriptor, "activation", None) is None


def test_folding_may_save_a_fallback_but_respects_constraints() -> None:
    first, second = Choosing("First", only("ElementwiseBinary")), Choosing("Second")
    assert homes(optimize(activated(), [first])) == {"add": "First"}, "the activation alone would have no home"
    assert homes(optimize(activated(), [first, second])) == {"add": "First"}
    apart = homes(optimize(activated(), [first, second], require={"act": "Second"}))
    assert apart == {"add": "First", "act": "Second"}
    assert "act" in homes(optimize(activated(), [Choosing("Any"), second], forbid={"act": "Any"}))


def test_some_activations_are_not_folded() -> None:
    assert "act" in homes(optimize(activated("mish"), [Choosing("First")]))
    assert "act" in homes(optimize(activated("relu", DType.INT32), [Choosing("First")]))
    assert "act" in homes(optimize(activated(), [Choosing("First")], passes=False))


@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.BFLOAT16])
def test_layers_are_converted_where_their_backend_asks_for_it(dtype: DType) -> None:
    half = Choosing("Half", only("Convolution2d", "Cast", "Activation"), **{dtype.label: True})
    network = optimize(small(), [half, Choosing("Full")], reduce_float=dtype.label)
    kinds = {name: network.graph.layer(name) for name in network.assignment}
    assert kinds["conv"].output.dtype is dtype
    assert kinds["conv"].input_infos[1] == kinds["conv"].input_infos[1].with_dtype(dtype)  # type: ignore[union-attr]
    assert kinds["soft"].output.dtype is DType.FLOAT32
    assert kinds["last"].output.dtype is dtype
    assert [layer.kind.rsplit(".", 1)[-1] for layer in network.graph.topological_order()].count("Cast") == 4
    assert network.outputs[0].dtype is DType.FLOAT32
    assert network.graph.outputs[0].inputs[0].info.dtype is DType.FLOAT32  # type: ignore[union-attr]


def test_no_cast_stands_between_converted_layers() -> None:
    network = optimize(small(), [Choosing("Half", float16=True)], reduce_float="float16")
    casts = [layer.name for layer in network.graph if layer.kind == "dovetail.Cast"]
    assert casts == ["x.to_float16", "last.to_float32"]


def test_nothing_is_converted_without_the_capability_or_against_the_backend() -> None:
    def refuse_half(layer: Layer) -> Support:
        half = any(info is not None and info.dtype is DType.FLOAT16 for info in layer.input_infos)
        return Support.no("dtype", "no float16") if half else Support.yes()

    for backend in (Choosing("Plain"), Choosing("Liar", refuse_half, float16=True)):
        network = optimize(small(), [backend], reduce_float="float16")
        assert sorted(homes(network)) == ["conv", "last", "soft"]
        assert network.graph.layer("conv").output.dtype is DType.FLOAT32


def test_a_constant_beyond_float16_keeps_its_layer() -> None:
    net = Network()
    net.output(net.addition(net.input("x", (2,)), np.array([1e6, 1], np.float32), name="add"), "y")
    assert homes(optimize(net, [Choosing("Half", float16=True)], reduce_float="float16")) == {"add": "Half"}
    assert len(optimize(net, [Choosing("Half", bfloat16=True)], reduce_float="bfloat16").assignment) == 3


def test_other_types_are_refused() -> None:
    with pytest.raises(DovetailError, match="reduce_float is 'float8'"):
        optimize(small(), [Choosing("First")], reduce_float="float8")
