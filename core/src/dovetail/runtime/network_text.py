"""A loaded network in some lines: what `print(net)` shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from ..graph.network_table import end_lines, shortened
from ..graph.summary import TensorSummary
from ..ground.cell_widths import cell_width, first_cells
from ..ground.errors import DovetailError, ErrorCode
from ..ground.units import bytes_text

if TYPE_CHECKING:
    from ..optimizer.optimized import TensorSpec
    from .steps import PlannedMemory

_LONGEST_NAME = 64
"""Columns of the network's."""
_COLUMNS = 100
_FIRST = 4
"""Tensors that are described on one line."""


class _Loaded(Protocol):
    """A loaded network, as far as it is looked at."""

    @property
    def name(self) -> str: ...
    @property
    def inputs(self) -> Sequence[TensorSpec]: ...
    @property
    def outputs(self) -> Sequence[TensorSpec]: ...
    @property
    def memory(self) -> PlannedMemory: ...


def text_of(network: _Loaded, state: str) -> str:
    """Describe a loaded network by what it takes and returns, who computes it, and its memory.

    Nothing is planned, read or compiled for it, unless open sizes of outputs are to be worked out.

    Args:
        network: The network.
        state: What can be said of its plans.
    """
    try:
        outputs: Sequence[TensorSpec] = network.outputs
        told = ""
    except DovetailError as error:  # a run decides them, or their file is not there any more
        outputs, told = (), f"outputs are not known: {error.message}"
    lines = [f"network {shortened(network.name, _LONGEST_NAME)!r}: {state}"]
    lines += end_lines((("input", _summaries(network.inputs)), ("output", _summaries(outputs))))
    try:
        memory = network.memory
    except DovetailError as error:
        told = told or ("" if error.code is ErrorCode.NETWORK_UNLOADED else f"not planned yet: {error.hint}")
    else:
        counts = Counter(step.backend for step in memory.steps)
        lines.append(f"backends: {', '.join(f'{backend} ({count})' for backend, count in counts.items()) or 'none'}")
        kept = f"{bytes_text(memory.constant_bytes)} of constants, {bytes_text(memory.private_bytes)} that backends hold"
        lines.append(f"memory: {bytes_text(memory.peak_bytes)} for each run at a time, {kept}")
    if told:
        lines.append(told)
    return "\n".join(line if cell_width(line) <= _COLUMNS else f"{first_cells(line, _COLUMNS - 3)}..." for line in lines)


def tensors_text(specs: Sequence[TensorSpec]) -> str:
    """Describe the inputs or outputs of a plan on one line: the first, and how many more."""
    shown = [
        f"{shortened(spec.name, _LONGEST_NAME)!r} {spec.dtype}[{', '.join(map(str, spec.shape))}]" for spec in specs[:_FIRST]
    ]
    return ", ".join(shown) + (f" and {len(specs) - _FIRST} more" if len(specs) > _FIRST else "") or "nothing"


def _summaries(specs: Sequence[TensorSpec]) -> list[TensorSummary]:
    return [TensorSummary(spec.name, str(spec.dtype), spec.shape) for spec in specs]
