"""The element types of tensors, and NumPy's names for them."""

from __future__ import annotations

import importlib
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from ..ground.errors import ErrorCode, GraphError


class DType(Enum):
    """Element types: (name, NumPy storage, DLPack type code, bits).

    NumPy has no bfloat16 of its own: its storage is uint16 holding the upper half of a float32, and
    arrays of `ml_dtypes.bfloat16` are taken as they are.
    """

    FLOAT64 = ("float64", "f8", 2, 64)
    FLOAT32 = ("float32", "f4", 2, 32)
    FLOAT16 = ("float16", "f2", 2, 16)
    BFLOAT16 = ("bfloat16", "u2", 4, 16)
    INT8 = ("int8", "i1", 0, 8)
    INT16 = ("int16", "i2", 0, 16)
    INT32 = ("int32", "i4", 0, 32)
    INT64 = ("int64", "i8", 0, 64)
    UINT8 = ("uint8", "u1", 1, 8)
    UINT16 = ("uint16", "u2", 1, 16)
    UINT32 = ("uint32", "u4", 1, 32)
    UINT64 = ("uint64", "u8", 1, 64)
    BOOL = ("bool", "?", 6, 8)

    def __init__(self, label: str, storage: str, dlpack_code: int, bits: int) -> None:
        self.label = label
        self.numpy: np.dtype[Any] = np.dtype(storage)
        self.dlpack_code = dlpack_code
        self.bits = bits
        self.itemsize = bits // 8

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype that NumPy asks for in `np.zeros(spec.sizes, spec.dtype)`.

        bfloat16 is that of `ml_dtypes`, since converting to its storage would not round but count.

        Raises:
            GraphError: bfloat16, and `ml_dtypes` is not installed (`DTYPE_MISMATCH`).
        """
        if self is not DType.BFLOAT16:
            return self.numpy
        try:
            storage: np.dtype[Any] = np.dtype(importlib.import_module("ml_dtypes").bfloat16)
        except ImportError:
            raise GraphError(
                "NumPy has no bfloat16",
                code=ErrorCode.DTYPE_MISMATCH,
                hint="pip install ml_dtypes; or use uint16 with the upper half of float32, which DType.BFLOAT16.numpy is",
            ) from None
        return storage

    @property
    def is_float(self) -> bool:
        """True for the floating types, bfloat16 included."""
        return self.dlpack_code in (2, 4)

    @property
    def is_integer(self) -> bool:
        """True for signed and unsigned integers; bool is not one."""
        return self.dlpack_code in (0, 1)

    @property
    def is_signed(self) -> bool:
        """True for floats and signed integers."""
        return self.dlpack_code in (0, 2, 4)

    @property
    def limits(self) -> tuple[int, int]:
        """The smallest and the largest value of an integer type."""
        return (-(1 << self.bits - 1), (1 << self.bits - 1) - 1) if self.is_signed else (0, (1 << self.bits) - 1)

    @classmethod
    def of(cls, value: DType | npt.DTypeLike) -> DType:
        """Return the `DType` for a `DType`, its name, or anything NumPy takes as a dtype.

        Raises:
            GraphError: No such element type (`DTYPE_MISMATCH`).
        """
        if isinstance(value, DType):
            return value
        if isinstance(value, np.dtype) and (known := STORED.get(value)) is not None:
            return known
        name = value if isinstance(value, str) else getattr(value, "name", None) or getattr(value, "__name__", None)
        if isinstance(name, str) and name in _BY_NAME:
            return _BY_NAME[name]
        try:
            return _BY_NAME[np.dtype(value).name]
        except (TypeError, KeyError):
            raise GraphError(
                f"{value!r} is not an element type of dovetail",
                code=ErrorCode.DTYPE_MISMATCH,
                hint=f"use one of {', '.join(_BY_NAME)}",
            ) from None

    # Members are alone of their kind; Enum's own hash is Python that hashes the name, in every set
    # and dict of types.
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"DType.{self.name}"

    def __str__(self) -> str:
        return self.label


_BY_NAME = {dtype.label: dtype for dtype in DType}
STORED = {np.dtype(label): dtype for label, dtype in _BY_NAME.items() if label != "bfloat16"}
"""By NumPy's types, those that are stored as they are.

NumPy works the name of a type out anew each time it is asked.
"""
