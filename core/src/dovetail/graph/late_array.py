"""An array that is made when somebody asks for its elements; shape and type are known before."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy.typing as npt

from ..ground.records import NamedTuple
from .element_types import DType


class LateArray(NamedTuple):
    """What a `Constant` may hold in the place of its value.

    Attributes:
        shape: Its sizes.
        dtype: Its element type.
        read: Makes the array: in row-major order, in the storage of that type, and held by nobody
            who writes to it. It is called when the value is first asked for.
    """

    shape: tuple[int, ...]
    dtype: DType
    read: Callable[[], npt.NDArray[Any]]

    @property
    def elements(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes that these take."""
        return self.elements * self.dtype.itemsize
