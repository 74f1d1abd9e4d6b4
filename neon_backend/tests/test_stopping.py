"""Check that loops are cut into short chunks, and that items that take long stop within."""

from __future__ import annotations

import json

import numpy as np
import pytest

import dovetail
from dovetail import Quantization
from dovetail.contract.claims import read_claims
from dovetail.layers import Gru, Lstm, Pooling2d, PoolingFunction, QuantizedLstm, QuantizedSvdf, Rnn
from dovetail_neon.backend import CpuAccBackend

LONG = 1 << 20


def zeros(*shape):
    return np.zeros(shape, np.float32)


def wide(net, x, function):
    return net.pooling2d(x, function, (1, LONG + 1), padding=(0, LONG // 2), stride=(1, LONG // 4))


WITHIN = {
    "softmax": (lambda net, x: net.softmax(x), zeros(1, LONG)),
    "softmax across": (lambda net, x: net.softmax(x, axis=0), zeros(LONG, 2)),
    "layer normalization": (lambda net, x: net.layer_normalization(x), zeros(1, LONG)),
    "instance normalization": (lambda net, x: net.instance_normalization(x), zeros(1, 1, LONG, 1)),
    "instance normalization of columns": (lambda net, x: net.instance_normalization(x, layout="NHWC"), zeros(1, LONG, 1, 1)),
    "group normalization": (lambda net, x: net.group_normalization(x, groups=1), zeros(1, 2, LONG, 1)),
    "group of many channels": (lambda net, x: net.group_normalization(x, groups=1), zeros(1, LONG // 8, 1, 1)),
    "batch normalization": (lambda net, x: net.batch_normalization(x, *[np.ones(1, np.float32)] * 4), zeros(1, 1, LONG, 1)),
    "sum": (lambda net, x: net.reduce(x, "sum"), zeros(LONG + 7)),
    "log sum exp": (lambda net, x: net.reduce(x, "log_sum_exp"), zeros(LONG + 7)),
    "sum of columns": (lambda net, x: net.reduce(x, "sum", (0,)), zeros(LONG, 2)),
    "log sum exp of columns": (lambda net, x: net.reduce(x, "log_sum_exp", (0,)), zeros(LONG, 2)),
    "max pooling": (lambda net, x: wide(net, x, "max"), zeros(1, 1, 1, LONG)),
    "average pooling": (lambda net, x: wide(net, x, "average"), zeros(1, 1, 1, LONG)),
    "mean": (lambda net, x: net.global_pooling(x), zeros(1, 1, 2, LONG // 2)),
    "left operand to be transposed": (lambda net, a, b: net.matmul(a, b, transpose_a=True), zeros(LONG, 2), zeros(LONG, 3)),
    "right operand to be transposed": (lambda net, a, b: net.matmul(a, b, transpose_b=True), zeros(5, LONG), zeros(3, LONG)),
    "right operand to be packed": (lambda net, a, b: net.matmul(a, b), zeros(31, LONG - LONG // 4), zeros(LONG - LONG // 4, 3)),
    "few rows": (lambda net, a, b: net.matmul(a, b), zeros(2, LONG), zeros(LONG, 3)),
    "transposition of few rows": (lambda net, x: net.permute(x, (1, 0)), zeros(LONG, 8)),
    "transposition of bytes": (lambda net, x: net.permute(x, (1, 0)), np.zeros((LONG, 9), np.int8)),
    "resize to a long row": (lambda net, x: net.resize(x, (1, 1, 1, LONG), method="nearest"), zeros(1, 1, 1, 7)),
    "interpolation to a long row": (lambda net, x: net.resize(x, (1, 1, 1, LONG // 4)), zeros(1, 1, 1, 7)),
    "frame around a long row": (
        lambda net, x: net.convolution2d(x, np.ones((1, 1, 1, 3), np.float32), padding=(0, 1)),
        zeros(1, 1, 1, LONG),
    ),
    "depthwise convolution": (
        lambda net, x: net.depthwise_convolution2d(x, np.ones((2, 1, 300, 300), np.float32), padding=150),
        zeros(1, 2, 60, 60),
    ),
    "convolution of groups that share a vector": (
        lambda net, x: net.convolution2d(x, np.ones((6, 3, 150, 150), np.float32), padding=75, groups=2),
        zeros(1, 6, 100, 100),
    ),
    "convolution": (
        lambda net, x: net.convolution2d(x, np.ones((1, 2, 150, 150), np.float32), padding=75),
        zeros(1, 2, 150, 150),
    ),
}


def recurrent(kind, steps, batch, inputs, units):
    """Build a layer; of an LSTM the hidden state is projected to one value, whatever the units."""

    def build(net, x):
        if kind is QuantizedLstm:
            small, cell = Quantization.per_tensor(0.5), Quantization.per_tensor(2.0**-11)
            narrow = [(units, inputs)] * 3 + [(units, 1)] * 3
            weights = [net.constant(np.zeros(shape, np.int8), quantization=small) for shape in narrow]
            biases = [net.constant(np.zeros(units, np.int32))] * 3
            states = [net.constant(np.zeros((batch, 1), np.int8), quantization=small)]
            states.append(net.constant(np.zeros((batch, units), np.int16), quantization=cell))
            projection = net.constant(np.zeros((1, units), np.int8), quantization=small)
            return net.add(kind(), x, *states, *weights, *biases, *[None] * 10, projection)
        gates = {Rnn: 1, Gru: 3, Lstm: 4}[kind]
        weights = [net.constant(zeros(gates * units, size)) for size in (inputs, 1)]
        projection = [None] * 6 + [net.constant(zeros(1, units))] if kind is Lstm else []
        return net.add(kind(), x, *weights, *projection)

    return build


RECURRENT = {
    f"{kind.__name__} of many {what}": (kind, sizes)
    for kind in (Rnn, Gru, Lstm, QuantizedLstm)
    for what, sizes in {
        "steps": (LONG, 1, 1, 1),
        "sequences": (1, LONG, 1, 1),
        "inputs": (1, 1, 2 * LONG, 1),
        "units": (1, 1, 1, LONG),
    }.items()
    if what != "units" or kind in (Lstm, QuantizedLstm)
}


@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_layers_stop(run_layer, name):
    kind, (steps, batch, inputs, units) = RECURRENT[name]
    x = np.zeros((steps, batch, inputs), np.int8 if kind is QuantizedLstm else np.float32)
    quantizations = [Quantization.per_tensor(0.5)] if kind is QuantizedLstm else None
    for cancel in (1, 2):  # within what comes before the steps, or within one
        with pytest.raises(run_layer.Cancelled):
            run_layer(recurrent(kind, steps, batch, inputs, units), x, quantizations=quantizations, cancel=cancel)


@pytest.mark.parametrize(
    "sizes",
    [(LONG, 1, 1, 1), (1, 2 * LONG, 1, 1), (1, 1, LONG, 1), (1, 1, 1, LONG)],
    ids=["batch", "inputs", "filters", "steps"],
)
def test_quantized_filters_stop(run_layer, sizes):
    batch, inputs, filters, steps = sizes
    small = Quantization.per_tensor(0.5)

    def build(net, x, state):
        features = net.constant(np.zeros((filters, inputs), np.int8), quantization=small)
        times = net.constant(np.zeros((filters, steps), np.int16), quantization=small)
        return net.add(QuantizedSvdf(), x, state, features, times, quantization=small)

    x, state = np.zeros((batch, inputs), np.int8), np.zeros((batch, filters * steps), np.int16)
    for cancel in (1, 2):
        with pytest.raises(run_layer.Cancelled):
            run_layer(build, x, state, quantizations=[small, small], cancel=cancel)


@pytest.mark.parametrize("name", WITHIN)
def test_stopped_within_an_item(run_layer, name):
    build, *arrays = WITHIN[name]
    with pytest.raises(run_layer.Cancelled):
        run_layer(build, *arrays, cancel=1)


def test_bytes_are_pooled_that_way_too(direct, run_layer):
    pooling = Pooling2d(
        function=PoolingFunction.MAX, size=(1, LONG + 1), padding=(0, LONG // 2, 0, LONG // 2), stride=(1, LONG // 4)
    )
    with pytest.raises(direct.Cancelled):
        direct.pool_bytes(run_layer, pooling, LONG)


def test_a_long_loop_has_short_chunks_for_any_number_of_workers(run_layer):
    """Two chunks for each worker, as short window loops have, would take half a second each."""
    loops: list[tuple[int, int]] = []
    for workers in (1, 2, 16):
        run_layer(lambda net, x: net.pooling2d(x, "max", 301, padding=150), zeros(1, 1, 300, 300), workers=workers, loops=loops)
        assert any(count == 300 and grain <= 8 for count, grain in loops), f"{loops} with {workers} workers"
        loops.clear()


def test_sums_that_no_deadline_ends_go_to_another_backend():
    fast = CpuAccBackend()
    fast.claims = read_claims(json.loads(json.dumps(fast.manifest["claims"]).replace("33554432", "36")))
    for channels, backend in ((4, "CpuAcc"), (5, "CpuRef")):
        net = dovetail.Network()
        x = net.input("x", (1, channels, 8, 8))
        net.output(net.convolution2d(x, np.ones((2, channels, 3, 3), np.float32)), "y")
        net.output(net.matmul(net.input("a", (3, 9 * channels)), np.ones((9 * channels, 2), np.float32)), "product")
        with dovetail.load(net, [fast, "CpuRef"]) as loaded:
            named = [
                layer.backend
                for layer in loaded.placement.layers
                if layer.kind.endswith(("Convolution2d", "MatMul", "Convolve"))
            ]
            assert {str(one) for one in named} == {backend}
            explained = loaded.placement.explain()
        assert ("products is 45; at most 36 is taken" in explained) == (backend == "CpuRef")
