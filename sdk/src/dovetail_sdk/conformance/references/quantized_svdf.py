"""Quantized SVDF as TensorFlow Lite computes it, in whole numbers.

Sources: tensorflow/lite/kernels/internal/reference/svdf.h (EvalIntegerSVDF), svdf.cc (Prepare).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dovetail import Quantization
from dovetail.layers import QuantizedSvdf

from ..cases import Array, Feed
from .standards import fixed_point

_HALF = 1 << 31


def _wrapped(sums: Array) -> Array:
    """Return what 32 bits hold of sums."""
    return np.asarray((sums + _HALF) % (2 * _HALF) - _HALF)


def _rescaled(sums: Array, factor: float) -> Array:
    """Multiply by a factor; what leaves 32 bits becomes the nearest number in them."""
    if factor < 2.0**-32:  # by which no sum of 32 bits comes to 1/2
        return np.zeros_like(sums)
    leaves = np.abs(sums) * factor >= _HALF
    within = fixed_point(np.where(leaves, 0, sums), min(factor, 2.0**20))
    return np.where(leaves, np.sign(sums) * (_HALF - 1), within)


def quantized_svdf(descriptor: QuantizedSvdf, feeds: Mapping[str, Feed | None], result: Quantization) -> tuple[Array, Array]:
    """Return the result and the next state of a layer, given its operands by name."""
    operands = {name: feed for name, feed in feeds.items() if feed is not None}
    values = {name: feed.value.astype(np.int64) for name, feed in operands.items()}
    schemes = {name: feed.quantization for name, feed in operands.items() if feed.quantization is not None}
    x, features, times, state, y = (
        np.float32(scheme.scale[0])
        for scheme in (*(schemes[name] for name in ("input", "feature_weights", "time_weights", "initial_state")), result)
    )
    centered = values["input"] - schemes["input"].zero_point[0]
    newest = np.clip(_rescaled(_wrapped(centered @ values["feature_weights"].T), float(x * features / state)), -32768, 32767)
    (batch, filters), steps = newest.shape, values["time_weights"].shape[1]
    held = values["initial_state"].reshape(batch, filters, steps)
    held = np.concatenate([held[..., 1:], newest[..., None]], axis=-1)
    totals = (held * values["time_weights"]).sum(2).reshape(batch, filters // descriptor.rank, descriptor.rank).sum(2)
    totals = _wrapped(totals + values.get("bias", np.int64(0)))
    found = np.clip(_rescaled(totals, float(state * times / y)) + result.zero_point[0], -128, 127)
    return found.astype(np.int8), held.reshape(batch, filters * steps).astype(np.int16)
