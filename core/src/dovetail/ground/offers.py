"""What packages from outside offer under the names of a group of entry points."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from .host_exceptions import is_of_host

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_FRESH = 1.0
"""Seconds for which a list of what is offered is used again.

To list it reads the metadata of all packages, and a model may ask for a thousand names.
"""


class OfferError(Exception):
    """What a package offers cannot be imported."""


class Offers:
    """Modules that register something when they are imported, each imported when it is asked for.

    Args:
        group: Of the entry points.
    """

    def __init__(self, group: str) -> None:
        self._group = group
        self._asked: set[str] = set()
        self._listed: dict[str, list[EntryPoint]] = {}
        self._until = 0.0

    def take(self, name: str) -> None:
        """Import what packages offer under a name, once; what failed is tried again next time.

        Raises:
            OfferError: It cannot be imported; the text says whose it is and why.
        """
        if name in self._asked:
            return
        for offered in self._list().get(name, ()):
            try:
                offered.load()
            except Exception as error:
                if is_of_host(error):
                    raise
                origin = "a package" if offered.dist is None else f"{offered.dist.name} {offered.dist.version}"
                raise OfferError(f"{origin} offers {offered.value} for {name!r}, which cannot be imported: {error}") from error
        self._asked.add(name)

    def _list(self) -> dict[str, list[EntryPoint]]:
        if monotonic() >= self._until:
            from importlib.metadata import entry_points  # which takes longer to import than most models to read

            self._listed = {}
            for offered in entry_points(group=self._group):
                self._listed.setdefault(offered.name, []).append(offered)
            self._until = monotonic() + _FRESH
        return self._listed
