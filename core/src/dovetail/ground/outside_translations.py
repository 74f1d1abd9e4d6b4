"""What others translate for the parsers of this process.

Kept plans tell by it whether a file would be read in the same way again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

_stated: dict[str, tuple[int, tuple[str, ...]]] = {}
_lock = threading.RLock()  # again where the collector runs, while it is held, what states something


def state_translations(parser: str, names: Iterable[str]) -> None:
    """State all that others translate for a parser from now on, in the place of what was stated.

    Call it whenever that changes, even if the names stay the same: each call tells plans that are
    being made that their network may have been read in another way.

    Args:
        parser: The parser's package, such as "dovetail_onnx".
        names: What is translated: operators, with all that decides when.
    """
    with _lock:
        count, _ = _stated.get(parser, (0, ()))
        _stated[parser] = count + 1, tuple(sorted(set(names)))


def translations_of(parser: str) -> tuple[int, tuple[str, ...]]:
    """Return how often what others translate for a parser was stated, and what was stated last."""
    return _stated.get(parser, (0, ()))
