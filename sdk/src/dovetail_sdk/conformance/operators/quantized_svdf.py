"""QuantizedSvdf: of several ranks, with factors that are small, large and far too large."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dovetail import DType, Quantization
from dovetail.graph.graph import Graph
from dovetail.graph.layer import OutputSlot
from dovetail.layers import QuantizedSvdf

from ..cases import EXACT, Case, Feed, Operator, Parameters
from ..references.quantized_svdf import quantized_svdf

_LARGEST = 1 << 20
"""More elements of an operand than this are not tried."""


def _single(scale: float) -> float:
    return float(np.float32(scale))


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    batch, inputs, units, rank, steps = (parameters[name] for name in ("batch", "inputs", "units", "rank", "steps"))
    filters, reach = units * rank, parameters["time reach"]
    shapes = ((batch, inputs), (batch, filters * steps), (filters, inputs), (filters, steps))
    if max(int(np.prod(shape)) for shape in shapes) > _LARGEST:
        return None
    x, features, times = (_single(scale) for scale in rng.uniform(1.0, 2.0, 3) / (32, 128, reach))
    # Sums over features reach some thousands times the root of their number, and then the factor.
    state = _single(x * features / parameters["feature factor"])
    held = min(4000 * max(inputs, 1) ** 0.5 * parameters["feature factor"], 18000)
    y = _single(state * times * held * reach * (rank * steps) ** 0.5 / 60 / parameters["result factor"])
    result = Quantization.per_tensor(y, parameters["result zero"])
    constant = parameters["weights.constant"]
    spread = int(y * 30 / (state * times)) % (1 << 30)

    def drawn(kind: type[np.generic], shape: tuple[int, ...], least: int, most: int) -> np.ndarray[tuple[int, ...], np.dtype]:
        return rng.integers(least, most, shape, endpoint=True).astype(kind)

    feeds = {
        "input": Feed(drawn(np.int8, shapes[0], -128, 127), quantization=Quantization.per_tensor(x, parameters["zero point"])),
        "initial_state": Feed(drawn(np.int16, shapes[1], *parameters["state"]), quantization=Quantization.per_tensor(state)),
        "feature_weights": Feed(drawn(np.int8, shapes[2], -127, 127), constant, quantization=Quantization.per_tensor(features)),
        "time_weights": Feed(drawn(np.int16, shapes[3], -reach, reach), constant, quantization=Quantization.per_tensor(times)),
        "bias": Feed(drawn(np.int32, (units,), -spread, spread), constant) if parameters["bias"] else None,
    }
    descriptor = QuantizedSvdf(rank=rank)

    def build(graph: Graph, slots: Sequence[OutputSlot | None]) -> Sequence[OutputSlot]:
        return graph.add(descriptor, *slots, quantization=result).outputs

    return Case(build, tuple(feeds.values()), quantized_svdf(descriptor, feeds, result), (EXACT,) * 2)


_USUAL, _WHOLE = (-9000, 9000), (-32768, 32767)

OPERATOR = Operator(
    kind="dovetail.QuantizedSvdf",
    dtypes=(DType.INT8,),
    parameters={
        "batch": (2, 1, 0, 3, 5, 67),
        "inputs": (3, 1, 0, 8, 17, 96),
        "units": (5, 1, 0, 4, 16, 17, 64),
        "rank": (2, 1, 3),
        "steps": (4, 1, 2, 8, 17, 32),
        "bias": (True, False),
        "zero point": (3, 0, -128, 127),
        "result zero": (-5, 0, -128, 127),
        "feature factor": (0.5, 0.9, 2.5, 1e-12, 1e5, 1e12),
        "result factor": (1.0, 1e-12, 1e5, 1e15),
        "time reach": (1000, 32767),
        "state": (_USUAL, _WHOLE),
        "weights.constant": (True, False),
    },
    make=_make,
    quantities={"input.0": "batch", "input.-1": "inputs"},
    together=[
        {"batch": 1, "inputs": 1, "units": 1, "rank": 1, "steps": 1},
        {"batch": 3, "inputs": 40, "units": 33, "rank": 1, "steps": 8},
        {"inputs": 16, "units": 33, "rank": 3, "steps": 11, "bias": False},
        {"units": 9, "steps": 40, "feature factor": 0.05},
        {"batch": 0, "units": 0},
        {"inputs": 0, "bias": False},
        {"steps": 32, "rank": 3, "time reach": 32767, "state": _WHOLE},  # sums that wrap
    ],
)
