"""Load a backend: run its code for the first time, check the result, say precisely what failed.

The same function serves the child process that tries a backend and the host that then loads it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from typing import TYPE_CHECKING, Any

from ..ground.errors import BackendUnavailableError, DovetailError
from ..ground.foreign_text import shown
from ..ground.host_exceptions import is_of_host
from ..ground.settings import lock_file
from .candidates import Candidate, Form
from .content import read_lock
from .entry_points import load_object, reference
from .host_state import interrupts_told_apart, restored
from .manifest import claims_of
from .reasons import ReasonCode, Refused
from .search_path import Fingerprint

if TYPE_CHECKING:
    from ..contract.claims import Claims
    from ..contract.interfaces import IBackend

_DEVICE_STATES = ("driver_missing", "no_device", "device_busy")


def open_backend(candidate: Candidate, changes: list[str] | None = None) -> IBackend:
    """Load a backend and check that it is what it is listed as.

    Working folder, signal handlers and FPU flags are put back.

    Args:
        candidate: What to load.
        changes: Gets what loading changed in the state of the process, before it is put back.

    Raises:
        Refused: It cannot be loaded, or is something else.
        BackendUnavailableError: It says itself that it cannot be used now.
        KeyboardInterrupt: Somebody pressed Ctrl-C; one that the backend raises by itself is a
            refusal.
    """
    if candidate.form is Form.LIBRARY:
        from .. import native  # noqa: F401  # beforehand: what the core itself changes in the process is not the backend's doing
    with restored(changes), _unchanged(candidate), interrupts_told_apart() as interrupted:
        try:
            return _checked(_created(candidate), candidate)
        except KeyboardInterrupt as error:
            if interrupted():
                raise
            raise _failure(candidate, "import", error) from error


def _created(candidate: Candidate) -> Any:
    if candidate.form is Form.LIBRARY:
        return _library(candidate)
    try:
        offered = _extension(candidate) if candidate.form is Form.EXTENSION else _entry_point(candidate)
    except (BackendUnavailableError, Refused):
        raise
    except BaseException as error:  # SystemExit too: a backend must not end somebody else's program
        if is_of_host(error):
            raise
        raise _failure(candidate, "import", error) from error
    try:
        from ..contract.interfaces import IBackend

        missing = _missing_methods(offered) if isinstance(offered, type) else []
        if missing and issubclass(offered, IBackend):
            text = f"its class {offered.__name__} lacks {', '.join(missing)}"
            raise Refused(ReasonCode.NOT_A_BACKEND, text, path=candidate.path, phase="check", missing=missing)
        return offered() if callable(offered) and not isinstance(offered, IBackend) else offered
    except (BackendUnavailableError, Refused):
        raise
    except BaseException as error:
        if is_of_host(error):
            raise
        raise _failure(candidate, "create", error) from error


def _checked(backend: Any, candidate: Candidate) -> IBackend:
    from ..contract.interfaces import IBackend

    def against(code: ReasonCode, text: str, **facts: Any) -> Refused:
        return Refused(code, text, path=candidate.path, phase="check", **facts)

    if not isinstance(backend, IBackend):
        missing = _missing_methods(type(backend))
        text = f"{candidate.origin} gives an instance of {_type_name(backend)}, which is not an IBackend"
        raise against(ReasonCode.NOT_A_BACKEND, f"{text}; it lacks {', '.join(missing)}" if missing else text, missing=missing)
    try:
        name = backend.id
        is_same = isinstance(name, str) and name == candidate.id
    except BaseException as error:
        if is_of_host(error):
            raise
        raise _failure(candidate, "id", error) from error
    if not is_same:
        listed = "its entry point is named" if candidate.value else "its manifest says"
        text = f"{listed} {candidate.id!r} but its id is {shown(name)}"
        raise against(ReasonCode.ID_MISMATCH, text)
    if candidate.form is not Form.LIBRARY:
        backend.manifest, backend.claims = candidate.manifest, _claims(candidate)
        if backend.claims is None and type(backend).supports is IBackend.supports:
            text = "it has no supports() of its own, and its manifest claims nothing: it would take no layer"
            raise against(ReasonCode.NOT_A_BACKEND, text, missing=["claims"])
    return backend


def _claims(candidate: Candidate) -> Claims | None:
    """Return what a candidate that was admitted claims: its manifest was read as a whole then."""
    return claims_of(candidate.manifest, candidate.path, at_once=False)


def _entry_point(candidate: Candidate) -> Any:
    lock = lock_file()
    if lock is not None and candidate.id in read_lock(lock):
        from .locked_imports import import_from_sources

        import_from_sources(candidate.module)
    try:
        reference(candidate.value)
    except ValueError as error:
        text = f"its entry point {shown(candidate.value)} is no reference to an object"
        raise Refused(ReasonCode.ENTRY_POINT_BROKEN, text, path=candidate.path, phase="import") from error
    return load_object(candidate.value)


def _extension(candidate: Candidate) -> Any:
    """Load a Python extension module of a searched folder under the name in its manifest."""
    assert candidate.manifest is not None
    assert candidate.path is not None
    name = candidate.manifest["module"]
    module = sys.modules.get(name)
    if module is not None and getattr(module, "__file__", None) != candidate.path:
        text = f"a module named {name!r} is loaded already, from {getattr(module, '__file__', None)}"
        raise Refused(ReasonCode.IMPORT_FAILED, text, path=candidate.path, phase="import")
    if module is None:
        spec = spec_from_file_location(name, candidate.path, loader=ExtensionFileLoader(name, candidate.path))
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            sys.modules.pop(name, None)
            raise
    offered: Any = module
    for part in candidate.manifest.get("attribute", "Backend").split("."):
        offered = getattr(offered, part)
    return offered


def _library(candidate: Candidate) -> Any:
    """Load a C table; the adapter makes an `IBackend` of it."""
    from ..native import load_backend

    library = candidate.library
    if library is None:
        text = "the folder of its package cannot be found"
        raise Refused(ReasonCode.ENTRY_POINT_BROKEN, text, phase="import")
    try:
        backend = load_backend(library, claims=_claims(candidate))
    except (BackendUnavailableError, Refused):
        raise
    except DovetailError as error:
        if is_of_host(error):
            raise
        state = error.details.get("reason")
        if state in _DEVICE_STATES:
            raise BackendUnavailableError(error.message, hint=ReasonCode[state.upper()].remedy, state=state) from error
        raise _failure(candidate, "import", error) from error
    except BaseException as error:
        if is_of_host(error):
            raise
        raise _failure(candidate, "import", error) from error
    said = tuple((candidate.manifest or {}).get("abi", backend.abi))
    if backend.abi != said:
        versions = [".".join(map(str, version)) for version in (backend.abi, said)]
        text = f"the library was built for ABI {versions[0]}, its manifest says {versions[1]}"
        raise Refused(ReasonCode.ABI_MISMATCH, text, path=library, phase="check")
    return backend


def _failure(candidate: Candidate, phase: str, error: BaseException) -> Refused:
    from .opening_failures import failure  # with the patterns of many messages, for when something fails

    return failure(candidate, phase, error)


def _missing_methods(offered: type) -> list[str]:
    """Name what a class lacks that an `IBackend` must have."""
    from ..contract.interfaces import IBackend

    abstract = getattr(offered, "__abstractmethods__", None)
    if isinstance(abstract, frozenset) and issubclass(offered, IBackend):
        return sorted(abstract)
    return sorted(name for name in IBackend.__abstractmethods__ if not hasattr(offered, name))


def _type_name(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


@contextmanager
def _unchanged(candidate: Candidate) -> Iterator[None]:
    """Make sure that the file which was looked at is the one that was loaded."""
    if candidate.file is None or candidate.path is None:
        yield
        return
    _compare(candidate.path, candidate.file)
    yield
    _compare(candidate.path, candidate.file)
    if not _is_mapped(candidate.path, candidate.file):
        text = f"{shown(candidate.path)} was loaded, but not the file that was checked"
        raise Refused(ReasonCode.CHANGED_DURING_LOAD, text, path=candidate.path)


def _compare(path: str, file: Fingerprint) -> None:
    try:
        now = Fingerprint.of(os.stat(path))
    except OSError as error:
        text = f"{shown(path)} is gone: {error.strerror}"
        raise Refused(ReasonCode.CHANGED_DURING_LOAD, text, path=path) from error
    if now != file:
        text = f"{shown(path)} was replaced: inode {file.inode}, {file.size} bytes, now inode {now.inode}, {now.size} bytes"
        raise Refused(ReasonCode.CHANGED_DURING_LOAD, text, path=path)


def _is_mapped(path: str, file: Fingerprint) -> bool:
    """Tell whether this file is mapped into the process; true where that cannot be told."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            fields = [line.rstrip("\n").split(None, 5) for line in maps]
    except OSError:
        return True
    # File systems in layers may show another inode there than stat does; then the name decides.
    mapped = {one[4] for one in fields if len(one) > 4} | {one[5] for one in fields if len(one) > 5}
    return str(file.inode) in mapped or os.path.realpath(path) in mapped
