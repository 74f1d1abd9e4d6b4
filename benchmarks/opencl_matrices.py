"""Measure GpuAcc's products of matrices beside CpuAcc's: networks of one layer, alternating.

    python3 dev.py bench opencl_matrices

It is a comparison where the OpenCL device is the same CPU, such as PoCL's. See README.md for how to
read it.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np

import dovetail
from dovetail import DType, Network

BACKENDS = ("GpuAcc", "CpuAcc")
BLOCK = 0.02  # seconds of one turn, about
CASES: dict[str, tuple[str, tuple[int, ...], tuple[int, ...]]] = {  # layer, sizes of both sides
    "768^3, weights": ("weights", (768, 768), (768, 768)),
    "1536^3, weights": ("weights", (1536, 1536), (1536, 1536)),
    "768^3, both computed": ("product", (768, 768), (768, 768)),
    "768^3, transposed": ("transposed", (768, 768), (768, 768)),
    "bert_mini: query, key, value": ("connected", (128, 256), (256, 256)),
    "bert_mini: up": ("connected", (128, 256), (1024, 256)),
    "bert_mini: down": ("connected", (128, 1024), (256, 1024)),
    "bert_mini: scores": ("transposed", (4, 128, 64), (4, 128, 64)),
    "bert_mini: weighed values": ("product", (4, 128, 128), (4, 128, 64)),
    "one row, 4096 x 4096 weights": ("connected", (1, 4096), (4096, 4096)),
    "four rows, 4096 x 4096 weights": ("connected", (4, 4096), (4096, 4096)),
}
Run = Callable[[], np.ndarray]


def drawn(sizes: tuple[int, ...]) -> np.ndarray:
    """Return random values, the same for each backend."""
    return np.random.default_rng(sizes).standard_normal(sizes).astype(np.float32)


def opened(backend: str, layer: str, left: tuple[int, ...], right: tuple[int, ...]) -> Run:
    """Return a call of a network of one layer."""
    network = Network("product")
    feeds = {"a": drawn(left)}
    a = network.input("a", left, DType.FLOAT32)
    if layer in ("weights", "connected"):
        b = network.constant(drawn(right))
    else:
        feeds["b"] = drawn(right)
        b = network.input("b", right, DType.FLOAT32)
    if layer == "connected":
        y = network.fully_connected(a, b, network.constant(drawn(right[:1])))
    else:
        y = network.matmul(a, b, transpose_b=layer == "transposed")
    network.output(y, name="y")
    net = dovetail.load(network, [backend])
    return lambda: net.run(feeds)["y"]


def timed(run: Run, calls: int) -> float:
    """Return the seconds of a call."""
    start = time.perf_counter()
    for _ in range(calls):
        run()
    return (time.perf_counter() - start) / calls


def measure(layer: str, left: tuple[int, ...], right: tuple[int, ...], rounds: int) -> dict[str, list[float]]:
    """Return the seconds of a call on each backend, round by round."""
    runs = {backend: opened(backend, layer, left, right) for backend in BACKENDS}
    first, second = (run() for run in runs.values())
    np.testing.assert_allclose(first, second, atol=1e-4 * float(abs(second).max()))
    calls = {backend: max(1, round(BLOCK / timed(run, 2))) for backend, run in runs.items()}
    times: dict[str, list[float]] = {backend: [] for backend in BACKENDS}
    for _ in range(rounds):
        for backend, run in runs.items():
            times[backend].append(timed(run, calls[backend]))
    return times


def main() -> None:
    """Print a line for each product."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="turns of each backend")
    parser.add_argument("case", nargs="*", help="names, or parts of them; none: all")
    given = parser.parse_args()
    print(f"{'':32}" + "".join(f"{backend:>12}" for backend in BACKENDS) + f"{'GFLOP/s':>12}{'ratio':>8}")
    for name, (layer, left, right) in CASES.items():
        if given.case and not any(part in name for part in given.case):
            continue
        times = measure(layer, left, right, given.rounds)
        columns = right[-1] if layer in ("weights", "product") else right[-2]
        usual = {backend: statistics.median(each) for backend, each in times.items()}
        ratio = statistics.median(theirs / ours for ours, theirs in zip(*times.values(), strict=True))
        speed = 2e-9 * np.prod(left) * columns / usual["GpuAcc"]
        shown = "".join(f"{each * 1e6:>9.0f} us" for each in usual.values())
        print(f"{name:32}{shown}{speed:>12.0f}{ratio:>8.2f}")


if __name__ == "__main__":
    main()
