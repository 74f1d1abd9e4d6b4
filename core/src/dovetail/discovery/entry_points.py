"""Find what installed distributions offer by entry point, without importing any of it."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from ..ground.host_exceptions import is_of_host
from ..ground.limits import under_way
from ..ground.logs import Log
from ..ground.records import NamedTuple
from . import distributions
from .distributions import RACY_NS, folders_of_metadata, normalized

_log = Log("dovetail")
_REFERENCE = re.compile(r"\s*(\w+(?:\.\w+)*)\s*(?::\s*(\w+(?:\.\w+)*))?\s*(?:\[.*\]\s*)?")
"""``package.module:object.attribute [extras]``, all behind the module optional."""


class Offer(NamedTuple):
    """One entry point of one distribution.

    Attributes:
        name: Name of the entry point; empty if the distribution's list of entry points cannot be
            read.
        distribution, version: Whose it is.
        value: What it points at, as ``package.module:attribute``; empty if it cannot be read.
        problem: Why it cannot be read.
    """

    name: str
    distribution: str
    version: str
    value: str = ""
    problem: str = ""

    @property
    def origin(self) -> str:
        """The distribution, its version and the value, for messages."""
        return f"{self.distribution} {self.version} ({self.value})" if self.value else f"{self.distribution} {self.version}"

    @property
    def module(self) -> str:
        """The module that it points into.

        Raises:
            ValueError: The value is no reference to an object.
        """
        return reference(self.value)[0]


class _Place(NamedTuple):
    """What changes where distributions come or go.

    Attributes:
        folders: Entries of `sys.path` that are there, with inode and time of last change.
        finders: Who is asked for modules.
    """

    folders: tuple[tuple[str, int, int], ...]
    finders: tuple[int, ...]


class _Scan:
    """What is installed, as it was found once.

    Attributes:
        place: Where it was found, to see whether it still holds.
        is_settled: False if a folder changed so lately that it may change again without a new time.
        load: The latest load that asked; it holds for all of that.
        entries: Distributions that mention dovetail, and their lists of entry points.
        named: The first distribution of each name, which is the one that counts, as it does for
            imports.
        offers: What they offer, by group, as far as it was asked for.
    """

    __slots__ = ("entries", "is_settled", "load", "named", "offers", "place")

    def __init__(self, place: _Place) -> None:
        self.place = place
        self.load = under_way()
        self.is_settled = max((modified_ns for _, _, modified_ns in place.folders), default=0) < time.time_ns() - RACY_NS
        self.entries: list[tuple[Any, str]] = []
        self.named: dict[str, Any] = {}
        self.offers: dict[str, list[Offer]] = {}
        for candidate in _distributions():
            self.named.setdefault(candidate.normalized, candidate)
            text = _entry_points_text(candidate)
            if "dovetail" in text:  # reading this text first spares parsing the metadata of everything that is installed
                self.entries.append((candidate, text))


_last: _Scan | None = None


def offers(group: str) -> list[Offer]:
    """List the entry points of a group, ordered by name, distribution and value.

    Of several distributions of the same name on `sys.path`, such as an editable and a normal
    installation, the first one counts, as it does for imports. A distribution that cannot be read
    never hides the others.

    Everything is looked through once; again when `sys.path` or a folder on it has changed, or may
    have within the step of the file system's clock, or after `forget`.
    """
    scan = _scanned()
    if group not in scan.offers:
        scan.offers[group] = _offered(group, scan)
    return list(scan.offers[group])


def load_object(value: str) -> Any:
    """Import what an entry point points at; raises whatever the import raises.

    Raises:
        ValueError: The value is no reference to an object; `reference` tells it apart from what the
            import raises.
    """
    module, path = reference(value)
    found: Any = import_module(module)
    for name in filter(None, path.split(".")):
        found = getattr(found, name)
    return found


def forget() -> None:
    """Look through everything again when next asked: distributions may have changed in place."""
    global _last
    _last = None
    distributions.forget()


def version_of(name: str) -> str | None:
    """Return the version of a distribution; None if it is not installed or does not say."""
    first = _scanned().named.get(normalized(name))
    found = _field(first, "Version") if first is not None else None
    return found if isinstance(found, str) else None


def reference(value: str) -> tuple[str, str]:
    """Return the module that an entry point names, and the path, maybe empty, of the object in it.

    Raises:
        ValueError: The value is no reference to an object.
    """
    match = _REFERENCE.fullmatch(value)
    if match is None:
        raise ValueError(f"{value!r} is no reference to an object, such as package.module:attribute")
    return match[1], match[2] or ""


def _scanned() -> _Scan:
    global _last
    scan, load = _last, under_way()
    if scan is not None and scan.load is load is not None:
        return scan
    place = _place()
    if scan is None or scan.place != place or not scan.is_settled:
        scan = _last = _Scan(place)
    scan.load = load
    return scan


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
    found: list[Offer] = []
    names: set[str] = set()
    for candidate, text in scan.entries:
        if group not in text:
            continue
        name = _name(candidate)
        if name is None:
            problem = "its METADATA is missing or cannot be read: a half-removed installation?"
            found.append(Offer("", f"a distribution in {candidate.locate_file('')}", "?", problem=problem))
        elif name not in names:
            names.add(name)
            found += _offers_of(name, group, scan)
    return sorted(dict.fromkeys(found), key=lambda offer: (offer.name, offer.distribution, offer.value))


def _distributions() -> Iterator[Any]:
    """Go through what is installed; a foreign import hook that fails ends the list, and is told."""
    try:
        yield from folders_of_metadata()
    except Exception as error:
        if is_of_host(error) or isinstance(error, MemoryError):  # which says nothing of what is read
            raise
        _log.warning("not all that is installed could be listed: %s: %s", type(error).__name__, error)


def _entry_points_text(candidate: Any) -> str:
    try:
        return candidate.read_text("entry_points.txt") or ""
    except Exception as error:
        if is_of_host(error) or isinstance(error, MemoryError):  # which says nothing of what is read
            raise
        # Whether it has to do with dovetail cannot be told, so it gets no row; but it is not passed
        # over in silence.
        _log.warning(
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
        if is_of_host(error) or isinstance(error, MemoryError):  # which says nothing of what is read
            raise
        return None
    return re.sub(r"[-_.]+", "-", name).lower() if isinstance(name, str) and name else None


def _field(candidate: Any, name: str) -> str | None:
    """Return a field of the metadata, whose head is read as far as that."""
    for line in (candidate.read_text("METADATA") or candidate.read_text("PKG-INFO") or "").splitlines():
        if not line:
            break
        label, colon, value = line.partition(":")
        if colon and label.lower() == name.lower():
            return value.strip()
    return None


def _offers_of(name: str, group: str, scan: _Scan) -> list[Offer]:
    version = "?"
    try:
        first = scan.named[normalized(name)]
        version = str(_field(first, "Version"))
        text = first.read_text("entry_points.txt") or ""
        found = [Offer(key, name, version, value) for key, value in _entries(text, group)]
        if not found and re.search(rf"^\s*\[\s*{re.escape(group)}\s*$", text, re.MULTILINE):
            found = [Offer("", name, version, problem=f"its entry_points.txt has a heading [{group} without an end")]
        return found
    except Exception as error:
        if is_of_host(error) or isinstance(error, MemoryError):  # which says nothing of what is read
            raise
        return [Offer("", name, version, problem=f"its entry points cannot be read: {type(error).__name__}: {error}")]


def _entries(text: str, group: str) -> Iterator[tuple[str, str]]:
    """Read what stands under a heading.

    Raises:
        ValueError: A line, of whichever group, is no entry point.
    """
    heading = None
    for line in filter(None, map(str.strip, text.splitlines())):
        if line.startswith("#"):
            continue
        if line.startswith("[") and line.endswith("]"):
            heading = line.strip("[]")
        elif heading is not None:
            name, equals, value = line.partition("=")
            if not equals:
                raise ValueError(f"{line!r} is no entry point: there is no '=' in it")
            if heading == group:
                yield name.strip(), value.strip()
