"""Shape inference of every kind: results, corner cases, refusals."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pytest

from dovetail import layers as kinds
from dovetail.graph.descriptor import Descriptor
from dovetail.graph.tensor import DataLayout, DType, Quantization, TensorInfo
from dovetail.ground.errors import ErrorCode, GraphError
from dovetail.layers.network import Network

F32, I8, I16, I32, I64, BOOL = DType.FLOAT32, DType.INT8, DType.INT16, DType.INT32, DType.INT64, DType.BOOL
Given: TypeAlias = tuple[Any, ...]


def info(given: Any) -> TensorInfo | None:
    """A shape, or (shape, dtype), as an info."""
    if given is None:
        return None
    if given and isinstance(given[0], tuple):
        return TensorInfo.of(*given)
    return TensorInfo.of(given)


def inferred(descriptor: Descriptor, *inputs: Any) -> list[tuple[tuple[int, ...], DType]]:
    infos = [info(one) for one in inputs]
    resolved = descriptor.resolve(infos, [None] * len(infos))
    return [(one.sizes, one.dtype) for one in resolved.infer(infos)]


def detector(**attributes: Any) -> kinds.DetectionPostProcess:
    return kinds.DetectionPostProcess(**{"max_detections": 5, "num_classes": 2, "max_classes_per_detection": 2, **attributes})


def quantized_lstm(hidden: int = 5, **changed: Any) -> list[Any]:
    """Infos of its inputs, for 3 elements of a step and 5 units; None for what is left out."""
    small, cell = Quantization.per_tensor(0.5), Quantization.per_tensor(2.0**-11)
    given: dict[str, Any] = {"input": ((7, 2, 3), I8, small), "initial_hidden": ((2, hidden), I8, small)}
    given["initial_cell"] = ((2, 5), I16, cell)
    for gate in ("input", "forget", "cell", "output"):
        given |= {f"{gate}_weights": ((5, 3), I8, small), f"{gate}_recurrent_weights": ((5, hidden), I8, small)}
        given[f"{gate}_bias"] = ((5,), I32)
    given |= changed
    return [given.get(name) for name in kinds.QuantizedLstm.input_names]


def quantized_svdf(**changed: Any) -> list[Any]:
    """Infos of its inputs: 3 elements, 6 filters of 4 steps, in pairs; None for those left out."""
    small = Quantization.per_tensor(0.5)
    given: dict[str, Any] = {
        "input": ((2, 3), I8, Quantization.per_tensor(0.5, 7)),
        "initial_state": ((2, 24), I16, small),
        "feature_weights": ((6, 3), I8, small),
        "time_weights": ((6, 4), I16, small),
        "bias": ((3,), I32),
    }
    return [(given | changed)[name] for name in kinds.QuantizedSvdf.input_names]


UNCOUPLED = dict.fromkeys(("input_weights", "input_recurrent_weights", "input_bias"))
BYTES = Quantization.per_tensor(0.5)
SEEN = ((5,), I16, Quantization.per_tensor(0.5))


SAME = kinds.AutoPadding.SAME_UPPER
LOWER = kinds.AutoPadding.SAME_LOWER
CASES: dict[str, tuple[Descriptor, list[Any], list[Any]]] = {
    "conv": (kinds.Convolution2d(stride=(2, 1), padding=(1, 0, 1, 2)), [(2, 3, 8, 9), (5, 3, 3, 3)], [(2, 5, 4, 9)]),
    "conv dilated": (kinds.Convolution2d(dilation=(2, 3)), [(1, 1, 7, 7), (1, 1, 3, 3)], [(1, 1, 3, 1)]),
    "conv groups": (kinds.Convolution2d(groups=2), [(1, 4, 3, 3), (6, 2, 1, 1), (6,)], [(1, 6, 3, 3)]),
    "conv nhwc": (kinds.Convolution2d(layout=DataLayout.NHWC), [(1, 5, 6, 3), (8, 3, 3, 3)], [(1, 3, 4, 8)]),
    "conv same": (kinds.Convolution2d(stride=(2, 2), auto_padding=SAME), [(1, 1, 7, 8), (1, 1, 3, 3)], [(1, 1, 4, 4)]),
    "conv batch 0": (kinds.Convolution2d(), [(0, 1, 3, 3), (2, 1, 3, 3)], [(0, 2, 1, 1)]),
    "conv int8": (kinds.Convolution2d(), [((1, 1, 3, 3), I8), ((2, 1, 3, 3), I8), ((2,), I32)], [((1, 2, 1, 1), I8)]),
    "depthwise": (kinds.DepthwiseConvolution2d(), [(1, 3, 5, 5), (6, 1, 3, 3), (6,)], [(1, 6, 3, 3)]),
    "depthwise nhwc": (
        kinds.DepthwiseConvolution2d(layout=DataLayout.NHWC),
        [(1, 5, 5, 3), (1, 3, 3, 6)],
        [(1, 3, 3, 6)],
    ),
    "transpose conv": (kinds.TransposeConvolution2d(stride=(2, 2)), [(1, 3, 4, 4), (3, 2, 3, 3)], [(1, 2, 9, 9)]),
    "transpose conv grouped": (
        kinds.TransposeConvolution2d(stride=(2, 2), padding=(1, 1, 1, 1), output_padding=(1, 1), groups=2),
        [(1, 4, 4, 4), (4, 3, 3, 3)],
        [(1, 6, 8, 8)],
    ),
    "transpose conv size": (
        kinds.TransposeConvolution2d(stride=(2, 2), output_size=(8, 7)),
        [(1, 1, 4, 4), (1, 1, 3, 3)],
        [(1, 1, 8, 7)],
    ),
    "transpose conv same": (
        kinds.TransposeConvolution2d(stride=(2, 2), auto_padding=LOWER),
        [(1, 1, 4, 4), (1, 1, 3, 3)],
        [(1, 1, 8, 8)],
    ),
    "fully connected": (kinds.FullyConnected(), [(2, 7, 5), (3, 5), (3,)], [(2, 7, 3)]),
    "fully connected rank 1": (kinds.FullyConnected(), [(5,), (3, 5)], [(3,)]),
    "matmul": (kinds.MatMul(), [(2, 1, 3, 4), (5, 4, 6)], [(2, 5, 3, 6)]),
    "matmul transposed": (kinds.MatMul(transpose_a=True, transpose_b=True), [(4, 3), (6, 4)], [(3, 6)]),
    "matmul vectors": (kinds.MatMul(), [(4,), (4,)], [()]),
    "matmul vector matrix": (kinds.MatMul(), [(4,), (2, 4, 3)], [(2, 3)]),
    "matmul matrix vector": (kinds.MatMul(), [(2, 3, 4), (4,)], [(2, 3)]),
    "pool": (kinds.Pooling2d(function=kinds.PoolingFunction.MAX, size=(2, 2), stride=(2, 2)), [(1, 3, 5, 4)], [(1, 3, 2, 2)]),
    "pool ceil": (
        kinds.Pooling2d(function=kinds.PoolingFunction.MAX, size=(2, 2), stride=(2, 2), ceil_mode=True),
        [(1, 3, 5, 4)],
        [(1, 3, 3, 2)],
    ),
    "pool ceil starting in padding": (
        # A window that would start behind the data and the leading padding does not count (ONNX,
        # PyTorch).
        kinds.Pooling2d(
            function=kinds.PoolingFunction.AVERAGE, size=(2, 2), stride=(3, 3), padding=(0, 0, 1, 1), ceil_mode=True
        ),
        [(1, 1, 3, 3)],
        [(1, 1, 1, 1)],
    ),
    "pool same": (
        kinds.Pooling2d(function=kinds.PoolingFunction.MAX, size=(3, 3), stride=(2, 2), auto_padding=SAME),
        [(1, 1, 5, 6)],
        [(1, 1, 3, 3)],
    ),
    "global pool": (kinds.GlobalPooling(function=kinds.PoolingFunction.MAX), [(2, 3, 4, 5, 6)], [(2, 3, 1, 1, 1)]),
    "activation": (kinds.Activation(function=kinds.ActivationFunction.RELU), [((), F32)], [()]),
    "prelu": (kinds.Prelu(), [(2, 3, 4, 4), (3, 1, 1)], [(2, 3, 4, 4)]),
    "softmax": (kinds.Softmax(axis=1), [(2, 3)], [(2, 3)]),
    "batch normalization": (kinds.BatchNormalization(), [(2, 3, 4), (3,), (3,), (3,), (3,)], [(2, 3, 4)]),
    "batch normalization rank 1": (kinds.BatchNormalization(), [(5,), (1,), (1,), (1,), (1,)], [(5,)]),
    "instance normalization": (kinds.InstanceNormalization(), [(2, 3, 4, 4), (3,), (3,)], [(2, 3, 4, 4)]),
    "group normalization": (kinds.GroupNormalization(groups=2), [(2, 4, 3)], [(2, 4, 3)]),
    "layer normalization": (kinds.LayerNormalization(axis=1), [(2, 3, 4), (3, 4)], [(2, 3, 4)]),
    "layer normalization offset alone": (kinds.LayerNormalization(), [(2, 4), None, (4,)], [(2, 4)]),
    "lp normalization": (kinds.LpNormalization(), [(2, 3)], [(2, 3)]),
    "local response": (kinds.LocalResponseNormalization(size=3), [(1, 4, 2, 2)], [(1, 4, 2, 2)]),
    "unary": (kinds.ElementwiseUnary(operation=kinds.UnaryOperation.EXP), [(2, 0)], [(2, 0)]),
    "unary to bool": (kinds.ElementwiseUnary(operation=kinds.UnaryOperation.IS_NAN), [(2,)], [((2,), BOOL)]),
    "binary": (kinds.ElementwiseBinary(operation=kinds.BinaryOperation.ADD), [(2, 1, 3), (4, 1)], [(2, 4, 3)]),
    "binary with empty": (kinds.ElementwiseBinary(operation=kinds.BinaryOperation.ADD), [(0, 3), (1, 3)], [(0, 3)]),
    "power of mixed types": (
        kinds.ElementwiseBinary(operation=kinds.BinaryOperation.POW),
        [((2,), F32), ((2,), I64)],
        [((2,), F32)],
    ),
    "comparison": (kinds.Comparison(operation=kinds.ComparisonOperation.LESS), [(2,), (1,)], [((2,), BOOL)]),
    "where": (kinds.Where(), [((2, 1), BOOL), (3,), ()], [(2, 3)]),
    "conditional": (kinds.Conditional(), [((1, 1), BOOL), (3, 2), (3, 2)], [(3, 2)]),
    "cast": (kinds.Cast(dtype=I32), [(2,)], [((2,), I32)]),
    "reshape": (kinds.Reshape(shape=(-1, 2)), [(4, 3)], [(6, 2)]),
    "reshape copies zero": (kinds.Reshape(shape=(0, -1), zero_copies=True), [(2, 3, 4)], [(2, 12)]),
    "reshape empty": (kinds.Reshape(shape=(0, 5)), [(0, 3)], [(0, 5)]),
    "reshape scalar": (kinds.Reshape(shape=()), [(1, 1)], [()]),
    "expand dims": (kinds.ExpandDims(axes=(0, -1)), [(2, 3)], [(1, 2, 3, 1)]),
    "squeeze all": (kinds.Squeeze(), [(1, 2, 1)], [(2,)]),
    "squeeze": (kinds.Squeeze(axes=(-1,)), [(1, 2, 1)], [(1, 2)]),
    "flatten": (kinds.Flatten(axis=0), [(2, 3)], [(1, 6)]),
    "flatten last": (kinds.Flatten(axis=2), [(2, 3)], [(6, 1)]),
    "flatten negative": (kinds.Flatten(axis=-1), [(2, 3, 4)], [(6, 4)]),
    "permute": (kinds.Permute(permutation=(2, 0, 1)), [(2, 3, 4)], [(4, 2, 3)]),
    "permute default": (kinds.Permute(), [(2, 3, 4)], [(4, 3, 2)]),
    "broadcast to": (kinds.BroadcastTo(shape=(3, 1)), [(2, 1, 4)], [(2, 3, 4)]),
    "tile": (kinds.Tile(repeats=(2, 0)), [(2, 3)], [(4, 0)]),
    "shape": (kinds.Shape(start=1), [(2, 3, 4)], [((2,), I64)]),
    "shape from the end": (kinds.Shape(start=-2, end=-1), [(2, 3, 4)], [((1,), I64)]),
    "space to depth": (kinds.SpaceToDepth(block=2), [(1, 3, 4, 6)], [(1, 12, 2, 3)]),
    "depth to space": (kinds.DepthToSpace(block=2), [(1, 12, 2, 3)], [(1, 3, 4, 6)]),
    "concat": (kinds.Concat(axis=-1), [(2, 3), (2, 0), (2, 1)], [(2, 4)]),
    "stack": (kinds.Stack(axis=-1), [(2, 3), (2, 3)], [(2, 3, 2)]),
    "split": (kinds.Split(parts=3, axis=1), [(2, 7)], [(2, 3), (2, 3), (2, 1)]),
    "split into more than there is": (kinds.Split(parts=3), [(2,)], [(1,), (1,), (0,)]),
    "split sizes": (kinds.Split(parts=2, sizes=(3, 1)), [(4, 2)], [(3, 2), (1, 2)]),
    "pad": (kinds.Pad(before=(1, 0), after=(0, 2)), [(2, 3)], [(3, 5)]),
    "pad negative": (kinds.Pad(before=(-1, 0), after=(0, -2)), [(2, 3)], [(1, 1)]),
    "slice": (kinds.StridedSlice(begin=(1, -1), end=(9, -10), stride=(2, -1)), [(5, 4)], [(2, 4)]),
    "slice of nothing": (kinds.StridedSlice(begin=(3,), end=(1,), axes=(-1,)), [(2, 4)], [(2, 0)]),
    "gather": (kinds.Gather(axis=1), [(2, 5, 3), ((4, 1), I64)], [(2, 4, 1, 3)]),
    "gather scalar": (kinds.Gather(axis=0), [(5, 3), ((), I64)], [(3,)]),
    "gather batched": (kinds.Gather(axis=1, batch_dims=1), [(2, 5, 3), ((2, 4), I32)], [(2, 4, 3)]),
    "gather elements": (kinds.GatherElements(axis=1), [(3, 4), ((2, 9), I64)], [(2, 9)]),
    "gather nd": (kinds.GatherNd(), [(3, 4, 5), ((7, 2), I64)], [(7, 5)]),
    "gather nd batched": (kinds.GatherNd(batch_dims=1), [(3, 4, 5), ((3, 1), I64)], [(3, 5)]),
    "scatter elements": (kinds.ScatterElements(), [(3, 4), ((1, 2), I64), (1, 2)], [(3, 4)]),
    "scatter nd": (kinds.ScatterNd(), [(3, 4), ((2, 1), I64), (2, 4)], [(3, 4)]),
    "one hot": (kinds.OneHot(depth=5, axis=0), [((2, 3), I64), (2,)], [(5, 2, 3)]),
    "trilu": (kinds.Trilu(), [(2, 3, 4)], [(2, 3, 4)]),
    "fill": (kinds.Fill(shape=(2, 0)), [], [(2, 0)]),
    "reduce": (kinds.Reduce(function=kinds.ReduceFunction.SUM, axes=(-1, 0)), [(2, 3, 4)], [(3,)]),
    "reduce all": (kinds.Reduce(function=kinds.ReduceFunction.MEAN, keep_dims=True), [(2, 3)], [(1, 1)]),
    "reduce none": (kinds.Reduce(function=kinds.ReduceFunction.MEAN, axes=()), [(2, 3)], [(2, 3)]),
    "arg max": (kinds.ArgMinMax(function=kinds.ArgFunction.MAX, axis=0), [(2, 3)], [((3,), I64)]),
    "arg min keeping": (kinds.ArgMinMax(function=kinds.ArgFunction.MIN, keep_dims=True, dtype=I32), [(2, 3)], [((2, 1), I32)]),
    "cumulative sum": (kinds.CumulativeSum(axis=-1), [(2, 3)], [(2, 3)]),
    "top k": (kinds.TopK(k=2), [(3, 4)], [(3, 2), ((3, 2), I64)]),
    "top 0": (kinds.TopK(k=0), [(3, 4)], [(3, 0), ((3, 0), I64)]),
    "detections": (detector(), [(2, 9, 4), (2, 9, 3), (9, 4)], [(2, 10, 4), (2, 10), (2, 10), (2,)]),
    "detections without background": (
        detector(max_detections=1, regular=True),
        [((1, 9, 6), F32), ((1, 9, 2), F32), ((9, 4), F32)],
        [(1, 2, 4), (1, 2), (1, 2), (1,)],
    ),
    "detections of nothing": (detector(), [(0, 0, 4), (0, 0, 3), (0, 4)], [(0, 10, 4), (0, 10), (0, 10), (0,)]),
    "resize sizes": (kinds.Resize(sizes=(1, 1, 6, 8)), [(1, 1, 3, 4)], [(1, 1, 6, 8)]),
    "resize scales": (kinds.Resize(scales=(1.0, 1.0, 1.5, 0.6)), [(1, 1, 3, 4)], [(1, 1, 4, 2)]),
    "rnn": (kinds.Rnn(), [(7, 2, 3), (5, 3), (5, 5)], [(7, 2, 5), (2, 5)]),
    "rnn batch first": (
        kinds.Rnn(batch_first=True),
        [(2, 7, 3), (5, 3), (5, 5), (5,), (2, 5), ((2,), I32)],
        [(2, 7, 5), (2, 5)],
    ),
    "gru": (
        kinds.Gru(),
        [(7, 2, 3), (15, 3), (15, 5), (15,), (15,), (2, 5), ((2,), I64)],
        [(7, 2, 5), (2, 5)],
    ),
    "lstm": (kinds.Lstm(), [(7, 2, 3), (20, 3), (20, 5), None, None, (2, 5)], [(7, 2, 5), (2, 5), (2, 5)]),
    "lstm projected": (
        kinds.Lstm(coupling=kinds.GateCoupling.INPUT),
        [(7, 2, 3), (15, 3), (15, 4), (15,), (2, 4), (2, 5), None, (10,), (15,), (4, 5), (4,)],
        [(7, 2, 4), (2, 4), (2, 5)],
    ),
    "quantized lstm": (kinds.QuantizedLstm(), quantized_lstm(), [((7, 2, 5), I8), ((2, 5), I8), ((2, 5), I16)]),
    "quantized lstm of coupled gates": (
        kinds.QuantizedLstm(gate_scales=(1.0, 1.0, 1.0, 1.0)),
        quantized_lstm(
            **{**UNCOUPLED, "forget_peepholes": SEEN, "output_peepholes": SEEN},
            **{f"{gate}_normalization": SEEN for gate in ("forget", "cell", "output")},
        ),
        [((7, 2, 5), I8), ((2, 5), I8), ((2, 5), I16)],
    ),
    "quantized lstm projected": (
        kinds.QuantizedLstm(batch_first=True, hidden_scale=0.5),
        quantized_lstm(4, input=((2, 7, 3), I8, BYTES), projection_weights=((4, 5), I8, BYTES), projection_bias=((4,), I32)),
        [((2, 7, 4), I8), ((2, 4), I8), ((2, 5), I16)],
    ),
    "quantized svdf": (kinds.QuantizedSvdf(rank=2), quantized_svdf(), [((2, 3), I8), ((2, 24), I16)]),
    "quantized svdf without bias": (
        kinds.QuantizedSvdf(),
        quantized_svdf(bias=None),
        [((2, 6), I8), ((2, 24), I16)],
    ),
    "quantize": (kinds.Quantize(dtype=I8, quantization=Quantization.per_tensor(0.5)), [(2,)], [((2,), I8)]),
    "dequantize": (kinds.Dequantize(quantization=Quantization.per_tensor(0.5)), [((2,), I8)], [((2,), F32)]),
    "dequantize per axis": (
        kinds.Dequantize(quantization=Quantization.per_axis((0.5, 0.25), axis=-1)),
        [((3, 2), I8)],
        [((3, 2), F32)],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_inference(name: str) -> None:
    descriptor, inputs, wanted = CASES[name]
    expected = [one if one and isinstance(one[0], tuple) else (one, F32) for one in wanted]
    assert inferred(descriptor, *inputs) == expected


def test_every_kind_has_a_case() -> None:
    covered = {type(descriptor) for descriptor, _, _ in CASES.values()}
    every = {kind for kind in vars(kinds).values() if isinstance(kind, type) and issubclass(kind, Descriptor) and kind.kind} - {
        kinds.Range
    }  # has tests of its own below: its size comes from values
    assert sorted(kind.kind for kind in every - covered) == []


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


@pytest.mark.parametrize("seed", range(20))
def test_window_positions_agree_with_counting(seed: int) -> None:
    from dovetail.layers.windows import window_output

    random = np.random.default_rng(seed)
    size, window, stride, dilation = (int(v) for v in random.integers((4, 1, 1, 1), (12, 4, 4, 3)))
    reach = dilation * (window - 1) + 1
    before, after = (int(v) for v in random.integers(0, reach, 2))
    padded = size + before + after
    if padded < reach:
        return
    floor = [p for p in range(0, padded, stride) if p + reach <= padded]
    assert window_output(size, window, stride, before, after, dilation) == len(floor)
    # ceil: one more if something is left over, unless it would start in the trailing padding
    # (PyTorch's rule)
    over = (padded - reach) % stride != 0 and len(floor) * stride < size + before
    assert window_output(size, window, stride, before, after, dilation, ceil_mode=True) == len(floor) + over


@pytest.mark.parametrize("mode", [SAME, LOWER])
@pytest.mark.parametrize("size", [1, 5, 8])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_same_padding_gives_ceil_of_size_over_stride(mode: kinds.AutoPadding, size: int, stride: int) -> None:
    conv = kinds.Convolution2d(stride=(stride, stride), dilation=(1, 2), auto_padding=mode)
    infos = [TensorInfo.of((1, 1, size, size)), TensorInfo.of((1, 1, 3, 2))]
    resolved = conv.resolve(infos, [None, None])
    assert isinstance(resolved, kinds.Convolution2d)
    assert resolved.auto_padding is kinds.AutoPadding.EXPLICIT
    assert resolved.infer(infos)[0].sizes[2:] == (-(-size // stride),) * 2
    top, left, bottom, right = resolved.padding
    assert (top <= bottom) and (left <= right) if mode is SAME else (top >= bottom and left >= right)


RESOLVED: dict[str, tuple[Callable[[Network, Any], Any], Descriptor]] = {
    "reshape": (lambda n, x: n.reshape(x, n.constant([4, 6])), kinds.Reshape(shape=(4, 6))),
    "expand dims": (lambda n, x: n.expand_dims(x, n.constant([0])), kinds.ExpandDims(axes=(0,))),
    "broadcast": (lambda n, x: n.broadcast_to(x, n.constant([5, 2, 3, 4])), kinds.BroadcastTo(shape=(5, 2, 3, 4))),
    "tile": (lambda n, x: n.tile(x, n.constant([1, 2, 1])), kinds.Tile(repeats=(1, 2, 1))),
    "slice": (
        lambda n, x: n.strided_slice(x, n.constant([0]), [2], axes=[1], stride=[1]),
        kinds.StridedSlice(begin=(0,), end=(2,), axes=(1,), stride=(1,)),
    ),
    "split": (lambda n, x: n.split(x, 2, 1, sizes=n.constant([1, 2]))[0], kinds.Split(parts=2, axis=1, sizes=(1, 2))),
    "reduce": (
        lambda n, x: n.reduce(x, "sum", n.constant([1])),
        kinds.Reduce(function=kinds.ReduceFunction.SUM, axes=(1,)),
    ),
    "reduce by no axes": (
        lambda n, x: n.reduce(x, "sum", n.constant(np.zeros(0, np.int64))),
        kinds.Reduce(function=kinds.ReduceFunction.SUM, axes=None),
    ),
    "reduce by no axes, meaning none": (
        lambda n, x: n.reduce(x, "sum", n.constant(np.zeros(0, np.int64)), empty_means_none=True),
        kinds.Reduce(function=kinds.ReduceFunction.SUM, axes=(), empty_means_none=True),
    ),
    "cumulative sum": (lambda n, x: n.cumulative_sum(x, n.constant(np.int64(2))), kinds.CumulativeSum(axis=2)),
    "top k": (lambda n, x: n.top_k(x, n.constant([2]))[0], kinds.TopK(k=2)),
    "trilu": (lambda n, x: n.trilu(x, n.constant(np.int64(-1))), kinds.Trilu(k=-1)),
    "resize sizes": (
        lambda n, x: n.resize(x, n.constant([2, 6, 4])),
        kinds.Resize(method=kinds.ResizeMethod.LINEAR, sizes=(2, 6, 4), scales=(1.0, 2.0, 1.0)),
    ),
    "resize scales": (
        lambda n, x: n.resize(x, scales=n.constant(np.array([1, 1.5, 1], np.float32))),
        kinds.Resize(method=kinds.ResizeMethod.LINEAR, sizes=(2, 4, 4), scales=(1.0, 1.5, 1.0)),
    ),
}


@pytest.mark.parametrize("name", RESOLVED)
def test_value_inputs_become_attributes(name: str) -> None:
    build, wanted = RESOLVED[name]
    net = Network()
    layer = build(net, net.input("x", (2, 3, 4))).layer
    assert layer.descriptor == wanted
    assert len(layer.inputs) == 1
    again = layer.descriptor.resolve(layer.input_infos, [None])
    assert again == wanted, "resolving twice must change nothing"


def test_pads_by_input_for_some_axes() -> None:
    net = Network()
    x = net.input("x", (2, 3, 4))
    pads, value, axes = net.constant([1, 2]), net.constant(np.float32(7)), net.constant([-1])
    layer = net.add(kinds.Pad(), x, pads, value, axes)
    assert layer.descriptor == kinds.Pad(before=(0, 0, 1), after=(0, 0, 2), value=7.0)
    assert layer.output.shape == (2, 3, 7)


@pytest.mark.parametrize(
    ("aspect", "wanted"),
    [(kinds.AspectPolicy.NOT_LARGER, (1, 1, 6, 4)), (kinds.AspectPolicy.NOT_SMALLER, (1, 1, 12, 8))],
)
def test_resize_keeps_the_aspect_ratio(aspect: kinds.AspectPolicy, wanted: tuple[int, ...]) -> None:
    net = Network()
    x = net.input("x", (1, 1, 3, 2))
    layer = net.add(kinds.Resize(aspect=aspect, axes=(2, 3)), x, None, net.constant([6, 8]))
    assert layer.output.shape == wanted


def test_range_takes_its_size_from_values() -> None:
    net = Network()
    slot = net.range(net.constant(np.int64(7)), net.constant(np.int64(0)), net.constant(np.int64(-3)))
    assert slot.known_info == TensorInfo.of((3,), I64)
    with pytest.raises(GraphError, match="delta is 0"):
        net.range(net.constant(np.int64(7)), net.constant(np.int64(0)), net.constant(np.int64(0)))


def test_quantization_travels_where_elements_only_move() -> None:
    per_axis = Quantization.per_axis((0.5, 0.25), axis=0)
    x = TensorInfo.of((2, 3), I8, per_axis)
    moved = kinds.Permute(permutation=(1, 0)).infer([x])[0].quantization
    assert moved is not None
    assert moved.axis == 1
    plain = TensorInfo.of((2, 3), I8, Quantization.per_tensor(0.5))
    assert kinds.Reshape(shape=(6,)).infer([plain])[0].quantization == plain.quantization
    assert kinds.Concat().infer([plain, plain])[0].quantization == plain.quantization
    assert kinds.Concat().infer([plain, TensorInfo.of((2, 3), I8)])[0].quantization is None


def test_multiply_accumulates() -> None:
    def macs(descriptor: Descriptor, *shapes: Any) -> int:
        infos = [info(shape) for shape in shapes]
        return descriptor.macs(infos, descriptor.infer(infos))

    assert macs(kinds.Convolution2d(), (1, 3, 5, 5), (4, 3, 3, 3)) == 4 * 9 * 27
    assert macs(kinds.DepthwiseConvolution2d(), (1, 3, 5, 5), (3, 1, 3, 3)) == 3 * 9 * 9
    assert macs(kinds.FullyConnected(), (2, 5), (3, 5)) == 30
    assert macs(kinds.MatMul(transpose_a=True), (4, 3), (4, 6)) == 3 * 6 * 4
    assert macs(kinds.Gru(), (7, 2, 3), (15, 3), (15, 5)) == 7 * 2 * 15 * (3 + 5)
    projected = [(7, 2, 3), (20, 3), (20, 4), *[None] * 6, (4, 5)]
    assert macs(kinds.Lstm(), *projected) == 7 * 2 * (20 * (3 + 4) + 4 * 5)


def test_lengths_that_are_known_cannot_fail_a_run() -> None:
    infos = [info(one) for one in [(7, 2, 3), (5, 3), (5, 5), None, None, ((2,), I32)]]
    kind, values = kinds.Rnn(), [None] * 5

    def checked(lengths: Any) -> list[int]:
        return list(kind.checked_inputs(infos, [*values, lengths]))

    assert checked(np.array([0, 7])) == []
    assert [checked(lengths) for lengths in (None, np.array([0, 8]), np.array([-1, 7]))] == [[5]] * 3
    assert list(kind.checked_inputs(infos[:3], values[:3])) == []


@pytest.mark.parametrize(
    ("padding", "expected"),
    [
        pytest.param("valid", (3, 3), id="valid"),
        pytest.param("same", (4, 4), id="same"),
        pytest.param("SAME", (4, 4), id="in capitals"),
        pytest.param("same_lower", (4, 4), id="same_lower"),
        pytest.param(1, (4, 4), id="one number"),
        pytest.param((0, 1), (3, 4), id="by axis"),
        pytest.param((0, 0, 2, 1), (4, 4), id="by side"),
    ],
)
def test_padding_in_words_and_numbers(padding: Any, expected: tuple[int, int]) -> None:
    """Sizes of 3x3 windows in steps of two on an image of 7x8."""
    network = Network("padded")
    x, weights = network.input("x", (1, 2, 7, 8)), np.zeros((2, 2, 3, 3), np.float32)
    made = [
        network.convolution2d(x, weights, stride=2, padding=padding),
        network.depthwise_convolution2d(x, weights[:, :1], stride=2, padding=padding),
        network.pooling2d(x, "max", 3, stride=2, padding=padding),
    ]
    assert {slot.shape for slot in made} == {(1, 2, *expected)}


def test_an_odd_element_of_the_same_padding_goes_where_the_word_says() -> None:
    for word, expected in (("same", (1, 0, 1, 1)), ("same_upper", (1, 0, 1, 1)), ("same_lower", (1, 1, 1, 0))):
        network = Network("padded")
        slot = network.pooling2d(network.input("x", (1, 1, 7, 8)), "max", 3, stride=2, padding=word)
        descriptor = slot.layer.descriptor
        assert isinstance(descriptor, kinds.Pooling2d)
        resolved = descriptor.resolve(slot.layer.input_infos, [None])
        assert isinstance(resolved, kinds.Pooling2d)
        assert resolved.padding == expected


def test_a_transposed_convolution_of_the_same_size() -> None:
    network = Network("padded")
    x, weights = network.input("x", (1, 2, 4, 5)), np.zeros((2, 3, 3, 3), np.float32)
    assert network.transpose_convolution2d(x, weights, stride=2, padding="same").shape == (1, 3, 8, 10)


@pytest.mark.parametrize("padding", ["sane", "", -1, (1, 2, 3), None, 1.5])
def test_padding_that_is_none_is_refused_with_what_there_is(padding: Any) -> None:
    network = Network("padded")
    with pytest.raises(GraphError, match="padding") as caught:
        network.pooling2d(network.input("x", (1, 1, 7, 8)), "max", 3, padding=padding)
    assert caught.value.code is ErrorCode.ATTRIBUTE_INVALID
    assert "give" in (caught.value.hint or "")
