"""QuantizedLstm: with coupled gates, peepholes, normalized gates, projections and limits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dovetail import DType, Quantization
from dovetail.graph.graph import Graph
from dovetail.graph.layer import OutputSlot
from dovetail.layers import QuantizedLstm

from ..cases import EXACT, Case, Feed, Operator, Parameters
from ..references.quantized_recurrence import quantized_lstm

_LARGEST = 1 << 20
"""More elements of an operand than this are not tried."""
_GATES = ("input", "forget", "cell", "output")


def _shapes(parameters: Parameters, hidden: int) -> dict[str, tuple[int, ...]]:
    steps, batch, inputs, units = (parameters[name] for name in ("steps", "batch", "inputs", "units"))
    shapes: dict[str, tuple[int, ...]] = {
        "input": (batch, steps, inputs) if parameters["batch_first"] else (steps, batch, inputs),
        "initial_hidden": (batch, hidden),
        "initial_cell": (batch, units),
    }
    for gate in _GATES if parameters["input gate"] else _GATES[1:]:
        shapes |= {f"{gate}_weights": (units, inputs), f"{gate}_recurrent_weights": (units, hidden)}
        shapes[f"{gate}_bias"] = (units,)
        if parameters["peepholes"] and gate != "cell":
            shapes[f"{gate}_peepholes"] = (units,)
        if parameters["normalization"]:
            shapes[f"{gate}_normalization"] = (units,)
    if parameters["projected"]:
        shapes["projection_weights"] = (hidden, units)
    if parameters["projection bias"]:
        shapes["projection_bias"] = (hidden,)
    return shapes


def _scale(name: str, parameters: Parameters, rng: np.random.Generator) -> float:
    """Choose a scale by which sums reach from -4 to 4, most of them."""
    if name == "initial_cell":
        return float(2.0 ** parameters["cell exponent"])
    if name == "initial_hidden":
        return float(np.float32(1.2 / 128))
    if name.endswith("weights"):
        terms = parameters["units"] if name != "projection_weights" and "recurrent" in name else parameters["inputs"]
        return float(np.float32(rng.uniform(1.5, 2.5) / 128 / max(terms, 1) ** 0.5))
    if name.endswith(("peepholes", "normalization")):
        return float(np.float32(rng.uniform(1.0, 2.0) / 32768))
    return float(np.float32(3.0 / 128))


def _feed(name: str, shape: tuple[int, ...], parameters: Parameters, rng: np.random.Generator) -> Feed:
    constant = parameters["weights.constant"] and name not in ("input", "initial_hidden", "initial_cell")
    if name.endswith("bias"):
        reach = 1 << 24 if parameters["normalization"] and name != "projection_bias" else 1 << 12
        return Feed(rng.integers(-reach, reach, shape, np.int32), constant)
    quantization = Quantization.per_tensor(_scale(name, parameters, rng))
    if name in ("input", "initial_hidden"):
        zero = parameters["zero point"] + (name == "input")
        quantization = Quantization.per_tensor(quantization.scale[0], min(zero, 127))
    dtype = np.int16 if name.endswith(("cell", "peepholes", "normalization")) else np.int8
    least, most = np.iinfo(dtype).min + (name.endswith("weights")), np.iinfo(dtype).max
    return Feed(rng.integers(least, most, shape, dtype, endpoint=True), constant, quantization=quantization)


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    if parameters["projection bias"] and not parameters["projected"]:
        return None
    hidden = parameters["projection"] if parameters["projected"] else parameters["units"]
    shapes = _shapes(parameters, hidden)
    if max(int(np.prod(shape)) for shape in shapes.values()) > _LARGEST:
        return None
    first, second, third, fourth = (float(np.float32(one)) for one in rng.uniform(0.0003, 0.0006, 4))
    own = parameters["hidden scale"]
    descriptor = QuantizedLstm(
        batch_first=parameters["batch_first"],
        cell_clip=parameters["cell_clip"],
        projection_clip=parameters["projection_clip"],
        gate_scales=(first, second, third, fourth) if parameters["normalization"] else None,
        hidden_scale=None if own is None else float(np.float32(own)),
        hidden_zero_point=parameters["hidden zero"] if own is not None else 0,
    )
    feeds = {name: _feed(name, shapes[name], parameters, rng) if name in shapes else None for name in descriptor.input_names}

    def build(graph: Graph, slots: Sequence[OutputSlot | None]) -> Sequence[OutputSlot]:
        return graph.add(descriptor, *slots).outputs

    return Case(build, tuple(feeds.values()), quantized_lstm(descriptor, feeds), (EXACT,) * 3)


_PROJECTED = {"projected": True}
_WHOLE = {"normalization": True, "peepholes": True, "projected": True, "projection bias": True, "hidden scale": 0.9 / 128}

OPERATOR = Operator(
    kind="dovetail.QuantizedLstm",
    dtypes=(DType.INT8,),
    parameters={
        "steps": (3, 1, 2, 0, 7),
        "batch": (2, 1, 0, 3, 5),
        "inputs": (3, 1, 0, 8, 17),
        "units": (5, 1, 0, 4, 16, 17),
        "projection": (3, 1, 0, 8, 17),
        "batch_first": (False, True),
        "input gate": (True, False),
        "peepholes": (False, True),
        "normalization": (False, True),
        "projected": (False, True),
        "projection bias": (False, True),
        "cell_clip": (None, 0.25, 0.0, 1e-9, 1e9),
        "projection_clip": (None, 0.25, 1e-9, 1e9),
        "cell exponent": (-11, -9, -10, -12, -13, -14, -15),
        "zero point": (3, 0, -128, 127),
        "hidden scale": (None, 0.7 / 128),
        "hidden zero": (0, 5, -128, 127),
        "weights.constant": (True, False),
    },
    make=_make,
    quantities={"input.0": "steps", "input.1": "batch", "input.2": "inputs", "input.-1": "inputs"},
    together=[
        {"steps": 1, "batch": 1, "inputs": 1, "units": 1},
        {"steps": 7, "batch": 3, "inputs": 17, "units": 33, "batch_first": True},
        {"input gate": False, "peepholes": True},
        {"input gate": False, "normalization": True},
        {"peepholes": True, "cell exponent": -13, "cell_clip": 0.25},
        *({**_PROJECTED, "projection": one} for one in (1, 8, 17, 0)),
        *({**_PROJECTED, "hidden scale": 0.9 / 128, "hidden zero": zero} for zero in (-128, 9)),
        *({"hidden scale": 0.9 / 128, "hidden zero": zero} for zero in (-128, 9)),
        {**_PROJECTED, "projection_clip": 0.25, "zero point": 0},
        *({**_WHOLE, "input gate": gate, "batch_first": not gate, "units": 17} for gate in (True, False)),
        {**_WHOLE, "steps": 12, "units": 64, "cell exponent": -14, "projection_clip": 0.5, "hidden zero": -4},
        {**_WHOLE, "units": 0},
        {"normalization": True, "units": 1},
    ],
)
