"""Hostile sizes: recurrent layers."""

from __future__ import annotations

import numpy as np

from dovetail import Network, Quantization
from dovetail.graph.layer import OutputSlot
from dovetail.layers import QuantizedLstm, QuantizedSvdf

from .case import enter, flat, x_size, zeros


def _lstm(net: Network, x: OutputSlot, units: int) -> OutputSlot:
    return net.lstm(x, zeros(4 * units, x_size(x)), zeros(4 * units, units))[0]


def _gru(net: Network, x: OutputSlot, units: int) -> OutputSlot:
    return net.gru(x, zeros(3 * units, x_size(x)), zeros(3 * units, units))[0]


def _rnn(net: Network, x: OutputSlot, units: int) -> OutputSlot:
    return net.rnn(x, zeros(units, x_size(x)), zeros(units, units))[0]


def _quantized_lstm(net: Network, x: OutputSlot, units: int) -> OutputSlot:
    batch, width = x.known_info.sizes[1:]
    small = Quantization.per_tensor(0.125)

    def of_bytes(*shape: int) -> OutputSlot:
        return net.constant(zeros(*shape, dtype=np.int8), quantization=small, copy=False)

    cell = net.constant(zeros(batch, units, dtype=np.int16), quantization=Quantization.per_tensor(2.0**-11), copy=False)
    weights = [of_bytes(units, n) for n in (width, units) for _ in range(3)]
    biases = [zeros(units, dtype=np.int32)] * 3
    return net.add(QuantizedLstm(), net.quantize(x, small), of_bytes(batch, units), cell, *weights, *biases).outputs[0]


def _quantized_svdf(net: Network, x: OutputSlot, filters: int, steps: int) -> OutputSlot:
    batch, width = x.known_info.sizes
    small = Quantization.per_tensor(0.125)
    state, features, times = (
        net.constant(zeros(*shape, dtype=dtype), quantization=small, copy=False)
        for shape, dtype in (((batch, filters * steps), np.int16), ((filters, width), np.int8), ((filters, steps), np.int16))
    )
    layer = net.add(QuantizedSvdf(), net.quantize(x, small), state, features, times, quantization=small)
    return layer.outputs[0]


def enter_cases() -> None:
    """Enter them into the table."""
    for name, build in (("lstm", _lstm), ("gru", _gru), ("rnn", _rnn), ("quantized lstm", _quantized_lstm)):
        enter(f"{name} of many steps", flat(None, 1, 1), lambda net, x, n, b=build: b(net, x, 2))
        enter(f"{name} of many sequences", flat(2, None, 1), lambda net, x, n, b=build: b(net, x, 2))
        enter(f"{name} of long steps", flat(2, 1, None), lambda net, x, n, b=build: b(net, x, 2))
        enter(f"{name} of many units", flat(2, 1, 2), lambda net, x, n, b=build: b(net, x, int(n**0.5) // 2))
    enter("quantized svdf of many sequences", flat(None, 1), lambda net, x, n: _quantized_svdf(net, x, 1, 2))
    enter("quantized svdf of long rows", flat(1, None), lambda net, x, n: _quantized_svdf(net, x, 2, 2))
    enter("quantized svdf of many filters", flat(1, 2), lambda net, x, n: _quantized_svdf(net, x, n // 4, 2))
    enter("quantized svdf of many steps", flat(1, 2), lambda net, x, n: _quantized_svdf(net, x, 2, n // 4))
