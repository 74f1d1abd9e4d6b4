"""Measure what a layer costs the host where a device computes it: chains of small layers.

    python3 dev.py bench launches [-b GpuAcc] [--layers 200] [--rounds 200] [--json FILE]

Each chain alternates an addition and a ReLU, which nobody fuses, with bound inputs. Of the rounds
the median counts. "run" is a whole run; "host" is the CPU time of the calling thread, the wait and
the copies included; "device" is how long the device worked, by its own clock, in further runs that
are profiled; all are in microseconds a layer. "overhead" is what a run takes beyond the device's
work. "profiled" is a run whose times are taken, that the others do not pay for.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np

import dovetail

SHAPES = ((4, 16), (16, 256), (64, 1024))
PROFILED = 20
"""Runs in which the device's times are taken."""


def chain(layers: int, shape: tuple[int, int]) -> dovetail.Network:
    """Return a network of so many layers, each of which reads the one before."""
    net = dovetail.Network("chain")
    x = last = net.input("x", shape)
    for number in range(layers):
        last = net.relu(last, name=f"relu{number}") if number % 2 else net.addition(last, x, name=f"add{number}")
    net.output(last, "y")
    return net


def measure(backend: str, layers: int, shape: tuple[int, int], rounds: int) -> dict[str, Any]:
    """Return microseconds a layer, by name; those of a device that does not tell are None."""
    with dovetail.load(chain(layers, shape), [backend], passes=False) as net:
        binding = net.bind({"x": np.ones(shape, np.float32)})
        _medians(binding, 10)
        run, host = _medians(binding, rounds)
        with net.profiling() as profile:
            profiled, _ = _medians(binding, PROFILED)
        working = [sum(span.end - span.begin for span in one.spans) for one in profile.each_run if one.spans]
    device = statistics.median(working) / 1e3 if working else None
    return {
        "shape": list(shape),
        "run": run / layers,
        "host": host / layers,
        "device": None if device is None else device / layers,
        "overhead": None if device is None else max(run - device, 0.0) / layers,
        "profiled": profiled / layers,
    }


def _medians(binding: Any, rounds: int) -> tuple[float, float]:
    """Return microseconds of a run, and of CPU time of this thread."""
    times = []
    for _ in range(rounds):
        begin, cpu = time.perf_counter_ns(), time.thread_time_ns()
        binding.run()
        times.append((time.perf_counter_ns() - begin, time.thread_time_ns() - cpu))
    return statistics.median(one[0] for one in times) / 1e3, statistics.median(one[1] for one in times) / 1e3


def _text(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def main() -> None:
    """Measure, print a table, and write JSON if wanted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-b", "--backend", default="GpuAcc")
    parser.add_argument("--layers", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rows = [measure(given.backend, given.layers, shape, given.rounds) for shape in SHAPES]
    columns = ("run", "host", "device", "overhead", "profiled")
    print(f"{given.backend}, {given.layers} layers; us a layer: ", *(f"{name:>10}" for name in columns))
    for row in rows:
        print(f"{' x '.join(map(str, row['shape'])):>36}", *(f"{_text(row[name]):>10}" for name in columns))
    if given.json:
        given.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
