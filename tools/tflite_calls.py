"""One small call of each TensorFlow Lite operator, for elements of any type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from flatbuffers import flexbuffers
from tflite_parser.tests.tflite_making import Model, Subgraph, Tree

TYPES = ("float32", "float16", "int8", "uint8", "int16", "int32", "int64", "bool")
HYBRID = "hybrid"
"""Floats that are multiplied by weights of int8."""

_QUANTIZATIONS: dict[str, tuple[float, int]] = {"int8": (0.05, 3), "uint8": (0.05, 131), "int16": (2.0**-12, 0)}
_ALSO: dict[str, dict[str, tuple[float, int]]] = {"QUANTIZE": {"int32": (2.0**-12, 0)}}
"""Operators that take further types quantized."""
_OF_WEIGHTS = {"int8": (0.02, 0), "uint8": (0.02, 128)}
_SHARES = {"int8": (1 / 256, -128), "uint8": (1 / 256, 0), "int16": (1 / 32768, 0)}
_OF_RESULTS = {
    "LOGISTIC": _SHARES,
    "SOFTMAX": _SHARES,
    "TANH": {"int8": (1 / 128, 0), "uint8": (1 / 128, 128), "int16": (1 / 32768, 0)},
    "LOG_SOFTMAX": {"int8": (1 / 16, 127), "uint8": (1 / 16, 255)},
    "L2_NORMALIZATION": {"int8": (1 / 128, 0), "uint8": (1 / 128, 128)},
}
"""What TensorFlow Lite demands of results."""
_BIAS = {"int8": "int32", "uint8": "int32", "int16": "int64"}
_IMAGE = (1, 4, 4, 2)
_FLAT = (2, 3)
_STEPS = {"stride_w": 1, "stride_h": 1}
_WINDOW = {**_STEPS, "filter_width": 2, "filter_height": 2}
_DETECTION = {
    "max_detections": 2,
    "max_classes_per_detection": 1,
    "num_classes": 2,
    "use_regular_nms": False,
    "nms_score_threshold": 0.1,
    "nms_iou_threshold": 0.5,
    "y_scale": 10.0,
    "x_scale": 10.0,
    "h_scale": 5.0,
    "w_scale": 5.0,
}


class OneCall:
    """A model of one operator under construction.

    Attributes:
        operator, version: What is called.
        dtype: Type of its elements: those of the first input that it computes with.
        is_hybrid: Its weights are of int8 and its elements are floats.
        model, graph: What is made.
    """

    def __init__(self, operator: str, version: int, column: str, *, plain: bool = False) -> None:
        self.operator = operator
        self.version = version
        self.is_hybrid = column == HYBRID
        self.dtype = "float32" if self.is_hybrid else column
        self.model = Model()
        self.graph = self.model.main
        self.quantization = None if plain else (_QUANTIZATIONS | _ALSO.get(operator, {})).get(self.dtype)

    def x(self, *shape: int) -> int:
        """Add an input of elements."""
        return self._input(self.dtype, shape, self.quantization)

    def other(self, dtype: str, *shape: int) -> int:
        """Add an input of a type that is the same for elements of all types."""
        return self._input(dtype, shape, None)

    def constant(self, values: Any, dtype: str = "int32") -> int:
        """Add a constant of a type that is the same for elements of all types."""
        return self.graph.constant(self._name("c"), np.asarray(values, dtype))

    def weights(self, *shape: int) -> int:
        """Add what elements are multiplied by: int8 for words of 16 bits, too."""
        dtype = "int8" if self.is_hybrid or self.dtype == "int16" else self.dtype
        return self.graph.constant(self._name("w"), np.ones(shape, dtype), quantization=_OF_WEIGHTS.get(dtype))

    def elements(self, *shape: int) -> int:
        """Add a constant of elements."""
        return self.graph.constant(self._name("e"), np.ones(shape, self.dtype), quantization=self.quantization)

    def bias(self, size: int) -> int:
        """Add what is added to products."""
        scale = None if self.quantization is None else (self.quantization[0] * 0.02, 0)
        values = np.ones(size, _BIAS.get(self.dtype, self.dtype))
        return self.graph.constant(self._name("b"), values, quantization=scale)

    def state(self, *shape: int, words: bool = False) -> int:
        """Add a variable tensor; one of words has 16 bits where elements are quantized."""
        is_word = words and self.quantization is not None
        dtype, quantization = ("int16", (2.0**-11, 0)) if is_word else (self.dtype, self.quantization)
        return self.graph.tensor(self._name("s"), dtype, shape, quantization=quantization, is_variable=True)

    def inner(self, dtype: str) -> int:
        """Add a tensor that only tells how the operator quantizes what it computes inside."""
        return self.graph.tensor(self._name("i"), dtype, (), quantization=_QUANTIZATIONS[dtype])

    def give(self, inputs: Sequence[int], options: Tree | None = None, results: Sequence[str] = ("",), **fields: Any) -> None:
        """Add the operator.

        Args:
            inputs: Its inputs.
            options: Its options.
            results: Types of its results; an empty text stands for that of the elements.
            fields: See `tflite_making.Subgraph.operator`.
        """
        self.graph.operator(
            self.operator, inputs, [self.result(dtype) for dtype in results], options, version=self.version, **fields
        )

    def result(self, dtype: str = "") -> int:
        """Add an output of the model."""
        dtype = dtype or self.dtype
        quantization = _OF_RESULTS.get(self.operator, {}).get(dtype, _QUANTIZATIONS.get(dtype))
        if dtype == self.dtype and self.quantization is None:
            quantization = None
        return self.graph.output(self.graph.tensor(self._name("y"), dtype, (), quantization=quantization))

    def _input(self, dtype: str, shape: Sequence[int], quantization: tuple[float, int] | None) -> int:
        return self.graph.input(self._name("x"), dtype, shape, quantization=quantization)

    def _name(self, prefix: str) -> str:
        return f"{prefix}{len(self.graph.tree['tensors'])}"


Maker = Callable[[OneCall], None]


def model_of(operator: str, version: int, column: str) -> bytes:
    """Return a model of one operator.

    Args:
        operator: Its name; `custom:` stands before a custom one.
        version: Its version.
        column: One of `TYPES`, or `HYBRID`.
    """
    call = OneCall(operator, version, column, plain=operator in _PLAIN)
    CALLS[operator](call)
    return call.model.build()


def _each(names: str, make: Maker) -> dict[str, Maker]:
    """Return what calls each of several operators."""
    return dict.fromkeys(names.split(), make)


def _unary(call: OneCall) -> None:
    call.give([call.x(*_FLAT)])


def _with(options: Tree, *shape: int) -> Maker:
    """Return what calls an operator of one input."""
    return lambda call: call.give([call.x(*(shape or _FLAT))], options)


def _by(*values: Any) -> Maker:
    """Return what calls an operator of elements and constants."""
    return lambda call: call.give([call.x(*_FLAT), *map(call.constant, values)])


def _binary(call: OneCall) -> None:
    call.give([call.x(*_FLAT), call.x(*_FLAT)])


def _arithmetic(call: OneCall) -> None:
    call.give([call.x(*_FLAT), call.x(*_FLAT)], {"fused_activation_function": 0})


def _comparison(call: OneCall) -> None:
    call.give([call.x(*_FLAT), call.x(*_FLAT)], results=["bool"])


def _choice(call: OneCall) -> None:
    call.give([call.other("bool", *_FLAT), call.x(*_FLAT), call.x(*_FLAT)])


def _reduction(call: OneCall) -> None:
    call.give([call.x(*_FLAT), call.constant([1])], {"keep_dims": True})


def _extreme(call: OneCall) -> None:
    call.give([call.x(*_FLAT), call.constant([1])], {"output_type": 2}, ["int32"])


def _resize(call: OneCall) -> None:
    call.give([call.x(*_IMAGE), call.constant([8, 6])], {"half_pixel_centers": True})


def _recurrent(call: OneCall, steps: Sequence[int], options: Tree | None = None) -> None:
    inputs = [call.x(*steps, 3), call.weights(4, 3), call.weights(4, 4), call.bias(4), call.state(1, 4)]
    call.give(inputs, options or {"fused_activation_function": 4})


def _gates(call: OneCall) -> list[int]:
    """Add weights, recurrent weights and biases of an LSTM, among inputs that are left out."""
    weights, recurrent = ([call.weights(4, size) for _ in range(4)] for size in (3, 4))
    return [*weights, *recurrent, *[-1] * 3, *(call.bias(4) for _ in range(4)), -1, -1]


def _lstm(call: OneCall, steps: Sequence[int]) -> None:
    states = [call.state(1, 4), call.state(1, 4, words=True)]
    inner = [] if call.quantization is None else [*(call.inner("int16") for _ in range(4)), call.inner("int8")]
    call.give([call.x(*steps, 3), *_gates(call), *states], {"fused_activation_function": 4}, intermediates=inner)


def _both_ways_lstm(call: OneCall) -> None:
    states = [call.state(1, 4, words=words) for words in (False, True, False, True)]
    inputs = [call.x(2, 1, 3), *_gates(call), *_gates(call), *states, *[-1] * 9]
    call.give(inputs, {"fused_activation_function": 4, "merge_outputs": True})


def _both_ways_rnn(call: OneCall) -> None:
    each = [(call.weights(4, 3), call.weights(4, 4), call.bias(4), call.state(1, 4)) for _ in range(2)]
    inputs = [call.x(1, 2, 3), *each[0], *each[1], *[-1] * 3]
    call.give(inputs, {"fused_activation_function": 4, "merge_outputs": True})


def _turned(call: OneCall, name: str) -> Subgraph:
    """Add a subgraph that moves elements."""
    inner = call.model.subgraph(name)
    _turn(call, inner)
    return inner


def _turn(call: OneCall, inner: Subgraph) -> None:
    x = inner.input("x", call.dtype, (2, 2), quantization=call.quantization)
    y = inner.output(inner.tensor("y", call.dtype, (2, 2), quantization=call.quantization))
    inner.operator("TRANSPOSE", [x, inner.constant("order", np.array([1, 0], np.int32))], [y])


def _if(call: OneCall) -> None:
    _turned(call, "then")
    _turned(call, "else")
    call.give([call.other("bool", 1), call.x(2, 2)], {"then_subgraph_index": 1, "else_subgraph_index": 2})


def _while(call: OneCall) -> None:
    goes_on, body = call.model.subgraph("goes_on"), call.model.subgraph("body")
    count = goes_on.input("count", "int32", ())
    goes_on.input("x", call.dtype, (2, 2), quantization=call.quantization)
    limit = goes_on.constant("limit", np.array(2, np.int32))
    goes_on.operator("LESS", [count, limit], [goes_on.output(goes_on.tensor("less", "bool", ()))])
    count = body.input("count", "int32", ())
    after = body.output(body.tensor("after", "int32", ()))
    body.operator("ADD", [count, body.constant("one", np.array(1, np.int32))], [after], {})
    _turn(call, body)
    call.give([call.constant(0), call.x(2, 2)], {"cond_subgraph_index": 1, "body_subgraph_index": 2}, ["int32", ""])


def _called(field: str, **options: Any) -> Maker:
    """Return what calls an operator that stands for a subgraph."""

    def make(call: OneCall) -> None:
        _turned(call, "called")
        call.give([call.x(2, 2)], {field: 1, **options})

    return make


def _resource(call: OneCall) -> None:
    """Give a resource its first value, read it, and write it: all operators of resources."""
    first, main, named = call.model.subgraph("first"), call.graph, {"shared_name": "held"}
    for graph in (first, main):
        handle = graph.tensor("handle", "resource", ())
        if graph is main:
            main.operator("CALL_ONCE", [], [], {"init_subgraph_index": 1})
        graph.operator("VAR_HANDLE", [], [handle], named)
        if graph is main:
            main.operator("READ_VARIABLE", [handle], [_held(call)])
            graph.operator("ASSIGN_VARIABLE", [handle, call.x(*_FLAT)], [])
        else:
            value = first.constant("value", np.zeros(_FLAT, call.dtype), quantization=call.quantization)
            graph.operator("ASSIGN_VARIABLE", [handle, value], [])


def _held(call: OneCall) -> int:
    return call.graph.output(call.graph.tensor("read", call.dtype, _FLAT, quantization=call.quantization))


def _detection(call: OneCall) -> None:
    inputs = [call.x(1, 4, 4), call.x(1, 4, 3), call.elements(4, 4)]
    call.give(inputs, results=["float32"] * 4, custom_options=bytes(flexbuffers.Dumps(_DETECTION)))


def _densify(call: OneCall) -> None:
    dense = {"format": 0, "dense_size": 2}
    kept = ("Int32Vector", {"values": [0, 1, 2]}), ("Int32Vector", {"values": [0, 1]})
    level = {"format": 1, "array_segments_type": 1, "array_segments": kept[0]}
    level |= {"array_indices_type": 1, "array_indices": kept[1]}
    sparsity = {"traversal_order": [0, 1], "dim_metadata": [dense, level]}
    values = np.ones(2, call.dtype)
    held = call.graph.tensor("held", call.dtype, (2, 2), value=values, sparsity=sparsity, quantization=call.quantization)
    call.give([held])


def _convolution_3d(call: OneCall) -> None:
    inputs = [call.x(1, 3, 4, 4, 2), call.weights(2, 2, 2, 2, 3), call.bias(3)]
    call.give(inputs, {"stride_d": 1, **_STEPS})


def _transposed_3d(call: OneCall) -> None:
    inputs = [call.constant([1, 3, 4, 4, 3]), call.weights(2, 2, 2, 3, 2), call.x(1, 3, 4, 4, 2), call.bias(3)]
    call.give(inputs, {"stride_d": 1, **_STEPS})


def _embedding(call: OneCall) -> None:
    call.give([call.constant([1, 0]), call.weights(4, 3) if call.is_hybrid else call.elements(4, 3)])


CALLS: dict[str, Maker] = {
    # -- activation
    **_each("RELU RELU6 RELU_N1_TO_1 RELU_0_TO_1 LOGISTIC TANH ELU HARD_SWISH LOG_SOFTMAX", _unary),
    "LEAKY_RELU": _with({"alpha": 0.1}),
    "GELU": _with({"approximate": False}),
    "PRELU": lambda call: call.give([call.x(*_IMAGE), call.elements(1, 1, 2)]),
    "SOFTMAX": _with({"beta": 1.0}),
    # -- branching
    "IF": _if,
    "WHILE": _while,
    "CALL": _called("subgraph"),
    "STABLEHLO_COMPOSITE": _called("decomposition_subgraph_index", name="acme.turn"),
    # -- comparison
    **_each("EQUAL NOT_EQUAL GREATER GREATER_EQUAL LESS LESS_EQUAL", _comparison),
    **_each("SELECT SELECT_V2", _choice),
    **_each("LOGICAL_AND LOGICAL_OR", _binary),
    "LOGICAL_NOT": _unary,
    # -- convolution
    "CONV_2D": lambda call: call.give([call.x(*_IMAGE), call.weights(3, 2, 2, 2), call.bias(3)], _STEPS),
    "DEPTHWISE_CONV_2D": lambda call: call.give(
        [call.x(*_IMAGE), call.weights(1, 3, 3, 2), call.bias(2)], {**_STEPS, "depth_multiplier": 1}
    ),
    "TRANSPOSE_CONV": lambda call: call.give(
        [call.constant([1, 8, 8, 3]), call.weights(3, 2, 2, 2), call.x(*_IMAGE)], {"stride_w": 2, "stride_h": 2}
    ),
    "CONV_3D": _convolution_3d,
    "CONV_3D_TRANSPOSE": _transposed_3d,
    # -- detection
    "custom:TFLite_Detection_PostProcess": _detection,
    # -- elementwise
    **_each("ADD SUB MUL DIV", _arithmetic),
    **_each("FLOOR_DIV FLOOR_MOD POW MAXIMUM MINIMUM SQUARED_DIFFERENCE ADD_N ATAN2", _binary),
    **_each("BITWISE_XOR RIGHT_SHIFT", _binary),
    **_each("ABS NEG EXP LOG SQRT RSQRT SQUARE SIN COS FLOOR CEIL ROUND SIGN", _unary),
    "CAST": lambda call: call.give([call.x(*_FLAT)], results=["int32" if call.dtype == "float32" else "float32"]),
    # -- generating
    "FILL": lambda call: call.give([call.constant([2, 3]), call.x()]),
    "RANGE": lambda call: call.give([call.constant(value, call.dtype) for value in (0, 6, 2)]),
    "ZEROS_LIKE": _unary,
    "ONE_HOT": lambda call: call.give(
        [call.other("int32", 2), call.constant(3), call.elements(), call.elements()], {"axis": -1}
    ),
    "MATRIX_DIAG": _unary,
    # -- indexing
    "GATHER": lambda call: call.give([call.x(*_FLAT), call.other("int32", 2)], {"axis": 1}),
    "GATHER_ND": _by([[0, 1]]),
    "SCATTER_ND": lambda call: call.give([call.constant([[1]]), call.x(1, 3), call.constant([2, 3])]),
    "SLICE": _by([0, 1], [2, -1]),
    "STRIDED_SLICE": lambda call: call.give([call.x(*_FLAT), *map(call.constant, ([0, 0], [2, 3], [1, 2]))], {"begin_mask": 1}),
    "REVERSE_V2": _by([1]),
    "REVERSE_SEQUENCE": lambda call: call.give([call.x(*_FLAT), call.constant([2, 3])], {"seq_dim": 1, "batch_dim": 0}),
    "EMBEDDING_LOOKUP": _embedding,
    "DYNAMIC_UPDATE_SLICE": lambda call: call.give([call.x(*_FLAT), call.x(1, 2), call.other("int32", 2)]),
    "SEGMENT_SUM": _by([0, 1]),
    # -- joining
    "CONCATENATION": lambda call: call.give([call.x(*_FLAT), call.x(*_FLAT)], {"axis": 1}),
    "PACK": lambda call: call.give([call.x(*_FLAT), call.x(*_FLAT)], {"values_count": 2, "axis": 0}),
    "UNPACK": lambda call: call.give([call.x(*_FLAT)], {"num": 2, "axis": 0}, ["", ""]),
    "SPLIT": lambda call: call.give([call.constant(1), call.x(2, 4)], {"num_splits": 2}, ["", ""]),
    "SPLIT_V": lambda call: call.give([call.x(2, 4), call.constant([1, 3]), call.constant(1)], {"num_splits": 2}, ["", ""]),
    "PAD": _by([[1, 0], [0, 2]]),
    "PADV2": lambda call: call.give([call.x(*_FLAT), call.constant([[1, 0], [0, 2]]), call.elements()]),
    "MIRROR_PAD": lambda call: call.give([call.x(*_FLAT), call.constant([[1, 0], [0, 2]])], {"mode": 0}),
    # -- matrix
    "FULLY_CONNECTED": lambda call: call.give([call.x(*_FLAT), call.weights(4, 3), call.bias(4)], {}),
    "BATCH_MATMUL": lambda call: call.give(
        [call.x(2, 3, 4), call.weights(2, 4, 5) if call.is_hybrid else call.x(2, 4, 5)], {"adj_x": False}
    ),
    # -- normalization
    "L2_NORMALIZATION": _unary,
    "LOCAL_RESPONSE_NORMALIZATION": _with({"radius": 2, "bias": 1.0, "alpha": 1.0, "beta": 0.5}, *_IMAGE),
    # -- pooling
    **_each("AVERAGE_POOL_2D MAX_POOL_2D L2_POOL_2D", _with(_WINDOW, *_IMAGE)),
    # -- quantization
    "QUANTIZE": lambda call: call.give([call.x(*_FLAT)], results=["uint8" if call.dtype == "int8" else "int8"]),
    "DEQUANTIZE": lambda call: call.give([call.x(*_FLAT)], results=["float32"]),
    "DENSIFY": _densify,
    # -- recurrent
    "UNIDIRECTIONAL_SEQUENCE_LSTM": lambda call: _lstm(call, (1, 2)),
    "LSTM": lambda call: _lstm(call, (1,)),
    "BIDIRECTIONAL_SEQUENCE_LSTM": _both_ways_lstm,
    "UNIDIRECTIONAL_SEQUENCE_RNN": lambda call: _recurrent(call, (1, 2)),
    "RNN": lambda call: _recurrent(call, (1,)),
    "BIDIRECTIONAL_SEQUENCE_RNN": _both_ways_rnn,
    "SVDF": lambda call: call.give(
        [call.x(1, 3), call.weights(4, 3), call.weights(4, 2), call.bias(2), call.state(1, 8)],
        {"rank": 2, "fused_activation_function": 1},
    ),
    # -- reduction
    **_each("MEAN SUM REDUCE_MAX REDUCE_MIN REDUCE_PROD REDUCE_ANY REDUCE_ALL", _reduction),
    **_each("ARG_MAX ARG_MIN", _extreme),
    "TOPK_V2": lambda call: call.give([call.x(*_FLAT), call.constant(2)], results=["", "int32"]),
    "CUMSUM": lambda call: call.give([call.x(*_FLAT), call.constant(1)], {"exclusive": True}),
    # -- reshaping
    "RESHAPE": lambda call: call.give([call.x(*_FLAT), call.constant([3, -1])], {"new_shape": [3, 2]}),
    "SQUEEZE": _with({"squeeze_dims": [0]}, 1, 3),
    "EXPAND_DIMS": _by(0),
    "TRANSPOSE": _by([1, 0]),
    "SHAPE": lambda call: call.give([call.x(*_FLAT)], {"out_type": 2}, ["int32"]),
    "RANK": lambda call: call.give([call.x(*_FLAT)], results=["int32"]),
    "BROADCAST_TO": _by([4, 2, 3]),
    "BROADCAST_ARGS": lambda call: call.give([call.constant(sizes, call.dtype) for sizes in ([2, 1], [1, 3])]),
    "TILE": _by([2, 1]),
    "SPACE_TO_DEPTH": _with({"block_size": 2}, *_IMAGE),
    "DEPTH_TO_SPACE": _with({"block_size": 2}, 1, 2, 2, 8),
    "SPACE_TO_BATCH_ND": lambda call: call.give([call.x(*_IMAGE), call.constant([2, 2]), call.constant([[0, 0], [0, 0]])]),
    "BATCH_TO_SPACE_ND": lambda call: call.give([call.x(4, 2, 2, 2), call.constant([2, 2]), call.constant([[0, 0], [0, 0]])]),
    # -- resizing
    **_each("RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR", _resize),
    # -- resources
    **_each("CALL_ONCE VAR_HANDLE READ_VARIABLE ASSIGN_VARIABLE", _resource),
}
"""How each operator is called, by families as in `dovetail_tflite.operators`."""

_MULTIPLYING = (
    "CONV_2D DEPTHWISE_CONV_2D TRANSPOSE_CONV CONV_3D CONV_3D_TRANSPOSE FULLY_CONNECTED BATCH_MATMUL EMBEDDING_LOOKUP "
    "UNIDIRECTIONAL_SEQUENCE_LSTM LSTM BIDIRECTIONAL_SEQUENCE_LSTM UNIDIRECTIONAL_SEQUENCE_RNN RNN "
    "BIDIRECTIONAL_SEQUENCE_RNN SVDF"
)
WITH_WEIGHTS = frozenset(_MULTIPLYING.split())
"""Operators that may be hybrid."""

_PLAIN = frozenset({"CAST", "BITWISE_XOR", "RIGHT_SHIFT", "RANGE", "BROADCAST_ARGS", "SEGMENT_SUM"})
"""Operators whose integers are integers."""
