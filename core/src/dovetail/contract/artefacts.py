"""What backends compiled, kept in a folder for later loads, of Python and C backends alike.

An artefact is known by everything that decided what was compiled: the backend, the version of its
distribution and the digest of its files, the device with its driver, the options, the number of
threads (unless its manifest says that it does not decide), the part and its constants, and whatever
else the backend names. These facts stand in the file before the artefact, so that a miss can be
explained by the fact that differed.

A file is written whole or not at all. It is shown to a backend only if nobody but root and the user
could have written it, and every byte is as written. The backend may still find it of no use,
compile again, and write it anew. The digests tell damage from what was written, not one author from
another.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from ..graph.layer import Layer, OutputSlot
from ..ground.foreign_text import shown
from ..ground.kept_files import KeptFolder
from ..ground.logs import Log
from ..ground.records import NamedTuple
from .part_facts import PartLike, part_digests, plain, text

_log = Log("dovetail")
_MAGIC = b"dovetail artefact 2\n"
_DIGEST = 32
"""Bytes of a SHA-256."""
_LENGTH = 8
_MAX_FACTS = 1 << 20
_MAX_FACT = 1024
"""Characters of a fact; of longer ones the digest stands in the file."""
_HEAD = len(_MAGIC) + _DIGEST + _LENGTH
_MAX_SHOWN = 120

Known = str | int | float | bool | bytes
"""What a backend may add to a key."""
OPTION = "artefacts"
"""Option of a backend that names the folder: a str, empty for none. No artefact is known by it."""
_NAMES_DEVICE = "device"
"""Option by which `IBackend.device_of` finds the device: that is known by its own facts."""


class ArtefactKey(NamedTuple):
    """What an artefact is known by.

    Attributes:
        backend: Id.
        facts: Everything that decides, by name. What a device says of its own is named
            "device.driver", what the backend adds "backend.compiler", an option "option tile". No
            other name has a dot or begins so; none of these can stand for another.
    """

    backend: str
    facts: Mapping[str, str]

    @property
    def digest(self) -> str:
        """The digest of all facts."""
        return _sha256(text([self.backend, dict(self.facts)]).encode()).hex()

    @property
    def file_name(self) -> str:
        """Name of the file; those of one part begin alike, whatever else differs."""
        return f"{_beginning(self.backend, self.facts)}{self.digest[:32]}.artefact"


class _Lone(NamedTuple):
    """One layer as a part."""

    layers: tuple[Layer]
    inputs: tuple[OutputSlot | None, ...]
    outputs: tuple[OutputSlot, ...]


class ArtefactStore:
    """The artefacts of one backend and device; handed to it in `HostResources`.

    Safe to use from several threads and processes.

    ::

        key = store.key(part)
        content = store.read(key)
        if content is None:
            log.info("compiling: %s", store.why_miss(key))
            content = compile(part)
            store.write(key, content)

    Args:
        backend: Id of the backend.
        folder: Where they lie; empty: nowhere, so that every read is a miss and nothing is written.
        facts: Returns what decides besides the part, by name; asked once, when the first key is
            made. None: it has no files to be known by, so that nothing is kept.
    """

    def __init__(self, backend: str, folder: str, facts: Callable[[], Mapping[str, str] | None]) -> None:
        self.backend = backend
        self._given = facts
        self._facts: Mapping[str, str] | None = None
        self._is_nameless = False
        self._files = KeptFolder(folder or None, self._refuse)

    @property
    def folder(self) -> str | None:
        """Where they lie; None if the user named no folder, or if others could write there."""
        return self._files.folder

    def key(self, part: PartLike | Layer, /, **more: Known) -> ArtefactKey:
        """Return what the artefact of a part is known by.

        Args:
            part: A `SubgraphView`, or one layer.
            more: What else decides: the version of a compiler, for example. Names and values are
                shown to people; 1, 1.0, True and "1" are told apart.

        Raises:
            TypeError: A value in `more` is no str, int, float, bool or bytes: take the digest of
                larger things. An attribute of a private kind has no content that is the same in the
                next process.
        """
        if isinstance(part, Layer):
            part = _Lone((part,), tuple(slot.source for slot in part.inputs), tuple(part.outputs))
        return self.key_of(part_digests(part), **more)

    def key_of(self, digests: tuple[str, str], /, **more: Known) -> ArtefactKey:
        """Return the key of a part's artefact, by digests taken while its constants were there."""
        if self._facts is None:
            given = self._given()
            self._facts = dict(given or {})
            if given is None:
                self._is_nameless, self._files = True, KeptFolder(None, self._refuse)
        structure, values = digests
        added = {f"backend.{name}": _known(name, value) for name, value in more.items()}
        return ArtefactKey(self.backend, {**self._facts, **added, "part": structure, "constants": values})

    def path(self, key: ArtefactKey) -> str | None:
        """Return where the artefact of a key lies or would lie; None without a folder."""
        folder = self._files.folder
        return None if folder is None else os.path.join(folder, key.file_name)

    def read(self, key: ArtefactKey) -> bytes | None:
        """Return an artefact as it was written; None if there is none, or if a byte differs.

        `why_miss` says why.
        """
        try:
            content = self._files.read(key.file_name)
        except OSError as error:
            _log.info("backend %s: artefact %s cannot be read: %s", self.backend, self.path(key), error)
            return None
        if content is None:
            return None
        body = _body(content, key)
        if body is None:
            _log.info("backend %s: artefact %s is damaged, it is not used", self.backend, self.path(key))
        return body

    def write(self, key: ArtefactKey, content: bytes) -> bool:
        """Keep an artefact in the place of any of this key; false if it cannot be kept.

        A failure is told once, as a warning.
        """
        try:
            return self._files.write(key.file_name, _head(key, content), content)
        except OSError as error:
            self._warn(f"artefacts cannot be kept in {self._files.folder}: {error}")
            return False

    def why_miss(self, key: ArtefactKey) -> str:
        """Say why `read` returns nothing: by the facts in which the most similar artefact differs.

        For example "driver: 535.1 then, 550.2 now". Empty if there is an artefact now.
        """
        folder = self._files.folder
        if self._is_nameless:
            return "this backend has no files to be known by"
        if folder is None:
            return self._files.problem or f"no folder was named by the option {OPTION!r}"
        try:
            content = self._files.read(key.file_name)
        except OSError as error:
            return f"{os.path.join(folder, key.file_name)} cannot be read: {error.strerror or error}"
        if content is not None:
            return f"{os.path.join(folder, key.file_name)} is damaged" if _body(content, key) is None else ""
        nearest = self._nearest(key)
        if nearest is None:
            return "nothing is kept for these layers yet"
        return "; ".join(
            f"{name}: {_shown(nearest.get(name))} then, {_shown(key.facts.get(name))} now"
            for name in dict.fromkeys((*key.facts, *nearest))
            if nearest.get(name) != key.facts.get(name)
        )

    def _nearest(self, key: ArtefactKey) -> Mapping[str, str] | None:
        """Return the facts of the artefact of the same part of which the fewest differ."""
        found = []
        for name in self._files.names():
            if name.startswith(_beginning(key.backend, key.facts)) and name.endswith(".artefact"):
                try:
                    head = self._files.read(name, _HEAD + _MAX_FACTS)
                except OSError:
                    continue
                facts = None if head is None else _facts(head)
                if facts is not None and facts != key.facts:
                    found.append(facts)
        return min(found, key=lambda facts: len(dict(facts).items() ^ dict(key.facts).items()), default=None)

    def _refuse(self, problem: str) -> None:
        self._warn(f"artefacts cannot be kept, nor read: {problem}")

    def _warn(self, problem: str) -> None:
        _warn_once(self.backend, problem)


def option_facts(options: Any, *, names_device: bool = False) -> dict[str, str]:
    """Return the options of a backend as facts, but for the folder of the artefacts.

    Args:
        options: All of them.
        names_device: One of them names the device, and decides nothing else.

    Raises:
        TypeError: A value has no content that is the same in the next process.
    """
    fields, without = plain(options)[1], (OPTION, _NAMES_DEVICE) if names_device else (OPTION,)
    if not isinstance(fields, dict):
        return {"options": str(fields)}
    return {f"option {name}": _short(text(value)) for name, value in fields.items() if name not in without}


def device_facts(device: Any) -> dict[str, str]:
    """Return a `Device` as facts, without its index.

    What was compiled for one device serves another that is like it.

    Raises:
        TypeError: A fact is no str, int, float or bool.
    """
    said = {
        "device": device.name,
        "revision": device.revision,
        "memory": device.memory_bytes,
        "half precision": device.half_precision,
    }
    fields = {name: str(value) for name, value in said.items() if value not in (None, "")}
    return fields | {f"device.{name}": _known(name, value) for name, value in sorted(device.facts.items())}


def folder_of(options: Any) -> str:
    """Return the folder that the options of a backend name; empty if they name none."""
    return str(getattr(options, OPTION, "") or "")


def _known(name: str, value: Known) -> str:
    """Return a value as text that no other value has, of whatever type."""
    if isinstance(value, bytes):
        return _short(f"bytes {value.hex()}")
    if not isinstance(value, str | int | float):  # of which bool is one
        raise TypeError(
            f"{name!r} is {shown(value)}, of type {type(value).__name__}; "
            "what an artefact is known by is a str, int, float, bool or bytes, such as a digest"
        )
    return _short(text(value))


def _short(fact: str) -> str:
    """Return a fact, or what stands for one that is too long; nothing else looks like that."""
    return fact if len(fact) <= _MAX_FACT else f"sha256 {_sha256(fact.encode()).hex()} of {len(fact)} characters"


@cache
def _warn_once(backend: str, problem: str) -> None:
    """Tell a problem once in a process, however many networks meet it."""
    _log.warning("backend %s: %s", backend, problem)


def _beginning(backend: str, facts: Mapping[str, str]) -> str:
    return f"{backend}-{facts['part'][:16]}-"


def _head(key: ArtefactKey, content: bytes) -> bytes:
    facts = text(dict(key.facts)).encode()
    rest = len(facts).to_bytes(_LENGTH, "little") + facts + _sha256(content)
    return _MAGIC + _sha256(rest) + rest


def _split(content: bytes) -> tuple[Mapping[str, str], bytes, int] | None:
    """Return the facts of a file, the digest of the artefact, and where that begins.

    None if one of these is damaged.
    """
    length = int.from_bytes(content[_HEAD - _LENGTH : _HEAD], "little")
    end = _HEAD + length + _DIGEST
    if not content.startswith(_MAGIC) or length > _MAX_FACTS or len(content) < end:
        return None
    digest = content[len(_MAGIC) : len(_MAGIC) + _DIGEST]
    if _sha256(content[_HEAD - _LENGTH : end]) != digest:
        return None
    facts = json.loads(content[_HEAD : _HEAD + length])
    return facts, content[end - _DIGEST : end], end


def _facts(head: bytes) -> Mapping[str, str] | None:
    found = _split(head)
    return None if found is None else found[0]


def _body(content: bytes, key: ArtefactKey) -> bytes | None:
    """Return what was written for a key; None if a byte of the file differs."""
    found = _split(content)
    if found is None or found[0] != key.facts:
        return None
    body = memoryview(content)[found[2] :]
    return bytes(body) if _sha256(body) == found[1] else None


def _shown(fact: str | None) -> str:
    if fact is None:
        return "not known"
    is_digest = len(fact) == 2 * _DIGEST and all(letter in "0123456789abcdef" for letter in fact)
    if is_digest:
        return fact[:12]
    return fact if 0 < len(fact) <= _MAX_SHOWN else f"{fact[:_MAX_SHOWN]}..." if fact else "none"


def _sha256(content: bytes | memoryview) -> bytes:
    from hashlib import sha256  # which loads OpenSSL; where nothing is kept it is not needed

    return sha256(content).digest()
