"""Measure how fast arrays cross between the host and GpuAcc's device, beside copies in the host.

    python3 dev.py bench transfers [--device 0] [--largest 256] [--rounds 30] [--json FILE]

Networks of one layer, with bound arrays: the first element of a large input crosses back alone (to
the device), and a single element is repeated into a large result (from it). "pageable" leaves the
caller's array to the driver, "pinned" goes through memory that the driver pinned, as GpuAcc does by
itself, "nothing" is the same run of 4 bytes: what a run costs without a transfer, which the others
hold too. GB/s of the median round; "memcpy" is NumPy's copy of one such array to another. A device
that shares memory with the host is told that it does not: there is nothing to measure otherwise.
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
from dovetail_cl import devices

WAYS = ("pageable", "pinned")
SMALLEST = 4096
"""Bytes; sizes are four times one another."""


def to_device(count: int) -> dovetail.Network:
    """Return a network that reads the first of so many elements."""
    net = dovetail.Network("in")
    net.output(net.strided_slice(net.input("x", (count,)), (0,), (1,)), "y")
    return net


def from_device(count: int) -> dovetail.Network:
    """Return a network that repeats its one element."""
    net = dovetail.Network("out")
    net.output(net.broadcast_to(net.input("x", (1,)), (count,)), "y")
    return net


def one_element() -> dovetail.Network:
    """Return a network that reads and writes 4 bytes."""
    net = dovetail.Network("nothing")
    net.output(net.relu(net.input("x", (1,))), "y")
    return net


def seconds(run: Any, rounds: int) -> float:
    """Return the median over rounds, after some that do not count."""
    times = []
    for _ in range(rounds + 3):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return statistics.median(times[3:])


def measure(network: dovetail.Network, way: str, device: int, rounds: int) -> float:
    """Return the seconds of a run with bound arrays, on a device that is opened for it."""
    facts = devices.all_facts()[device]
    kept = {name: facts[name] for name in ("chunk", "staged_from", "is_unified")}
    facts.update(is_unified=False, staged_from=0, **({"chunk": 0} if way == "pageable" else {}))
    devices._open.clear()
    try:
        with dovetail.Runtime() as runtime, dovetail.load(network, [f"GpuAcc:{device}"], runtime=runtime) as net:
            shape = net.inputs[0].shape
            binding = net.bind({"x": np.ones(shape, np.float32)})
            result = seconds(binding.run, rounds)
            assert all((value == 1).all() for value in binding.outputs.values())
            binding.close()
            return result
    finally:
        facts.update(kept)
        devices._open.clear()


def main() -> None:
    """Print a table, and write JSON where that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", type=int, default=0, help="number of the OpenCL device (default 0)")
    parser.add_argument("--largest", type=int, default=256, help="MiB of the largest array (default 256)")
    parser.add_argument("--rounds", type=int, default=30, help="of each size, at least 5 (default 30)")
    parser.add_argument("--json", type=Path, help="file to write the results to")
    given = parser.parse_args()
    facts = devices.all_facts()[given.device]
    print(f"{facts['name']}, {facts['driver']}; microseconds of a run, and GB/s")
    rows: list[dict[str, Any]] = []
    nothing = measure(one_element(), "pinned", given.device, given.rounds)
    print(f"nothing: {nothing * 1e6:.1f}")
    print(f"{'bytes':>10} {'memcpy':>15}" + "".join(f"{f'{way}, {where}':>18}" for where in ("in", "out") for way in WAYS))
    size = SMALLEST
    while size <= given.largest << 20:
        source, target = np.ones(size, np.uint8), np.empty(size, np.uint8)
        row: dict[str, Any] = {
            "bytes": size,
            "memcpy": seconds(lambda source=source, target=target: np.copyto(target, source), given.rounds),
        }
        for where, network in (("in", to_device), ("out", from_device)):
            for way in WAYS:
                row[f"{way}, {where}"] = measure(network(size // 4), way, given.device, given.rounds)
        cells = [f"{value * 1e6:8.0f} {size / value / 1e9:6.2f}" for key, value in row.items() if key != "bytes"]
        print(f"{size:>10} " + "   ".join(cells))
        rows.append(row)
        size *= 4
    if given.json:
        given.json.write_text(
            json.dumps({"device": facts["name"], "driver": facts["driver"], "nothing": nothing, "rows": rows})
        )


if __name__ == "__main__":
    main()
