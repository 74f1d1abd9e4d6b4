"""What finishes the sums of filters, as records that commands refer to."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..chips import Chip
from ..engines import multiplies_by_shader
from ..program import Convolution, FullyConnected, Program, Tensor, Weights
from . import arithmetic as numbers
from .commands import FILTER
from .shader import float_sums


class Finish(NamedTuple):
    """How a layer's sums are finished.

    Attributes:
        filters: A struct vsi_filter for each filter.
        fields: Of a command, for sums that are rounded on the way.
    """

    filters: npt.NDArray[Any]
    fields: dict[str, int]


def by_engine(weights: Weights, x: Tensor, y: Tensor, chip: Chip) -> Finish:
    """Return how the convolution engine finishes: in integers."""
    made = np.zeros(len(weights.values), FILTER)
    made["bias"] = weights.bias
    factors = [numbers.factor(ratio, chip.fraction_bits) for ratio in _ratios(weights, x, y)]
    made["mantissa"] = [one.mantissa for one in factors]
    made["shift"] = [one.shift for one in factors]
    made["zero"] = weights.zero_point
    return Finish(made, {})


def of_layer(operation: Convolution | FullyConnected, program: Program, chip: Chip) -> Finish:
    """Return how the engine that runs a layer finishes it."""
    weights, x, y = operation.weights, program.tensors[operation.inputs[0]], program.tensors[operation.output]
    made = by_engine(weights, x, y, chip)
    if not multiplies_by_shader(operation, program, chip):
        return made
    made.filters["factor"] = _ratios(weights, x, y)
    sums = float_sums(operation, program) if weights.is_per_channel else None
    if sums is None:
        return made
    made.filters["bias"] = sums.start
    chunks = {"chunk": sums.chunk, "by_rows": int(sums.is_by_rows), "lift": sums.lift, "across": int(sums.is_across)}
    return made._replace(fields=chunks)


def _ratios(weights: Weights, x: Tensor, y: Tensor) -> list[np.float32]:
    return [numbers.product_ratio(x.scale, scale, y.scale) for scale in weights.scale]
