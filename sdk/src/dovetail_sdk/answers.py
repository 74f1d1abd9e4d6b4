"""What outputs say: their ranges, the best classes, and what the scores of these are."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .differences import real_values
from .statistics import as_real, summary_of, top_classes

if TYPE_CHECKING:
    from dovetail import LoadedNetwork, Network
    from dovetail.graph.layer import OutputSlot
    from dovetail.optimizer import TensorSpec

MAX_ROWS = 8
"""Rows of a batch whose best classes are shown."""

PROBABILITY, LOGIT, LOG_PROBABILITY, VALUE = "probability", "logit", "log probability", "value"
"""What scores may be."""


def class_count(shape: Sequence[int]) -> int | None:
    """Return how many classes a shape has that looks like one row of scores per picture.

    These are [N, 10] and [N, 10, 1, 1]; None for others.
    """
    if len(shape) < 2 or shape[0] < 1:
        return None
    count = max(shape[1:])
    return count if math.prod(shape[1:]) == count >= 2 else None


def kinds_of_scores(network: Network) -> dict[str, str]:
    """Say by output what its scores are: probabilities behind softmax and sigmoid, else logits."""
    return {layer.name: _kind_of(layer.inputs[0].source) for layer in network.outputs}


def _kind_of(slot: OutputSlot | None) -> str:
    from dovetail.layers import (
        Activation,
        ActivationFunction,
        Cast,
        Dequantize,
        ExpandDims,
        Flatten,
        Permute,
        Quantize,
        Reshape,
        Softmax,
        Squeeze,
    )

    passing = (Cast, Dequantize, ExpandDims, Flatten, Permute, Quantize, Reshape, Squeeze)
    while slot is not None and isinstance(slot.layer.descriptor, passing):
        slot = slot.layer.inputs[0].source
    descriptor = None if slot is None else slot.layer.descriptor
    if isinstance(descriptor, Softmax):
        return LOG_PROBABILITY if descriptor.log else PROBABILITY
    is_sigmoid = isinstance(descriptor, Activation) and descriptor.function is ActivationFunction.SIGMOID
    return PROBABILITY if is_sigmoid else LOGIT


@dataclass(frozen=True, slots=True)
class Answer:
    """One class of a row of scores.

    Attributes:
        number: The class.
        label: Its name; empty if it has none.
        score: The score as a real number.
        stored: The integer that stands for it; None where scores are real numbers themselves.
    """

    number: int
    label: str
    score: float
    stored: int | None

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON, where what is not finite is null."""
        stored = {} if self.stored is None else {"stored": self.stored}
        score = self.score if math.isfinite(self.score) else None
        return {"class": self.number, "label": self.label or None, "score": score, **stored}


@dataclass(frozen=True, slots=True)
class Answers:
    """The best classes of an output.

    Attributes:
        output: Its name.
        kind: What the scores are.
        rows: The best classes of each picture of the batch, the best first.
    """

    output: str
    kind: str
    rows: tuple[tuple[Answer, ...], ...]

    @classmethod
    def of(cls, spec: TensorSpec, array: npt.NDArray[Any], kind: str, labels: Sequence[str], top: int) -> Answers:
        """Find the best classes.

        Args:
            spec: The output.
            array: What it is, as `class_count` takes it.
            kind: What the scores are by the layers before it; what looks like probabilities, not
                negative and with a sum of one in each row, is taken for such, too.
            labels: Names of the classes; empty if they have none.
            top: Classes of a row.
        """
        scores = array.reshape(len(array), -1)
        values = real_values(array, spec).reshape(scores.shape)
        is_stored = spec.quantization is not None
        if not (is_stored or spec.dtype.is_float):
            kind = VALUE
        elif kind == LOGIT and (values >= 0).all() and np.allclose(values.sum(axis=1), 1, rtol=0, atol=1e-3):
            kind = PROBABILITY
        rows = tuple(
            tuple(
                Answer(index, labels[index] if labels else "", value, int(scores[number, index]) if is_stored else None)
                for index, value in top_classes(row, top)
            )
            for number, row in enumerate(values)
        )
        return cls(spec.name, kind, rows)

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        rows = [[answer.as_dict() for answer in row] for row in self.rows]
        return {"name": self.output, "scores": self.kind, "classes": rows}


def answers_of(
    loaded: LoadedNetwork,
    results: Mapping[str, npt.NDArray[Any]],
    kinds: Mapping[str, str],
    labels: Mapping[str, Sequence[str]],
    top: int,
    without: Sequence[str] = (),
) -> list[Answers]:
    """Find the best classes of all outputs that have classes, but those `without`."""
    return [
        Answers.of(spec, results[spec.name], kinds.get(spec.name, LOGIT), labels.get(spec.name, ()), top)
        for spec in loaded.outputs
        if top and spec.name not in without and class_count(results[spec.name].shape) is not None
    ]


def answers_table(answers: Answers) -> Any:
    """Build the table of the best classes of each row, of `MAX_ROWS` rows at most."""
    from .rendering import table

    shown = [answer for row in answers.rows[:MAX_ROWS] for answer in row]
    has_stored, has_labels = any(one.stored is not None for one in shown), any(one.label for one in shown)
    rows = [
        (
            str(number) if place == 0 else "",
            str(one.number),
            *([f"{one.stored}"] if has_stored else []),
            f"{one.score:.6g}" if not has_stored else f"{one.score:.4g}",
            *([one.label] if has_labels else []),
        )
        for number, row in enumerate(answers.rows[:MAX_ROWS])
        for place, one in enumerate(row)
    ]
    columns = (
        f"{answers.output}: row",
        "class",
        *(["stored"] if has_stored else []),
        answers.kind,
        *(["label"] if has_labels else []),
    )
    if len(answers.rows) > MAX_ROWS:
        rows.append(("...", *[""] * (len(columns) - 1)))
    return table(columns, rows, right=("class", "stored", answers.kind), long=columns[:1], texts=("label",))


def outputs_table(results: Mapping[str, npt.NDArray[Any]], dtypes: Mapping[str, str]) -> Any:
    """Build the table of outputs; numbers have fewer digits where it would be too wide."""
    from .rendering import fits, table

    columns = ("output", "shape", "dtype", "min", "mean", "max")
    for digits in (6, 3):
        rows = [_output_row(name, array, dtypes.get(name, str(array.dtype)), digits) for name, array in results.items()]
        if fits(columns, rows):
            break
    return table(columns, rows, right=("min", "mean", "max"), long=("output",))


def _output_row(name: str, array: npt.NDArray[Any], dtype: str, digits: int) -> tuple[str, ...]:
    summary = summary_of(array, bfloat16=dtype == "bfloat16")
    numbers = ["-" if value is None else f"{value:.{digits}g}" for value in (summary.minimum, summary.mean, summary.maximum)]
    return (name, f"[{', '.join(map(str, array.shape))}]", dtype, *numbers)


def nan_counts(results: Mapping[str, npt.NDArray[Any]], dtypes: Mapping[str, str]) -> dict[str, tuple[int, int]]:
    """Return how many elements are NaN, of how many, of each output that has such."""
    found = {}
    for name, array in results.items():
        values = as_real(array, bfloat16=True) if dtypes.get(name) == "bfloat16" else array
        count = int(np.count_nonzero(np.isnan(values))) if values.dtype.kind == "f" else 0
        if count:
            found[name] = (count, array.size)
    return found


def not_finite(results: Mapping[str, npt.NDArray[Any]], dtypes: Mapping[str, str]) -> list[str]:
    """Say of each output that has NaN or infinities how many these are."""
    counts = {name: summary_of(array, bfloat16=dtypes.get(name) == "bfloat16").not_finite for name, array in results.items()}
    return [
        f"output {name!r}: {count} of {results[name].size} elements {'are' if count > 1 else 'is'} not finite"
        for name, count in counts.items()
        if count
    ]
