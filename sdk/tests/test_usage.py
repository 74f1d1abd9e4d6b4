"""What the kit counts of this process."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail_sdk.conformance.usage import allocated_bytes, usage

PIECE, PIECES = 1 << 16, 500


@pytest.mark.skipif(allocated_bytes() == 0, reason="the C library does not tell what malloc gave out")
def test_memory_lost_in_the_holes_of_what_was_freed_is_counted() -> None:
    held = [np.ones(PIECE, np.uint8) for _ in range(4 * PIECES)]
    del held[::2]  # the process stays as large
    before = usage()
    lost = [np.ones(PIECE, np.uint8) for _ in range(PIECES)]
    after = usage()
    assert len(held) == 2 * PIECES
    assert len(lost) == PIECES
    assert after["allocated bytes"] - before["allocated bytes"] >= PIECES * PIECE * 0.9
    assert after["bytes of memory"] - before["bytes of memory"] < PIECES * PIECE / 2
