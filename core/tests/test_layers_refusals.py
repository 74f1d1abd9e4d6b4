"""What shape inference refuses, of every kind."""

from __future__ import annotations

import math
from typing import Any

import pytest
from fakes.layer_inputs import (
    BOOL,
    BYTES,
    F32,
    I8,
    I16,
    I32,
    I64,
    SEEN,
    UNCOUPLED,
    detector,
    inferred,
    quantized_lstm,
    quantized_svdf,
)

from dovetail import layers as kinds
from dovetail.graph.descriptor import Descriptor
from dovetail.graph.element_types import DType
from dovetail.graph.tensor import Quantization
from dovetail.ground.errors import ErrorCode, GraphError

REFUSALS: dict[str, tuple[Descriptor, list[Any], str]] = {
    "conv rank": (kinds.Convolution2d(), [(3, 8, 8), (5, 3, 3, 3)], "rank 3"),
    "conv channels": (kinds.Convolution2d(), [(1, 4, 8, 8), (5, 3, 3, 3)], "do not fit 4 channels"),
    "conv groups": (kinds.Convolution2d(groups=2), [(1, 4, 8, 8), (5, 2, 3, 3)], "groups"),
    "conv window": (kinds.Convolution2d(), [(1, 1, 2, 2), (1, 1, 3, 3)], "does not fit"),
    "conv stride": (kinds.Convolution2d(stride=(0, 1)), [(1, 1, 4, 4), (1, 1, 3, 3)], "stride must be at least 1"),
    "conv bias": (kinds.Convolution2d(), [(1, 1, 4, 4), (2, 1, 3, 3), (3,)], "bias"),
    "conv dtypes": (kinds.Convolution2d(), [(1, 1, 4, 4), ((2, 1, 3, 3), DType.FLOAT16)], "dtypes float32, float16"),
    "depthwise": (kinds.DepthwiseConvolution2d(), [(1, 3, 5, 5), (4, 1, 3, 3)], "do not fit 3 channels"),
    "transpose conv": (kinds.TransposeConvolution2d(), [(1, 3, 5, 5), (4, 1, 3, 3)], "do not fit 3 channels"),
    "fully connected": (kinds.FullyConnected(), [(2, 4), (3, 5)], "last axes must agree|does not fit"),
    "matmul": (kinds.MatMul(), [(2, 4), (3, 5)], "inner sizes are 4 and 3"),
    "matmul scalar": (kinds.MatMul(), [(), (3, 5)], "scalar"),
    "pool padding": (
        kinds.Pooling2d(function=kinds.PoolingFunction.MAX, size=(2, 2), padding=(2, 0, 0, 0)),
        [(1, 1, 4, 4)],
        "nothing but padding|not smaller",
    ),
    "global pool": (kinds.GlobalPooling(function=kinds.PoolingFunction.MAX), [(3,)], "no batch and channel"),
    "prelu": (kinds.Prelu(), [(2, 3), (4,)], "broadcast"),
    "softmax": (kinds.Softmax(axis=2), [(2, 3)], "axis 2 is out of range"),
    "batch normalization": (kinds.BatchNormalization(), [(2, 3, 4), (3,), (3,), (4,), (3,)], "mean"),
    "group normalization": (kinds.GroupNormalization(groups=3), [(2, 4, 3)], "do not divide"),
    "layer normalization": (kinds.LayerNormalization(), [(2, 4), (3,)], "broadcast"),
    "lp": (kinds.LpNormalization(p=3), [(2, 4)], "p is 3"),
    "binary": (kinds.ElementwiseBinary(operation=kinds.BinaryOperation.ADD), [(2,), (3,)], "do not broadcast"),
    "binary dtypes": (
        kinds.ElementwiseBinary(operation=kinds.BinaryOperation.ADD),
        [(2,), ((2,), I64)],
        "insert a cast|dtypes",
    ),
    "logical": (kinds.ElementwiseBinary(operation=kinds.BinaryOperation.LOGICAL_AND), [(2,), (2,)], "input is float32"),
    "shift": (kinds.ElementwiseBinary(operation=kinds.BinaryOperation.SHIFT_LEFT), [(2,), (2,)], "input is float32"),
    "not": (kinds.ElementwiseUnary(operation=kinds.UnaryOperation.LOGICAL_NOT), [(2,)], "input is float32"),
    "where": (kinds.Where(), [(2,), (2,), (2,)], "condition is float32"),
    "conditional": (kinds.Conditional(), [((2,), BOOL), (3,), (3,)], "one element decides"),
    "conditional by a float": (kinds.Conditional(), [(), (3,), (3,)], "condition is float32"),
    "reshape": (kinds.Reshape(shape=(5,)), [(2, 3)], "cannot take the shape"),
    "reshape two": (kinds.Reshape(shape=(-1, -1)), [(2, 3)], "not valid"),
    "reshape indivisible": (kinds.Reshape(shape=(4, -1)), [(2, 3)], "cannot take the shape"),
    "reshape zero and minus one": (kinds.Reshape(shape=(0, -1)), [(0, 3)], "cannot take the shape"),
    "expand dims twice": (kinds.ExpandDims(axes=(0, 0)), [(2,)], "twice"),
    "squeeze": (kinds.Squeeze(axes=(0,)), [(2, 1)], "has size 2"),
    "flatten": (kinds.Flatten(axis=3), [(2, 3)], "out of range"),
    "permute": (kinds.Permute(permutation=(0, 1)), [(2, 3, 4)], "does not fit"),
    "permute twice": (kinds.Permute(permutation=(0, 0)), [(2, 3)], "twice"),
    "tile": (kinds.Tile(repeats=(2,)), [(2, 3)], "do not fit"),
    "space to depth": (kinds.SpaceToDepth(block=2), [(1, 1, 3, 4)], "do not divide"),
    "depth to space": (kinds.DepthToSpace(block=2), [(1, 3, 3, 4)], "do not divide"),
    "concat": (kinds.Concat(axis=0), [(2, 3), (2, 4)], "cannot be joined"),
    "concat ranks": (kinds.Concat(axis=0), [(2, 3), (2,)], "cannot be joined"),
    "stack": (kinds.Stack(), [(2,), (3,)], "cannot be stacked"),
    "split": (kinds.Split(parts=2, sizes=(3, 3)), [(4,)], "do not part"),
    "pad": (kinds.Pad(before=(1,), after=(1,)), [(2, 3)], "do not fit"),
    "pad too little": (kinds.Pad(before=(-2,), after=(-1,)), [(2,)], "remove more"),
    "pad reflect": (kinds.Pad(before=(2,), after=(0,), mode=kinds.PadMode.REFLECT), [(2,)], "needs more"),
    "slice": (kinds.StridedSlice(begin=(0,), end=(1,), stride=(0,)), [(2,)], "stride is 0"),
    "slice lengths": (kinds.StridedSlice(begin=(0, 0), end=(1,)), [(2, 2)], "differ in length"),
    "gather": (kinds.Gather(), [(2,), (2,)], "indices is float32"),
    "gather nd": (kinds.GatherNd(), [(2,), ((1, 2), I64)], "address 2 axes"),
    "scatter": (kinds.ScatterElements(), [(3, 4), ((1, 2), I64), (1, 3)], "do not fit"),
    "scatter nd": (kinds.ScatterNd(), [(3, 4), ((2, 1), I64), (2, 5)], "do not fit"),
    "one hot": (kinds.OneHot(depth=5), [((2,), I64), (3,)], "expected \\[2\\]|values has shape"),
    "trilu": (kinds.Trilu(), [(2,)], "no matrix axes"),
    "fill": (kinds.Fill(shape=(-1,)), [], "negative"),
    "reduce": (kinds.Reduce(function=kinds.ReduceFunction.SUM, axes=(2,)), [(2, 3)], "out of range"),
    "arg of nothing": (kinds.ArgMinMax(function=kinds.ArgFunction.MAX), [(2, 0)], "no extreme"),
    "top k": (kinds.TopK(k=5), [(3, 4)], "k is 5"),
    "detections of integers": (detector(), [((1, 9, 4), I8), (1, 9, 3), (9, 4)], "boxes is int8"),
    "detections of two batches": (detector(), [(2, 9, 4), (1, 9, 3), (9, 4)], "of one batch"),
    "detections ranks": (detector(), [(1, 9, 4), (1, 9, 3), (1, 9, 4)], "expected rank 2"),
    "detections scores": (detector(), [(1, 9, 4), (1, 8, 3), (9, 4)], "has its scores and its anchor"),
    "detections anchors": (detector(), [(1, 9, 4), (1, 9, 3), (8, 4)], "has its scores and its anchor"),
    "detections numbers": (detector(), [(1, 9, 3), (1, 9, 3), (9, 4)], "four numbers or more"),
    "detections of wide anchors": (detector(), [(1, 9, 5), (1, 9, 3), (9, 5)], "an anchor four"),
    "detections classes": (detector(num_classes=4), [(1, 9, 4), (1, 9, 3), (9, 4)], "do not fit 4 classes"),
    "detections backgrounds": (detector(num_classes=1), [(1, 9, 4), (1, 9, 3), (9, 4)], "do not fit 1 classes"),
    **{
        f"detections {name} {value}": (detector(**{name: value}), [(1, 9, 4), (1, 9, 3), (9, 4)], text)
        for name, value, text in (
            ("max_detections", 0, "max_detections must be at least 1"),
            ("max_detections", 2**30, "max_classes_per_detection must be at most"),
            ("num_classes", 0, "num_classes must be at least 1"),
            ("max_classes_per_detection", -1, "max_classes_per_detection must be at least 1"),
            ("detections_per_class", 2**31, "detections_per_class must be at most"),
            ("score_threshold", math.nan, "score_threshold is nan"),
            ("score_threshold", -math.inf, "score_threshold is -inf"),
            ("score_threshold", 1e39, "score_threshold is 1e"),
            ("iou_threshold", math.nan, "iou_threshold is nan"),
            ("iou_threshold", 1.5, "iou_threshold is 1.5"),
            ("iou_threshold", -0.1, "iou_threshold is -0.1"),
            ("scales", (1.0, 0.0, 1.0, 1.0), "none 0"),
            ("scales", (1.0, math.inf, 1.0, 1.0), "four finite numbers"),
            ("scales", (1.0, 1.0, 1.0), "four finite numbers"),
        )
    },
    "resize": (kinds.Resize(sizes=(2,)), [(2, 2)], "do not fit"),
    "resize nothing": (kinds.Resize(sizes=(2,)), [(0,)], "empty axis"),
    "rnn rank": (kinds.Rnn(), [(7, 3), (5, 3), (5, 5)], "rank 2"),
    "rnn of integers": (kinds.Rnn(), [((7, 2, 3), I32), ((5, 3), I32), ((5, 5), I32)], "input is int32"),
    "rnn dtypes": (kinds.Rnn(), [(7, 2, 3), ((5, 3), DType.FLOAT16), (5, 5)], "dtypes"),
    "rnn weights": (kinds.Rnn(), [(7, 2, 3), (5, 4), (5, 5)], "do not fit input"),
    "rnn recurrent weights": (kinds.Rnn(), [(7, 2, 3), (5, 3), (5, 4)], "do not read the 5 hidden values"),
    "rnn bias": (kinds.Rnn(), [(7, 2, 3), (5, 3), (5, 5), (4,)], "bias has shape"),
    "rnn lengths": (kinds.Rnn(), [(7, 2, 3), (5, 3), (5, 5), None, None, (2,)], "lengths is float32"),
    "rnn lengths of another batch": (kinds.Rnn(), [(7, 2, 3), (5, 3), (5, 5), None, None, ((3,), I32)], "lengths has shape"),
    "rnn clip": (kinds.Rnn(gate_clip=-1.0), [(7, 2, 3), (5, 3), (5, 5)], "gate_clip is -1.0"),
    "gru rows": (kinds.Gru(), [(7, 2, 3), (14, 3), (14, 5)], "do not fit input"),
    "gru state": (kinds.Gru(), [(7, 2, 3), (15, 3), (15, 5), None, None, (3, 5)], "initial_hidden has shape"),
    "lstm clip": (kinds.Lstm(cell_clip=float("nan")), [(7, 2, 3), (20, 3), (20, 5)], "cell_clip is nan"),
    "lstm peepholes": (
        kinds.Lstm(coupling=kinds.GateCoupling.FORGET),
        [(7, 2, 3), (15, 3), (15, 5), *[None] * 4, (15,)],
        "peepholes has shape",
    ),
    "lstm projection": (kinds.Lstm(), [(7, 2, 3), (20, 3), (20, 4), *[None] * 6, (4, 4)], "projection_weights has shape"),
    "lstm projection bias": (kinds.Lstm(), [(7, 2, 3), (20, 3), (20, 5), *[None] * 7, (5,)], "without projection_weights"),
    **{
        f"quantized lstm {name} {value}": (kinds.QuantizedLstm(**{name: value}), quantized_lstm(), text)
        for name, value, text in (
            ("cell_clip", -1.0, "cell_clip is -1.0"),
            ("projection_clip", math.nan, "projection_clip is nan"),
            ("gate_scales", (1.0, 1.0, 1.0), "gate_scales has 3 numbers"),
            ("gate_scales", (1.0, 1.0, math.inf, 1.0), "scales are"),
            ("hidden_scale", 0.0, "scales are"),
            ("hidden_zero_point", 128, "zero point"),
        )
    },
    **{
        f"quantized lstm {name} {text}": (kinds.QuantizedLstm(), quantized_lstm(**{name: value}), text)
        for name, value, text in (
            ("input", ((7, 2, 3), F32), "input is float32"),
            ("input", ((7, 3), I8, BYTES), "rank 2"),
            ("input", ((7, 2, 3), I8), "quantized not at all"),
            ("initial_hidden", ((2, 4), I8, BYTES), "5 units and 4 hidden values"),
            ("initial_hidden", ((3, 5), I8, BYTES), "initial_hidden has shape"),
            ("initial_cell", ((2, 5), I8, BYTES), "initial_cell is int8"),
            ("initial_cell", ((2, 5), I16, BYTES), "initial_cell has the scale 0.5"),
            ("initial_cell", ((3, 5), I16, Quantization.per_tensor(2.0**-11)), "initial_cell has shape"),
            ("cell_weights", ((5, 4), I8, BYTES), "cell_weights has shape"),
            ("cell_weights", ((5, 3), I8, Quantization.per_tensor(0.5, 1)), "has the zero point 1"),
            ("cell_weights", ((5, 3), I8, Quantization.per_axis([0.5] * 5, axis=0)), "quantized per axis"),
            ("output_recurrent_weights", ((5, 4), I8, BYTES), "output_recurrent_weights has shape"),
            ("forget_bias", ((5,), I8, BYTES), "forget_bias is int8"),
            ("input_bias", None, "of the input gate there is only"),
            ("input_weights", None, "of the input gate there is only"),
            ("cell_normalization", SEEN, "of normalization there is only cell_normalization"),
            ("forget_normalization", SEEN, "gate_scales is None"),
            ("output_peepholes", SEEN, "of peepholes there is only output_peepholes"),
            ("projection_bias", ((5,), I32), "without projection_weights"),
            ("projection_weights", ((4, 5), I8, BYTES), "projection_weights has shape"),
        )
    },
    "quantized lstm of a peephole too many": (
        kinds.QuantizedLstm(),
        quantized_lstm(**{**UNCOUPLED, **{f"{gate}_peepholes": SEEN for gate in ("input", "forget", "output")}}),
        "input_peepholes without input_weights",
    ),
    **{
        f"quantized svdf of rank {rank}": (kinds.QuantizedSvdf(rank=rank), quantized_svdf(), text)
        for rank, text in ((0, "rank is 0"), (-2, "rank is -2"), (4, "6 filters of rank 4"), (3, "bias has shape"))
    },
    **{
        f"quantized svdf {name} {text}": (kinds.QuantizedSvdf(rank=2), quantized_svdf(**{name: value}), text)
        for name, value, text in (
            ("input", ((2, 3), F32), "input is float32"),
            ("input", ((2, 3, 1), I8, BYTES), "rank 3"),
            ("input", ((2, 3), I8), "input is quantized not at all"),
            ("input", ((3, 3), I8, BYTES), "initial_state has shape"),
            ("initial_state", ((2, 24), I8, BYTES), "initial_state is int8"),
            ("initial_state", ((2, 23), I16, BYTES), "initial_state has shape"),
            ("initial_state", ((2, 6, 4), I16, BYTES), "rank 3"),
            ("initial_state", ((2, 24), I16, Quantization.per_tensor(0.5, 1)), "has the zero point 1"),
            ("feature_weights", ((6, 4), I8, BYTES), "feature_weights has shape"),
            ("feature_weights", ((5, 3), I8, BYTES), "feature_weights has shape"),
            ("feature_weights", ((6, 3), I8, Quantization.per_axis([0.5] * 6, axis=0)), "quantized per axis"),
            ("feature_weights", ((6, 3), I8, Quantization.per_tensor(0.5, -1)), "has the zero point -1"),
            ("time_weights", ((6, 4), I8, BYTES), "time_weights is int8"),
            ("time_weights", ((6, 0), I16, BYTES), "have no steps"),
            ("time_weights", ((5, 4), I16, BYTES), "5 filters of rank 2"),
            ("time_weights", ((6, 4), I16), "time_weights is quantized not at all"),
            ("bias", ((3,), I16), "bias is int16"),
            ("bias", ((6,), I32), "bias has shape"),
        )
    },
    "quantize": (kinds.Quantize(dtype=F32, quantization=Quantization.per_tensor(1.0)), [(2,)], "cannot be quantized"),
    "dequantize": (kinds.Dequantize(quantization=Quantization.per_tensor(1.0)), [(2,)], "input is float32"),
    "dequantize scales": (
        kinds.Dequantize(quantization=Quantization.per_axis((1.0, 2.0, 3.0), axis=0)),
        [((2,), I8)],
        "3 scales for 2",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusal(name: str) -> None:
    descriptor, inputs, message = REFUSALS[name]
    with pytest.raises(GraphError, match=message) as caught:
        inferred(descriptor, *inputs)
    assert caught.value.code in (ErrorCode.SHAPE_MISMATCH, ErrorCode.DTYPE_MISMATCH, ErrorCode.ATTRIBUTE_INVALID)
