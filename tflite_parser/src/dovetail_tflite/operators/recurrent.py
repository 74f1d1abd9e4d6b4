"""Recurrent operators; their states are variable tensors.

LSTMs whose cells are 16-bit integers, and SVDF of bytes, are computed in integers. What else is
quantized is dequantized, computed in floats, and quantized again where it leaves the operator: the
states after each run, not after each step as TensorFlow Lite does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dovetail import DType
from dovetail.graph.layer import OutputSlot
from dovetail.layers import (
    BinaryOperation,
    Concat,
    ElementwiseBinary,
    FullyConnected,
    GateCoupling,
    Lstm,
    Quantize,
    QuantizedLstm,
    QuantizedSvdf,
    RecurrentFunction,
    Reduce,
    ReduceFunction,
    Reshape,
    Rnn,
    StridedSlice,
)

from ..call import Call
from ..registry import operator
from ..unsupported import Unsupported

_FUNCTIONS = {
    0: (RecurrentFunction.LINEAR, 1.0, 0.0),
    1: (RecurrentFunction.RELU, 0.0, 0.0),
    2: (RecurrentFunction.BOUNDED_RELU, 1.0, -1.0),
    3: (RecurrentFunction.BOUNDED_RELU, 6.0, 0.0),
    4: (RecurrentFunction.TANH, 0.0, 0.0),
}
"""`ActivationFunctionType`: function, alpha, beta."""


class _Gates(NamedTuple):
    """Numbers of the inputs of one direction of an LSTM; each block has the gates i, f, g, o.

    Attributes:
        weights: Of the sequence.
        recurrent: Of the hidden state.
        peepholes: Of the cell, for i, f and o.
        bias: Of the gates.
        projection: Weights and bias.
        states: Hidden and cell, both variable.
        norms: Factors of the normalization; none where the operator has no such inputs.
    """

    weights: int
    recurrent: int
    peepholes: int
    bias: int
    projection: int
    states: tuple[int, int]
    norms: int | None


_LSTM = _Gates(1, 5, 9, 12, 16, (18, 19), 20)
_FORWARD = _Gates(1, 5, 9, 12, 16, (35, 36), None)
_BACKWARD = _Gates(18, 22, 26, 29, 33, (37, 38), None)
_IN_ORDER = (0, 3, 1, 2)
"""The gates i, o, f, g of a layer among the operator's i, f, g, o."""
_NAMES = ("input", "forget", "cell", "output")
_QUANTIZED = {
    "input": 0,
    **{f"{gate}_weights": at for at, gate in enumerate(_NAMES, 1)},
    **{f"{gate}_recurrent_weights": at for at, gate in enumerate(_NAMES, 5)},
    **{f"{gate}_peepholes": at for at, gate in enumerate(("input", "forget", "output"), 9)},
    **{f"{gate}_bias": at for at, gate in enumerate(_NAMES, 12)},
    "projection_weights": 16,
    "projection_bias": 17,
    "initial_hidden": 18,
    "initial_cell": 19,
    **{f"{gate}_normalization": at for at, gate in enumerate(_NAMES, 20)},
}
"""Numbers of the operator's inputs, by their names in `QuantizedLstm`."""
_SVDF = (0, 4, 1, 2, 3)
"""Numbers of the operator's inputs, in the order of those of `QuantizedSvdf`."""
_HIDDEN = 4
"""Number of the intermediate result before the projection; those of the gates come before it."""


@operator("UNIDIRECTIONAL_SEQUENCE_LSTM", newest=4)
def sequence_lstm(call: Call) -> OutputSlot:
    """Translate an LSTM over a sequence."""
    if call.option("diagonal_recurrent_tensors"):
        raise Unsupported("its recurrent weights are diagonal")
    if _is_integer(call):
        return _quantized_lstm(call, call.input(0), batch_first=not call.option("time_major"))
    return _result(call, _lstm(call, _LSTM, call.input(0), batch_first=not call.option("time_major"), part="lstm"))


@operator("LSTM", newest=4)
def lstm_step(call: Call) -> Sequence[OutputSlot]:
    """Translate an LSTM of one step; a sequence of one."""
    if call.option("kernel_type"):
        raise Unsupported("it is of the basic kind, whose weights are joined")
    if len(call.outputs) != 1:
        raise Unsupported(f"it has {len(call.outputs)} outputs")
    x = call.input(0)
    one = Reshape(shape=(1, -1, _size(call, x, -1)))
    if _is_integer(call):
        step = call.network.add(one, x, name=call.label("step"), quantization=call.quantization_of(x)).output
        sequence = _quantized_lstm(call, step, batch_first=False, part="lstm")
        return [call.add(Reshape(shape=(-1, _size(call, sequence, -1))), sequence)]
    step = call.add(one, call.real(x), part="step")
    sequence = _lstm(call, _LSTM, step, batch_first=False, part="lstm")
    return [call.add_real(Reshape(shape=(-1, _size(call, sequence, -1))), sequence)]


@operator("BIDIRECTIONAL_SEQUENCE_LSTM", newest=3)
def both_ways_lstm(call: Call) -> Sequence[OutputSlot]:
    """Translate two LSTMs, one of which goes from the end to the beginning."""
    if any(call.optional(index) is not None for index in range(39, 48)):
        raise Unsupported("it has an auxiliary input")
    batch_first = not call.option("time_major")
    forward = _lstm(call, _FORWARD, call.input(0), batch_first=batch_first, part="forward")
    backward = _lstm(call, _BACKWARD, call.input(0), batch_first=batch_first, part="backward", reverse=True)
    return _joined(call, forward, backward)


@operator("UNIDIRECTIONAL_SEQUENCE_RNN", newest=3)
def sequence_rnn(call: Call) -> OutputSlot:
    """Translate a recurrent layer over a sequence."""
    return _result(call, _rnn(call, 1, call.input(0), batch_first=not call.option("time_major"), part="rnn"))


@operator("RNN", newest=3)
def rnn_step(call: Call) -> OutputSlot:
    """Translate a recurrent layer of one step; a sequence of one."""
    x = call.input(0)
    step = call.add(Reshape(shape=(1, -1, _size(call, x, -1))), call.real(x), part="step")
    sequence = _rnn(call, 1, step, batch_first=False, part="rnn")
    return call.add_real(Reshape(shape=(-1, _size(call, sequence, -1))), sequence)


@operator("BIDIRECTIONAL_SEQUENCE_RNN", newest=3)
def both_ways_rnn(call: Call) -> Sequence[OutputSlot]:
    """Translate two recurrent layers, one of which goes from the end to the beginning."""
    if any(call.optional(index) is not None for index in range(9, 12)):
        raise Unsupported("it has an auxiliary input")
    batch_first = not call.option("time_major")
    forward = _rnn(call, 1, call.input(0), batch_first=batch_first, part="forward")
    backward = _rnn(call, 5, call.input(0), batch_first=batch_first, part="backward", reverse=True)
    return _joined(call, forward, backward)


@operator("SVDF", newest=4)
def svdf(call: Call) -> OutputSlot:
    """Translate filters over time of low rank: each filters what its features were in some steps.

    The state holds, for each filter, what its features gave in the latest steps.

    Source: Nakkiran et al. 2015, "Compressing deep neural networks using a rank-constrained
    topology".
    """
    x, features, times, bias = call.input(0), call.input(1), call.input(2), call.optional(3)
    rank, filters, steps = call.option("rank"), _size(call, features, 0), _size(call, times, 1)
    if rank < 1 or filters % rank:
        raise call.malformed(f"has {filters} filters of rank {rank}")
    if _filters_integers(call):
        return _quantized_svdf(call, rank)
    found = call.add(FullyConnected(), call.real(x), call.real(features), part="features")
    found = call.add(Reshape(shape=(-1, filters, 1)), found, part="newest")
    held = call.add(Reshape(shape=(-1, filters, steps)), call.real(call.input(4)), part="held")
    older = call.add(StridedSlice(begin=(1,), end=(steps,), axes=(2,)), held, part="older")
    held = call.add(Concat(axis=2), older, found, part="latest")
    _keep(call, 4, call.add(Reshape(shape=(-1, filters * steps)), held, part="state"))
    weighed = call.add(ElementwiseBinary(operation=BinaryOperation.MUL), held, call.real(times), part="weighed")
    grouped = call.add(Reshape(shape=(-1, filters // rank, rank * steps)), weighed, part="grouped")
    summed = Reduce(function=ReduceFunction.SUM, axes=(2,), keep_dims=False)
    if bias is None:
        return call.activated(call.add_real(summed, grouped))
    total = call.add(summed, grouped, part="total")
    return call.add_real(ElementwiseBinary(operation=BinaryOperation.ADD, **call.fused()), total, call.real(bias))


def _is_integer(call: Call) -> bool:
    """Tell whether an LSTM of one direction has bytes for inputs and 16-bit integers for cells."""
    cell = call.dtype_of(call.input(_QUANTIZED["initial_cell"]))
    return call.dtype_of(call.input(0)) is DType.INT8 and cell is DType.INT16


def _quantized_lstm(call: Call, x: OutputSlot, *, batch_first: bool, part: str = "") -> OutputSlot:
    """Add an LSTM of integers; return the sequence of its hidden states.

    The functions are those of the kind, whatever the options say, as in TensorFlow Lite.
    """
    sources = {name: call.optional(index) for name, index in _QUANTIZED.items()}
    normalizes = sources["forget_normalization"] is not None
    hidden, inner = call.quantization_of(call.input(_QUANTIZED["initial_hidden"])), call.intermediate(_HIDDEN)
    if hidden != call.outputs[0].quantization:
        raise Unsupported("its result and its hidden state are quantized differently")
    projection, peepholes = sources["projection_weights"], sources["forget_peepholes"]
    if peepholes is not None and projection is not None and _size(call, projection, 0) != _size(call, projection, 1):
        raise Unsupported("it has peepholes and projects to another size")  # of which TensorFlow Lite mixes up the cells
    scales = [
        call.intermediate(gate).scale[0] if normalizes and sources[f"{name}_normalization"] is not None else 1.0
        for gate, name in enumerate(("input", "forget", "cell", "output"))
    ]
    descriptor = QuantizedLstm(
        batch_first=batch_first,
        cell_clip=call.option("cell_clip") or None,
        projection_clip=call.option("proj_clip") or None,
        gate_scales=(scales[0], scales[1], scales[2], scales[3]) if normalizes else None,
        hidden_scale=inner.scale[0],
        hidden_zero_point=inner.zero_point[0],
    )
    sources["input"] = x
    layer = call.network.add(descriptor, *(sources[name] for name in descriptor.input_names), name=call.label(part))
    call.write(_QUANTIZED["initial_hidden"], layer.outputs[1])
    call.write(_QUANTIZED["initial_cell"], layer.outputs[2])
    return layer.outputs[0]


def _filters_integers(call: Call) -> bool:
    """Tell whether TensorFlow Lite computes an SVDF in integers."""
    slots, result, bias = [call.input(index) for index in _SVDF[:4]], call.outputs[0], call.optional(3)
    schemes = [*map(call.quantization_of, slots), result.quantization]
    if [*map(call.dtype_of, slots), result.dtype] != [DType.INT8, DType.INT16, DType.INT8, DType.INT16, DType.INT8]:
        return False
    known = all(one is not None and one.axis is None for one in schemes)
    return known and (bias is None or call.dtype_of(bias) is DType.INT32)


def _quantized_svdf(call: Call, rank: int) -> OutputSlot:
    """Add an SVDF of integers, whose activation is the range of the result."""
    sources, meaning = [call.optional(index) for index in _SVDF], call.outputs[0].quantization
    layer = call.network.add(QuantizedSvdf(rank=rank), *sources, name=call.label(), quantization=meaning)
    call.write(4, layer.outputs[1])
    return layer.outputs[0]


def _lstm(call: Call, at: _Gates, x: OutputSlot, *, batch_first: bool, part: str, reverse: bool = False) -> OutputSlot:
    """Add one direction of an LSTM; return the sequence of its hidden states."""
    normalizes = at.norms is not None and call.optional(at.norms + 3) is not None
    if normalizes and not call.dtype_of(call.input(0)).is_float:
        raise Unsupported("it is quantized and normalizes what goes into its gates")  # in few steps, which shows
    coupled = call.optional(at.weights) is None
    function, alpha, beta = call.choice("fused_activation_function", _FUNCTIONS)
    descriptor = Lstm(
        batch_first=batch_first,
        reverse=reverse,
        coupling=GateCoupling.INPUT if coupled else GateCoupling.NONE,
        cell_activation=function,
        cell_alpha=alpha,
        cell_beta=beta,
        hidden_activation=function,
        hidden_alpha=alpha,
        hidden_beta=beta,
        cell_clip=call.option("cell_clip") or None,
        projection_clip=call.option("proj_clip") or None,
    )
    own = _IN_ORDER[1:] if coupled else _IN_ORDER
    peepholes = [at.peepholes + place for place in ((2, 1) if coupled else (0, 2, 1))]
    norms = [] if at.norms is None else [at.norms + gate for gate in own]
    projection = [call.optional(at.projection + index) for index in range(2)]
    layer = call.network.add(
        descriptor,
        call.real(x),
        _stacked(call, [at.weights + gate for gate in own], f"{part}_weights"),
        _stacked(call, [at.recurrent + gate for gate in own], f"{part}_recurrent_weights"),
        _stacked(call, [at.bias + gate for gate in own], f"{part}_bias"),
        *(call.real(call.input(state)) for state in at.states),
        None,
        _optional_stack(call, peepholes, f"{part}_peepholes"),
        _optional_stack(call, norms, f"{part}_normalization"),
        *(None if slot is None else call.real(slot) for slot in projection),
        name=call.label(part),
    )
    _keep(call, at.states[0], layer.outputs[1])
    _keep(call, at.states[1], layer.outputs[2])
    return layer.outputs[0]


def _rnn(call: Call, at: int, x: OutputSlot, *, batch_first: bool, part: str, reverse: bool = False) -> OutputSlot:
    """Add one direction of a recurrent layer; return the sequence of its hidden states."""
    function, alpha, beta = call.choice("fused_activation_function", _FUNCTIONS)
    descriptor = Rnn(batch_first=batch_first, reverse=reverse, hidden_activation=function, hidden_alpha=alpha, hidden_beta=beta)
    weights, recurrent, bias = (call.real(call.input(at + index)) for index in range(3))
    state = call.real(call.input(at + 3))
    layer = call.network.add(descriptor, call.real(x), weights, recurrent, bias, state, name=call.label(part))
    _keep(call, at + 3, layer.outputs[1])
    return layer.outputs[0]


def _stacked(call: Call, indices: Sequence[int], part: str) -> OutputSlot:
    """Put inputs below one another."""
    return call.add(Concat(axis=0), *(call.real(call.input(index)) for index in indices), part=part.lstrip("_"))


def _optional_stack(call: Call, indices: Sequence[int], part: str) -> OutputSlot | None:
    """Put inputs below one another, all of which are there or left out."""
    if all(call.optional(index) is None for index in indices):
        return None
    return _stacked(call, indices, part)


def _keep(call: Call, index: int, value: OutputSlot) -> None:
    """Write a state, quantized as it is."""
    meaning = call.quantization_of(call.input(index))
    if meaning is not None:
        descriptor = Quantize(dtype=call.dtype_of(call.input(index)), quantization=meaning)
        name = call.label(f"state_{index}")
        value = call.network.add(descriptor, value, name=name, quantization=meaning).output
    call.write(index, value)


def _result(call: Call, value: OutputSlot, output: int = 0) -> OutputSlot:
    """Return a result as the file states it: quantized or not."""
    return value if call.outputs[output].quantization is None else call.quantized(value, output)


def _joined(call: Call, forward: OutputSlot, backward: OutputSlot) -> Sequence[OutputSlot]:
    """Return the results of both directions, side by side if the operator says so."""
    if not call.option("merge_outputs"):
        return [_result(call, forward, 0), _result(call, backward, 1)]
    return [call.add_real(Concat(axis=2), forward, backward)]


def _size(call: Call, slot: OutputSlot, axis: int) -> int:
    """Return a size that has to be known.

    Raises:
        Unsupported: It is open.
    """
    size = call.size_of(slot, axis % call.rank_of(slot))
    if size is None:
        raise Unsupported(f"size {axis} of {slot.name!r} is open")
    return size
