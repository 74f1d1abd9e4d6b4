"""Cases of recurrent layers: their common parameters, random operands, tolerances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dovetail import Descriptor, DType
from dovetail.graph.graph import Graph
from dovetail.graph.layer import OutputSlot
from dovetail.layers import RecurrentFunction

from ..cases import Array, Case, Feed, Parameters, Tolerance
from . import samples
from .measured import PARAMETERS, Measured
from .precision import SMALLEST_NORMAL
from .recurrence import named, recurred

_LABELS = tuple(dtype.label for dtype in samples.FLOATS)
GIVEN = ("own", *_LABELS, None)
"""Element types of an operand that plain cases have; `own` is that of the input."""
LEFT_OUT = (None, "own", *_LABELS)
"""Those of one that plain cases do without."""

SEQUENCES: Mapping[str, Sequence[Any]] = {
    "steps": (3, 1, 2, 0, 7),
    "batch": (2, 1, 0, 3, 5),
    "inputs": (3, 1, 0, 8, 17),
    "units": (5, 1, 0, 4, 16, 17),
    "reverse": (False, True),
    "batch_first": (False, True),
    "gate_clip": (None, 0.25, 0.0),
    "weights.constant": (True, False),
    "weights.dtype": GIVEN[:-1],
    "bias.dtype": GIVEN,
    "initial_hidden.dtype": LEFT_OUT,
    "lengths.dtype": (None, "int32", "int64"),
    "hidden_activation": (RecurrentFunction.TANH, *(one for one in RecurrentFunction if one is not RecurrentFunction.TANH)),
}
"""Parameters that all recurrent kinds have."""

GATED: Mapping[str, Sequence[Any]] = {
    "gate_activation": (
        RecurrentFunction.SIGMOID,
        *(one for one in RecurrentFunction if one is not RecurrentFunction.SIGMOID),
    ),
}
"""Parameters of kinds that have gates besides."""

QUANTITIES: Mapping[str, str] = {
    "input.0": "steps",
    "input.1": "batch",
    "input.2": "inputs",
    "input.-1": "inputs",
    "weights.-1": "inputs",
    "output.-1": "units",
}

TOGETHER: Sequence[Parameters] = [
    {"steps": 1, "batch": 1, "inputs": 1, "units": 1},
    {"steps": 4, "batch": 5, "inputs": 17, "units": 17, "lengths.dtype": "int64"},
    {"lengths.dtype": "int32", "initial_hidden.dtype": "own"},
    {"lengths.dtype": "int32", "reverse": True, "initial_hidden.dtype": "own"},
    {"lengths.dtype": "int64", "reverse": True, "batch_first": True, "batch": 3, "steps": 7},
    {"batch_first": True, "reverse": True, "batch": 1},
    {"steps": 0, "initial_hidden.dtype": "own"},
    {"bias.dtype": None, "weights.constant": False},
]
_LARGEST = 1 << 20
"""More elements of an operand than this are not tried."""
_COARSEST = 0.125
"""A case whose bound on the error is greater proves nothing."""


def functions(parameters: Parameters, *names: str) -> dict[str, Any]:
    """Return the attributes of the functions of these names."""
    found: dict[str, Any] = {}
    for name in names:
        function = parameters[f"{name}_activation"]
        alpha, beta = PARAMETERS[function]
        found |= {f"{name}_activation": function, f"{name}_alpha": alpha, f"{name}_beta": beta}
    return found


def present(parameters: Parameters, name: str, dtype: DType) -> bool | None:
    """Tell whether an operand is there; None if it is of a type that it cannot have."""
    label = parameters[f"{name}.dtype"]
    if label is None:
        return False
    return True if label in ("own", dtype.label) else None


def signed(dtype: DType, shape: Sequence[int], rng: np.random.Generator, greatest: float) -> Array:
    """Make numbers of either sign, none near zero."""
    values = rng.uniform(greatest / 2, greatest, tuple(shape)) * rng.choice([-1.0, 1.0], tuple(shape))
    return samples.stored(values, dtype)


def recurrent_case(
    descriptor: Descriptor,
    shapes: Mapping[str, tuple[int, ...]],
    parameters: Parameters,
    dtype: DType,
    rng: np.random.Generator,
) -> Case | None:
    """Make a case of a recurrent layer.

    Args:
        descriptor: The layer.
        shapes: Of the vectors and matrices besides input, weights and states that it can have.
        parameters: Those of `SEQUENCES`, and `<operand>.dtype` for each of `shapes`.
        dtype: Of the input.
        rng: For all numbers.
    """
    layer: Any = descriptor
    steps, batch, inputs, units = (parameters[name] for name in ("steps", "batch", "inputs", "units"))
    hidden, rows = parameters.get("projection", units), layer.gates * units
    operands = {
        "input": (batch, steps, inputs) if layer.batch_first else (steps, batch, inputs),
        "weights": (rows, inputs),
        "recurrent_weights": (rows, hidden),
        "bias": (rows,),
        "initial_hidden": (batch, hidden),
        **shapes,
    }
    if max(int(np.prod(shape)) for shape in operands.values()) > _LARGEST:
        return None
    feeds: list[Feed | None] = []
    for name in layer.input_names:
        if name == "lengths":
            feeds.append(_lengths(parameters, rng))
            continue
        wanted = True if f"{name}.dtype" not in parameters else present(parameters, name, dtype)
        if wanted is None:
            return None
        feeds.append(_feed(name, operands[name], parameters, dtype, rng) if wanted else None)
    reals = [None if feed is None else _reals(feed, dtype) for feed in feeds]
    return _case(descriptor, feeds, recurred(descriptor, named(layer.input_names, reals), dtype), dtype)


def _lengths(parameters: Parameters, rng: np.random.Generator) -> Feed | None:
    """Make lengths: the first is all steps, the second none."""
    label, steps, batch = parameters["lengths.dtype"], parameters["steps"], parameters["batch"]
    if label is None:
        return None
    lengths = np.asarray(rng.integers(0, steps, batch, endpoint=True))
    return Feed(samples.led_by(np.asarray([steps, 0]), lengths).astype(DType.of(label).numpy))


def _feed(name: str, shape: tuple[int, ...], parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Feed:
    if name in ("input", "initial_hidden", "initial_cell"):
        return Feed(signed(dtype, shape, rng, 1.5 if name == "input" else 0.75), dtype=dtype)
    if name == "normalization":
        return Feed(samples.uniform(dtype, shape, rng, 0.25, 0.75), parameters["weights.constant"], dtype)
    greatest = 0.5
    if len(shape) > 1:  # states pass no more of their errors on than there is
        greatest = 1.0 / max(shape[-1], 1) if name == "recurrent_weights" else 1.0 / max(shape[-1], 1) ** 0.5
    return Feed(signed(dtype, shape, rng, greatest), parameters["weights.constant"], dtype)


def _reals(feed: Feed, dtype: DType) -> Array:
    return feed.value if feed.dtype is None else samples.reals(feed.value, dtype)


def _case(descriptor: Descriptor, feeds: Sequence[Feed | None], results: Sequence[Measured], dtype: DType) -> Case | None:
    tolerances = []
    for result in results:
        greatest = float(result.error.max(initial=0.0))
        if not greatest <= _COARSEST:
            return None
        reason = "sums of any order, functions within a few units, and states rounded after each step, all passed on"
        tolerances.append(Tolerance(0.0, greatest + SMALLEST_NORMAL[dtype], reason))

    def build(graph: Graph, slots: Sequence[OutputSlot | None]) -> Sequence[OutputSlot]:
        return graph.add(descriptor, *slots).outputs

    return Case(build, tuple(feeds), tuple(result.value for result in results), tuple(tolerances))
