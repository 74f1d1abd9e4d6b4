"""Say what bytes are that came in the place of a model, such as a page about an error."""

from __future__ import annotations

_BEGINNINGS = {
    b"version https://git-lfs.github.com/spec/": "it is a pointer of Git LFS, not the model: `git lfs pull` fetches that",
    b"\x1f\x8b": "it is compressed by gzip: unpack it first",
    b"pk\x03\x04": "it is a ZIP archive: unpack it first, or export the model",
    b"<!doctype html": "it is a web page, not the model: download the file itself",
    b"<html": "it is a web page, not the model: download the file itself",
}


def what_begins_so(begin: bytes) -> str | None:
    """Return the next step for what begins so, if that is known and no model."""
    return next((hint for beginning, hint in _BEGINNINGS.items() if begin.lower().startswith(beginning)), None)
