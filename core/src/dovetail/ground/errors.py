"""The error family: each failure names the thing, what was found and expected, the next step.

All errors derive from `DovetailError` and carry a stable `code` (a member of `ErrorCode`, itself a
string) and the bare facts as `details`, so that programs branch on data and people read sentences.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import islice
from typing import Any, Self


class ErrorCode(StrEnum):
    """Stable codes: never renamed, never reused."""

    # models and graphs
    MODEL_MALFORMED = "MODEL_MALFORMED"
    MODEL_NOT_FOUND = "MODEL_NOT_FOUND"
    MODEL_FORMAT_UNKNOWN = "MODEL_FORMAT_UNKNOWN"
    MODEL_UNSUPPORTED = "MODEL_UNSUPPORTED"
    EXTERNAL_DATA_REFUSED = "EXTERNAL_DATA_REFUSED"
    OPERATOR_FAILED = "OPERATOR_FAILED"
    GRAPH_CYCLE = "GRAPH_CYCLE"
    GRAPH_DANGLING = "GRAPH_DANGLING"
    GRAPH_INVALID = "GRAPH_INVALID"
    SHAPE_MISMATCH = "SHAPE_MISMATCH"
    DTYPE_MISMATCH = "DTYPE_MISMATCH"
    SHAPE_UNKNOWN = "SHAPE_UNKNOWN"
    VALUE_REQUIRED = "VALUE_REQUIRED"
    ATTRIBUTE_INVALID = "ATTRIBUTE_INVALID"
    LIMIT_EXCEEDED = "LIMIT_EXCEEDED"
    # backends
    BACKEND_ID_INVALID = "BACKEND_ID_INVALID"
    BACKEND_UNAVAILABLE = "BACKEND_UNAVAILABLE"
    BACKEND_DUPLICATE = "BACKEND_DUPLICATE"
    BACKEND_BROKEN = "BACKEND_BROKEN"
    BACKEND_CONTRACT = "BACKEND_CONTRACT"
    COMPILE_FAILED = "COMPILE_FAILED"
    ABI_MISMATCH = "ABI_MISMATCH"
    ISOLATED_PROCESS_DIED = "ISOLATED_PROCESS_DIED"
    # placement
    NO_BACKEND_FOR_LAYER = "NO_BACKEND_FOR_LAYER"
    PLACEMENT_FORBIDDEN = "PLACEMENT_FORBIDDEN"
    SUBSTITUTION_INVALID = "SUBSTITUTION_INVALID"
    # options
    OPTION_UNKNOWN = "OPTION_UNKNOWN"
    OPTION_INVALID = "OPTION_INVALID"
    # running
    INPUT_NAME = "INPUT_NAME"
    INPUT_DTYPE = "INPUT_DTYPE"
    INPUT_SHAPE = "INPUT_SHAPE"
    OUTPUT_NAME = "OUTPUT_NAME"
    BINDING_INVALID = "BINDING_INVALID"
    STATE_IN_USE = "STATE_IN_USE"
    STEP_FAILED = "STEP_FAILED"
    TIMEOUT = "TIMEOUT"
    CANCELLED = "CANCELLED"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    NETWORK_UNLOADED = "NETWORK_UNLOADED"
    RUNTIME_CLOSED = "RUNTIME_CLOSED"
    FORKED = "FORKED"


def shown_argument(value: object) -> str:
    """Return what a caller gave, cut short for a message.

    Python refuses to print the longest integers.
    """
    try:
        text = repr(value)
    except Exception:  # an error must not fail for what it is about
        text = f"of type {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}..."


_LONGEST = 12_000
"""Characters of a message; names, shapes and values in it may be as long as a file wants."""

_MOST_LINES, _LONGEST_LINE, _MOST_LISTED = 100, 400, 10_000
"""Of a list in one: lines, and characters of a line and of all."""


class DovetailError(Exception):
    """Base of all errors of dovetail.

    Args:
        message: What happened, to which thing, what was found and what was expected; cut if it is
            very long.
        code: Stable code; each class has a default.
        hint: The next step, as a sentence.
        details: Facts behind the message, by name.
    """

    default_code: ErrorCode = ErrorCode.GRAPH_INVALID

    def __init__(self, message: str, *, code: ErrorCode | None = None, hint: str | None = None, **details: Any) -> None:
        if len(message) > _LONGEST:
            message = f"{message[: _LONGEST - 3]}..."
        self.message = message
        self.code = code if code is not None else self.default_code
        self.hint = hint
        self.details = details
        super().__init__(message)

    def __str__(self) -> str:
        text = f"[{self.code}] {self.message}"
        return f"{text}\n  -> {self.hint}" if self.hint else text

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.code, self.hint, self.details)


def _rebuild(
    cls: type[DovetailError], message: str, code: ErrorCode, hint: str | None, details: dict[str, Any]
) -> DovetailError:
    """Rebuild a pickled error: keyword arguments do not survive the default protocol."""
    return cls(message, code=code, hint=hint, **details)


class ModelError(DovetailError):
    """A model file or a graph cannot be used as it is."""

    default_code = ErrorCode.MODEL_MALFORMED


class GraphError(ModelError):
    """A graph is wrong: a cycle, a dangling slot, shapes or dtypes that do not fit."""

    default_code = ErrorCode.GRAPH_INVALID


class UnsupportedModelError(ModelError):
    """A well-formed model asks for something that dovetail does not have.

    `details["unsupported"]` lists all of it.
    """

    default_code = ErrorCode.MODEL_UNSUPPORTED

    @classmethod
    def listing(cls, origin: str, entries: Sequence[Mapping[str, object]], lines: Iterable[str], *, hint: str) -> Self:
        """Build the one error of all that a model file asks for in vain.

        Args:
            origin: The file.
            entries: All of it, as `details["unsupported"]` has it.
            lines: The same in words, as long as a file wants: what is too much is cut.
            hint: The next step.
        """
        shown: list[str] = []
        left = _MOST_LISTED
        for line in islice(lines, _MOST_LINES):
            cut = line if len(line) <= _LONGEST_LINE else f"{line[: _LONGEST_LINE - 3]}..."
            left -= len(cut)
            if left < 0:
                break
            shown.append(f"\n  {cut}")
        if len(entries) > len(shown):
            shown.append(f"\n  and {len(entries) - len(shown)} more, all in details['unsupported']")
        count = f"{len(entries)} thing{'s' if len(entries) > 1 else ''}"
        message = f"{origin} asks for {count} that dovetail does not have:{''.join(shown)}"
        return cls(message, hint=hint, unsupported=list(entries))


class LimitError(ModelError):
    """A model asks for more than a limit of its load allows; `details["limit"]` names the limit."""

    default_code = ErrorCode.LIMIT_EXCEEDED


class LoadTimeoutError(LimitError, TimeoutError):
    """A load took longer than its limits allow."""

    default_code = ErrorCode.TIMEOUT


class BackendError(DovetailError):
    """A backend is missing, broken, or answered against its contract."""

    default_code = ErrorCode.BACKEND_BROKEN


class BackendUnavailableError(BackendError):
    """A backend that was asked for by id is not ready.

    `details["state"]` says which of the states of the registry it is in.
    """

    default_code = ErrorCode.BACKEND_UNAVAILABLE


class PlacementError(DovetailError):
    """Some layer has no backend under the constraints given.

    `details["refusals"]` lists what each backend said.
    """

    default_code = ErrorCode.NO_BACKEND_FOR_LAYER


class OptionError(DovetailError):
    """An option is unknown or has a wrong value."""

    default_code = ErrorCode.OPTION_UNKNOWN


class RunError(DovetailError):
    """A run failed; the network stays usable."""

    default_code = ErrorCode.STEP_FAILED


class InputError(RunError, ValueError):
    """An input or output handed to a run does not fit: wrong name, dtype or shape. Nothing ran."""

    default_code = ErrorCode.INPUT_SHAPE


class RunTimeoutError(RunError, TimeoutError):
    """The deadline of a run passed; all its work was drained before this was raised."""

    default_code = ErrorCode.TIMEOUT
