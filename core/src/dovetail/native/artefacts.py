"""Keep what a backend compiled in a folder: found by content, checked before use, written whole or not at all."""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from .table import Compiled, Table

_LOGGER = logging.getLogger("dovetail.backend")
_MAGIC = b"dovetail artefact 1\n"
_ANSWERS = {0: "ok", 1: "recompile", 2: "unusable"}


class ArtefactFolder:
    """The artefacts of one backend in one folder; several processes may share it: the last one to write wins.

    Args:
        folder: Made if it is not there.
        table: Whose artefacts.
    """

    def __init__(self, folder: Path, table: Table) -> None:
        self.folder = folder
        self.table = table

    def path(self, digest: str) -> Path:
        """Where the artefact of a subgraph lies."""
        return self.folder / f"{self.table.id}-{digest[:32]}.artefact"

    def find(self, digest: str) -> Compiled | None:
        """Load the artefact of a subgraph; None if there is none that can be used, which the log explains."""
        path = self.path(digest)
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            self._tell("no artefact in %s: compiling", self.folder)
            return None
        except OSError as error:
            _LOGGER.warning("backend %s: artefact %s cannot be read, so it is compiled again: %s", self.table.id, path, error)
            return None
        payload = _payload(content)
        if payload is None:
            _LOGGER.warning("backend %s: artefact %s is damaged, so it is compiled again", self.table.id, path)
            return None
        status, why = self.table.artefact_check(payload)
        if status != 0:
            self._tell("artefact %s is not used (%s: %s): compiling", path.name, _ANSWERS.get(status, "failed"), why.text)
            return None
        status, compiled, why = self.table.artefact_load(payload)
        if compiled is None:
            self._tell("artefact %s cannot be loaded (%s): compiling", path.name, why.text or status)
            return None
        self._tell("artefact %s taken", path.name)
        return compiled

    def keep(self, digest: str, compiled: Compiled) -> None:
        """Write an artefact; a folder that takes none costs a warning, not the run."""
        status, payload, why = self.table.artefact_save(compiled)
        if status < 0:
            self._tell("it does not give an artefact away: %s", why.text or status)
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(prefix=".", suffix=".partial", dir=self.folder)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(_MAGIC + hashlib.sha256(payload).digest() + payload)
                os.replace(name, self.path(digest))
            except BaseException:
                with suppress(OSError):
                    os.unlink(name)
                raise
        except OSError as error:
            _LOGGER.warning("backend %s: artefacts are not kept in %s: %s", self.table.id, self.folder, error)

    def _tell(self, text: str, *values: Any) -> None:
        _LOGGER.info(f"backend %s: {text}", self.table.id, *values)


def _payload(content: bytes) -> bytes | None:
    """Return the bytes behind the header if they are what was written."""
    start = len(_MAGIC) + hashlib.sha256().digest_size
    payload = content[start:]
    whole = content[: len(_MAGIC)] == _MAGIC and content[len(_MAGIC) : start] == hashlib.sha256(payload).digest()
    return payload if whole else None
