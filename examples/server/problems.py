"""What goes wrong, as JSON with a code, a sentence and the next step."""

from __future__ import annotations

from typing import Any

from fastapi.responses import JSONResponse

from dovetail import DovetailError, ErrorCode, InputError

_STATUS = {
    ErrorCode.TIMEOUT: 504,
    ErrorCode.OUT_OF_MEMORY: 503,
    ErrorCode.SHAPE_UNKNOWN: 409,  # a network of open sizes before its first run
    ErrorCode.NETWORK_UNLOADED: 503,
    ErrorCode.BACKEND_UNAVAILABLE: 503,
}

_HEADERS = {
    408: {"Connection": "close"},  # what is still to come is not waited for
    503: {"Retry-After": "1"},
}


class Problem(Exception):
    """A request that the server itself refuses.

    Attributes:
        status: Of HTTP.
        code: For programs.
        message: For people.
        hint: The next step.
    """

    def __init__(self, status: int, code: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.hint = hint


def status_of(error: DovetailError) -> int:
    """Return the status of HTTP: 422 for inputs that do not fit, 500 for what is not theirs."""
    return 422 if isinstance(error, InputError) else _STATUS.get(error.code, 500)


def answer(status: int, code: str, message: str, hint: str | None = None, **headers: str) -> JSONResponse:
    """Return an error as all of them look."""
    error: dict[str, Any] = {"code": code, "message": message, "hint": hint}
    return JSONResponse({"error": error}, status, headers)


def answer_of(error: Exception) -> JSONResponse:
    """Return an exception as an answer."""
    if isinstance(error, Problem):
        headers = _HEADERS.get(error.status, {})
        return answer(error.status, error.code, error.message, error.hint, **headers)
    if isinstance(error, DovetailError):
        return answer(status_of(error), str(error.code), error.message, error.hint)
    return answer(500, "SERVER_FAILED", "the server failed; its log has the reason")
