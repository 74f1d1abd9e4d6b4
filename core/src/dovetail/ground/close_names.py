"""Close matches for a name that does not exist."""

from __future__ import annotations

from collections.abc import Iterable

from .foreign_text import printable


def close_names(name: str, known: Iterable[str], *, count: int = 3) -> list[str]:
    """Return known names that are like this one, the closest first; case does not count."""
    from difflib import get_close_matches  # here, since only what goes wrong needs it

    by_lower: dict[str, str] = {}
    for candidate in known:
        by_lower.setdefault(candidate.lower(), candidate)
    return [by_lower[match] for match in get_close_matches(name.lower(), by_lower, n=count)]


def suggestion(name: str, known: Iterable[str], *, limit: int = 12) -> str:
    """Say which known names are close to this one, or, if none is, which there are."""
    names = list(dict.fromkeys(printable(str(one)) for one in known))
    close = close_names(name, names)
    if close:
        return f"did you mean {' or '.join(map(repr, close))}?"
    if not names:
        return "there is none"
    listed = ", ".join(names[:limit])
    return f"known: {listed}{f' and {len(names) - limit} more' if len(names) > limit else ''}"
