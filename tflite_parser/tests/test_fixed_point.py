"""Fixed-point arithmetic as layers, held against TensorFlow Lite's steps in Python's integers."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

import dovetail
from dovetail import Descriptor, DType, Network
from dovetail.graph.layer import OutputSlot
from dovetail_tflite.call import Call
from dovetail_tflite.fixed_point import scaled

NUMBERS = [0, 1, -1, 2, -2, 3, -3, 127, -128, 255, 1 << 15, -(1 << 15), (1 << 30) + 1, (1 << 31) - 1, -(1 << 31)]
MULTIPLIERS = [0, 1, 1 << 30, (1 << 30) + 1, 1234567891, (1 << 31) - 1]


class Building:
    """What these layers ask of an operator."""

    def __init__(self) -> None:
        self.network = Network("fixed point")

    def label(self, part: str) -> str:
        return part

    def dtype_of(self, slot: OutputSlot) -> DType:
        return slot.dtype

    def add(self, descriptor: Descriptor, *sources: OutputSlot, part: str) -> OutputSlot:
        return self.network.add(descriptor, *sources, name=part).output


def expected(x: int, multiplier: int, shift: int) -> int:
    """Shift left, multiply and round at 31 places, then round the rest, halves away from zero.

    Source: MultiplyByQuantizedMultiplier of TensorFlow Lite, with rounding twice, as
    RoundingDivideByPOT does.
    """
    high = ((x << max(shift, 0)) * multiplier + (1 << 30)) >> 31
    rest = max(-shift, 0)
    remainder, threshold = high & ((1 << rest) - 1), ((1 << rest) - 1 >> 1) + (high < 0)
    return (high >> rest) + (remainder > threshold)


@pytest.mark.parametrize("shift", [-31, -30, -23, -22, -8, -2, -1, 0, 1, 5])
def test_one_shift_does_what_two_roundings_do(shift: int) -> None:
    random = np.random.default_rng(40 - shift)
    near = [(k << 31) // max(m, 1) + d for m in MULTIPLIERS for k in (1, -1, 3, -3) for d in (-1, 0, 1)]
    numbers = [*NUMBERS, *near, *random.integers(-(1 << 31), 1 << 31, 500), *random.integers(-3000, 3000, 500)]
    limit = (1 << 31) - 1 >> max(shift, 0)
    x = np.array([n for n in map(int, numbers) if -limit <= n <= limit], np.int64)
    building = Building()
    network, call = building.network, cast("Call", cast("Any", building))
    source = network.input("x", x.shape, DType.INT64)
    for multiplier in MULTIPLIERS:
        network.output(scaled(call, source, multiplier, shift, f"of_{multiplier}"), f"by_{multiplier}")
    with dovetail.load(network, "CpuRef", threads=1) as net:
        found = net.run({"x": x})
    for multiplier in MULTIPLIERS:
        wanted = [expected(int(n), multiplier, shift) for n in x]
        np.testing.assert_array_equal(found[f"by_{multiplier}"], wanted, str(multiplier))
