"""Compiled artefacts in a folder: written whole or not at all, and never handed out unless every byte is as written.

A file is a magic word, the SHA-256 of what follows, and the artefact. Its name is a digest of all that went into it:
the backend and its version, the options, the device, and the subgraph down to the bytes of its constants. The digest tells
damage from what was written, not one author from another: a folder or file that others than root and the user could have
written is not used.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..contract.interfaces import Device
from ..contract.subgraph import SubgraphView
from ..ground.logs import Log
from ..ground.trusted_files import folder_problem, read_trusted
from .attribute_types import attribute_rows, option_rows
from .compiled_kind import LonePart

_log = Log("dovetail")
_MAGIC = b"dovetail artefact 1\n"
_HEAD = len(_MAGIC) + hashlib.sha256().digest_size


def artefact_key(id: str, version: str, options: Any, device: Device, part: SubgraphView | LonePart) -> str:
    """Return the digest of all that a compilation depends on."""
    digest = hashlib.sha256()
    for piece in _pieces(id, version, options, device, part):
        digest.update(len(piece).to_bytes(8, "little"))
        digest.update(piece)
    return digest.hexdigest()


def _pieces(id: str, version: str, options: Any, device: Device, part: SubgraphView | LonePart) -> Iterator[bytes]:
    yield repr((id, version)).encode()
    yield from _row_pieces(option_rows(options))
    yield repr(device.identity).encode()
    number: dict[Any, int] = {}
    for slot in (*part.inputs, *(slot for layer in part.layers for slot in layer.outputs)):
        if slot is not None:
            number.setdefault(slot, len(number))
            yield repr(slot.known_info).encode()
    yield repr([None if slot is None else number[slot] for slot in part.inputs]).encode()
    yield repr([number[slot] for slot in part.outputs]).encode()
    for layer in part.layers:
        yield repr((layer.kind, layer.descriptor.version, len(layer.inputs))).encode()
        yield from _row_pieces(attribute_rows(layer.descriptor))
        for index, read in enumerate(layer.inputs):
            value = layer.constant(index)
            if value is not None:
                yield repr(read.info).encode()
                yield value.tobytes()
            else:
                yield repr(None if read.source is None else number[read.source]).encode()


def _row_pieces(rows: list[Any]) -> Iterator[bytes]:
    for name, kind, _, values in rows:
        tensor = hasattr(values, "tobytes")
        yield repr((name, int(kind), (values.dtype.str, values.shape) if tensor else values)).encode()
        if tensor:
            yield values.tobytes()


class ArtefactFolder:
    """One backend's artefacts in a folder that several processes may share."""

    def __init__(self, folder: str, id: str) -> None:
        self.folder = Path(folder)
        self.id = id
        self._warned = False

    def path(self, key: str) -> Path:
        """Return where the artefact of a key lies."""
        return self.folder / f"{self.id}-{key}.artefact"

    def read(self, key: str) -> bytes | None:
        """Return an artefact as it was written; None if there is none, or if a byte of it differs."""
        path = self.path(key)
        if self._is_refused():
            return None
        try:
            content = read_trusted(path, follow=False)
        except FileNotFoundError:
            _log.info("backend %s: no artefact %s yet", self.id, path)
            return None
        except OSError as error:
            _log.info("backend %s: artefact %s cannot be read: %s", self.id, path, error)
            return None
        body = content[_HEAD:]
        if content[:_HEAD] != _MAGIC + hashlib.sha256(body).digest():
            _log.info("backend %s: artefact %s is damaged, it is not used", self.id, path)
            return None
        return body

    def write(self, key: str, body: bytes) -> None:
        """Keep an artefact; a folder that cannot be written to is told once, as a warning."""
        path = self.path(key)
        if self._is_refused():
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o755)
            handle, temporary = tempfile.mkstemp(prefix=".writing-", dir=self.folder)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(_MAGIC + hashlib.sha256(body).digest())
                    file.write(body)
                os.replace(temporary, path)
            except BaseException:
                os.unlink(temporary)
                raise
        except OSError as error:
            self._warn(f"artefacts cannot be kept in {self.folder}: {error}")

    def _is_refused(self) -> bool:
        """Tell whether others could have written into the folder."""
        problem = folder_problem(Path(os.path.realpath(self.folder)))
        if problem:
            self._warn(f"artefacts cannot be kept in {self.folder}, nor read from there: {problem}")
        return bool(problem)

    def _warn(self, text: str) -> None:
        if not self._warned:
            _log.warning("backend %s: %s", self.id, text)
        self._warned = True
