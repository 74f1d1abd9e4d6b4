"""What the vendor's driver prints of the operations of a binary that runs.

Given VIV_VX_DEBUG_LEVEL=1 it carries out a binary operation by operation, and prints what each is,
by its own numbers and kinds, and how long it took in microseconds. The C functions tell the time of
the whole alone.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator

from .library import flush_printed

_LONGEST = 1 << 24  # bytes that are read
_OPERATION = re.compile(
    r"layerId=(?P<layer>\d+), layer name=(?P<kind>[^,\n]{1,64}),[^\n]*target:VXNNE_OPERATION_TARGET_(?P<engine>\w{1,8})"
    r"\s+execution time:\s*(?P<microseconds>\d{1,12}) us"
)


def length() -> int:
    """Return how many bytes lie in the file that is standard error; 0 if it is no file."""
    flush_printed()
    found = os.fstat(2)
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


def text(begin: int) -> str:
    """Return what was printed from this byte on."""
    size = min(length() - begin, _LONGEST)
    return os.pread(2, size, begin).decode("utf-8", "replace") if size > 0 else ""


def operations(printed: str) -> Iterator[tuple[str, str, float]]:
    """Yield of each operation what it is, the engine that ran it, and the seconds that it took."""
    for number, found in enumerate(_OPERATION.finditer(printed)):
        name = f"operation {number}, {found['kind']} of layer {found['layer']}"
        yield name, found["engine"], int(found["microseconds"]) / 1e6
