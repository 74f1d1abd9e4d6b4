"""Tensors seen as [outer, size, inner], whose lines along the middle axis go by themselves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dovetail import DType
from dovetail.ground.records import NamedTuple

from ..driver.arguments import Argument, Launch
from ..kernels import TYPES, Kernels, computed_type

SOURCE = "lines/lines.cl"
"""What kernels over lines begin with."""

_WORTH = 4096
"""Elements that are worth a work item of a CPU."""
_GROUPS = (64, 256)
"""Sizes of groups of a GPU that share lines."""
_WIDTHS = (8, 32)
"""How many neighbouring lines they share."""


class Lines(NamedTuple):
    """How a tensor is seen.

    Attributes:
        outer: Product of the axes before the one along which lines go.
        size: Elements of a line.
        inner: Product of the axes behind it: elements from one of a line to the next.
    """

    outer: int
    size: int
    inner: int

    @property
    def total(self) -> int:
        """How many lines there are."""
        return self.outer * self.inner

    @property
    def argument(self) -> np.ndarray[Any, Any]:
        """The struct that kernels take."""
        return np.array((self.outer, self.size, self.inner), np.uint32)


class Form(NamedTuple):
    """How lines are spread over lanes and work items.

    Attributes:
        defined: What `lines.cl` wants to be defined, but for types.
        sizes: Work items.
        group: Of a work group.
    """

    defined: dict[str, Any]
    sizes: tuple[int]
    group: tuple[int]


def lines_along(sizes: Sequence[int], axis: int) -> Lines:
    """Return the lines of a tensor along an axis."""
    axis %= len(sizes)
    return Lines(math.prod(sizes[:axis]), sizes[axis], math.prod(sizes[axis + 1 :]))


def lanes_of(kernels: Kernels) -> int:
    """Return how many lanes vectors of floats have on a CPU."""
    return 16 if kernels.device.facts["vector_width"] >= 16 else 8


def spread(kernels: Kernels, lines: Lines, *, is_serial: bool = False) -> Form:
    """Return how lines are spread.

    Args:
        kernels: Of the device.
        lines: That are walked over.
        is_serial: Each line is walked over from its first element to its last.
    """
    lanes, rows, group, width = 1, 0, 0, 1
    if kernels.is_cpu:
        rows = int(lines.inner == 1 and not is_serial)
        lanes = lanes_of(kernels) if rows or lines.inner >= 4 else 1
    elif not is_serial and (lines.inner == 1 or (lines.total < 128 * kernels.compute_units and lines.size > 32)):
        width = 1 if lines.inner == 1 else _WIDTHS[lines.inner >= 16]
        group = min(_GROUPS[lines.size * width > 512], kernels.device.facts["max_group"])
    defined = {"LANES": lanes, "ROWS": rows, "GROUP": group, "WIDTH": width}
    # The driver chooses which items a subgroup has: any will do where all work for one line.
    defined["SUBGROUPS"] = int(group > 0 and width == 1 and kernels.has_subgroups)
    walked = lines.outer * (1 if rows else -(-lines.inner // (width if group else lanes)))
    if group:
        return Form(defined, (min(walked, 64 * kernels.compute_units) * group,), (group,))
    least = max(1, _WORTH // max(lines.size * (1 if rows else lanes), 1))
    return Form(defined, *kernels.each(walked, least=least))


def launch(
    kernels: Kernels,
    files: str,
    name: str,
    dtype: DType,
    lines: Lines,
    tensors: Sequence[Argument],
    numbers: Sequence[Argument] = (),
    *,
    form: Form | None = None,
    **defined: Any,
) -> Launch:
    """Return the launch of a kernel over lines.

    Args:
        kernels: Of the device.
        files: Its sources, behind that of lines.
        name: Of the kernel.
        dtype: Of the elements; it says what is computed with.
        lines: That are walked over.
        tensors: Its arguments before the lines.
        numbers: Those behind them.
        form: How lines are spread; None: as `spread` says.
        defined: What the sources want besides.
    """
    form = form or spread(kernels, lines)
    types = {"C": computed_type(dtype), "X": TYPES[dtype], "IS_FLOAT": int(dtype.is_float)}
    doubles = int(dtype is DType.FLOAT64)
    kernel = kernels.get(f"{SOURCE} {files}", name, **form.defined, **types, DOUBLES=doubles, **defined)
    return Launch(kernel, (*tensors, lines.argument, *numbers), form.sizes, form.group)
