"""The conformance kit: proof that a backend does what it says.

It is for vendors, users and the project's own backends alike.

`dovetail conform ID` runs it from the command line; in a test suite, subclass `BackendConformance`
(which needs pytest: ``pip install dovetail-sdk[conformance]``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .suite import BackendConformance as BackendConformance

__all__ = ["BackendConformance"]


if not TYPE_CHECKING:  # pytest is not needed to run the kit, only to run it as a test suite

    def __getattr__(name: str) -> Any:
        if name == "BackendConformance":
            from .suite import BackendConformance

            return BackendConformance
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
