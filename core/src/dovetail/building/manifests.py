"""The manifest as the build writes it: with the ABI of the headers, and as a section of a library."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from .headers import header_abi

FILE_NAME = "dovetail-backend.json"
_ABI = re.compile(r'("abi"\s*:\s*)\[[^\]]*\]')
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
            self._text = self.path.read_text("utf-8")
        except FileNotFoundError:
            reason = f"there is no {self.path}: is setup.py run from its own folder?"
            raise FileNotFoundError(reason) from None
        try:
            content = json.loads(self._text)
        except ValueError as error:
            raise ValueError(f"{self.path} is no JSON: {error}") from error
        self._in_list = isinstance(content, list)
        self.entries: list[dict[str, Any]] = content if self._in_list else [content]
        self._complete()

    def _complete(self) -> None:
        """Set the ABI; whoever wrote another did so for other headers."""
        from ..discovery.manifest import check, check_claims
        from ..discovery.reasons import Refused

        self._has_abi = all("abi" in entry for entry in self.entries)
        for entry in self.entries:
            entry["abi"] = list(header_abi())
            try:
                check(entry)
                check_claims(entry)
            except Refused as error:
                raise ValueError(f"{self.path}: {error}") from error

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
        """Return C that puts a manifest into a section of the binary; None for an extension module that has none."""
        for entry in self.entries:
            named = entry.get("module")
            if (module is None and named is None) or (named is not None and module in (named, f"{self.package}.{named}")):
                text = json.dumps({"version": version} | entry, separators=(",", ":"))
                escaped = [character if character not in '"\\' else f"\\{character}" for character in text]
                lines = ["".join(escaped[start : start + _LITERAL]) for start in range(0, len(escaped), _LITERAL)]
                return _SECTION % "\n".join(f'    "{line}"' for line in lines)
        return None

    def update(self) -> bool:
        """Bring the source up to date, which an editable installation reads; tell whether it had to be changed."""
        major, minor = header_abi()
        if self._has_abi:
            text = _ABI.sub(rf"\g<1>[{major}, {minor}]", self._text)
        else:
            text = json.dumps(self.entries if self._in_list else self.entries[0], indent=2) + "\n"
        if text == self._text:
            return False
        self.path.write_text(text, "utf-8")
        self._text, self._has_abi = text, True
        return True
