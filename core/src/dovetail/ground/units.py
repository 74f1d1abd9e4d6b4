"""Print numbers in units that people read."""

from __future__ import annotations


def bytes_text(count: int) -> str:
    """Print a number of bytes: 512 B, 1.5 KiB, 3.0 MiB."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def count_text(count: int) -> str:
    """Print a large number: 999, 1.23 k, 4.11 G."""
    size = float(count)
    for unit in ("", " k", " M", " G"):
        if size < 999.5:  # which three digits round to 1000
            return f"{count}" if not unit else f"{size:.3g}{unit}"
        size /= 1000
    return f"{size:.3g} T"
