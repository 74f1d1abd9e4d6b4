"""What recurrent layers of integers with constant weights become."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dovetail import Layer, TensorInfo
from dovetail.layers import QuantizedLstm, QuantizedSvdf
from dovetail.quantized.fixed_point import Scaling, scaling

from ..fusion.lowering import Lowering
from ..quantized.support import scheme
from .kinds import GateFactors, QuantizedLstmSteps, QuantizedSvdfStep

_GATES = ("input", "forget", "cell", "output")
_GREATEST = float(1 << 18)
"""Factor whose shifts TensorFlow Lite defines."""


def lower_quantized_lstm(lowering: Lowering, layer: Layer) -> bool:
    """Put the weights of all gates of a `QuantizedLstm` together."""
    descriptor = layer.descriptor
    if not isinstance(descriptor, QuantizedLstm):
        return False
    parts = _Parts(layer)
    gates = [gate for gate in _GATES if parts.has(f"{gate}_weights")]
    hidden_scale, hidden_zero = parts.scale("initial_hidden"), parts.zero("initial_hidden")
    made_scale = hidden_scale if descriptor.hidden_scale is None else descriptor.hidden_scale
    made_zero = hidden_zero if descriptor.hidden_scale is None else descriptor.hidden_zero_point
    projects = parts.has("projection_weights")
    of_projection = parts.product("projection_weights", made_scale, hidden_scale) if projects else Scaling(0, 0)
    steps = QuantizedLstmSteps(
        infos=tuple(_plain(slot.known_info) for slot in layer.outputs),
        batch_first=descriptor.batch_first,
        weights=parts.stacked(gates, "weights", np.int8),
        recurrent_weights=parts.stacked(gates, "recurrent_weights", np.int8),
        bias=parts.stacked(gates, "bias", np.int32),
        peepholes=parts.stacked(gates, "peepholes", np.int32) if parts.has("forget_peepholes") else None,
        normalization=parts.stacked(gates, "normalization", np.int32) if parts.has("forget_normalization") else None,
        projection_weights=parts.constant("projection_weights"),
        projection_bias=parts.constant("projection_bias"),
        factors=tuple(_gate_factors(parts, gate, descriptor.gate_scales) for gate in gates),
        of_made=_scaling(float(np.float32(2.0**-15 / float(np.float32(made_scale)) * 2.0**-15))),
        of_projection=of_projection,
        zeros=(parts.zero("input"), hidden_zero, made_zero),
        cell_bits=15 + round(math.log2(parts.scale("initial_cell"))),
        cell_clip=_limit(descriptor.cell_clip, parts.scale("initial_cell"), 32767),
        projection_clip=_limit(descriptor.projection_clip, hidden_scale, 127),
    )
    _replace(lowering, layer, steps)
    return True


def lower_quantized_svdf(lowering: Lowering, layer: Layer) -> bool:
    """Put the weights of a `QuantizedSvdf` beside it."""
    descriptor = layer.descriptor
    if not isinstance(descriptor, QuantizedSvdf):
        return False
    parts, result = _Parts(layer), scheme(layer.outputs[0])
    step = QuantizedSvdfStep(
        infos=tuple(_plain(slot.known_info) for slot in layer.outputs),
        rank=descriptor.rank,
        feature_weights=parts.constant("feature_weights"),
        time_weights=parts.constant("time_weights"),
        bias=parts.constant("bias"),
        of_features=parts.product("feature_weights", parts.scale("input"), parts.scale("initial_state")),
        of_totals=parts.product("time_weights", parts.scale("initial_state"), result.scale[0]),
        zeros=(parts.zero("input"), result.zero_point[0]),
    )
    _replace(lowering, layer, step)
    return True


def _replace(lowering: Lowering, layer: Layer, step: QuantizedLstmSteps | QuantizedSvdfStep) -> None:
    """Have a layer computed by a private one, which reads what is not constant."""
    sources = [slot.source for slot in layer.inputs[: len(step.input_names)]]
    made = lowering.emit(step, [None if source is None else lowering.plain(source) for source in sources], [layer])
    for old, new in zip(layer.outputs, made.outputs, strict=True):
        new.quantization = old.quantization
        lowering.define(old, new)


def _plain(info: TensorInfo) -> TensorInfo:
    return TensorInfo(info.shape, info.dtype, info.quantization)


class _Parts:
    """Inputs of a layer by their names; scales are float32, as TensorFlow Lite's."""

    def __init__(self, layer: Layer) -> None:
        self._layer = layer
        self._numbers = {name: number for number, name in enumerate(layer.descriptor.input_names)}

    def has(self, name: str) -> bool:
        number = self._numbers.get(name, len(self._layer.inputs))
        return number < len(self._layer.inputs) and self._layer.inputs[number].source is not None

    def constant(self, name: str) -> Any:
        return self._layer.constant(self._numbers[name]) if self.has(name) else None

    def scale(self, name: str) -> float:
        return scheme(self._layer.inputs[self._numbers[name]].source).scale[0]

    def zero(self, name: str) -> int:
        return scheme(self._layer.inputs[self._numbers[name]].source).zero_point[0]

    def product(self, weights: str, scale: float, result: float) -> Scaling:
        """Return the factor from sums of products with weights to integers of a result."""
        with np.errstate(all="ignore"):
            product = np.float32(self.scale(weights)) * np.float32(scale)
            return _scaling(float(product / np.float32(result)))

    def stacked(self, gates: Sequence[str], what: str, dtype: type[np.generic]) -> Any:
        """Return what all gates have, one below the other; zeros for a gate that has none."""
        found = [self.constant(f"{gate}_{what}") for gate in gates]
        there = next(array for array in found if array is not None)
        return np.concatenate([np.zeros_like(there) if array is None else array for array in found]).astype(dtype)


def _scaling(factor: float) -> Scaling:
    return scaling(min(_GREATEST, factor))  # which is that of no number too


def _gate_factors(parts: _Parts, gate: str, scales: Sequence[float] | None) -> GateFactors:
    normalizes, sees = parts.has("forget_normalization"), gate != "cell" and parts.has(f"{gate}_peepholes")
    scale = 2.0**-12 if scales is None or not normalizes else scales[_GATES.index(gate)]
    of_cell, norm = 0.0, np.float32(1.0)
    with np.errstate(all="ignore"):
        if sees:
            peephole = float(np.float32(parts.scale(f"{gate}_peepholes")))
            of_cell = float(np.float32(parts.scale("initial_cell") * peephole / float(np.float32(scale))))
        if normalizes:
            norm = np.float32(parts.scale(f"{gate}_normalization"))
        least = float(np.float32(10000) * norm)
    return GateFactors(
        of_input=parts.product(f"{gate}_weights", parts.scale("input"), scale),
        of_hidden=parts.product(f"{gate}_recurrent_weights", parts.scale("initial_hidden"), scale),
        of_cell=_scaling(of_cell),
        of_norm=_scaling(float(norm)),
        least_variance=max(1, int(min(least, 2.0**30))),
    )


def _limit(clip: float | None, scale: float, most: int) -> int:
    """Return a limit in the integers of a scale; 0 for none."""
    if clip is None:
        return 0
    with np.errstate(all="ignore"):
        return int(min(float(np.float32(min(clip, 3.0e38)) / np.float32(scale)), float(most)))
