"""Write the manifest in the build: with the ABI of the headers, and as a section of a library."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dovetail.contract.abi_version import ABI_VERSION
from dovetail.contract.claims import ClaimsError, read_claims
from dovetail.contract.own_manifest import FILE_NAME
from dovetail.discovery.manifest import check
from dovetail.discovery.reasons import Refused

_LITERAL = 100  # characters of a line of the generated C

_SECTION = """\
/* Generated: the manifest, so that a library in a searched folder can be listed without being opened. */
#if defined(__ELF__)
#if defined(__has_attribute)
#if __has_attribute(retain)
__attribute__((retain))
#endif
#endif
__attribute__((section(".dovetail"), used)) static const char dovetail_manifest[] =
%s;
#else
typedef int dovetail_no_manifest; /* other formats than ELF have no such section */
#endif
"""


class Manifest:
    """The manifest of a package that is being built.

    Attributes:
        path: Where it stands in the sources.
        package: Import name of the package.
        entries: One for each backend of the package, as written, but for the ABI.
    """

    def __init__(self, package: str, folder: Path) -> None:
        self.package = package
        self.path = folder.joinpath(*package.split("."), FILE_NAME)
        try:
            text = self.path.read_text("utf-8")
        except FileNotFoundError:
            reason = f"there is no {self.path}: is the build run from the project's own folder?"
            raise FileNotFoundError(reason) from None
        try:
            content = json.loads(text)
        except ValueError as error:
            raise ValueError(f"{self.path} is no JSON: {error}") from error
        self._in_list = isinstance(content, list)
        self.entries: list[dict[str, Any]] = content if self._in_list else [content]
        self._complete()

    def _complete(self) -> None:
        """Set the ABI; whoever wrote another did so for other headers."""
        for entry in self.entries:
            entry["abi"] = list(ABI_VERSION)
            try:
                check(entry)
                read_claims(entry.get("claims", {}))
            except (Refused, ClaimsError) as error:
                raise ValueError(f"{self.path}: {error}") from error

    @property
    def id(self) -> str:
        """The id of the backend.

        Raises:
            ValueError: There are several.
        """
        if len(self.entries) != 1:
            raise ValueError(f"{self.path} is of {len(self.entries)} backends: write their entry points into pyproject.toml")
        return str(self.entries[0]["id"])

    @property
    def library(self) -> str:
        """File name of the library that exports the C table.

        Raises:
            ValueError: The manifest names none.
        """
        names = {entry["library"] for entry in self.entries if "library" in entry}
        if len(names) != 1 or len(self.entries) != 1:
            raise ValueError(f'{self.path} must be of one backend and name its library, as in "library": "libacme.so"')
        return str(names.pop())

    def text(self, version: str) -> str:
        """Return the manifest for the wheel."""
        entries = [{"version": version} | entry for entry in self.entries]
        return json.dumps(entries if self._in_list else entries[0], indent=2) + "\n"

    def section(self, version: str, module: str | None = None) -> str | None:
        """Return C that puts a manifest into a section of the binary.

        None for an extension module that has none.
        """
        for entry in self.entries:
            named = entry.get("module")
            if (module is None and named is None) or (named is not None and module in (named, f"{self.package}.{named}")):
                text = json.dumps({"version": version} | entry, separators=(",", ":"))
                escaped = [character if character not in '"\\' else f"\\{character}" for character in text]
                lines = ["".join(escaped[start : start + _LITERAL]) for start in range(0, len(escaped), _LITERAL)]
                return _SECTION % "\n".join(f'    "{line}"' for line in lines)
        return None
