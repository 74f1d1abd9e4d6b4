"""What the kernels of this family know of axes that indices name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

_MAX_DEPTH = 8
_NAMED = np.dtype([("size", np.uint32, _MAX_DEPTH), ("stride", np.int32, _MAX_DEPTH), ("depth", np.uint32)])


def named(sizes: Sequence[int], strides: Sequence[int]) -> npt.NDArray[Any]:
    """Return the struct of the axes that the last axis of a tensor of indices names."""
    given = np.zeros((), _NAMED)
    given["size"][: len(sizes)], given["stride"][: len(sizes)] = sizes, strides
    given["depth"] = len(sizes)
    return given


def walked(layout: np.dtype[Any], axes: Sequence[tuple[int, tuple[int, ...]]], *names: str) -> npt.NDArray[Any]:
    """Return a struct with sizes and strides of axes, the innermost one first.

    Args:
        layout: Of the struct.
        axes: Sizes and strides, the outermost axis first.
        names: Of the fields of the strides.
    """
    given = np.zeros((), layout)
    for number, (size, strides) in enumerate(reversed(axes)):
        given["size"][number] = size
        for name, stride in zip(names, strides, strict=False):
            given[name][number] = stride
    given["axes"] = len(axes)
    return given
