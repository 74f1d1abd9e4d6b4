"""A model that comes by standard input, such as from a download that is not kept."""

from __future__ import annotations

import sys
from io import BytesIO


class StandardInput:
    """Standard input as an open file, which begins anew once it was read to its end.

    What was read is kept: some commands read their model twice. Its format shows in its first
    bytes.

    Attributes:
        name: What to call it in a sentence.
    """

    name = "standard input"

    def __init__(self) -> None:
        self._kept = BytesIO()
        self._is_whole = False

    def __str__(self) -> str:
        return "-"

    def read(self, size: int) -> bytes:
        """Read at most so many bytes; none at the end.

        Raises:
            ModelError: There are none at all (`MODEL_FORMAT_UNKNOWN`).
            OSError: It cannot be read.
        """
        piece = self._kept.read(size)
        if not piece and not self._is_whole:
            piece = self._take(size)
            self._kept.write(piece)
            self._is_whole = not piece
        if not piece:
            self._kept.seek(0)
        return piece

    def _take(self, size: int) -> bytes:
        from dovetail import ErrorCode, ModelError

        piece = sys.stdin.buffer.read(size)
        if not piece and not self._kept.tell():
            raise ModelError(
                "standard input is empty: no model came by it",
                code=ErrorCode.MODEL_FORMAT_UNKNOWN,
                hint="what writes into the pipe may have failed: look at what it says, and at its arguments",
            )
        return piece
