"""Recurrent networks against onnxruntime: directions, lengths, functions, optional operands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import helper, numpy_helper

import dovetail
from dovetail import ModelError, UnsupportedModelError
from dovetail.layers import GateCoupling, Lstm, RecurrentFunction
from dovetail_onnx import parse

Array = npt.NDArray[Any]
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
DIRECTIONS = {"forward": 1, "reverse": 1, "bidirectional": 2}
SIZES = [(5, 3, 4, 7), (1, 1, 1, 1), (6, 1, 17, 9), (3, 6, 2, 16)]
"""Steps, batch, elements of a step, units."""
WITHIN = {"rtol": 2e-5, "atol": 2e-5}
"""onnxruntime sums up in float32 and has polynomials for its functions."""


def operands(
    kind: str,
    sizes: tuple[int, int, int, int],
    directions: int,
    lengths: Sequence[int] | None,
    states: bool,
    random: np.random.Generator,
    *,
    dtype: type = np.float32,
) -> dict[str, Array | None]:
    """Make the inputs of a node by ONNX's names, None for those left out."""
    steps, batch, inputs, units = sizes
    rows = GATES[kind] * units

    def made(*shape: int) -> Array:
        return random.uniform(-0.6, 0.6, shape).astype(dtype)

    found: dict[str, Array | None] = {
        "X": random.uniform(-1, 1, (steps, batch, inputs)).astype(dtype),
        "W": made(directions, rows, inputs),
        "R": made(directions, rows, units),
        "B": made(directions, 2 * rows),
        "sequence_lens": None if lengths is None else np.asarray(lengths, np.int32),
        "initial_h": made(directions, batch, units) if states else None,
    }
    if kind == "LSTM":
        found |= {"initial_c": made(directions, batch, units) if states else None, "P": made(directions, 3 * units)}
    return found


def model_of(
    kind: str, given: Mapping[str, Array | None], fed: Sequence[str], attributes: Mapping[str, Any], opset: int = 14
) -> onnx.ModelProto:
    """Return a model of one node; what is not `fed` is constant."""
    outputs = ["Y", "Y_h", "Y_c"][: 3 if kind == "LSTM" else 2]
    node = helper.make_node(kind, [name if value is not None else "" for name, value in given.items()], outputs, **attributes)
    types = {name: helper.np_dtype_to_tensor_dtype(value.dtype) for name, value in given.items() if value is not None}
    made = [
        helper.make_tensor_value_info(name, types[name], value.shape)
        for name, value in given.items()
        if value is not None and name in fed
    ]
    constants = [numpy_helper.from_array(value, name) for name, value in given.items() if value is not None and name not in fed]
    results = [helper.make_tensor_value_info(name, types["X"], None) for name in outputs]
    graph = helper.make_graph([node], "recurrent", made, results, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def ours(model: onnx.ModelProto, feeds: Mapping[str, Array], **shapes: int) -> list[Array]:
    with dovetail.Runtime(threads=1).load(dovetail.optimize(parse(model), ["CpuRef"], shapes=shapes)) as net:
        return list(net.run(feeds).values())


def theirs(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> list[Array]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, dict(feeds)))


def compare(kind: str, given: Mapping[str, Array | None], fed: Sequence[str], attributes: Mapping[str, Any]) -> list[Array]:
    """Hold a node's results against onnxruntime's; return them."""
    model = model_of(kind, given, fed, attributes)
    feeds = {name: value for name, value in given.items() if name in fed and value is not None}
    found = ours(model, feeds)
    for one, wanted in zip(found, theirs(model, feeds), strict=True):
        np.testing.assert_allclose(one, wanted, **WITHIN, strict=True)
    return found


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("fed", [("X",), ("X", "W", "R", "B", "P", "initial_h", "initial_c")], ids=["constants", "fed"])
def test_plain(kind: str, direction: str, sizes: tuple[int, int, int, int], fed: tuple[str, ...]) -> None:
    random = np.random.default_rng(3)
    for states in (False, True):
        given = operands(kind, sizes, DIRECTIONS[direction], None, states, random)
        compare(kind, given, fed, {"hidden_size": sizes[3], "direction": direction})
    for left_out in ("B", "P"):
        if left_out in given:
            compare(kind, {**given, left_out: None}, fed, {"hidden_size": sizes[3], "direction": direction})


@pytest.mark.parametrize("constant", [True, False], ids=["constant lengths", "fed lengths"])
@pytest.mark.parametrize("lengths", [(5, 5, 5), (5, 0, 2), (0, 0, 0), (1, 3, 4)], ids=str)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("kind", GATES)
def test_lengths(kind: str, direction: str, lengths: tuple[int, ...], constant: bool) -> None:
    if kind == "RNN" and 0 in lengths:
        pytest.skip("onnxruntime reads what lies before the sequence for the last state of no steps")
    sizes, fed = (5, 3, 4, 7), ("X", "initial_h", "initial_c") if constant else ("X", "sequence_lens", "initial_h", "initial_c")
    for states in (False, True):
        given = operands(kind, sizes, DIRECTIONS[direction], lengths, states, np.random.default_rng(4))
        compare(kind, given, fed, {"hidden_size": 7, "direction": direction})


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_an_rnn_of_no_steps_has_zeros(direction: str) -> None:
    given = operands("RNN", (5, 3, 4, 7), DIRECTIONS[direction], (0, 0, 0), True, np.random.default_rng(4))
    model = model_of("RNN", given, ("X",), {"hidden_size": 7, "direction": direction})
    assert not any(one.any() for one in ours(model, {"X": given["X"]}))


@pytest.mark.parametrize("kind", GATES)
def test_a_length_beyond_the_sequence_fails_the_run(kind: str) -> None:
    given = operands(kind, (5, 2, 4, 3), 1, (5, 6), False, np.random.default_rng(4))
    model = model_of(kind, given, ("X", "sequence_lens"), {"hidden_size": 3})
    with pytest.raises(dovetail.DovetailError, match="length 6 of sequence 1"):
        ours(model, {"X": given["X"], "sequence_lens": given["sequence_lens"]})


@pytest.mark.parametrize("kind", GATES)
def test_batchwise_is_the_other_layout_transposed(kind: str) -> None:
    # onnxruntime does not have it.
    given = operands(kind, (5, 3, 4, 7), 2, (5, 0, 2), True, np.random.default_rng(5))
    names = [name for name in ("X", "initial_h", "initial_c") if name in given]
    turned = {**given, **{name: np.swapaxes(given[name], 0, 1) for name in names}}
    attributes = {"hidden_size": 7, "direction": "bidirectional"}
    plain = ours(model_of(kind, given, names, attributes), {name: given[name] for name in names})
    feeds = {name: turned[name] for name in names}
    batchwise = ours(model_of(kind, turned, names, {**attributes, "layout": 1}), feeds)
    np.testing.assert_array_equal(batchwise[0], plain[0].transpose(2, 0, 1, 3), strict=True)
    for one, wanted in zip(batchwise[1:], plain[1:], strict=True):
        np.testing.assert_array_equal(one, np.swapaxes(wanted, 0, 1), strict=True)


@pytest.mark.parametrize("reset_after", [0, 1])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_where_the_reset_gate_acts(direction: str, reset_after: int) -> None:
    given = operands("GRU", (5, 3, 4, 7), DIRECTIONS[direction], None, True, np.random.default_rng(6))
    compare("GRU", given, ("X",), {"hidden_size": 7, "direction": direction, "linear_before_reset": reset_after})


@pytest.mark.parametrize("fed", [("X",), ("X", "W", "R", "B", "P")], ids=["constants", "fed"])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_coupled_gates(direction: str, fed: tuple[str, ...]) -> None:
    given = operands("LSTM", (5, 3, 4, 7), DIRECTIONS[direction], None, True, np.random.default_rng(6))
    attributes = {"hidden_size": 7, "direction": direction, "input_forget": 1}
    compare("LSTM", given, fed, attributes)
    compare("LSTM", {**given, "P": None, "B": None}, fed, attributes)
    layers = [layer.descriptor for layer in parse(model_of("LSTM", given, fed, attributes)).layers]
    assert {one.coupling for one in layers if isinstance(one, Lstm)} == {GateCoupling.FORGET}


@pytest.mark.parametrize("clip", [0.05, 0.3])
@pytest.mark.parametrize("kind", GATES)
def test_clip(kind: str, clip: float) -> None:
    given = operands(kind, (6, 3, 4, 7), 1, None, True, np.random.default_rng(7))
    large = {name: value if value is None or value.dtype != np.float32 else value * 3 for name, value in given.items()}
    plain = compare(kind, large, ("X",), {"hidden_size": 7})
    clipped = compare(kind, large, ("X",), {"hidden_size": 7, "clip": clip})
    assert np.abs(plain[0] - clipped[0]).max() > 0.1


FUNCTIONS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "Affine": ((0.5,), (0.25,)),
    "Elu": ((0.75,), ()),
    "HardSigmoid": ((0.3,), (0.4,)),
    "LeakyRelu": ((0.125,), ()),
    "Relu": ((), ()),
    "ScaledTanh": ((0.75,), (0.5,)),
    "Sigmoid": ((), ()),
    "Softplus": ((), ()),
    "Softsign": ((), ()),
    "Tanh": ((), ()),
    "ThresholdedRelu": ((0.3,), ()),
}


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("kind", GATES)
def test_functions(kind: str, function: str) -> None:
    given = operands(kind, (4, 2, 3, 5), 1, None, True, np.random.default_rng(8))
    count = {"RNN": 1, "GRU": 2, "LSTM": 3}[kind]
    alpha, beta = FUNCTIONS[function]
    parameters = {"activation_alpha": alpha * count, "activation_beta": beta * count}
    known = {name: list(values) for name, values in parameters.items() if values}
    for name in (function,) if kind == "RNN" else (function, function.upper()):  # onnxruntime's RNN minds the case
        compare(kind, given, ("X",), {"hidden_size": 5, "activations": [name] * count, **known})


def test_parameters_are_taken_in_turn_by_functions_that_have_some() -> None:
    given = operands("LSTM", (4, 2, 3, 5), 2, None, True, np.random.default_rng(9))
    names = ["HardSigmoid", "Tanh", "LeakyRelu", "Sigmoid", "Elu", "Affine"]
    attributes: dict[str, Any] = {"hidden_size": 5, "direction": "bidirectional", "activations": names}
    attributes |= {"activation_alpha": [0.3, 0.25, 0.5, 0.75], "activation_beta": [0.4, 0.125]}
    compare("LSTM", given, ("X",), attributes)
    forward, backward = (
        one.descriptor for one in parse(model_of("LSTM", given, ("X",), attributes)).layers if isinstance(one.descriptor, Lstm)
    )
    assert (forward.gate_alpha, forward.gate_beta, forward.hidden_alpha) == pytest.approx((0.3, 0.4, 0.25))
    assert (backward.cell_alpha, backward.hidden_alpha, backward.hidden_beta) == pytest.approx((0.5, 0.75, 0.125))
    assert backward.hidden_activation is RecurrentFunction.LINEAR


@pytest.mark.parametrize("kind", GATES)
def test_outputs_that_nobody_wants_and_types(kind: str) -> None:
    for dtype, within in ((np.float64, 1e-12), (np.float16, 4e-3)):
        given = operands(kind, (5, 3, 4, 7), 2, (5, 2, 3), True, np.random.default_rng(10), dtype=dtype)
        wide = {name: one.astype(np.float64) if one is not None and one.dtype == dtype else one for name, one in given.items()}
        attributes = {"hidden_size": 7, "direction": "bidirectional"}
        found = ours(model_of(kind, given, ("X",), attributes), {"X": given["X"]})
        wanted = ours(model_of(kind, wide, ("X",), attributes), {"X": wide["X"]})
        assert found[0].dtype == dtype
        np.testing.assert_allclose(found[0].astype(np.float64), wanted[0], rtol=within, atol=within)
        model = model_of(kind, given, ("X",), attributes)
        model.graph.node[0].output[0] = ""
        del model.graph.output[0]
        np.testing.assert_array_equal(ours(model, {"X": given["X"]})[0], found[1])


MALFORMED = {
    "weights of other rows": ({"W": (1, 11, 4)}, {}, "input 1 of size 11 along axis 1, expected 12"),
    "too many directions": ({"R": (2, 12, 3)}, {}, "input 2 of size 2 along axis 0, expected 1"),
    "bias of one half": ({"B": (1, 12)}, {}, "input 3 of size 12 along axis 1, expected 24"),
    "another hidden size": ({}, {"hidden_size": 4}, "hidden_size=4 and recurrent weights of 3 columns"),
    "two functions": ({}, {"activations": ["Tanh", "Tanh"]}, "2 activations, expected 3"),
    "negative clip": ({}, {"clip": -1.0}, "clip=-1.0"),
    "weights of another input": ({"W": (1, 12, 5)}, {}, "do not fit input"),
    "states of another batch": ({"initial_h": (1, 3, 3)}, {}, "initial_hidden"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_what_onnx_does_not_allow(name: str) -> None:
    shapes, attributes, message = MALFORMED[name]
    given = operands("LSTM", (5, 2, 4, 3), 1, None, True, np.random.default_rng(11))
    given |= {operand: np.zeros(shape, np.float32) for operand, shape in shapes.items()}
    with pytest.raises((ModelError, dovetail.GraphError), match=message):
        parse(model_of("LSTM", given, ("X",), attributes))


def test_what_dovetail_does_not_have() -> None:
    given = operands("RNN", (5, 2, 4, 3), 1, None, True, np.random.default_rng(11))
    for attributes, opset, named in (
        ({"activations": ["Swish"]}, 14, "activations"),
        ({"direction": "sideways"}, 14, "direction"),
        ({}, 6, None),
    ):
        with pytest.raises(UnsupportedModelError) as caught:
            parse(model_of("RNN", given, ("X",), attributes, opset))
        assert caught.value.details["unsupported"][0]["attribute"] == named


def test_sizes_may_be_symbols() -> None:
    given = operands("GRU", (5, 3, 4, 7), 2, (5, 0, 2), True, np.random.default_rng(12))
    fed = ("X", "sequence_lens", "initial_h")
    model = model_of("GRU", given, fed, {"direction": "bidirectional", "hidden_size": 7})
    for entry, names in zip(model.graph.input, (("steps", "batch", 4), ("batch",), (2, "batch", 7)), strict=True):
        dimensions = entry.type.tensor_type.shape.dim
        for dimension, name in zip(dimensions, names, strict=True):
            if isinstance(name, str):
                dimension.Clear()
                dimension.dim_param = name
    feeds = {name: given[name] for name in fed}
    first, _ = ours(model, feeds, steps=5, batch=3)
    assert first.shape == (5, 2, 3, 7)
    np.testing.assert_allclose(first, theirs(model, feeds)[0], **WITHIN)
