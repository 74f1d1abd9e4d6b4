"""Find what installed distributions offer by entry point, without importing any of it."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib_metadata import EntryPoint

_LOGGER = logging.getLogger("dovetail")


@dataclass(frozen=True, slots=True)
class Offer:
    """One entry point of one distribution.

    Attributes:
        name: Name of the entry point; empty if the distribution's list of entry points cannot be read.
        distribution, version: Whose it is.
        entry_point: To load it by; None if it cannot be read.
        problem: Why it cannot be read.
    """

    name: str
    distribution: str
    version: str
    entry_point: EntryPoint | None
    problem: str = ""

    @property
    def value(self) -> str:
        """What the entry point points at, as ``package.module:attribute``."""
        return self.entry_point.value if self.entry_point is not None else ""

    @property
    def origin(self) -> str:
        """The distribution, its version and the value, for messages."""
        return f"{self.distribution} {self.version} ({self.value})" if self.value else f"{self.distribution} {self.version}"


def offers(group: str) -> list[Offer]:
    """List the entry points of a group, ordered by name, distribution and value.

    Of several distributions of the same name on `sys.path`, such as an editable and a normal installation, the first one
    counts, as it does for imports. A distribution that cannot be read never hides the others.
    """
    found: set[Offer] = set()
    names: set[str] = set()
    for candidate in _distributions():
        text = _entry_points_text(candidate)
        if group not in text:  # reading this text first spares parsing the metadata of everything that is installed
            continue
        name = _name(candidate)
        if name is None:
            problem = "its METADATA is missing or cannot be read: a half-removed installation?"
            found.add(Offer("", f"a distribution in {candidate.locate_file('')}", "?", None, problem))
        elif name not in names:
            names.add(name)
            found |= _offers_of(name, group)
    return sorted(found, key=lambda offer: (offer.name, offer.distribution, offer.value))


def _distributions() -> Iterator[Any]:
    """Go through what is installed; an import hook of somebody else that fails ends the list, and is told."""
    from importlib_metadata import distributions

    try:
        yield from distributions()
    except Exception as error:
        _LOGGER.warning("not all that is installed could be listed: %s: %s", type(error).__name__, error)


def _entry_points_text(candidate: Any) -> str:
    try:
        return candidate.read_text("entry_points.txt") or ""
    except Exception as error:
        # Whether it has to do with dovetail cannot be told, so it gets no row; but it is not passed over in silence.
        _LOGGER.warning(
            "entry_points.txt of %s in %s cannot be read, so it was skipped: %s: %s",
            _name(candidate) or "a distribution",
            candidate.locate_file(""),
            type(error).__name__,
            error,
        )
        return ""


def _name(candidate: Any) -> str | None:
    """Return the normalized name of a distribution, or None if its metadata cannot be read."""
    try:
        name = _field(candidate, "Name")
    except Exception:  # the caller reports it
        return None
    return re.sub(r"[-_.]+", "-", name).lower() if isinstance(name, str) and name else None


def _field(candidate: Any, name: str) -> Any:
    """Return a field of the metadata; parsing all of it, as `candidate.metadata` does, takes a hundred times as long."""
    text = candidate.read_text("METADATA") or candidate.read_text("PKG-INFO")
    if not text:
        return candidate.metadata[name]
    for line in text.splitlines():
        if not line:
            break
        label, colon, value = line.partition(":")
        if colon and label.lower() == name.lower():
            return value.strip()
    return None


def _offers_of(name: str, group: str) -> set[Offer]:
    from importlib_metadata import distribution

    version = "?"
    try:
        first = distribution(name)
        version = str(_field(first, "Version"))
        found = {Offer(entry.name, name, version, entry) for entry in first.entry_points if entry.group == group}
        if not found and re.search(
            rf"^\s*\[\s*{re.escape(group)}\s*$", first.read_text("entry_points.txt") or "", re.MULTILINE
        ):
            found = {Offer("", name, version, None, f"its entry_points.txt has a heading [{group} without an end")}
        return found
    except Exception as error:
        return {Offer("", name, version, None, f"its entry points cannot be read: {type(error).__name__}: {error}")}
