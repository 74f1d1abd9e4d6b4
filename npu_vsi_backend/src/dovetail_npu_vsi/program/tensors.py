"""A tensor of the NPU."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

ELEMENT_TYPES = {"uint8": np.dtype(np.uint8), "int8": np.dtype(np.int8)}
"""Element types of tensors, and how NumPy stores them."""


@dataclass(frozen=True)
class Tensor:
    """Sizes, element type and quantization of a tensor between operations.

    Attributes:
        name: Of the slot that it comes from, for reports.
        shape: Sizes, outermost first; of images [N, C, H, W].
        dtype: A key of `ELEMENT_TYPES`.
        scale: real = scale * (q - zero_point).
        zero_point: Within the element type.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    scale: float
    zero_point: int

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.elements * ELEMENT_TYPES[self.dtype].itemsize

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the greatest integer of the element type."""
        info = np.iinfo(ELEMENT_TYPES[self.dtype])
        return int(info.min), int(info.max)
