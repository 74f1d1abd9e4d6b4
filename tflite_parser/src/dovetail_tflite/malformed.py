"""The error for a file that is no sound model."""

from __future__ import annotations

from typing import Any

from dovetail import ErrorCode, ModelError


def malformed(found: str, *, hint: str = "check that the download or conversion is complete", **details: Any) -> ModelError:
    """Build it from what was found, the next step, and the names of what is meant."""
    return ModelError(found, code=ErrorCode.MODEL_MALFORMED, hint=hint, **details)
