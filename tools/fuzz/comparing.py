"""Whether two answers agree: names, types and shapes exactly, numbers but for the order of sums."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

RELATIVE = {2: 2.0**-7, 4: 2.0**-11, 8: 2.0**-20}
"""Allowed against the largest number of a tensor, by the bytes of an element.

Some thousand products are each rounded once, and functions are as exact as a vector kernel of that
width makes them. What is off by more may still be badly conditioned, which `Executor` finds out;
what is off by less shows no defect of the kind that is looked for here."""


class Difference(NamedTuple):
    """How two answers differ.

    Attributes:
        kind: "names", "type", "shape", "non-finite", "values" or "integers".
        output: Where it was found.
        text: What was found.
        amount: By how much numbers differ, or how many of them.
    """

    kind: str
    output: str
    text: str
    amount: float = 0.0


def difference(ours: Mapping[str, np.ndarray], theirs: Mapping[str, np.ndarray]) -> Difference | None:
    """Return the first difference of two answers, by output; None if they agree."""
    if set(ours) != set(theirs):
        return Difference("names", "", f"{sorted(ours)} against {sorted(theirs)}"[:300])
    for name in ours:
        found = _difference(name, np.asarray(ours[name]), np.asarray(theirs[name]))
        if found is not None:
            return found
    return None


def _difference(name: str, ours: np.ndarray, theirs: np.ndarray) -> Difference | None:
    if ours.dtype != theirs.dtype:
        return Difference("type", name, f"{ours.dtype} against {theirs.dtype}")
    if ours.shape != theirs.shape:
        return Difference("shape", name, f"{ours.shape} against {theirs.shape}")
    if ours.dtype.kind != "f":
        wrong = np.flatnonzero((ours != theirs).reshape(-1))
        if not len(wrong):
            return None
        return Difference("integers", name, _example(ours, theirs, int(wrong[0]), len(wrong)), float(len(wrong)))
    with np.errstate(all="ignore"):
        a, b = ours.astype(np.float64).reshape(-1), theirs.astype(np.float64).reshape(-1)
        finite = np.isfinite(a) & np.isfinite(b)
        odd = np.flatnonzero(~finite & ~((a == b) | (np.isnan(a) & np.isnan(b))))
        if len(odd):
            return Difference("non-finite", name, _example(ours, theirs, int(odd[0]), len(odd)), float(len(odd)))
        apart = np.where(finite, np.abs(a - b), 0.0)
        scale = float(np.abs(np.where(finite, b, 0.0)).max(initial=0.0))
        smallest = float(np.finfo(ours.dtype).tiny)
        if float(apart.max(initial=0.0)) <= RELATIVE[ours.dtype.itemsize] * scale + smallest:
            return None
        worst = int(apart.argmax())
        return Difference("values", name, _example(ours, theirs, worst, int((apart > smallest).sum())), float(apart[worst]))


def _example(ours: np.ndarray, theirs: np.ndarray, place: int, count: int) -> str:
    a, b = ours.reshape(-1)[place], theirs.reshape(-1)[place]
    return f"{a!r} against {b!r} at {place} of {ours.dtype}{list(ours.shape)}; {count} differ"


def moved(difference: Difference, before: Mapping[str, np.ndarray], after: Mapping[str, np.ndarray]) -> float:
    """Return how far a small change of all numbers moved the differing output, in its unit."""
    a, b = before.get(difference.output), after.get(difference.output)
    if a is None or b is None or a.shape != b.shape:
        return float("inf")
    if a.dtype.kind != "f":
        return float((a != b).sum())
    with np.errstate(all="ignore"):
        a, b = a.astype(np.float64), b.astype(np.float64)
        if difference.kind == "non-finite":
            return float((np.isfinite(a) != np.isfinite(b)).sum())
        apart = np.abs(a - b)
        return float(np.where(np.isfinite(apart), apart, 0.0).max(initial=0.0))
