"""What placement reports say of a program: engines, estimated cycles, bytes, and what is slow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from .chips import Chip
from .engines import SH
from .estimate import Estimate, estimates
from .program import (
    Binary,
    Concat,
    Convolution,
    FullyConnected,
    Function,
    Operation,
    Pad,
    Permute,
    Pooling,
    Program,
    Requantize,
    Reshape,
    Resize,
    Softmax,
)


class Report:
    """What is said of one program on one chip.

    Args:
        program: What is reported.
        chip: Where it would run.
        bytes_per_cycle: What external memory gives; 0: what the vendor's driver supposes.
    """

    def __init__(self, program: Program, chip: Chip, bytes_per_cycle: float) -> None:
        self._program = program
        self._chip = chip
        self._bandwidth = bytes_per_cycle or chip.bytes_per_cycle
        self._rows = estimates(program, chip, bytes_per_cycle)
        self._cycles = sum(row.cycles for row in self._rows)
        self._least = "at least " if any(map(_has_shader, self._rows)) else ""

    @property
    def words(self) -> str:
        """The program in a line."""
        engines = Counter(row.engine for row in self._rows if row.engine)
        moved = sum(row.bytes_read + row.bytes_written for row in self._rows)
        places = ", ".join(f"{count} on {engine}" for engine, count in engines.most_common()) or "nothing to compute"
        return (
            f"program of {_count(len(self._rows), 'operation')} for {self._chip.name} ({places}); estimate at "
            f"{self._bandwidth:g} bytes a cycle of external memory: {self._least}{self._cycles:,} cycles, "
            f"{self._cycles / self._chip.hertz * 1e3:.3g} ms at {self._chip.hertz / 1e6:.0f} MHz, {moved:,} bytes moved"
            f"{''.join(self._remedies())}"
        )

    def _remedies(self) -> Iterator[str]:
        """Yield what would make operations faster that are slow for the same reason."""
        for remedy, count in Counter(row.remedy for row in self._rows if row.remedy).items():
            yield f"; {_count(count, 'operation')} could be faster: {remedy}"

    def steps(self) -> Iterator[tuple[str, str]]:
        """Yield the name of each operation, and what is said of it."""
        for operation, row in zip(self._program.operations, self._rows, strict=True):
            yield operation.name, "; ".join(filter(None, (f"{_what(operation)}: {self._said(row)}", row.reason)))

    def _said(self, row: Estimate) -> str:
        """Say where an operation runs and what it takes, of all cycles too."""
        if not row.engine:
            return "no time of its own"
        share = f"{row.cycles / max(self._cycles, 1):.1%}".replace("%", " %")
        least = "at least " if _has_shader(row) else ""
        return f"{row.engine}, {least}{row.cycles:,} cycles ({share}), {row.bytes_read + row.bytes_written:,} bytes"


def _has_shader(row: Estimate) -> bool:
    """Tell whether the shader, whose arithmetic is not counted, has a part in an operation."""
    return SH in row.engine.split("+")


def _what(operation: Operation) -> str:
    """Say what an operation is, and of how many layers besides the one it is named after."""
    folded = len([name for name in operation.sources if name != operation.name])
    depthwise = "depthwise " if isinstance(operation, Convolution) and operation.is_depthwise else ""
    return f"{depthwise}{_NAMES[type(operation)]}" + (f", {_count(folded, 'layer')} folded in" if folded else "")


_NAMES: dict[type[Operation], str] = {
    Binary: "sum or product",
    Concat: "concatenation",
    Convolution: "convolution",
    FullyConnected: "fully connected",
    Function: "function",
    Pad: "padding",
    Permute: "order of axes",
    Pooling: "pooling",
    Requantize: "other scale",
    Reshape: "shape",
    Resize: "resampling",
    Softmax: "softmax",
}


def _count(number: int, one: str) -> str:
    return f"{number} {one if number == 1 else one + 's'}"
