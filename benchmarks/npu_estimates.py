"""Compare the estimates of VsiNpu with what the vendor's driver printed, on published measurements.

    python3 dev.py bench npu_estimates

Nothing is timed, and no driver is needed: what it printed is in `npu_vsi_backend/tests/data`. An
error is the estimate of the cycles divided by those that were printed, less one.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterable
from pathlib import Path

from dovetail_npu_vsi.chips import CHIPS
from dovetail_npu_vsi.estimate import estimates

TESTS = Path(__file__).parents[1] / "npu_vsi_backend" / "tests"
sys.path.insert(0, str(TESTS))  # the reader of the measurements is shared with the tests

from measured_layers import Measured, measured  # noqa: E402 - it is found by the line above

FILES = {"npu_layers.jsonl": "all layers", "npu_chains.jsonl": "chains", "npu_networks.jsonl": "networks"}
SEARCHED = ("convolution", "depthwise", "fully connected", "average")
"""Kinds for which the driver searches for tiles; other kinds are formulas that it has too."""


def ratio(row: Measured) -> float:
    """Return the estimate of the cycles by those that were printed."""
    return sum(one.cycles for one in estimates(row.program, row.chip, row.bytes_per_cycle)) / row.cycles


def cells(ratios: Iterable[float]) -> str:
    """Return the count, and the median, ninth decile and greatest of the errors, as cells."""
    errors = sorted(abs(one - 1) for one in ratios)
    if not errors:
        return "0 | | | "
    shown = (statistics.median(errors), errors[int(0.9 * len(errors))], errors[-1])
    return " | ".join([str(len(errors)), *(f"{100 * error:.1f} %" for error in shown)])


def print_kinds(found: list[tuple[str, Measured, float]]) -> None:
    """Print the errors of each kind of layer, then those of all, of chains and of networks."""
    print("| what | " + " | ".join(f"{chip.name}: count | median | p90 | worst" for chip in CHIPS) + " |")
    print("|---" * (1 + 4 * len(CHIPS)) + "|")
    groups = {
        kind: [row for row in found if row[1].kind == kind] for kind in sorted({row[1].kind for row in found} - {"chain"})
    }
    groups["layers for which tiles are searched"] = [row for row in found if row[1].kind.startswith(SEARCHED)]
    groups |= {what: [row for row in found if row[0] == file] for file, what in FILES.items()}
    for what, rows in groups.items():
        print(f"| {what} | " + " | ".join(cells(each for _, one, each in rows if one.chip is chip) for chip in CHIPS) + " |")


def print_networks(found: list[tuple[str, Measured, float]]) -> None:
    """Print the cycles of each network, estimated and measured."""
    print("| network | chip | bytes a cycle | driver | estimate | ratio |")
    print("|---|---|---|---|---|---|")
    for file, row, each in sorted(found, key=lambda one: (one[1].name, one[1].chip.name, one[1].bytes_per_cycle)):
        if file == "npu_networks.jsonl":
            numbers = f"{row.cycles / 1e6:.3f} M | {each * row.cycles / 1e6:.3f} M | {each:.2f}"
            print(f"| {row.name} | {row.chip.name} | {row.bytes_per_cycle:g} | {numbers} |")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", action="store_true", help="print each network as well")
    options = parser.parse_args()
    found = [(file, row, ratio(row)) for file in FILES for row in measured(file)]
    print_kinds(found)
    if options.networks:
        print()
        print_networks(found)


if __name__ == "__main__":
    main()
