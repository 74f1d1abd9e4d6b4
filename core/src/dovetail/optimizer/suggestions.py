"""Close matches for a name that does not exist."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def suggestion(name: str, known: Iterable[str], *, limit: int = 12) -> str:
    """Say which known names are close to this one, or, if none is, which there are."""
    names = list(dict.fromkeys(map(str, known)))
    by_lower = {candidate.lower(): candidate for candidate in reversed(names)}
    close = [by_lower[match] for match in get_close_matches(name.lower(), by_lower, n=3, cutoff=0.6)]
    if close:
        return f"did you mean {' or '.join(map(repr, close))}?"
    if not names:
        return "there is none"
    listed = ", ".join(names[:limit])
    return f"known: {listed}{f' and {len(names) - limit} more' if len(names) > limit else ''}"
