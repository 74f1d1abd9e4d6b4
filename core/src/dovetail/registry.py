"""The backends there are: listed without importing any, loaded when first asked for by id.

A distribution offers a backend by an entry point of the group ``dovetail.backends``, whose *name* is the `BackendId` and whose
value is the `IBackend` class. A broken backend is a row with a reason; asked for by id, it raises with the original cause.
"""

from __future__ import annotations

import difflib
import logging
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from importlib import invalidate_caches
from typing import TYPE_CHECKING, Any

from .abi_version import abi_refusal
from .backend_id import BackendId
from .discovery import Offer, offers
from .errors import BackendError, BackendUnavailableError, ErrorCode
from .manifest import ManifestError, check, manifest_of

if TYPE_CHECKING:
    from .interfaces import IBackend

GROUP = "dovetail.backends"
IN_PROCESS = "registered in process"

_LOGGER = logging.getLogger("dovetail")


class BackendState(StrEnum):
    """How far a backend is from running; the values are stable."""

    AVAILABLE = "available"
    """Installed and, as far as can be told without importing it, usable."""
    LOADED = "loaded"
    NOT_INSTALLED = "not_installed"
    DRIVER_MISSING = "driver_missing"
    NO_DEVICE = "no_device"
    DEVICE_BUSY = "device_busy"
    VERSION_MISMATCH = "version_mismatch"
    QUARANTINED = "quarantined"
    """Crashed or hung when it was probed."""
    BROKEN = "broken"
    DUPLICATE = "duplicate"
    INVALID_ID = "invalid_id"

    @property
    def is_ready(self) -> bool:
        """True if asking for the backend can succeed."""
        return self in (BackendState.AVAILABLE, BackendState.LOADED)


@dataclass(frozen=True, slots=True)
class BackendRow:
    """One line of the list of backends.

    Attributes:
        id: What the entry point is called; empty if a distribution's entry points cannot be read. Not always a valid id.
        state: How far it is from running.
        distribution, version: Which distribution offers it; None if it was registered in process.
        origin: The entry point's value, or "registered in process".
        manifest: What it says about itself, see `manifest.py`; None if it says nothing.
        reason: Why it is not ready.
        hint: The next step.
    """

    id: str
    state: BackendState
    distribution: str | None
    version: str | None
    origin: str
    manifest: Mapping[str, Any] | None = None
    reason: str = ""
    hint: str = ""

    @property
    def device(self) -> str | None:
        """The device of the manifest: "cpu" or another; None if there is no manifest."""
        return self.manifest["device"] if self.manifest is not None else None

    @property
    def rank(self) -> int:
        """The rank of the manifest, higher is faster; 0 if there is none."""
        return int(self.manifest["rank"]) if self.manifest is not None else 0

    @property
    def description(self) -> str:
        """The description of the manifest, or an empty string."""
        return str(self.manifest["description"]) if self.manifest is not None else ""

    @property
    def source(self) -> str:
        """Where it comes from, for messages."""
        return f"{self.distribution} {self.version}, {self.origin}" if self.distribution else self.origin


@dataclass(slots=True, eq=False)
class _Entry:
    """One backend that may be asked for, and what became of it."""

    row: BackendRow
    offer: Offer | None
    backend: IBackend | None = None
    failure: BackendError | None = None
    lock: threading.RLock = field(default_factory=threading.RLock)


class Registry:
    """All backends of this process. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._installed: list[_Entry] | None = None
        self._registered: list[_Entry] = []
        self._logged: tuple[BackendId, ...] = ()

    # -- listing --------------------------------------------------------------------------------------------------------------

    def rows(self) -> tuple[BackendRow, ...]:
        """List all backends, ordered by id; imports none."""
        return tuple(entry.row for entry in self._entries())

    def refresh(self) -> None:
        """Look again for installed backends, keeping those that are loaded; for programs that install while they run."""
        invalidate_caches()
        with self._lock:
            loaded = {entry.offer: entry for entry in self._installed or () if entry.backend is not None}
            self._installed = [
                loaded.get(entry.offer, entry) if entry.row.state is BackendState.AVAILABLE else entry
                for entry in _installed_entries()
            ]

    def default_preferences(self) -> tuple[BackendId, ...]:
        """Choose for a caller who names no backend, and log it: the CPU backends that are ready, fastest first by manifest.

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
            _LOGGER.info("no backends were named, so these are used: %s%s", ", ".join(chosen), slow)
        return chosen

    def _entries(self) -> list[_Entry]:
        with self._lock:
            if self._installed is None:
                self._installed = _installed_entries()
            entries = [*self._installed, *self._registered]
        return sorted(entries, key=lambda e: (e.row.id.casefold(), e.row.id, e.row.source))

    def _ready(self) -> list[str]:
        return [entry.row.id for entry in self._entries() if entry.row.state.is_ready]

    def _readiness(self) -> str:
        ready = self._ready()
        return f"ready: {', '.join(ready)}" if ready else "no backend is ready"

    # -- registering in process -----------------------------------------------------------------------------------------------

    def register(self, backend: IBackend, *, manifest: Mapping[str, Any] | None = None) -> None:
        """Add a backend that no distribution offers, such as one of a test or a prototype.

        Without a manifest it is used only where it is named.

        Raises:
            BackendError: It is not an `IBackend` or its manifest is malformed (`BACKEND_CONTRACT`), or its id is taken
                (`BACKEND_DUPLICATE`) or not an id.
        """
        from .interfaces import IBackend

        if not isinstance(backend, IBackend):
            raise BackendError(
                f"{backend!r} cannot be registered: it is not an IBackend",
                code=ErrorCode.BACKEND_CONTRACT,
                hint="pass an instance of a class derived from dovetail.IBackend",
            )
        name = BackendId(backend.id)
        try:
            facts = check(dict(manifest)) if manifest is not None else None
        except ManifestError as error:
            raise BackendError(f"backend {name!s}: {error}", code=ErrorCode.BACKEND_CONTRACT) from error
        row = BackendRow(name, BackendState.LOADED, None, None, IN_PROCESS, facts)
        with self._lock:
            for entry in self._entries():
                if entry.row.id.casefold() == name.casefold():
                    raise _duplicate_error(name, (entry.row, row))
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

    # -- loading --------------------------------------------------------------------------------------------------------------

    def get(self, id: str) -> IBackend:
        """Return a backend, importing it the first time.

        Raises:
            BackendUnavailableError: It is not installed, of another version, or not ready; `state` in the details says which.
            BackendError: It is broken, offered twice, or against the contract; the original cause is chained.
        """
        name = BackendId(id)
        matches = [entry for entry in self._entries() if entry.row.id == name]
        if not matches:
            raise self._absent_error(name)
        if len(matches) > 1 or matches[0].row.state is BackendState.DUPLICATE:
            folded = name.casefold()
            raise _duplicate_error(name, [e.row for e in self._entries() if e.row.id.casefold() == folded])
        entry = matches[0]
        with entry.lock:
            if entry.backend is None:
                entry.backend = self._load(entry)
            return entry.backend

    def _absent_error(self, name: BackendId) -> BackendUnavailableError:
        ready = self._ready()
        by_folded = {candidate.casefold(): candidate for candidate in ready}
        close = difflib.get_close_matches(name.casefold(), by_folded, n=1)
        return BackendUnavailableError(
            f"backend {name!s} is not installed; {self._readiness()}",
            hint=f"did you mean {by_folded[close[0]]}?" if close else "pip install the distribution that offers it",
            backend=str(name),
            state=str(BackendState.NOT_INSTALLED),
            ready=ready,
        )

    def _load(self, entry: _Entry) -> IBackend:
        row = entry.row
        if row.state is BackendState.VERSION_MISMATCH:
            raise BackendUnavailableError(
                f"backend {row.id} ({row.source}) is {row.reason}",
                code=ErrorCode.ABI_MISMATCH,
                hint=row.hint,
                **_facts(row),
                ready=self._ready(),
            )
        if entry.failure is not None:
            raise _again(entry.failure)
        if entry.offer is None or entry.offer.entry_point is None or row.state is BackendState.BROKEN:
            raise BackendError(f"backend {row.id} ({row.source}) is broken: {row.reason}", hint=row.hint, **_facts(row))
        try:
            backend = _create(entry.offer, row)
        except BackendUnavailableError as error:
            # A driver or a device may come later, so this is not remembered: the next call tries again.
            state = _state_of(error)
            entry.row = _changed(row, state, error.message, error.hint or "")
            error.details = {**_facts(entry.row), "ready": self._ready(), **error.details}
            raise
        except BackendError as error:
            entry.row = _changed(row, BackendState.BROKEN, error.message, error.hint or "")
            error.details["state"] = str(BackendState.BROKEN)
            entry.failure = error
            raise
        entry.row = _changed(row, BackendState.LOADED, "", "")
        return backend


@cache
def default_registry() -> Registry:
    """Return the registry that `dovetail.load` and the optimizer use."""
    return Registry()


def backends() -> tuple[BackendRow, ...]:
    """List all backends, ordered by id, with the state of each; imports none."""
    return default_registry().rows()


# -- what is installed --------------------------------------------------------------------------------------------------------


def _installed_entries() -> list[_Entry]:
    entries = [_Entry(_row(offer), offer) for offer in offers(GROUP)]
    by_id: dict[str, list[_Entry]] = {}
    for entry in entries:
        if entry.row.state is not BackendState.INVALID_ID and entry.row.id:
            # Ids that differ only in case would be taken for one another by people.
            by_id.setdefault(entry.row.id.casefold(), []).append(entry)
    for same in by_id.values():
        if len(same) > 1:
            error = _duplicate_error(same[0].row.id, [entry.row for entry in same])
            for entry in same:
                entry.row = _changed(entry.row, BackendState.DUPLICATE, error.message, error.hint or "")
    return entries


def _row(offer: Offer) -> BackendRow:
    def row(state: BackendState, manifest: Mapping[str, Any] | None = None, reason: str = "", hint: str = "") -> BackendRow:
        return BackendRow(offer.name, state, offer.distribution, offer.version, offer.value, manifest, reason, hint)

    repair = f"reinstall or remove {offer.distribution}"
    if offer.entry_point is None:
        return row(BackendState.BROKEN, None, offer.problem, repair)
    try:
        BackendId(offer.name)
        module = offer.entry_point.module
        manifest = manifest_of(module, offer.name)
    except BackendError as error:
        return row(BackendState.INVALID_ID, None, f"{offer.name[:80]!r} is not a backend id", error.hint or "")
    except ManifestError as error:
        return row(BackendState.BROKEN, None, str(error), f"tell whoever makes {offer.distribution}")
    except Exception as error:  # a value that is no object reference, or an import hook of somebody else that fails
        return row(BackendState.BROKEN, None, f"its entry point {offer.value!r} cannot be read: {_described(error)}", repair)
    refusal = abi_refusal(tuple(manifest["abi"])) if manifest is not None else ""
    if refusal:
        hint = f"install versions of {offer.distribution} and dovetail-core that fit each other"
        return row(BackendState.VERSION_MISMATCH, manifest, refusal, hint)
    return row(BackendState.AVAILABLE, manifest)


# -- creating one -------------------------------------------------------------------------------------------------------------


def _create(offer: Offer, row: BackendRow) -> IBackend:
    """Import and create a backend and check that it is what its entry point says."""
    from .interfaces import IBackend

    assert offer.entry_point is not None
    try:
        offered = offer.entry_point.load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit too: a backend must not end somebody else's program
        raise _failed(row, "cannot be imported", "import", error) from error
    missing = getattr(offered, "__abstractmethods__", None)
    if missing:
        raise _against_contract(row, f"its class {offered.__name__} lacks {', '.join(sorted(missing))}")
    try:
        backend = offered() if callable(offered) and not isinstance(offered, IBackend) else offered
    except (KeyboardInterrupt, BackendUnavailableError):
        raise
    except BaseException as error:
        raise _failed(row, "cannot be created", "create", error) from error
    if not isinstance(backend, IBackend):
        raise _against_contract(row, f"{offer.value} gives {_type_name(backend)}, which is not an IBackend")
    try:
        name = backend.id
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise _failed(row, "does not tell its id", "id", error) from error
    if name != row.id:
        raise _against_contract(row, f"its entry point is named {row.id!r} but its id is {name!r}")
    return backend


def _failed(row: BackendRow, what: str, phase: str, error: BaseException) -> BackendError:
    return BackendError(
        f"backend {row.id} ({row.source}) {what}: {_described(error)}",
        hint=f"reinstall {row.distribution}, or tell its makers; the original error is chained",
        **_facts(row),
        phase=phase,
    )


def _against_contract(row: BackendRow, what: str) -> BackendError:
    return BackendError(
        f"backend {row.id} ({row.source}) breaks its contract: {what}",
        code=ErrorCode.BACKEND_CONTRACT,
        hint=f"tell whoever makes {row.distribution}",
        **_facts(row),
        phase="check",
    )


def _again(failure: BackendError) -> BackendError:
    """Copy a failure, so that threads which meet it do not share one traceback."""
    error = BackendError(failure.message, code=failure.code, hint=failure.hint, **failure.details)
    error.__cause__ = failure.__cause__
    return error


def _duplicate_error(name: str, rows: Iterable[BackendRow]) -> BackendError:
    origins = [f"{row.id} from {row.source}" for row in rows]
    return BackendError(
        f"backend id {name!s} is offered more than once: {'; '.join(origins)}",
        code=ErrorCode.BACKEND_DUPLICATE,
        hint="uninstall or unregister all but one",
        backend=str(name),
        origins=origins,
        state=str(BackendState.DUPLICATE),
    )


def _state_of(error: BackendUnavailableError) -> BackendState:
    try:
        return BackendState(error.details.get("state", BackendState.BROKEN))
    except ValueError:
        return BackendState.BROKEN


def _changed(row: BackendRow, state: BackendState, reason: str, hint: str) -> BackendRow:
    return BackendRow(row.id, state, row.distribution, row.version, row.origin, row.manifest, reason, hint)


def _facts(row: BackendRow) -> dict[str, Any]:
    return {
        "backend": row.id,
        "state": str(row.state),
        "distribution": row.distribution,
        "version": row.version,
        "origin": row.origin,
    }


def _type_name(value: Any) -> str:
    return f"an instance of {type(value).__module__}.{type(value).__qualname__}"


def _described(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:  # whatever a backend's own exception does when printed, the report must survive
        text = "(its text cannot be printed)"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
