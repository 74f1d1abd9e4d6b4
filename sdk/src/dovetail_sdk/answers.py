"""What outputs say: their ranges, the best classes, and what the scores of these are."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dovetail import ErrorCode, RunError

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

    These are [N, 10], [N, 10, 1, 1] and [N, 1, 1, 10]; None for others, such as the [1, 1, 10] of a
    sequence.
    """
    if len(shape) not in (2, 4) or shape[0] < 1:
        return None
    count = max(shape[1], shape[-1])
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


class Scores:
    """The outputs of a network that are scores of classes.

    Where an output is as an input is, in shape and type, it may be what the next run is to be fed
    with, or the input without its noise. Its numbers are no scores then, unless they are
    probabilities or their classes have names.

    Args:
        network: The network.
        loaded: The same, loaded.
        without: Outputs that are something else.
    """

    def __init__(self, network: Network, loaded: LoadedNetwork, without: Sequence[str] = ()) -> None:
        self._kinds = kinds_of_scores(network)
        self._loaded = loaded
        self._without = without

    def best(
        self,
        results: Mapping[str, npt.NDArray[Any]],
        feeds: Mapping[str, npt.NDArray[Any]],
        labels: Mapping[str, Sequence[str]],
        top: int,
    ) -> list[Answers]:
        """Find the best classes of all outputs that have classes.

        Args:
            results: Of a run.
            feeds: What it was fed with.
            labels: Names of the classes, by output.
            top: Classes of a row; none for 0.
        """
        fed = {(array.shape, array.dtype) for array in feeds.values()}
        return [
            Answers.of(spec, results[spec.name], self._kind(spec.name), labels.get(spec.name, ()), top)
            for spec in self._loaded.outputs
            if top and self._is_score(spec.name, results[spec.name], fed, labels)
        ]

    def kind_of_first(self) -> str:
        """Return what the scores of the first output are that has classes; empty without any.

        That is told before a run, as far as it can be.
        """
        fed = {(tuple(spec.shape[1:]), spec.dtype) for spec in self._loaded.inputs}
        for spec in known_outputs(self._loaded) or ():
            sizes = [size for size in spec.shape[1:] if isinstance(size, int)]
            has_classes = len(sizes) == len(spec.shape) - 1 and class_count((1, *sizes)) is not None
            may_be_fed = self._kind(spec.name) == LOGIT and (tuple(sizes), spec.dtype) in fed
            if has_classes and spec.name not in self._without and not may_be_fed:
                return self._kind(spec.name)
        return ""

    def _kind(self, name: str) -> str:
        return self._kinds.get(name, LOGIT)

    def _is_score(self, name: str, array: npt.NDArray[Any], fed: Container[Any], labels: Container[str]) -> bool:
        if name in self._without or class_count(array.shape) is None:
            return False
        return name in labels or self._kind(name) != LOGIT or (array.shape, array.dtype) not in fed


def known_outputs(loaded: LoadedNetwork) -> Sequence[TensorSpec] | None:
    """Return the outputs of a network; None if values of inputs decide what they are.

    They are known once it was run.
    """
    try:
        return loaded.outputs
    except RunError as error:
        if error.code is not ErrorCode.SHAPE_UNKNOWN:
            raise
        return None


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
