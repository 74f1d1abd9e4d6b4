"""Small backends whose manifests promise bits or declare deviations, some of them falsely.

Each class can be found by another process as "promising_backends:Class" with this folder on
PYTHONPATH.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from broken_backends import ADDITION, Correct, Workload, manifest_with

ADD = "dovetail.ElementwiseBinary"
NUMBERS = {"dtypes": ["float32"], "where": {"operation": "add"}}
HALVES = {**NUMBERS, "what": "sums are too large", "why": "the adder has a carry stuck", "absolute": 0.5}
LOST = {**NUMBERS, "what": "NaN becomes 0", "why": "the unit has no NaN", "nonfinite": True}


class _Moved(Workload):
    """Adds something to sums of floats."""

    by = 0.4375

    def __init__(self, layer: Any) -> None:
        super().__init__(layer)
        self.is_moved = str(layer.descriptor.operation) == "add" and layer.output_infos[0].dtype.is_float

    def execute(self, inputs: list[Any], outputs: list[Any]) -> None:
        super().execute(inputs, outputs)
        if self.is_moved:
            self.move(outputs[0])

    def move(self, result: Any) -> None:
        result += np.float32(self.by)


class _MovedFar(_Moved):
    by = 0.75


class _RoundedDown(Workload):
    """Rounds sums of floats toward negative infinity: off by less than a unit in the last place."""

    def execute(self, inputs: list[Any], outputs: list[Any]) -> None:
        super().execute(inputs, outputs)
        (result,) = outputs
        if result.dtype == np.float32:
            with np.errstate(all="ignore"):
                exact = self.function(inputs[0].astype(np.float64), inputs[1].astype(np.float64))
                result[...] = np.where(result > exact, np.nextafter(result, np.float32(-np.inf)), result)


class _Lossy(_Moved):
    def move(self, result: Any) -> None:
        result[np.isnan(result)] = 0


class _LossyEverywhere(_Moved):
    def move(self, result: Any) -> None:
        result[...] = 0


class DeviatesAsDeclared(Correct):
    manifest = manifest_with(ADDITION, deviations={ADD: [HALVES]})
    workload = _Moved


class DeviatesFurther(DeviatesAsDeclared):
    workload = _MovedFar


class DeviatesElsewhere(DeviatesAsDeclared):
    """Declares what subtraction does."""

    manifest = manifest_with(ADDITION, deviations={ADD: [{**HALVES, "where": {"operation": "sub"}}]})


class DeviatesNoMore(DeviatesAsDeclared):
    workload = Workload


class LosesNan(Correct):
    manifest = manifest_with(ADDITION, deviations={ADD: [LOST]})
    workload = _Lossy


class LosesNumbersToo(LosesNan):
    workload = _LossyEverywhere


class PromisesBits(Correct):
    manifest = manifest_with(ADDITION, bit_exact={ADD: [{"dtypes": ["float32"], "standard": "ieee"}]})


class RoundsDown(PromisesBits):
    """Promises correct rounding, and is within the tolerance only."""

    workload = _RoundedDown


class RoundsDownWithoutPromise(Correct):
    workload = _RoundedDown


class PromisesUnknownBits(Correct):
    """Promises the bits of a standard that defines none for floats."""

    manifest = manifest_with(ADDITION, bit_exact={ADD: [{"dtypes": ["float32"], "standard": "litert"}]})


class MisspeltPromise(Correct):
    manifest = manifest_with(ADDITION, bit_exact={ADD: [{"dtypes": ["float32"], "where": {"operatoin": "add"}}]})


class MalformedPromise(Correct):
    manifest = manifest_with(ADDITION, deviations={ADD: [{"dtypes": ["float32"], "what": "off"}]})


class UnknownLateFailure(Correct):
    manifest = manifest_with(ADDITION, late_failure={"fail_at": 1})
