"""A backend that might be loaded: its origin, what it says about itself, what is wrong with it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from ..ground.records import NamedTuple
from .reasons import Refused
from .search_path import Fingerprint


class Form(StrEnum):
    """What a backend is made of, which decides how it is loaded."""

    ENTRY_POINT = "entry_point"
    """A class, or an instance, that an entry point names."""
    LIBRARY = "library"
    """A shared library that exports the C table."""
    EXTENSION = "extension"
    """A Python extension module that lies in a searched folder."""


class Candidate(NamedTuple):
    """One backend that was found.

    Attributes:
        id: What it is listed by; empty if that could not be read. Not always a valid id.
        origin: The entry point's value, or the path of the file.
        distribution, version: Which distribution offers it; None if it lies in a searched folder.
        value: The entry point's value; empty if it lies in a searched folder.
        path: The package's folder, or the file; None if unknown.
        manifest: What it says about itself, or None.
        file: The file as it was when it was looked at; None for an installed package.
        refusal: Why it cannot be used, as far as listing shows.
    """

    id: str
    origin: str
    distribution: str | None = None
    version: str | None = None
    value: str = ""
    path: str | None = None
    manifest: Mapping[str, Any] | None = None
    file: Fingerprint | None = None
    refusal: Refused | None = None

    @property
    def key(self) -> tuple[Any, ...]:
        """What is equal for the same candidate found again."""
        return self.id, self.origin, self.distribution, self.version, self.path, self.file

    @property
    def form(self) -> Form:
        """What it is made of."""
        fields = self.manifest or {}
        if self.value:
            return Form.LIBRARY if "library" in fields else Form.ENTRY_POINT
        return Form.EXTENSION if "module" in fields else Form.LIBRARY

    @property
    def library(self) -> str | None:
        """The shared library that is loaded, if it is known before anything is imported."""
        if self.form is Form.ENTRY_POINT or self.path is None:
            return None
        return os.path.join(self.path, self.manifest["library"]) if self.value and self.manifest else self.path

    @property
    def module(self) -> str:
        """The top-level package or module of an entry point."""
        return self.value.partition(":")[0].partition(".")[0].strip()

    def as_json(self) -> dict[str, Any]:
        """Return what a child process needs to load it."""
        return {
            "id": self.id,
            "origin": self.origin,
            "distribution": self.distribution,
            "version": self.version,
            "value": self.value,
            "path": self.path,
            "manifest": dict(self.manifest) if self.manifest is not None else None,
            "file": [self.file.device, self.file.inode, self.file.size, self.file.modified_ns] if self.file else None,
        }

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Candidate:
        """Read what `as_json` wrote."""
        file = Fingerprint(*fields["file"]) if fields["file"] else None
        return cls(**{**fields, "file": file})
