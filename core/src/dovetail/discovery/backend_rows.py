"""One line of the list of backends, and the error that it becomes when the backend is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from ..ground.errors import BackendError, BackendUnavailableError, ErrorCode
from ..ground.records import NamedTuple
from .candidates import Candidate
from .reasons import QUARANTINING, ReasonCode, Refused, Step


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

    @property
    def lacks_device(self) -> bool:
        """True if nothing is wrong but that there is no device for it, or none that is free."""
        return self in (BackendState.DRIVER_MISSING, BackendState.NO_DEVICE, BackendState.DEVICE_BUSY)


class BackendRow(NamedTuple):
    """One line of the list of backends.

    Attributes:
        id: What it is listed by; empty if that cannot be read. Not always a valid id.
        state: How far it is from running.
        distribution, version: Which distribution offers it; None if it lies in a searched folder or
            was registered in process.
        origin: The entry point's value, the path of the file, or "registered in process".
        manifest: What it says about itself, see `discovery/manifest.py`; None if it says nothing.
        reason: Why it is not ready.
        hint: The next step.
        step: The step of the load pipeline that refused it, or the last one that it passed.
        code: A `ReasonCode` of `discovery/reasons.py`, empty if it is ready.
        path: Folder of its package, or the file; of a refusal, the file or folder to blame. None if
            unknown.
        notes: What was seen when it was probed.
        stale: True if its files were replaced since it was loaded: the copy in memory goes on until
            the process ends.
    """

    id: str
    state: BackendState
    distribution: str | None
    version: str | None
    origin: str
    manifest: Mapping[str, Any] | None = None
    reason: str = ""
    hint: str = ""
    step: str = str(Step.LIST)
    code: str = ""
    path: str | None = None
    notes: tuple[str, ...] = ()
    stale: bool = False

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


def listed(candidate: Candidate) -> BackendRow:
    """Return the row of a candidate that was only listed."""
    row = BackendRow(
        candidate.id,
        BackendState.AVAILABLE,
        candidate.distribution,
        candidate.version,
        candidate.origin,
        candidate.manifest,
        path=candidate.path,
    )
    return row if candidate.refusal is None else refused(row, candidate.refusal)


def ready(row: BackendRow, state: BackendState, step: Step, notes: Iterable[str] = ()) -> BackendRow:
    """Return a row of a backend that got as far as this step."""
    return row._replace(state=state, reason="", hint="", step=str(step), code="", notes=tuple(notes))


def refused(row: BackendRow, refusal: Refused) -> BackendRow:
    """Return a row of a backend that was refused."""
    return row._replace(
        state=_STATES.get(refusal.code, BackendState.BROKEN),
        reason=refusal.text,
        hint=refusal.hint,
        step=str(refusal.code.step),
        code=str(refusal.code),
        path=refusal.path or row.path,
        notes=(),
    )


def unavailable(row: BackendRow, error: BackendUnavailableError) -> BackendRow:
    """Return a row of a backend that says that it cannot be used now."""
    try:
        state = BackendState(error.details.get("state", BackendState.BROKEN))
    except ValueError:
        state = BackendState.BROKEN
    code = _DEVICE_CODES.get(state, ReasonCode.UNAVAILABLE)
    return row._replace(
        state=state,
        reason=error.message,
        hint=error.hint or code.remedy,
        step=str(code.step),
        code=str(code),
        notes=(),
    )


def error_of(row: BackendRow, refusal: Refused, ready: list[str]) -> BackendError:
    """Return the error for a backend that was refused; the original cause is chained."""
    row = refused(row, refusal)
    kind = BackendUnavailableError if row.state in _UNAVAILABLE else BackendError
    verb = " " if refusal.text.startswith(("cannot ", "does not ", "built ", "in quarantine ")) else ": "
    if refusal.text.startswith(("built ", "in quarantine ")):
        verb = " is "
    error = kind(
        f"backend {row.id} ({row.source}){verb}{refusal.text}",
        code=_ERROR_CODES.get(refusal.code, ErrorCode.BACKEND_UNAVAILABLE if row.state in _UNAVAILABLE else None),
        hint=refusal.hint,
        **{**facts(row), **refusal.facts, "phase": refusal.phase, "ready": ready},
    )
    error.__cause__ = refusal.__cause__
    return error


def duplicate_error(name: str, rows: Iterable[BackendRow]) -> BackendError:
    """Return the error for an id that several claim."""
    rows = list(rows)
    origins = [f"{row.id} from {row.source}" for row in rows]
    common = facts(rows[0]) | {"backend": str(name), "state": str(BackendState.DUPLICATE), "step": str(Step.LIST)}
    return BackendError(
        f"backend id {name!s} is offered more than once: {'; '.join(origins)}",
        code=ErrorCode.BACKEND_DUPLICATE,
        hint=ReasonCode.DUPLICATE_ID.remedy,
        **common | {"reason_code": str(ReasonCode.DUPLICATE_ID), "origins": origins},
    )


def facts(row: BackendRow) -> dict[str, Any]:
    """Return the facts of a row that errors carry."""
    found = {
        "backend": row.id,
        "state": str(row.state),
        "distribution": row.distribution,
        "version": row.version,
        "origin": row.origin,
        "path": row.path,
        "step": row.step,
    }
    return found | ({"reason_code": row.code} if row.code else {})


_STATES = {
    ReasonCode.BAD_ID: BackendState.INVALID_ID,
    ReasonCode.DUPLICATE_ID: BackendState.DUPLICATE,
    ReasonCode.ABI_MAJOR: BackendState.VERSION_MISMATCH,
    ReasonCode.ABI_MINOR_NEWER: BackendState.VERSION_MISMATCH,
    **dict.fromkeys(QUARANTINING, BackendState.QUARANTINED),
}
_UNAVAILABLE = frozenset({BackendState.VERSION_MISMATCH, BackendState.QUARANTINED})
_DEVICE_CODES = {
    BackendState.DRIVER_MISSING: ReasonCode.DRIVER_MISSING,
    BackendState.NO_DEVICE: ReasonCode.NO_DEVICE,
    BackendState.DEVICE_BUSY: ReasonCode.DEVICE_BUSY,
}
_ERROR_CODES = {
    ReasonCode.ABI_MAJOR: ErrorCode.ABI_MISMATCH,
    ReasonCode.ABI_MINOR_NEWER: ErrorCode.ABI_MISMATCH,
    ReasonCode.ABI_MISMATCH: ErrorCode.ABI_MISMATCH,
    ReasonCode.NOT_A_BACKEND: ErrorCode.BACKEND_CONTRACT,
    ReasonCode.ID_MISMATCH: ErrorCode.BACKEND_CONTRACT,
}
