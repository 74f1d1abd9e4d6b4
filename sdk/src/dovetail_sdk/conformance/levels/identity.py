"""Level 0: the backend loads, and is what it says it is."""

from __future__ import annotations

from dovetail.backend_id import BackendId
from dovetail.errors import BackendError

from ..checks import ConformanceFailure, check
from ..subject import Subject


@check(level=0, title="has a valid id, always the same")
def id_is_valid(subject: Subject) -> None:
    """Ask for the id twice.

    Troubleshooting: `id` must return the same `dovetail.BackendId` each time: a letter, then letters, digits and underscores.
    """
    first, second = subject.backend.id, subject.backend.id
    try:
        BackendId(first)
    except BackendError as error:
        raise ConformanceFailure(f"its id is {first!r}: {error.message}") from error
    if not isinstance(first, BackendId) or first != second:
        raise ConformanceFailure(f"its id is {first!r} ({type(first).__name__}), then {second!r}; expected one BackendId")
