"""Small backends whose manifests promise bits or declare deviations, some of them falsely.

Each of them can be found by another process as "promising_backends:Class" with this folder on
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


def backend(name: str, doing: type[Workload] = Workload, **promises: Any) -> type[Correct]:
    """Make a class of backends with a workload and with promises in its manifest."""
    return type(name, (Correct,), {"workload": doing, "manifest": manifest_with(ADDITION, **promises), "__module__": __name__})


_HALVES = {"deviations": {ADD: [HALVES]}}
_ELSEWHERE = {"deviations": {ADD: [{**HALVES, "where": {"operation": "sub"}}]}}
_LOST = {"deviations": {ADD: [LOST]}}
_EXACT = {"bit_exact": {ADD: [{"dtypes": ["float32"], "standard": "ieee"}]}}

DeviatesAsDeclared = backend("DeviatesAsDeclared", _Moved, **_HALVES)
DeviatesFurther = backend("DeviatesFurther", _MovedFar, **_HALVES)
DeviatesElsewhere = backend("DeviatesElsewhere", _Moved, **_ELSEWHERE)  # declares what subtraction does
DeviatesNoMore = backend("DeviatesNoMore", **_HALVES)
LosesNan = backend("LosesNan", _Lossy, **_LOST)
LosesNumbersToo = backend("LosesNumbersToo", _LossyEverywhere, **_LOST)
PromisesBits = backend("PromisesBits", **_EXACT)
RoundsDown = backend("RoundsDown", _RoundedDown, **_EXACT)  # promises more than the tolerance that it keeps
RoundsDownWithoutPromise = backend("RoundsDownWithoutPromise", _RoundedDown)
# LiteRT defines nothing of floats.
PromisesUnknownBits = backend("PromisesUnknownBits", bit_exact={ADD: [{"dtypes": ["float32"], "standard": "litert"}]})
MisspeltPromise = backend("MisspeltPromise", bit_exact={ADD: [{"dtypes": ["float32"], "where": {"operatoin": "add"}}]})
MalformedPromise = backend("MalformedPromise", deviations={ADD: [{"dtypes": ["float32"], "what": "off"}]})
UnknownLateFailure = backend("UnknownLateFailure", late_failure={"fail_at": 1})
