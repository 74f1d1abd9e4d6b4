"""What a backend consists of: its files, their digest, and whether they are those of a lock file.

A lock file is JSON, by backend id and file:
``{"AcmeNpu": {"dovetail_acme_npu/libacme.so": "<sha256>"}}``. Backends that it does not name are
not held to it. Folders that links lead to are part of a package, since Python imports from them.
Caches of byte code are not: the modules of a backend that a lock file names are compiled from their
sources (`locked_imports`).
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Mapping
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from typing import Any

from ..ground.foreign_text import shown
from ..ground.records import NamedTuple
from ..ground.trusted_files import read_trusted
from .candidates import Candidate, Form
from .reasons import ReasonCode, Refused

_LARGEST_LOCK = 16 << 20
_CACHED = re.compile(r"[^.]+\.[^/]+\.pyc")  # of a name with dots no import can ask
_MAX_FILES = 100_000
_CHUNK = 1 << 20

Stamp = tuple[str, int, int, int, int]
"""Of one file: name, size, times of last change of content and of anything, inode."""


class Files(NamedTuple):
    """The files of a backend.

    Attributes:
        names: Path of each file by the name it has in a lock file, in order.
        folders: Where files of it lie; a library that is mapped from elsewhere is a driver.
    """

    names: Mapping[str, str]
    folders: tuple[str, ...]

    def stamps(self) -> list[Stamp]:
        """Return what `stat` says of each; files that are gone are left out."""
        found = []
        for name, path in self.names.items():
            try:
                facts = os.stat(path)
            except OSError:
                continue
            found.append((name, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino))
        return found

    def digests(self) -> dict[str, str]:
        """Return the SHA-256 of each file.

        Raises:
            Refused: One cannot be read.
        """
        return {name: _digest(path) for name, path in self.names.items()}


def files_of(candidate: Candidate) -> Files:
    """List what a candidate consists of: a file, or a package.

    A package includes the folder of libraries that auditwheel put beside it.
    """
    if not candidate.value:
        path = candidate.path or ""
        return Files({os.path.basename(path): path}, (os.path.dirname(path),))
    return files_of_module(candidate.module, candidate.distribution or candidate.module)


def files_of_module(module: str, distribution: str) -> Files:
    """List what a module consists of: a file, or a package.

    A package includes the folder of libraries that auditwheel put beside it.
    """
    try:
        spec = find_spec(module)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        return Files({}, ())
    roots = [os.path.normpath(folder) for folder in spec.submodule_search_locations or ()]
    packed = next((root for root in roots if _is_in_archive(root)), None)
    if packed is not None:
        text = f"{shown(packed)} lies in an archive, whose files cannot be told apart"
        raise Refused(ReasonCode.UNREADABLE, text, hint="install it unpacked, as pip does", path=packed)
    if not roots:
        origin = spec.origin or ""
        return Files({os.path.basename(origin): origin} if os.path.isfile(origin) else {}, ())
    stems = {module, distribution.replace("-", "_")}
    beside = [os.path.join(os.path.dirname(root), f"{stem}.libs") for root in roots for stem in sorted(stems)]
    folders = [*roots, *filter(os.path.isdir, beside)]
    # What lies in a folder is named from the folder above it; `os.path.relpath` would ask for the
    # working folder each time.
    names = {path[len(os.path.dirname(folder).rstrip("/")) + 1 :]: path for folder in folders for path in _walk(folder)}
    return Files(dict(sorted(names.items())), tuple(folders))


def _is_in_archive(folder: str) -> bool:
    """Tell whether one of the folders above a folder is a file."""
    above = os.path.dirname(folder)
    while above != os.path.dirname(above):
        if os.path.isfile(above):
            return True
        above = os.path.dirname(above)
    return False


def check_libraries(candidate: Candidate, files: Files) -> None:
    """Look into every shared library before any is loaded: a truncated one would kill the process.

    A library for another processor is refused where it is to be loaded by this process; packages
    carry some for their devices.

    Raises:
        Refused: `NOT_ELF`, `TRUNCATED`, `WRONG_ARCH`, `PY_ABI`, or the library of the manifest is
            missing.
    """
    from . import elf  # not for a backend that is known

    library = candidate.library
    if library is not None and not os.path.isfile(library):
        raise Refused(ReasonCode.UNREADABLE, f"the library {shown(library)} is missing", path=library)
    if elf.own_target() is None:
        return
    for path in dict.fromkeys([*([library] if library else []), *files.names.values()]):
        name = os.path.basename(path)
        if path != library and not name.endswith(".so") and ".so." not in name:
            continue
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise Refused(ReasonCode.UNREADABLE, f"{shown(path)} cannot be read: {error.strerror}", path=path) from error
        try:
            elf.check(descriptor, path)
        except Refused as refusal:
            if refusal.code is ReasonCode.TRUNCATED or path == library or not name.startswith("lib"):
                raise
        finally:
            os.close(descriptor)
    if candidate.form is Form.EXTENSION and is_of_another_python(candidate.path or ""):
        text = f"{shown(candidate.path)} is built for another Python; this one takes {', '.join(EXTENSION_SUFFIXES)}"
        raise Refused(ReasonCode.PY_ABI, text, path=candidate.path)


def is_of_another_python(path: str) -> bool:
    """Tell whether the file name of an extension module carries the tag of another Python."""
    _, _, tag = os.path.basename(path).partition(".")
    return tag.startswith(("cpython-", "cp", "pypy", "graalpy", "abi3")) and f".{tag}" not in EXTENSION_SUFFIXES


def check_lock(candidate: Candidate, files: Files, lock: str) -> None:
    """Compare the files of a backend with a lock file.

    Raises:
        Refused: `HASH_MISMATCH`: a file differs, is missing, or is not in the list; or the lock
            file cannot be read.
    """
    content = read_lock(lock)
    wanted = content.get(candidate.id)
    if wanted is None:
        for other, names in content.items():
            if shared := sorted({*names} & {*files.names}):
                path = files.names[shared[0]]
                text = f"{shown(path)} says that it is {candidate.id}; the lock file {lock} knows it as {other}"
                raise Refused(ReasonCode.HASH_MISMATCH, text, path=path)
        return
    found = files.digests()
    for name in sorted({*wanted, *found}):
        if wanted.get(name) != found.get(name):
            path = files.names.get(name, name)
            if name not in wanted:
                text = f"{shown(path)} is not in the lock file {lock}"
            elif name not in found:
                text = f"{name} is missing; the lock file {lock} lists it"
            else:
                text = f"{shown(path)} has sha256 {found[name]}; the lock file {lock} says {wanted[name]}"
            raise Refused(ReasonCode.HASH_MISMATCH, text, path=path)


def read_lock(lock: str) -> dict[str, dict[str, str]]:
    """Read a lock file.

    Raises:
        Refused: `HASH_MISMATCH`: it is missing or malformed, or others could have written it; who
            asks for a lock wants no backend without it.
    """
    try:
        content: Any = json.loads(read_trusted(lock, _LARGEST_LOCK))
        assert isinstance(content, dict)
        for names in content.values():
            assert isinstance(names, dict)
            assert all(isinstance(digest, str) for digest in names.values())
    except (OSError, ValueError, RecursionError, AssertionError) as error:
        text = f"the lock file {lock} cannot be read: {shown(error) if str(error) else 'it must hold objects of texts'}"
        raise Refused(ReasonCode.HASH_MISMATCH, text, path=lock) from error
    return content


def _walk(folder: str) -> list[str]:
    """List the files below a folder, through links as an import goes.

    A link back to a folder above it is listed itself.
    """
    found = []
    waiting: list[tuple[str, tuple[tuple[int, int], ...]]] = [(folder, ())]
    while waiting:
        path, above = waiting.pop()
        try:
            facts = os.stat(path)
            entries = sorted(os.scandir(path), key=lambda entry: entry.name)
        except OSError as error:
            raise Refused(ReasonCode.UNREADABLE, f"{shown(path)} cannot be read: {error.strerror}", path=path) from error
        here = (*above, (facts.st_dev, facts.st_ino))
        is_cache = os.path.basename(path) == "__pycache__"
        for entry in entries:
            if not entry.is_dir():
                if not is_cache or not _CACHED.fullmatch(entry.name):
                    found.append(entry.path)
            else:
                inside = os.stat(entry.path)
                if (inside.st_dev, inside.st_ino) in here:
                    found.append(entry.path)
                else:
                    waiting.append((entry.path, here))
        if len(found) + len(waiting) > _MAX_FILES:
            raise Refused(ReasonCode.UNREADABLE, f"{shown(folder)} has more than {_MAX_FILES} files", path=folder)
    return found


def _digest(path: str) -> str:
    from hashlib import sha256

    digest = sha256()
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return "a link to a folder around it" if os.path.isdir(path) else "no regular file"
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(descriptor, "rb", buffering=0) as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
    except OSError as error:
        if os.path.islink(path):
            return "a dangling link"
        raise Refused(ReasonCode.UNREADABLE, f"{shown(path)} cannot be read: {error.strerror}", path=path) from error
    return digest.hexdigest()
