"""Find what installed distributions offer by entry point, without importing any of it."""

from __future__ import annotations

import logging
import os
import re
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from ..ground.host_exceptions import is_of_host

if TYPE_CHECKING:
    from importlib_metadata import EntryPoint

_LOGGER = logging.getLogger("dovetail")
RACY_NS = 2_000_000_000
"""Longest step of a file system's clock: what changed so shortly before may have changed again without a new time."""


class Offer(NamedTuple):
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


class _Place(NamedTuple):
    """What changes where distributions come or go.

    Attributes:
        folders: Entries of `sys.path` that are there, with inode and time of last change.
        finders: Who is asked for modules.
    """

    folders: tuple[tuple[str, int, int], ...]
    finders: tuple[int, ...]


class _Scan:
    """What is installed and mentions dovetail, as it was found once.

    Attributes:
        place: Where it was found, to see whether it still holds.
        is_settled: False if a folder changed so lately that it may change again without a new time.
        entries: Distributions, and their lists of entry points.
        offers: What they offer, by group, as far as it was asked for.
    """

    __slots__ = ("entries", "is_settled", "offers", "place")

    def __init__(self, place: _Place) -> None:
        self.place = place
        self.is_settled = max((modified_ns for _, _, modified_ns in place.folders), default=0) < time.time_ns() - RACY_NS
        texts = ((candidate, _entry_points_text(candidate)) for candidate in _distributions())
        # Reading this text first spares parsing the metadata of everything that is installed.
        self.entries = [(candidate, text) for candidate, text in texts if "dovetail" in text]
        self.offers: dict[str, list[Offer]] = {}


_last: _Scan | None = None


def offers(group: str) -> list[Offer]:
    """List the entry points of a group, ordered by name, distribution and value.

    Of several distributions of the same name on `sys.path`, such as an editable and a normal installation, the first one
    counts, as it does for imports. A distribution that cannot be read never hides the others.

    Everything is looked through once; again when `sys.path` or a folder on it has changed, or may have within the step of the
    file system's clock, or after `forget`.
    """
    global _last
    import importlib_metadata as importlib_metadata  # adds a finder to sys.meta_path

    place, scan = _place(), _last
    if scan is None or scan.place != place or not scan.is_settled:
        scan = _last = _Scan(place)
    if group not in scan.offers:
        scan.offers[group] = _offered(group, scan)
    return list(scan.offers[group])


def forget() -> None:
    """Look through everything again when next asked: what was installed may have been changed in place."""
    global _last
    _last = None


def version_of(name: str) -> str | None:
    """Return the version of a distribution; None if it is not installed or does not say."""
    from importlib_metadata import PackageNotFoundError, distribution

    try:
        found = _field(distribution(name), "Version")
    except PackageNotFoundError:
        return None
    return found if isinstance(found, str) else None


def _place() -> _Place:
    folders: list[tuple[str, int, int]] = []
    for entry in sys.path:
        try:
            facts = os.stat(entry or ".")
        except (OSError, TypeError, ValueError):  # one that is not there, or no path at all, offers nothing
            continue
        folders.append((entry, facts.st_ino, facts.st_mtime_ns))
    return _Place(tuple(folders), tuple(map(id, sys.meta_path)))


def _offered(group: str, scan: _Scan) -> list[Offer]:
    found: set[Offer] = set()
    names: set[str] = set()
    for candidate, text in scan.entries:
        if group not in text:
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
        if is_of_host(error):
            raise
        _LOGGER.warning("not all that is installed could be listed: %s: %s", type(error).__name__, error)


def _entry_points_text(candidate: Any) -> str:
    try:
        return candidate.read_text("entry_points.txt") or ""
    except Exception as error:
        if is_of_host(error):
            raise
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
    except Exception as error:  # the caller reports it
        if is_of_host(error):
            raise
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
        if is_of_host(error):
            raise
        return {Offer("", name, version, None, f"its entry points cannot be read: {type(error).__name__}: {error}")}
