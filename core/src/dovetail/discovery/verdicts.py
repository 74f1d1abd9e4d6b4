"""What is remembered of trying backends.

It tells which passed, so that they need not be tried again, and which must not be.

A verdict holds for the same content of the backend, the same core, the same Python, the same
drivers, and as long as what its manifest names leads to them. It lies in one small file per
backend, written whole and renamed; one that is damaged, or that others could have written, counts
for nothing. Where nothing can be written, verdicts last as long as the process.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from functools import cache
from typing import Any

from ..ground import errors
from ..ground.host_exceptions import is_of_host
from ..ground.kept_files import KeptFiles
from ..ground.logs import Log
from ..ground.records import NamedTuple, Record, field
from ..ground.settings import cache_folder
from ..ground.trusted_files import folder_problem
from .candidates import Candidate
from .content import Files, Stamp
from .distributions import RACY_NS
from .entry_points import version_of
from .reasons import ReasonCode, Refused

_log = Log("dovetail")
_FORMAT = 2
_MOST_INSIDE = 64  # files of a folder that are looked at: drivers are few

Library = tuple[str, int, int]
"""A shared library outside the backend: path, size, time of last change."""

Lead = tuple[str, str, int, int]
"""Something by which drivers are found: its name, what it says, size and time of what is there."""


class Identity(NamedTuple):
    """What a verdict holds for.

    Attributes:
        content: SHA-256 over the files of the backend.
        core: Version of the core, and name, size and time of its libraries.
        python: Tag of the interpreter.
    """

    content: str
    core: str
    python: str


class Verdict(Record):
    """How trying a backend went.

    Attributes:
        id: Of which backend.
        identity: What it holds for.
        code: A `ReasonCode` if it is not to be tried again, empty if it passed.
        reason: What happened, as a sentence.
        notes: What else was seen, such as side effects, and what the self-test ran.
        drivers: Libraries outside the backend that it loaded.
        leads: What its manifest names by which drivers are found, as it was.
        signal: The signal that ended the child, or 0.
        trace: Where it was, as far as the child could tell.
        count: How often that happened.
        time: When, in seconds since 1970.
        stamps, stamped_ns: The files when their content was read, so that they need not be read
            again, and when that was.
    """

    id: str
    identity: Identity
    code: str = ""
    reason: str = ""
    notes: list[str] = field(default_factory=list)
    drivers: list[Library] = field(default_factory=list)
    leads: list[Lead] = field(default_factory=list)
    signal: int = 0
    trace: str = ""
    count: int = 1
    time: float = 0.0
    stamps: list[Stamp] = field(default_factory=list)
    stamped_ns: int = 0

    @property
    def refusal(self) -> Refused:
        """The refusal of a backend that is in quarantine."""
        code = ReasonCode[self.code]
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(self.time))
        text = f"in quarantine since {when}: {self.reason}"
        hint = f"{code.remedy}; to try it again: dovetail quarantine release {self.id}"
        return Refused(code, text, hint=hint, signal=self.signal, trace=self.trace, count=self.count)


def leads_of(candidate: Candidate) -> list[Lead]:
    """Return what a manifest names under `drivers`, as it is now, with the files in its folders."""
    found: list[Lead] = []
    for name in (candidate.manifest or {}).get("drivers", ()):
        text = name if name.startswith("/") else os.environ.get(name, "")
        found.append((name, text, *_seen(text)))
        if text.startswith("/") and os.path.isdir(text):
            try:
                inside = sorted(os.listdir(text))[:_MOST_INSIDE]
            except OSError:
                continue
            found += [(name, one, *_seen(os.path.join(text, one))) for one in inside]
    return found


def _seen(path: str) -> tuple[int, int]:
    """Return size and time of last change; -1 twice where nothing is."""
    try:
        facts = os.stat(path) if path.startswith("/") else None
    except (OSError, ValueError):
        facts = None
    return (facts.st_size, facts.st_mtime_ns) if facts is not None else (-1, -1)


def python_tag() -> str:
    """Return what extension modules are built for."""
    return f"{sys.implementation.cache_tag}{getattr(sys, 'abiflags', '')}-{sys.platform}-{sys.maxsize.bit_length() + 1}"


@cache
def core_identity() -> str:
    """Return version and build of the core: a development copy changes without its version."""
    built = [version_of("dovetail-core") or "0"]
    core = os.path.dirname(os.path.dirname(errors.__file__))
    for folder in ("native", "runtime"):
        for file in sorted(os.scandir(os.path.join(core, folder)), key=lambda file: file.name):
            if file.name.endswith(".so"):
                facts = file.stat()
                built.append(f"{file.name}:{facts.st_size}:{facts.st_mtime_ns}")
    return " ".join(built)


class VerdictStore:
    """The verdicts of this user, on disk where possible, and those of this process.

    Safe to use from several processes.
    """

    def __init__(self) -> None:
        self._memory: dict[tuple[str, str], Verdict] = {}
        self._told = False
        self._kept = {
            kind: KeptFiles(kind, lambda problem: self._tell(f"verdicts on backends are not kept: {problem}"))
            for kind in ("passed", "quarantine")
        }

    # -- asking ------------------------------------------------------------------------------------

    def passed(self, candidate: Candidate, files: Files) -> Verdict | None:
        """Return the verdict by which a candidate need not be tried, or None."""
        verdict = self._read("passed", candidate.id)
        if verdict is None or verdict.code or verdict.leads != leads_of(candidate) or not self._holds(verdict, files):
            return None
        for path, size, modified_ns in verdict.drivers:
            try:
                facts = os.stat(path)
            except OSError:
                return None
            if (facts.st_size, facts.st_mtime_ns) != (size, modified_ns):
                return None
        return verdict

    def quarantined(self, candidate: Candidate, files: Callable[[], Files]) -> Verdict | None:
        """Return why a backend must not be tried again, or None.

        Files are looked at only if there is an entry.
        """
        verdict = self._read("quarantine", candidate.id)
        if verdict is None or verdict.code not in ReasonCode.__members__ or verdict.leads != leads_of(candidate):
            return None
        if not self._holds(verdict, files()):
            return None
        return verdict

    def quarantine(self) -> list[Verdict]:
        """List what is in quarantine, whatever became of it since."""
        names = {id for kind, id in self._memory if kind == "quarantine"}
        names |= {name.removesuffix(".json") for name in self._kept["quarantine"].names() if name.endswith(".json")}
        found = (self._read("quarantine", name) for name in sorted(names))
        return [verdict for verdict in found if verdict is not None]

    def describe(self) -> dict[str, Any]:
        """Tell where verdicts are kept and whether that works, for `dovetail doctor`."""
        folder = cache_folder()
        problem = "there is no home folder" if folder is None else folder_problem(folder)
        if folder is not None and not problem and not os.access(_existing(folder), os.W_OK):
            problem = "it cannot be written"
        return {"folder": folder, "problem": problem}

    # -- telling -----------------------------------------------------------------------------------

    def identify(self, files: Files) -> tuple[Identity, list[Stamp], int]:
        """Read the files of a backend.

        Returns what a verdict on them holds for, their stamps, and when these were taken.
        """
        from hashlib import sha256

        stamped_ns = time.time_ns()
        stamps = files.stamps()
        digest = sha256(json.dumps(sorted(files.digests().items())).encode())
        return Identity(digest.hexdigest(), core_identity(), python_tag()), stamps, stamped_ns

    def keep(self, verdict: Verdict) -> None:
        """Remember a verdict, in place of any other on the same backend."""
        verdict.time = time.time()
        kind = "quarantine" if verdict.code else "passed"
        if verdict.code:
            before = self._read("quarantine", verdict.id)
            verdict.count = before.count + 1 if before is not None and before.identity == verdict.identity else 1
        self._write(kind, verdict)
        self._remove("passed" if verdict.code else "quarantine", verdict.id)

    def release(self, id: str) -> bool:
        """Take a backend out of quarantine; false if it was not in."""
        return self._remove("quarantine", id)

    # -- files -------------------------------------------------------------------------------------

    def _holds(self, verdict: Verdict, files: Files) -> bool:
        identity = verdict.identity
        if identity.core != core_identity() or identity.python != python_tag():
            return False
        stamps = files.stamps()
        is_known = stamps == verdict.stamps and len(stamps) == len(files.names)
        if is_known and _are_settled(stamps, verdict.stamped_ns):
            return True
        found, stamps, stamped_ns = self.identify(files)
        if found != identity:
            return False
        if _are_settled(stamps, stamped_ns):  # the same files at other times: the next process need not read them again
            verdict.stamps, verdict.stamped_ns = stamps, stamped_ns
            self._write("quarantine" if verdict.code else "passed", verdict)
        return True

    def _read(self, kind: str, id: str) -> Verdict | None:
        files = self._kept[kind]
        try:
            content = files.read(f"{id}.json")
            return self._memory.get((kind, id)) if content is None else _parsed(content, id)
        except Exception as error:  # whatever stands in a damaged file
            if is_of_host(error):
                raise
            _log.debug("the verdict on %s in %s is ignored: %s", id, files.folder, error)
            return None

    def _write(self, kind: str, verdict: Verdict) -> None:
        self._memory[kind, verdict.id] = verdict
        files = self._kept[kind]
        try:
            content = json.dumps({"format": _FORMAT, **verdict.as_dict(), "identity": verdict.identity._asdict()}).encode()
            if not files.write(f"{verdict.id}.json", content):
                self._tell("verdicts on backends are not kept: there is no folder for them; set DOVETAIL_CACHE_DIR")
                return
        except OSError as error:
            self._tell(f"verdicts on backends are not kept: {error.strerror}: {files.folder}")
            return
        del self._memory[kind, verdict.id]

    def _remove(self, kind: str, id: str) -> bool:
        known = self._memory.pop((kind, id), None) is not None
        return self._kept[kind].remove(f"{id}.json") or known

    def _tell(self, text: str) -> None:
        if not self._told:
            self._told = True
            _log.info("%s", text)


def _are_settled(stamps: list[Stamp], stamped_ns: int) -> bool:
    """Tell whether files that changed after their stamps were taken would have other stamps."""
    return all(max(stamp[2], stamp[3]) < stamped_ns - RACY_NS for stamp in stamps)


def _existing(folder: str) -> str:
    """Return a folder, or the nearest one above it that is there."""
    while not os.path.exists(folder) and folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
    return folder


def _parsed(text: bytes, id: str) -> Verdict:
    fields = json.loads(text)
    if fields.pop("format") != _FORMAT:
        raise ValueError("it is of another format")
    identity = Identity(**fields.pop("identity"))
    drivers = [(str(path), int(size), int(modified)) for path, size, modified in fields.pop("drivers")]
    leads = [(str(name), str(says), int(size), int(modified)) for name, says, size, modified in fields.pop("leads")]
    stamps = [(str(name), int(a), int(b), int(c), int(d)) for name, a, b, c, d in fields.pop("stamps")]
    verdict = Verdict(identity=identity, drivers=drivers, leads=leads, stamps=stamps, **fields)
    wanted: dict[str, type] = {"id": str, "code": str, "reason": str, "notes": list, "signal": int, "trace": str} | {
        "count": int,
        "time": float,
        "stamped_ns": int,
    }
    for name, kind in wanted.items():
        if not isinstance(getattr(verdict, name), kind):
            raise ValueError(f"{name} is no {kind.__name__}")
    if verdict.id != id or not all(isinstance(note, str) for note in verdict.notes):
        raise ValueError("it is of another backend")
    return verdict
