"""Take the mean error of rounded weights out of the biases.

Rounding moves the mean of what a filter gives by its rounding error times the mean of what it
reads; that much is taken off the bias (Nagel et al., Data-Free Quantization Through Weight
Equalization and Bias Correction, 2019, with measured means). A layer with weights is linear, so
that the mean is exact for the float network's inputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

import dovetail
from dovetail import DType, Network, Quantization

from .planning import Plan
from .ranges import rounded
from .rewriting import filter_axis, has_room_for_bias, real_weights, scales_of_weights


def corrections(
    graph: Network, plan: Plan, tensors: Mapping[str, Quantization], means: Mapping[str, npt.NDArray[np.float64]]
) -> dict[str, npt.NDArray[np.float64]]:
    """Return what to add to the bias of each layer with weights, for each filter.

    A layer without room for a bias stays as it is.

    Args:
        graph: As `prepared` returns it.
        plan: What is quantized.
        tensors: How.
        means: Mean of each tensor that a layer with weights reads.
    """
    errors = Network("errors of weights")
    fed: dict[str, npt.NDArray[np.float32]] = {}
    outputs: dict[str, str] = {}
    for name in plan.weighted:
        layer = graph.layer(name)
        if not has_room_for_bias(layer):
            continue
        (tensor,) = plan.inputs[name]
        mean = means[tensor].astype(np.float32)
        fed[f"mean of {name}"] = mean
        slot = errors.input(f"mean of {name}", mean.shape)
        difference = _error_of_weights(graph, name, tensors[plan.leader(tensor)].scale[0])
        descriptor = replace(layer.descriptor, activation=None)  # type: ignore[type-var]  # kinds with weights have one
        outputs[f"error of {name}"] = name  # a model may call a layer as this network calls one of its own
        errors.output(errors.add(descriptor, slot, difference).output, f"error of {name}")
    if not fed:
        return {}
    with dovetail.load(errors) as net:
        found = net.run(fed)
    return {outputs[name]: -_by_filter(graph, outputs[name], values) for name, values in found.items()}


def _error_of_weights(graph: Network, name: str, step: float) -> npt.NDArray[np.float32]:
    layer = graph.layer(name)
    weights, axis = real_weights(layer), filter_axis(layer)
    bias = layer.constant(2) if len(layer.inputs) > 2 else None
    real = np.zeros(weights.shape[axis]) if bias is None else bias.astype(np.float64)
    scales = scales_of_weights(weights, axis, real, step)
    column = [1] * weights.ndim
    column[axis] = -1
    stored = rounded(weights, scales, DType.INT8).astype(np.float64) * np.asarray(scales.scale).reshape(column)
    return np.asarray(stored - weights, np.float32)


def _by_filter(graph: Network, name: str, values: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Average over all axes but that of the filters."""
    layout = getattr(graph.layer(name).descriptor, "layout", None)
    axis = (-1 if layout is None else layout.channel_axis) % values.ndim
    return np.asarray(values.mean(axis=tuple(other for other in range(values.ndim) if other != axis), dtype=np.float64))
