"""Measure what a process of its own adds to a call, and how soon a dead one is replaced.

    python3 dev.py bench isolation [--rounds 15] [--calls 2000] [--backend CpuRef]

Each network is loaded twice, in process and isolated, and both are called in turn, in blocks: a
slow moment of the machine strikes both. A call is `Binding.run`. What is added is the difference of
the two blocks of a round; printed are the median over the rounds of the blocks' medians, and of
their fastest tenths, which other processes disturb less. "after a pause" sleeps 2 ms before each
call, so that nobody spins any more and both ends must be woken.

"again" is how much longer than others the first call takes after the process was killed, as the
caller sees it: a fork, and loading the part.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dovetail import Network, Runtime


class Case(NamedTuple):
    """A network that is called.

    Attributes:
        title: What crosses.
        network: It.
        feeds: Its inputs.
    """

    title: str
    network: Network
    feeds: dict[str, Any]


def cases() -> list[Case]:
    """Return a call of almost nothing, and one that carries what an image classifier's does."""
    tiny = Network("tiny")
    tiny.output(tiny.relu(tiny.input("x", (4,))), "y")
    image = Network("image")
    pixels = image.input("x", (1, 3, 112, 112))
    image.output(image.reduce(image.reshape(pixels, (256, 147)), "max", axes=(1,)), "y")
    generator = np.random.default_rng(0)
    return [
        Case("4 floats in, 4 out", tiny, {"x": np.ones(4, np.float32)}),
        Case("150 kB in, 1 kB out", image, {"x": generator.normal(size=(1, 3, 112, 112)).astype(np.float32)}),
    ]


def block(call: Callable[[], Any], count: int, pause: float) -> tuple[float, float]:
    """Return the median and the fastest tenth of so many calls, in microseconds."""
    times = []
    for _ in range(count):
        if pause:
            time.sleep(pause)
        begin = time.perf_counter_ns()
        call()
        times.append(time.perf_counter_ns() - begin)
    times.sort()
    return times[len(times) // 2] / 1e3, times[len(times) // 10] / 1e3


def compare(case: Case, runtime: Runtime, backend: str, rounds: int, calls: int, pause: float) -> str:
    """Measure one network; return a row."""
    asked = {"backends": [backend]}
    with (
        runtime.load(case.network, optimize=asked) as here,
        runtime.load(case.network, optimize={**asked, "isolate": backend}) as there,
    ):
        bindings = here.bind(case.feeds), there.bind(case.feeds)
        for binding in bindings:
            binding.run()
        for name, value in bindings[0].outputs.items():
            np.testing.assert_array_equal(value, bindings[1].outputs[name])
        found = [[block(binding.run, calls, pause) for binding in bindings] for _ in range(rounds)]
        for binding in bindings:
            binding.close()
    medians = [statistics.median(one[side][0] for one in found) for side in (0, 1)]
    fastest = [statistics.median(one[side][1] for one in found) for side in (0, 1)]
    added = [statistics.median(one[1][which] - one[0][which] for one in found) for which in (0, 1)]
    return (
        f"{case.title:22}{'after a pause' if pause else 'back to back':16}"
        f"{medians[0]:9.1f}{medians[1]:10.1f}{added[0]:9.1f}{fastest[0]:12.1f}{fastest[1]:10.1f}{added[1]:9.1f}"
    )


def children_of(pid: int) -> list[int]:
    """Return the processes that a process started."""
    return [int(one) for path in Path(f"/proc/{pid}/task").glob("*/children") for one in path.read_text().split()]


def worker() -> int:
    """Return the process that was forked last."""
    pids = [os.getpid()]
    for _ in range(2):  # the template, and its forks
        pids = [child for pid in pids for child in children_of(pid)]
    return max(pid for pid in pids if "-channel" in Path(f"/proc/{pid}/maps").read_text())  # others try imports


def restarts(network: Network, feeds: dict[str, Any], runtime: Runtime, backend: str, rounds: int) -> list[float]:
    """Kill the process again and again.

    Returns:
        How much longer each next call took than the one before, in milliseconds.
    """
    times = []
    with runtime.load(network, optimize={"backends": [backend], "isolate": backend}) as net:
        for _ in range(rounds):
            net.run(feeds)
            begin = time.perf_counter()
            net.run(feeds)
            usual = time.perf_counter() - begin
            time.sleep(0.3)  # until the template has imported what the load had to import
            os.kill(worker(), signal.SIGKILL)
            time.sleep(0.05)
            begin = time.perf_counter()
            net.run(feeds)
            times.append((time.perf_counter() - begin - usual) * 1e3)
    return times


def large_network() -> Network:
    """Return a network of 30 convolutions with 17 MB of weights, as that of an image classifier."""
    generator = np.random.default_rng(1)
    network = Network("classifier")
    x = network.input("x", (1, 64, 14, 14))
    channels = 64
    for number in range(30):
        wanted = 64 if number % 2 else 288
        weights = generator.normal(scale=0.05, size=(wanted, channels, *((3, 3) if number % 4 == 0 else (1, 1))))
        x = network.relu(network.convolution2d(x, weights.astype(np.float32), padding=1 if number % 4 == 0 else 0))
        channels = wanted
    network.output(x, "y")
    return network


def main() -> None:
    """Print a row for each call, and how soon a dead process is replaced."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="blocks of each (default: %(default)s)")
    parser.add_argument("--calls", type=int, default=2000, help="calls of a block (default: %(default)s)")
    parser.add_argument("--backend", default="CpuRef", help="what runs them (default: %(default)s)")
    arguments = parser.parse_args()
    with Runtime(threads=1) as runtime:
        print(f"{'microseconds':38}{'median of calls':^28}{'fastest tenth':^31}")
        print(f"{'':38}{'here':>9}{'isolated':>10}{'added':>9}{'here':>12}{'isolated':>10}{'added':>9}")
        for case in cases():
            for pause, calls in ((0.0, arguments.calls), (0.002, arguments.calls // 20)):
                print(compare(case, runtime, arguments.backend, arguments.rounds, calls, pause))
        print(f"\n{'milliseconds, once it died':38}{'median':>9}{'least':>10}{'most':>9}")
        network = large_network()
        image = {"x": np.ones((1, 64, 14, 14), np.float32)}
        for title, made, feeds in (("a layer", *cases()[0][1:]), ("30 convolutions, 17 MB", network, image)):
            times = restarts(made, feeds, runtime, arguments.backend, arguments.rounds)
            print(f"{'again, ' + title:38}{statistics.median(times):9.1f}{min(times):10.1f}{max(times):9.1f}")


if __name__ == "__main__":
    main()
