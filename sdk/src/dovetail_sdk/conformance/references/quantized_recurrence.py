"""Quantized LSTMs as TensorFlow Lite computes them, in whole numbers.

Sources: tensorflow/lite/kernels/lstm_eval.cc; internal/reference/portable_tensor_utils.cc;
internal/common.h (GetInvSqrtQuantizedMultiplierExp); gemmlowp/fixedpoint (logistic, tanh).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dovetail.layers import QuantizedLstm

from ..cases import Array, Feed
from .standards import fixed_point

_ONE = 1 << 15
"""What stands for 1 in fractions of 16 bits, which saturate one below it."""


def _saturated(x: Array, bits: int = 16) -> Array:
    return np.asarray(np.clip(x, -(1 << (bits - 1)), (1 << (bits - 1)) - 1))


def _times(a: Array, b: Array | int, bits: int = 16) -> Array:
    """Multiply by a fraction, to the nearest one; halves go up."""
    product = np.asarray(a * np.int64(b) if isinstance(b, int) else a * b)
    nudged = product + np.where(product >= 0, 1 << (bits - 2), 1 - (1 << (bits - 2)))
    return _saturated(np.sign(nudged) * (np.abs(nudged) >> (bits - 1)), bits)


def _divided(x: Array, exponent: int) -> Array:
    """Divide by a power of two, halves away from zero."""
    return np.asarray(np.sign(x) * ((np.abs(x) + (1 << exponent >> 1)) >> exponent))


def exponential(x: Array, integer_bits: int) -> Array:
    """Raise e to a number that is not above zero."""
    one = 1 << (15 - integer_bits)
    quarters = -((x // (one // 4)) + 1)  # how many lie between it and the one that it is within
    t = (x + (quarters * one) // 4) * (_ONE // one) + _ONE // 8
    squared = _times(t, t)
    cubed, fourth = _times(squared, t), _times(squared, squared)
    tail = _divided(_times(_divided(fourth, 2) + cubed, 10923) + squared, 1)
    found = _saturated(28918 + _times(t + tail, 28918))
    powers = (25520, 19875, 12055, 4435, 600, 11, 0)  # e^-(1/4), e^-(1/2), ... e^-16
    for place, power in enumerate(powers[: integer_bits + 2]):
        found = np.where(quarters >> place & 1, _times(found, power), found)
    if integer_bits > 5:
        found = np.where(x < -32 * one, 0, found)
    return np.where(x == 0, _ONE - 1, found)


def _twice_over_one_plus(x: Array) -> Array:
    """Return 2 / (1 + x), in units of 2^-13, by three steps of Newton's."""
    half = (x + _ONE) // 2
    found = 23130 + _times(half, -15420)
    for _ in range(3):
        found = found + _saturated(4 * _times(found, (1 << 13) - _times(half, found)))
    return found


def logistic(x: Array) -> Array:
    """Return 1 / (1 + e^-x) for numbers of three integer bits."""
    of_magnitude = _saturated(2 * _twice_over_one_plus(exponential(-np.abs(x), 3)))
    return np.where(x == 0, _ONE // 2, np.where(x > 0, of_magnitude, _ONE - 1 - of_magnitude))


def tanh(x: Array, integer_bits: int) -> Array:
    """Return the hyperbolic tangent, by e to twice the number."""
    of_magnitude = _saturated(4 * (_twice_over_one_plus(exponential(-np.abs(x), integer_bits + 1)) - (1 << 13)))
    return np.sign(x) * of_magnitude


def inverse_root(x: int) -> tuple[int, int]:
    """Return 1 / sqrt(x) as (multiplier, exponent): multiplier * 2^(exponent - 31)."""
    if x <= 1:
        return (1 << 31) - 1, 0
    exponent = -11
    while x >= 1 << 29:
        x, exponent = x // 4, exponent - 1
    while x < 1 << 27:
        x, exponent = x * 4, exponent + 1
    half, found = _divided(np.asarray(x // 2), 1), np.asarray(1 << 28)
    for _ in range(5):
        cubed = _saturated(64 * _times(_times(found, found, 32), found, 32), 32)
        found = _saturated(8 * (_times(found, 3 << 27, 32) - _times(half, cubed, 32)), 32)
    multiplier = int(_times(found, 1518500250, 32))
    return (multiplier << exponent, 0) if exponent > 0 else (multiplier, exponent)


def normalized(x: Array, factors: Array, bias: Array, scale: float) -> Array:
    """Normalize the last axis, weigh it and add a bias, for numbers of 12 fractional bits."""
    units = x.shape[-1]
    found = np.empty_like(x)
    for place in np.ndindex(x.shape[:-1]):
        row = [int(one) for one in x[place]]
        mean = int(np.trunc(sum(row) * 1024 / units))
        variance = (sum(one * one for one in row) * ((1 << 20) // units) - mean * mean) / (1 << 20)
        guard = max(1, int(np.float32(10000) * np.float32(scale)))
        multiplier, exponent = inverse_root(int(variance) if variance >= 1 else guard)
        away = _divided(_times(1024 * x[place] - mean, multiplier, 32), -exponent)
        weighed = away * factors + bias
        found[place] = _saturated(fixed_point(_divided(weighed, 10), scale * 4096.0))
    return found


class _Layer:
    """A layer with its operands."""

    def __init__(self, descriptor: QuantizedLstm, feeds: Mapping[str, Feed | None]) -> None:
        self.descriptor = descriptor
        self.feeds = {name: feed for name, feed in feeds.items() if feed is not None}
        self.cell_bits = 15 + int(np.log2(self.scale("initial_cell")))
        hidden = (float(self.scale("initial_hidden")), self.zero("initial_hidden"))
        own = descriptor.hidden_scale
        self.made_scale, self.made_zero = hidden if own is None else (own, descriptor.hidden_zero_point)

    def value(self, name: str) -> Array:
        """Return integers without their zero point."""
        return self.feeds[name].value.astype(np.int64) - self.zero(name)

    def zero(self, name: str) -> int:
        quantization = self.feeds[name].quantization
        return 0 if quantization is None else quantization.zero_point[0]

    def scale(self, name: str) -> np.float32:
        quantization = self.feeds[name].quantization
        assert quantization is not None
        return np.float32(quantization.scale[0])

    def gate(self, name: str, x: Array, hidden: Array, cell: Array | None) -> Array:
        """Compute a gate from integers without zero points."""
        normalizes = f"{name}_normalization" in self.feeds
        place = ("input", "forget", "cell", "output").index(name)
        scale = np.float32(2.0**-12)
        if normalizes and self.descriptor.gate_scales is not None:
            scale = np.float32(self.descriptor.gate_scales[place])
        bias = self.value(f"{name}_bias")
        factor = float(self.scale(f"{name}_weights") * self.scale("input") / scale)
        values = _saturated(fixed_point(x @ self.value(f"{name}_weights").T + (0 if normalizes else bias), factor))
        factor = float(self.scale(f"{name}_recurrent_weights") * self.scale("initial_hidden") / scale)
        values = _saturated(values + fixed_point(hidden @ self.value(f"{name}_recurrent_weights").T, factor))
        if cell is not None and f"{name}_peepholes" in self.feeds:
            sight = float(self.scale("initial_cell")) * float(self.scale(f"{name}_peepholes")) / float(scale)
            values = _saturated(values + fixed_point(self.value(f"{name}_peepholes") * cell, float(np.float32(sight))))
        if normalizes and values.size:
            factors = self.value(f"{name}_normalization")
            values = normalized(values, factors, bias, float(self.scale(f"{name}_normalization")))
        return tanh(values, 3) if name == "cell" else logistic(values)

    def step(self, x: Array, hidden: Array, cell: Array) -> tuple[Array, Array]:
        """Return the next hidden state, with its zero point, and the next cell state."""
        x, state = x - self.zero("input"), hidden - self.zero("initial_hidden")
        forget = self.gate("forget", x, state, cell)
        given = self.gate("input", x, state, cell) if "input_weights" in self.feeds else _ONE - 1 - forget
        fresh = _divided(given * self.gate("cell", x, state, None), 15 + self.cell_bits)
        cell = _saturated(_divided(forget * cell, 15) + fresh)
        cell = self._cut(cell, self.descriptor.cell_clip, "initial_cell", _ONE - 1)
        output = self.gate("output", x, state, cell)
        return self._hidden(output * tanh(cell, self.cell_bits)), cell

    def _hidden(self, product: Array) -> Array:
        scale = np.float32(self.made_scale)
        made = fixed_point(product, float(np.float32(2.0**-30 / float(scale))))
        if "projection_weights" not in self.feeds:
            return _saturated(made + self.made_zero, 8)
        made = _saturated(made - self.made_zero, 8) + self.made_zero  # the zero point has the other sign here
        total = made @ self.value("projection_weights").T
        if "projection_bias" in self.feeds:
            total = total + self.value("projection_bias")
        factor = float(self.scale("projection_weights") * scale / self.scale("initial_hidden"))
        found = _saturated(fixed_point(total, factor) + self.zero("initial_hidden"), 8)
        return self._cut(found, self.descriptor.projection_clip, "initial_hidden", 127)

    def _cut(self, x: Array, clip: float | None, name: str, most: int) -> Array:
        limit = 0 if clip is None else int(min(float(np.float32(clip) / self.scale(name)), most))
        return np.clip(x, -limit, limit) if limit else x


def quantized_lstm(descriptor: QuantizedLstm, feeds: Mapping[str, Feed | None]) -> tuple[Array, Array, Array]:
    """Return all outputs of a layer, given its operands by name."""
    layer = _Layer(descriptor, feeds)
    x, hidden, cell = (layer.feeds[name].value.astype(np.int64) for name in ("input", "initial_hidden", "initial_cell"))
    x = np.swapaxes(x, 0, 1) if descriptor.batch_first else x
    sequence = np.zeros((*x.shape[:2], hidden.shape[1]), np.int64)
    for step, now in enumerate(x):
        hidden, cell = layer.step(now, hidden, cell)
        sequence[step] = hidden
    sequence = np.swapaxes(sequence, 0, 1) if descriptor.batch_first else sequence
    return sequence.astype(np.int8), hidden.astype(np.int8), cell.astype(np.int16)
