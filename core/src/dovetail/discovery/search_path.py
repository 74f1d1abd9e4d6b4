"""Look at the place: could anybody but root and the user have put a file there?

A folder is safe if it, and everything above it, belongs to root or the user and nobody else may
write there; that `/tmp` has the sticky bit does not help, since anybody may have created what lies
in it. Symbolic links on the way are followed one by one, so that each folder they lead through is
looked at.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence

from ..ground.foreign_text import shown
from ..ground.records import NamedTuple
from .reasons import ReasonCode, Refused

_MAX_LINKS = 40


class Fingerprint(NamedTuple):
    """What tells a file from another that took its place."""

    device: int
    inode: int
    size: int
    modified_ns: int

    @classmethod
    def of(cls, facts: os.stat_result) -> Fingerprint:
        """Take it from what `stat` says."""
        return cls(facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns)


def safe_folder(path: str, trusted: Sequence[str] = ()) -> str:
    """Return the real path of a folder that only root and the user can change.

    Args:
        path: Absolute.
        trusted: Folders at which looking upwards ends, because the user answers for them.

    Raises:
        Refused: `UNSAFE_PATH`, naming the element to blame, or `UNREADABLE`.
    """
    if not os.path.isabs(path) or "\0" in path:
        text = f"{shown(path)} is no absolute path: folders are searched only where they are named in full"
        raise Refused(ReasonCode.UNSAFE_PATH, text, hint="write the whole path", path=path)
    current, rest = _start(path, trusted)
    links = 0
    if current == "/":
        _check("/", os.lstat("/"))
    while rest:
        name = rest.pop(0)
        if name == "..":
            current = os.path.dirname(current)
            continue
        element = os.path.join(current, name)
        try:
            facts = os.lstat(element)
            target = os.readlink(element) if stat.S_ISLNK(facts.st_mode) else None
        except OSError as error:
            reason = f"{shown(element)} cannot be reached: {error.strerror}"
            raise Refused(ReasonCode.UNREADABLE, reason, path=element) from error
        if target is not None:
            _check_owner(element, facts)
            links += 1
            if links > _MAX_LINKS:
                raise Refused(ReasonCode.UNSAFE_PATH, f"{shown(element)} is part of a loop of links", path=element)
            following = _parts(target)
            if os.path.isabs(target):
                current, following = _start(target, trusted)
            rest = following + rest
            continue
        if not stat.S_ISDIR(facts.st_mode):
            raise Refused(ReasonCode.UNREADABLE, f"{shown(element)} is no folder", path=element)
        if element not in trusted:
            _check(element, facts)
        current = element
    return current


def open_safe(folder: str, name: str) -> tuple[int, Fingerprint]:
    """Open a file of a safe folder for reading; links may lead to names in the same folder only.

    Raises:
        Refused: `UNSAFE_PATH`, `UNREADABLE`, or it is no regular file.
    """
    path = os.path.join(folder, name)
    target = _within(folder, name)
    try:
        # A FIFO that took the file's place would wait for a writer without O_NONBLOCK.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        descriptor = os.open(os.path.join(folder, target), flags)
    except OSError as error:
        code = ReasonCode.UNSAFE_PATH if os.path.islink(path) else ReasonCode.UNREADABLE
        raise Refused(code, f"{shown(path)} cannot be opened: {error.strerror}", path=path) from error
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            raise Refused(ReasonCode.UNSAFE_PATH, f"{shown(path)} is no regular file", path=path)
        _check(path, facts)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, Fingerprint.of(facts)


def _within(folder: str, name: str) -> str:
    """Follow links as long as they name something in the folder itself."""
    for _ in range(_MAX_LINKS):
        path = os.path.join(folder, name)
        try:
            target = os.readlink(path)
        except OSError:  # no link; whether it exists is for the caller to find
            return name
        if os.path.dirname(target) not in ("", folder) or os.path.basename(target) in ("", ".", ".."):
            raise Refused(ReasonCode.UNSAFE_PATH, f"{shown(path)} is a link out of its folder, to {shown(target)}", path=path)
        name = os.path.basename(target)
    raise Refused(ReasonCode.UNSAFE_PATH, f"{shown(os.path.join(folder, name))} is part of a loop of links", path=folder)


def _start(path: str, trusted: Sequence[str]) -> tuple[str, list[str]]:
    """Return the folder at which looking begins, and the names from there on."""
    for base in sorted((os.path.normpath(one) for one in trusted), key=len, reverse=True):
        if path == base or path.startswith(base.rstrip("/") + "/"):
            return os.path.realpath(base), _parts(path[len(base) :])
    return "/", _parts(path)


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _check(path: str, facts: os.stat_result) -> None:
    _check_owner(path, facts)
    mode = stat.S_IMODE(facts.st_mode)
    for bit, who in ((stat.S_IWOTH, "anybody"), (stat.S_IWGRP, f"group {facts.st_gid}")):
        if mode & bit:
            what = "folder" if stat.S_ISDIR(facts.st_mode) else "file"
            text = f"{who} can write the {what} {shown(path)} (mode {mode:04o})"
            raise Refused(ReasonCode.UNSAFE_PATH, text, path=path)


def _check_owner(path: str, facts: os.stat_result) -> None:
    me = os.geteuid()
    if facts.st_uid not in (0, me):
        text = f"{shown(path)} belongs to user {facts.st_uid}, neither root nor user {me}"
        raise Refused(ReasonCode.UNSAFE_PATH, text, path=path)


def is_trusted(path: str, trusted: Sequence[str]) -> str | None:
    """Return the trusted folder that a path lies in, if any."""
    return next((base for base in trusted if _is_below(path, base)), None)


def _is_below(path: str, base: str) -> bool:
    path, base = os.path.normpath(path), os.path.normpath(base)
    return path == base or path.startswith(base.rstrip("/") + "/")
