"""List the backends of searched folders.

These are shared libraries that carry a manifest in the ELF section `.dovetail`.

Nothing is loaded: of each file the headers and that one section are read. What is no regular file
is not even opened.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from ..ground.logs import Log
from ..ground.records import Record, field
from ..ground.settings import SearchFolder
from . import elf, manifest
from .candidates import Candidate
from .reasons import ReasonCode, Refused
from .search_path import Fingerprint, is_trusted, open_safe, safe_folder

_log = Log("dovetail")
SECTION = b".dovetail"


class FolderReport(Record):
    """What a search of one folder gave.

    Attributes:
        path, asked_by: Which folder, and where it was named.
        candidates: What it holds, by name of the file.
        skipped: Files that are no candidates, with the reason, by name.
        refusal: Why the folder was not searched.
    """

    path: str
    asked_by: str
    candidates: list[Candidate] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    refusal: Refused | None = None


def search(folders: Sequence[SearchFolder], trusted: Sequence[str]) -> list[FolderReport]:
    """Search folders, in their order; a file that is reached twice counts once."""
    reports = []
    seen: set[tuple[int, int]] = set()
    for folder in folders:
        report = FolderReport(folder.path, folder.asked_by)
        reports.append(report)
        base = is_trusted(folder.path, trusted)
        if base is not None:
            _log.info("%s is searched as it is: config.toml, or the caller, answers for %s", folder.path, base)
        try:
            _search(safe_folder(folder.path, trusted), report, seen)
        except Refused as refusal:
            report.refusal = refusal
            _log.warning("%s (of %s) is not searched: %s", folder.path, folder.asked_by, refusal.text)
    return reports


def read_manifest(descriptor: int, path: str) -> Any:
    """Return the content of the manifest in an open library; None if it carries none.

    Raises:
        Refused: It is no whole library for this machine, or the manifest is malformed.
    """
    header = elf.check(descriptor, path)
    text = elf.section(descriptor, header, SECTION, manifest.LARGEST)
    if text is None:
        return None
    return manifest.parse(text.partition(b"\0")[0], path)


def _search(folder: str, report: FolderReport, seen: set[tuple[int, int]]) -> None:
    try:
        with os.scandir(folder) as entries:
            files = sorted((entry for entry in entries if entry.name.endswith(".so")), key=lambda entry: entry.name)
    except OSError as error:
        text = f"the folder {folder} cannot be listed: {error.strerror}"
        raise Refused(ReasonCode.UNREADABLE, text, path=folder) from error
    for entry in files:
        if not entry.is_symlink() and not entry.is_file(follow_symlinks=False):
            report.skipped[entry.name] = "no regular file"
            continue
        path = os.path.join(folder, entry.name)
        try:
            descriptor, file = open_safe(folder, entry.name)
        except Refused as refusal:
            report.candidates.append(Candidate("", path, path=path, refusal=refusal))
            continue
        try:
            if (file.device, file.inode) in seen:
                report.skipped[entry.name] = "the same file again"
                continue
            seen.add((file.device, file.inode))
            found = _candidates(descriptor, path, file)
        finally:
            os.close(descriptor)
        if not found:
            report.skipped[entry.name] = "carries no manifest, so it is no backend"
        report.candidates += found


def _candidates(descriptor: int, path: str, file: Fingerprint) -> list[Candidate]:
    name = ""
    try:
        content = read_manifest(descriptor, path)
        if content is None:
            return []
        fields: Mapping[str, Any] = manifest.check(content, path)
        name = str(fields["id"])
        if "abi" not in fields:
            text = "a manifest in a library must say the 'abi' that it was built for"
            raise Refused(ReasonCode.BAD_MANIFEST, text, path=path)
        # What a package's manifest calls its library is this file, whatever it is called here.
        fields = {name: value for name, value in fields.items() if name != "library"}
    except Refused as refusal:
        return [Candidate(name, path, path=path, file=file, refusal=refusal)]
    except OSError as error:
        text = f"the file cannot be read: {error.strerror}"
        return [Candidate(name, path, path=path, file=file, refusal=Refused(ReasonCode.UNREADABLE, text, path=path))]
    return [Candidate(name, path, version=fields.get("version"), path=path, manifest=fields, file=file)]
