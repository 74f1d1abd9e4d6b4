"""Let a backend in: the steps between finding it and running its code in this process.

Each of them may refuse it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ground import settings
from ..ground.errors import BackendUnavailableError
from ..ground.logs import Log
from ..ground.records import Record, field
from .candidates import Candidate
from .content import Files, check_libraries, check_lock, files_of
from .manifest import claims_of
from .reasons import QUARANTINING, Step
from .verdicts import Verdict, VerdictStore, leads_of

if TYPE_CHECKING:
    from .probe import Outcome

_log = Log("dovetail")


class Admission(Record):
    """A backend that may be loaded.

    Attributes:
        step: The last step that it passed.
        notes: What was seen on the way.
        files: What it consists of.
    """

    step: Step
    files: Files
    notes: list[str] = field(default_factory=list)


def admit(
    candidate: Candidate, store: VerdictStore, *, probing: bool, afresh: bool = False, isolated: bool = False
) -> Admission:
    """Take a candidate through the steps bytes and probe; listing looked at place and ABI.

    Args:
        candidate: One whose listing found nothing wrong.
        store: What is known of backends that were tried before.
        probing: False: it is not tried in a child process.
        afresh: Try it even if it is known to be good.
        isolated: It runs in a process of its own, where one in quarantine may run too.

    Raises:
        Refused: A step refuses it.
        BackendUnavailableError: It was tried, and says itself that it cannot be used now.
    """
    files = files_of(candidate)
    known = store.passed(candidate, files) if probing and not afresh else None
    if known is None:  # else the same bytes passed all that is looked at here
        check_libraries(candidate, files)
    lock = settings.lock_file()
    if lock is not None:
        check_lock(candidate, files, lock)
    if known is None:
        claims_of(candidate.manifest, candidate.path)
    quarantined = None if isolated else store.quarantined(candidate, lambda: files)
    if quarantined is not None:
        raise quarantined.refusal
    if known is not None:
        return Admission(Step.PROBE, files, list(known.notes))
    if not probing:
        return Admission(Step.ABI, files, ["not probed: probing is switched off"])
    return _try(candidate, files, store)


def _try(candidate: Candidate, files: Files, store: VerdictStore) -> Admission:
    from .probe import ProbeError, probe  # with all that a child process takes; a backend that is known needs none of it

    identity, stamps, stamped_ns = store.identify(files)
    leads = leads_of(candidate)
    try:
        outcome = probe(candidate, files)
    except ProbeError as error:
        _log.warning("backend %s could not be probed: %s", candidate.id, error)
        return Admission(Step.ABI, files, [f"not probed: {error}"])
    _log.debug("backend %s was probed in %.0f ms", candidate.id, outcome.seconds * 1000)
    if outcome.unavailable is not None:
        state, text, hint = outcome.unavailable
        details: dict[str, Any] = {"state": state} if state else {}
        raise BackendUnavailableError(text, hint=hint or None, **details)
    verdict = Verdict(candidate.id, identity, leads=leads, stamps=stamps, stamped_ns=stamped_ns)
    if outcome.refusal is not None:
        if outcome.is_lasting and outcome.refusal.code in QUARANTINING:
            _quarantine(verdict, outcome, store)
        raise outcome.refusal
    verdict.notes = outcome.notes
    verdict.drivers = outcome.drivers
    if outcome.is_lasting:
        store.keep(verdict)
    for note in outcome.notes:
        _log.debug("backend %s: %s", candidate.id, note)
    return Admission(Step.PROBE, files, outcome.notes)


def _quarantine(verdict: Verdict, outcome: Outcome, store: VerdictStore) -> None:
    assert outcome.refusal is not None
    verdict.code = str(outcome.refusal.code)
    verdict.reason = outcome.refusal.text
    verdict.signal = outcome.signal
    verdict.trace = outcome.trace
    store.keep(verdict)
    outcome.refusal.hint = verdict.refusal.hint
    outcome.refusal.facts["count"] = verdict.count
