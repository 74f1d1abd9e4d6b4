"""What takes long for one element, row or window of the result looks at the stop word within it."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail import Quantization
from dovetail.layers import Lstm, Pooling2d, PoolingFunction, QuantizedLstm, QuantizedSvdf

LONG = 1 << 17


def zeros(*shape):
    return np.zeros(shape, np.float32)


def pooled(function, **how):
    return lambda net, x: net.pooling2d(x, function, (1, LONG + 1), padding=(0, LONG // 2), stride=(1, LONG), **how)


SINGLE = {
    "softmax": (lambda net, x: net.softmax(x), zeros(1, LONG)),
    "log softmax": (lambda net, x: net.log_softmax(x), zeros(1, LONG)),
    "layer normalization": (lambda net, x: net.layer_normalization(x), zeros(1, LONG)),
    "instance normalization": (lambda net, x: net.instance_normalization(x), zeros(1, 1, LONG, 1)),
    "group normalization": (lambda net, x: net.group_normalization(x, groups=1), zeros(1, 2, LONG // 2, 1)),
    "Lp normalization": (lambda net, x: net.lp_normalization(x), zeros(1, LONG)),
    "local response": (lambda net, x: net.local_response_normalization(x, 1001), zeros(1, 1001, 1, 1)),
    "max pooling": (pooled("max"), zeros(1, 1, 1, LONG)),
    "average pooling": (pooled("average", count_padding=True), zeros(1, 1, 1, LONG)),
    "Lp pooling": (pooled("lp"), zeros(1, 1, 1, LONG)),
    "global mean": (lambda net, x: net.global_pooling(x), zeros(1, 1, 2, LONG // 2)),
    "global maximum": (lambda net, x: net.global_pooling(x, "max"), zeros(1, 1, 2, LONG // 2)),
    "top k": (lambda net, x: net.top_k(x, 3), zeros(1, LONG)),
    "detections": (
        lambda net, boxes, scores, anchors: net.detection_post_process(boxes, scores, anchors, 3, 1),
        zeros(1, LONG, 4),
        zeros(1, LONG, 1),
        zeros(LONG, 4),
    ),
    "detections of many classes": (
        lambda net, boxes, scores, anchors: net.detection_post_process(boxes, scores, anchors, 3, LONG),
        zeros(1, 1, 4),
        zeros(1, 1, LONG),
        zeros(1, 4),
    ),
    "pad": (lambda net, x: net.pad(x, (0, 9), (0, LONG), mode="wrap"), zeros(1, LONG)),
    "fill": (lambda net: net.fill((16 * LONG,), 1.5),),
    "triangle": (lambda net, x: net.trilu(x, 7), zeros(1, 16 * LONG)),
    "resize": (lambda net, x: net.resize(x, (1, 1, 1, 4 * LONG)), zeros(1, 1, 1, 9)),
    "many steps": (lambda net, x: net.rnn(x, zeros(1, 1), zeros(1, 1)), zeros(LONG, 1, 1)),
    "many sequences": (lambda net, x: net.gru(x, zeros(3, 1), zeros(3, 1)), zeros(1, LONG, 1)),
    "many units": (
        lambda net, x, w: net.add(Lstm(), x, w, w, *[None] * 6, zeros(1, LONG)),
        *(zeros(1, 1, 1), zeros(4 * LONG, 1)),
    ),
    "long steps": (lambda net, x: net.rnn(x, zeros(1, LONG), zeros(1, 1)), zeros(1, 1, LONG)),
    "product": (lambda net, a, b: net.matmul(a, b), zeros(1, LONG), zeros(LONG, 1)),
    "long sum": (lambda net, x, w: net.fully_connected(x, w), zeros(1, LONG), zeros(1, LONG)),
    "many channels": (lambda net, x, w: net.convolution2d(x, w), zeros(1, LONG, 1, 1), zeros(1, LONG, 1, 1)),
    "large window": (lambda net, x, w: net.convolution2d(x, w), zeros(1, 2, 1, LONG), zeros(1, 2, 1, LONG)),
    "large windows of channels": (
        lambda net, x, w: net.depthwise_convolution2d(x, w),
        zeros(1, 2, 1, LONG),
        zeros(2, 1, 1, LONG),
    ),
}


@pytest.mark.parametrize("name", SINGLE)
def test_stopped_within(run_layer, direct, name):
    build, *arrays = SINGLE[name]
    with pytest.raises(direct.Cancelled):
        run_layer(build, *arrays, cancel=1)


@pytest.mark.parametrize(
    "sizes", [(LONG, 1, 1, 1), (1, LONG, 1, 1), (1, 1, LONG, 1), (1, 1, 1, LONG)], ids=["steps", "batch", "inputs", "units"]
)
def test_quantized_lstms_stop(run_layer, direct, sizes):
    steps, batch, inputs, units = sizes
    bytes_of = [(steps, batch, inputs), (batch, 1), *[(units, inputs)] * 3, *[(units, 1)] * 3, (1, units)]
    x, hidden, *weights, projection = (np.zeros(shape, np.int8) for shape in bytes_of)
    biases, cell = [np.zeros(units, np.int32)] * 3, np.zeros((batch, units), np.int16)
    arrays = [x, hidden, cell, *weights, *biases, projection]
    small, no_bias = Quantization.per_tensor(0.5), [None] * 3
    scales = [small, small, Quantization.per_tensor(2.0**-11), *[small] * 6, *no_bias, small]
    with pytest.raises(direct.Cancelled):
        run_layer(
            lambda net, *slots: net.add(QuantizedLstm(), *slots[:-1], *[None] * 10, slots[-1]),
            *arrays,
            quantizations=scales,
            cancel=1,
        )


@pytest.mark.parametrize(
    "sizes", [(LONG, 1, 1, 1), (1, LONG, 1, 1), (1, 1, LONG, 1), (1, 1, 1, LONG)], ids=["batch", "inputs", "filters", "steps"]
)
def test_quantized_filters_stop(run_layer, direct, sizes):
    batch, inputs, filters, steps = sizes
    shapes = [(batch, inputs), (batch, filters * steps), (filters, inputs), (filters, steps)]
    arrays = [np.zeros(shape, np.int16 if at % 2 else np.int8) for at, shape in enumerate(shapes)]
    small = Quantization.per_tensor(0.5)
    for cancel in (1, 2):
        with pytest.raises(direct.Cancelled):
            run_layer(
                lambda net, *slots: net.add(QuantizedSvdf(), *slots, quantization=small),
                *arrays,
                quantizations=[small] * 4,
                cancel=cancel,
            )


def test_bytes_are_pooled_that_way_too(run_layer, direct):
    pooling = Pooling2d(function=PoolingFunction.MAX, size=(1, LONG))
    with pytest.raises(direct.Cancelled):
        direct.pool_bytes(run_layer, pooling, LONG)
