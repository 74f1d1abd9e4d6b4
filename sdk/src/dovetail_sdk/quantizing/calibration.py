"""Run the network on samples, and note what its tensors hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dovetail import DType, LoadedNetwork, Quantization

from .planning import Plan
from .ranges import Calibration, Range, quantization_of
from .samples import Samples

Step = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Method:
    """How ranges are chosen: the calibration, and its percentile."""

    calibration: Calibration = Calibration.MINMAX
    percentile: float = 99.99

    @property
    def passes(self) -> int:
        """How often the samples are run: a histogram needs to know its ends."""
        return 1 if self.calibration is Calibration.MINMAX else 2


@dataclass(slots=True)
class Observed:
    """What was seen.

    Attributes:
        ranges: Of each tensor.
        means: Mean over all samples of each tensor that a layer with weights reads.
    """

    ranges: dict[str, Range] = field(default_factory=dict)
    means: dict[str, npt.NDArray[np.float64]] = field(default_factory=dict)

    def quantizations(self, plan: Plan, method: Method, dtype: DType) -> dict[str, Quantization]:
        """Choose the quantization of each tensor; tensors that share one have the widest range."""
        least, most = dtype.limits
        ends: dict[str, tuple[float, float]] = {}
        for tensor in plan.tensors:
            low, high = self.ranges[tensor].chosen(method.calibration, method.percentile, most - least)
            before = ends.get(plan.leader(tensor), (0.0, 0.0))
            ends[plan.leader(tensor)] = min(low, before[0]), max(high, before[1])
        return {tensor: quantization_of(low, high, dtype) for tensor, (low, high) in ends.items()}


def observe(
    net: LoadedNetwork, plan: Plan, samples: Samples, groups: Sequence[Sequence[str]], method: Method, step: Step
) -> Observed:
    """Run all samples, as often as the method asks for.

    Args:
        net: The float network, loaded.
        plan: What is to be quantized.
        samples: What to run.
        groups: The tensors of the plan, as many together as one run shows.
        method: How ranges will be chosen.
        step: Called after each run.
    """
    seen = Observed({tensor: Range() for tensor in plan.tensors})
    averaged = {tensor for layer in plan.weighted for tensor in plan.inputs[layer]}
    for group in groups:
        for read in samples:
            found = net.run(dict(read()), outputs=list(group))
            for tensor, values in found.items():
                seen.ranges[tensor].widen(values)
                if tensor in averaged:
                    share = np.where(np.isfinite(values), values, 0).astype(np.float64) / len(samples)
                    seen.means[tensor] = seen.means[tensor] + share if tensor in seen.means else share
            step()
        for read in samples if method.passes > 1 else ():
            for tensor, values in net.run(dict(read()), outputs=list(group)).items():
                seen.ranges[tensor].count(values)
            step()
    return seen
