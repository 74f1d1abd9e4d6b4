"""Shape inference of every kind: results and corner cases."""

from __future__ import annotations

from typing import Any

import numpy as np
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
    info,
    quantized_lstm,
    quantized_svdf,
)

from dovetail import layers as kinds
from dovetail.graph.descriptor import Descriptor
from dovetail.graph.tensor import DataLayout, Quantization, TensorInfo

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
    }  # has tests of its own in test_layers_values.py: its size comes from values
    assert sorted(kind.kind for kind in every - covered) == []


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
