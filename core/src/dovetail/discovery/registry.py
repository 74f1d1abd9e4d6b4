"""The backends there are: listed without running their code, loaded when first asked for by id.

A distribution offers a backend by an entry point of the group ``dovetail.backends``, whose *name*
is the `BackendId` and whose value is the `IBackend` class, or the package of a shared library. A
folder that is searched offers the libraries in it. A broken backend is a row with a reason; asked
for by id, it raises with the original cause. `discovery` holds the steps.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import invalidate_caches
from typing import TYPE_CHECKING, Any

from ..contract.backend_id import BackendId
from ..discovery import forget
from ..ground import settings
from ..ground.close_names import STRICT, close_names
from ..ground.errors import BackendError, BackendUnavailableError, ErrorCode
from ..ground.logs import Log
from ..ground.records import Record, field
from ..ground.settings import SearchFolder
from .backend_rows import BackendRow, BackendState, duplicate_error, error_of, facts, listed, ready, refused, unavailable
from .candidates import Candidate
from .listing import duplicates, installed, scanned
from .manifest import check, claims_of
from .reasons import ReasonCode, Refused, Step

if TYPE_CHECKING:
    from ..contract.interfaces import IBackend
    from .content import Files, Stamp
    from .scanning import FolderReport
    from .verdicts import VerdictStore

__all__ = ["GROUP", "BackendRow", "BackendState", "Registry", "backends", "default_registry"]

GROUP = "dovetail.backends"
IN_PROCESS = "registered in process"

_log = Log("dovetail")


class _Entry(Record, eq=False):
    """One backend that may be asked for, and what became of it."""

    row: BackendRow
    candidate: Candidate | None
    backend: IBackend | None = None
    failure: BackendError | None = None
    files: Files | None = None
    stamps: list[Stamp] | None = None
    lock: threading.RLock = field(default_factory=threading.RLock)


class Registry:
    """All backends of this process. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._installed: list[_Entry] | None = None
        self._registered: list[_Entry] = []
        self._logged: tuple[BackendId, ...] = ()
        self._folders: list[SearchFolder] = []
        self._trusted: list[str] = []
        self._reports: list[FolderReport] = []
        self._verdicts: VerdictStore | None = None

    # -- listing -----------------------------------------------------------------------------------

    def rows(self) -> tuple[BackendRow, ...]:
        """List all backends, ordered by id; runs no code of any."""
        return tuple(_current(entry) for entry in self._entries())

    def scan(self, path: str | os.PathLike[str], *, trust: bool = False) -> tuple[BackendRow, ...]:
        """Search a folder too, from now on, and return the rows of what it holds.

        Args:
            path: Absolute. It and all folders above it must belong to root or the user, and be
                writable for nobody else.
            trust: True: the caller answers for the folder, whoever can write there or above it.

        Raises:
            BackendError: The folder must not be searched; `reason_code` in the details says why.
        """
        folder = SearchFolder(os.fspath(path), "the caller")
        with self._lock:
            if folder not in self._folders:
                self._folders.append(folder)
            if trust and folder.path not in self._trusted:
                self._trusted.append(folder.path)
            self.refresh()
            report = next(report for report in self._reports if (report.path, report.asked_by) == (folder.path, "the caller"))
            if report.refusal is not None:
                self._folders.remove(folder)
                self.refresh()
                row = refused(BackendRow("", BackendState.BROKEN, None, None, folder.path), report.refusal)
                raise BackendError(
                    f"{folder.path} cannot be searched for backends: {row.reason}", hint=row.hint, **facts(row)
                ) from report.refusal
        origins = {candidate.origin for candidate in report.candidates}
        return tuple(row for row in self.rows() if row.origin in origins)

    def folders(self) -> tuple[FolderReport, ...]:
        """Tell of each folder that was to be searched what it held, or why it was not searched."""
        self._entries()
        return tuple(self._reports)

    def refresh(self) -> None:
        """Look again for backends, keeping those that are loaded.

        For programs that install while they run.
        """
        invalidate_caches()
        forget()
        with self._lock:
            loaded = {_key(entry): entry for entry in self._installed or () if entry.backend is not None}
            self._installed = [
                loaded.get(_key(entry), entry) if entry.row.state is BackendState.AVAILABLE else entry
                for entry in self._found()
            ]

    def default_preferences(self) -> tuple[BackendId, ...]:
        """Choose for a caller who names no backend, and log it.

        The choice is the CPU backends that are ready, fastest first by manifest.

        Raises:
            BackendUnavailableError: There is none.
        """
        rows = [row for row in self.rows() if row.state.is_ready and row.device == "cpu"]
        rows.sort(key=lambda row: (-row.rank, row.id))
        if not rows:
            raise BackendUnavailableError(
                f"no backend for the CPU is ready; {self._readiness()}",
                hint="pip install dovetail, or name a backend: backends=[...]",
                state=str(BackendState.NOT_INSTALLED),
                ready=self._ready(),
            )
        chosen = tuple(BackendId(row.id) for row in rows)
        with self._lock:
            is_news, self._logged = chosen != self._logged, chosen
        if is_news:  # a network with symbolic sizes asks for each new set of sizes
            slow = f" ({rows[0].description or 'slow'})" if rows[0].rank <= 0 else ""
            _log.info("no backends were named, so these are used: %s%s", ", ".join(chosen), slow)
        return chosen

    def oracles(self) -> tuple[BackendRow, ...]:
        """Return the backends that are ready and declare themselves oracles, best first."""
        rows = [row for row in self.rows() if row.state.is_ready and row.manifest is not None and row.manifest.get("oracle")]
        return tuple(sorted(rows, key=lambda row: (-row.rank, row.id)))

    @property
    def verdicts(self) -> VerdictStore:
        """What is known of backends that were tried before."""
        with self._lock:
            if self._verdicts is None:
                from .verdicts import VerdictStore

                self._verdicts = VerdictStore()
            return self._verdicts

    def _entries(self) -> list[_Entry]:
        with self._lock:
            if self._installed is None:
                self._installed = self._found()
            entries = [*self._installed, *self._registered]
        return sorted(entries, key=lambda e: (e.row.id.casefold(), e.row.id, e.row.source))

    def _found(self) -> list[_Entry]:
        """List everything anew."""
        self._reports = scanned(self._folders, self._trusted)
        found = [*installed(GROUP), *(candidate for report in self._reports for candidate in report.candidates)]
        rows = {candidate.key: listed(candidate) for candidate in found}
        for same in duplicates(found):
            error = duplicate_error(same[0].id, [listed(candidate) for candidate in same])
            refusal = Refused(ReasonCode.DUPLICATE_ID, error.message)
            rows |= {candidate.key: refused(rows[candidate.key], refusal) for candidate in same}
        entries = [_Entry(rows[candidate.key], candidate) for candidate in found]
        for entry in entries:
            if entry.row.state is BackendState.AVAILABLE and entry.candidate is not None:
                self._look_into_quarantine(entry, entry.candidate)
        for report in self._reports:
            if report.refusal is not None:
                row = BackendRow("", BackendState.BROKEN, None, None, report.path, path=report.path)
                entries.append(_Entry(refused(row, report.refusal), None))
        return entries

    def _look_into_quarantine(self, entry: _Entry, candidate: Candidate) -> None:
        if self._verdicts is None and not settings.has_kept("quarantine"):
            return  # so that listing need not import what remembers verdicts
        from .content import files_of

        verdict = self.verdicts.quarantined(candidate, lambda: files_of(candidate))
        if verdict is not None:
            entry.row = refused(entry.row, verdict.refusal)

    def _ready(self) -> list[str]:
        return [entry.row.id for entry in self._entries() if entry.row.state.is_ready]

    def _readiness(self) -> str:
        names = self._ready()
        return f"ready: {', '.join(names)}" if names else "no backend is ready"

    # -- registering in process --------------------------------------------------------------------

    def register(self, backend: IBackend, *, manifest: Mapping[str, Any] | None = None) -> None:
        """Add a backend that no distribution offers, such as one of a test or a prototype.

        Without a manifest it is used only where it is named.

        Raises:
            BackendError: It is not an `IBackend` or its manifest is malformed (`BACKEND_CONTRACT`),
                or its id is taken (`BACKEND_DUPLICATE`) or not an id.
        """
        from ..contract.interfaces import IBackend

        if not isinstance(backend, IBackend):
            raise BackendError(
                f"{backend!r} cannot be registered: it is not an IBackend",
                code=ErrorCode.BACKEND_CONTRACT,
                hint="pass an instance of a class derived from dovetail.IBackend",
            )
        name = BackendId(backend.id)
        try:
            fields = check(dict(manifest)) if manifest is not None else None
            if fields is not None:
                backend.manifest, backend.claims = fields, claims_of(fields)
        except Refused as refusal:
            raise BackendError(f"backend {name!s}: {refusal.text}", code=ErrorCode.BACKEND_CONTRACT) from refusal
        row = BackendRow(name, BackendState.LOADED, None, None, IN_PROCESS, fields, step=str(Step.LOAD))
        with self._lock:
            for entry in self._entries():
                if entry.row.id.casefold() == name.casefold():
                    raise duplicate_error(name, (entry.row, row))
            self._registered.append(_Entry(row, None, backend))

    def unregister(self, id: str) -> None:
        """Remove a backend that was added by `register`; networks that use it keep it.

        Raises:
            BackendUnavailableError: None of this id was registered in process.
        """
        with self._lock:
            kept = [entry for entry in self._registered if entry.row.id != id]
            if len(kept) == len(self._registered):
                raise BackendUnavailableError(
                    f"backend {id!r} was not registered in process",
                    hint="an installed backend goes by uninstalling its distribution",
                    backend=id,
                    state=str(BackendState.NOT_INSTALLED),
                )
            self._registered = kept

    # -- loading -----------------------------------------------------------------------------------

    def get(self, id: str) -> IBackend:
        """Return a backend; it is probed and loaded the first time.

        It is probed in a child process, unless that is known to go well.

        Raises:
            BackendUnavailableError: It is not installed, of another version, in quarantine, or not
                ready; `state` in the details says which.
            BackendError: It is broken, offered twice, or against the contract; the original cause
                is chained.
        """
        entry = self._entry(BackendId(id))
        with entry.lock:
            if entry.backend is None:
                entry.backend = self._load(entry)
            return entry.backend

    def manifest_of(self, id: str) -> Mapping[str, Any] | None:
        """Return what a backend says of itself, without looking at it; None if it says nothing.

        None also where there is no such backend.
        """
        for entry in self._entries():
            if entry.row.id == id:
                return entry.candidate.manifest if entry.candidate is not None else getattr(entry.backend, "manifest", None)
        return None

    def holds(self, backend: IBackend) -> bool:
        """Tell whether a backend is one that was found, not one that the caller made."""
        return any(entry.candidate is not None for entry in self._known(backend))

    def admitted(self, id: str) -> Candidate | IBackend:
        """Return what a process of its own makes a backend of; this process runs no code of it.

        It is neither probed nor kept out by quarantine: where it runs, it may crash.

        Returns:
            The candidate; the backend itself if it was registered in process.

        Raises:
            BackendUnavailableError: It is not installed.
            BackendError: It is refused, or offered twice.
        """
        entry = self._entry(BackendId(id))
        if entry.candidate is None:
            assert entry.backend is not None  # it was registered in process
            return entry.backend
        try:
            if entry.candidate.refusal is not None:
                raise entry.candidate.refusal
            from .admission import admit

            admit(entry.candidate, self.verdicts, probing=False, isolated=True)
        except Refused as refusal:
            raise error_of(entry.row, refusal, self._ready()) from refusal
        return entry.candidate

    def examine(self, id: str, *, probing: bool = True, afresh: bool = False) -> BackendRow:
        """Take a backend through the steps up to the probe, and return its row.

        It is not loaded into this process.

        Args:
            id: Which one.
            probing: False: leave the probe out.
            afresh: Probe it even if it is known to be good.

        Raises:
            BackendError: There is none of this id, or several.
        """
        entry = self._entry(BackendId(id))
        with entry.lock:
            candidate = entry.candidate
            if candidate is None or candidate.refusal is not None or entry.backend is not None:
                return _current(entry)
            try:
                self._admit(entry, candidate, probing=probing, afresh=afresh)
            except BackendUnavailableError as error:
                entry.row = unavailable(entry.row, error)
            except Refused as refusal:
                entry.row = refused(entry.row, refusal)
            return entry.row

    def candidates(self) -> tuple[Candidate, ...]:
        """Return what was found, without what was registered in process; for tools."""
        return tuple(entry.candidate for entry in self._entries() if entry.candidate is not None)

    def release(self, id: str) -> bool:
        """Take a backend out of quarantine, so that it is tried again; false if it was not in."""
        released = self.verdicts.release(id)
        with self._lock:
            for entry in self._entries():
                if entry.row.id == id and entry.row.state is BackendState.QUARANTINED and entry.candidate is not None:
                    entry.row, entry.failure = listed(entry.candidate), None
        return released

    def device_failed(self, backend: IBackend, error: BackendUnavailableError) -> None:
        """Note that the device of a loaded backend cannot be opened; the runtime tells it."""
        for entry in self._known(backend):
            entry.row = unavailable(entry.row, error)

    def device_opened(self, backend: IBackend) -> None:
        """Note that the device of a loaded backend was opened, whatever was noted before."""
        for entry in self._known(backend):
            if entry.row.state is not BackendState.LOADED:
                entry.row = ready(entry.row, BackendState.LOADED, Step.LOAD, entry.row.notes)

    def _known(self, backend: IBackend) -> list[_Entry]:
        with self._lock:
            return [entry for entry in (*(self._installed or ()), *self._registered) if entry.backend is backend]

    def _entry(self, name: BackendId) -> _Entry:
        matches = [entry for entry in self._entries() if entry.row.id == name]
        if not matches:
            raise self._absent_error(name)
        if len(matches) > 1 or matches[0].row.state is BackendState.DUPLICATE:
            folded = name.casefold()
            raise duplicate_error(name, [e.row for e in self._entries() if e.row.id.casefold() == folded])
        return matches[0]

    def _absent_error(self, name: BackendId) -> BackendUnavailableError:
        names = self._ready()
        begun = [one for one in names if one.lower().startswith(name.lower())]
        close = begun[:3] or close_names(name, names, count=1, cutoff=STRICT)
        return BackendUnavailableError(
            f"backend {name!s} is not installed; {self._readiness()}",
            hint=f"did you mean {' or '.join(close)}?" if close else "pip install the distribution that offers it",
            backend=str(name),
            state=str(BackendState.NOT_INSTALLED),
            ready=names,
        )

    def _load(self, entry: _Entry) -> IBackend:
        candidate, row = entry.candidate, entry.row
        assert candidate is not None
        if entry.failure is not None:
            raise _again(entry.failure)
        try:
            if candidate.refusal is not None:
                raise candidate.refusal
            notes = self._admit(entry, candidate, probing=settings.probing())
            from .opening import open_backend

            backend = open_backend(candidate)
        except BackendUnavailableError as error:
            # A driver or a device may come later, so this is not remembered: the next call tries
            # again.
            entry.row = unavailable(row, error)
            error.details = {**facts(entry.row), "ready": self._ready(), **error.details}
            raise
        except Refused as refusal:
            entry.row = refused(row, refusal)
            entry.failure = error_of(row, refusal, self._ready())
            raise _again(entry.failure) from entry.failure.__cause__
        entry.stamps = entry.files.stamps() if entry.files is not None else None
        entry.row = ready(row, BackendState.LOADED, Step.LOAD, notes)
        return backend

    def _admit(self, entry: _Entry, candidate: Candidate, *, probing: bool, afresh: bool = False) -> list[str]:
        from .admission import admit

        admission = admit(candidate, self.verdicts, probing=probing, afresh=afresh)
        entry.files = admission.files
        entry.row = ready(entry.row, BackendState.AVAILABLE, admission.step, admission.notes)
        return admission.notes


@cache
def default_registry() -> Registry:
    """Return the registry that `dovetail.load` and the optimizer use."""
    return Registry()


def backends(*, paths: Sequence[str | os.PathLike[str]] = ()) -> tuple[BackendRow, ...]:
    """List all backends, ordered by id, with the state of each; runs no code of any.

    Args:
        paths: Folders to search too, from now on; see `Registry.scan`.

    Raises:
        BackendError: One of the folders must not be searched.
    """
    registry = default_registry()
    for path in paths:
        registry.scan(path)
    return registry.rows()


def _current(entry: _Entry) -> BackendRow:
    """Return the row of an entry, and whether its files were replaced since it was loaded."""
    if entry.backend is None or entry.files is None or entry.stamps is None:
        return entry.row
    is_stale = entry.files.stamps() != entry.stamps
    return entry.row if is_stale == entry.row.stale else entry.row._replace(stale=is_stale)


def _key(entry: _Entry) -> Any:
    return entry.candidate.key if entry.candidate is not None else None


def _again(failure: BackendError) -> BackendError:
    """Copy a failure, so that threads which meet it do not share one traceback."""
    error = type(failure)(failure.message, code=failure.code, hint=failure.hint, **failure.details)
    error.__cause__ = failure.__cause__
    return error
