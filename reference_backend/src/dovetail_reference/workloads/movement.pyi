from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

class Relation(IntEnum):
    NONE = 0
    VIEW = 1
    IN_PLACE = 2
    PART = 3

@dataclass(frozen=True, kw_only=True)
class Copy:
    input: int = 0
    output: int = 0
    shape: Sequence[int]
    source_offset: int = 0
    target_offset: int = 0
    source_strides: Sequence[int]
    target_strides: Sequence[int]
    relation: Relation = ...
    table: bytes | None = None

def movement_workload(copies: Sequence[Copy], itemsize: int) -> Any: ...
def mapping_workload(elements: int, table: bytes) -> Any: ...
def selection_workload(tables: Sequence[npt.NDArray[np.int64]], source_strides: Sequence[int], itemsize: int) -> Any: ...
def fill_workload(content: bytes, count: int = ...) -> Any: ...
