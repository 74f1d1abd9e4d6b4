"""Try a backend in a child process: load it, check it, run a network with a known result, report.

It is started by `probe.py`, which reads what it tells from a pipe. Telling is the only sign of
success: a backend may end the process with exit code 0.
"""

from __future__ import annotations

import faulthandler
import json
import logging
import os
import sys
import time
import traceback
from typing import Any

from ..discovery.probe import READY, RESULT


def main(request_fd: int, reply_fd: int) -> None:
    """Do what the request says and write the result."""
    with open(request_fd, encoding="utf-8") as file:
        request = json.load(file)
    os.set_inheritable(reply_fd, False)
    sys.path[:] = request["path"]
    _set_limits(request["memory"])

    def tell(stage: str, **facts: Any) -> None:
        text = json.dumps({"nonce": request["nonce"], "stage": stage, **facts})
        os.write(reply_fd, text.encode() + b"\n")

    result = _try(request, tell)
    faulthandler.cancel_dump_traceback_later()
    sys.stdout.flush()
    sys.stderr.flush()
    tell(RESULT, **result)
    # From here on the process ends as any other: what a backend does at exit is part of what is
    # tried.


def _try(request: dict[str, Any], tell: Any) -> dict[str, Any]:
    from ..discovery.candidates import Candidate, Form
    from ..discovery.host_state import LASTING, HostState
    from ..discovery.manifest import claims_of
    from ..discovery.opening import open_backend
    from ..discovery.reasons import ReasonCode, Refused
    from ..ground.errors import BackendUnavailableError
    from ..ground.foreign_text import described
    from .known_answers import self_test

    candidate = Candidate.from_json(request["candidate"])
    logging.getLogger("dovetail").setLevel(logging.ERROR)
    from .. import runtime  # noqa: F401  # its threads and libraries are not the backend's

    before, begun_ns = _mapped(), time.time_ns()
    tell(READY)
    faulthandler.dump_traceback_later(request["timeout"], exit=True)
    changes: list[str] = []
    notes: list[str] = []
    try:
        claims_of(candidate.manifest)
        backend = open_backend(candidate, changes)
        loaded = HostState.capture()
        test, is_postponed = self_test(backend)
        changes += [f"{one} (in the self-test)" for one in loaded.changes_to(HostState.capture()) if one.startswith(LASTING)]
    except Refused as refusal:
        code, text = refusal.code, refusal.text
        if _is_out_of_memory(refusal):
            code, text = ReasonCode.PROBE_LIMIT, f"it ran out of the {request['memory'] >> 20} MiB of the probe; {text}"
        return {
            "code": str(code),
            "text": text,
            "hint": refusal.hint if code is refusal.code else code.remedy,
            "path": refusal.path,
            "phase": refusal.phase,
            "facts": {name: value for name, value in refusal.facts.items() if isinstance(value, str | int | list)},
            "trace": "".join(traceback.format_exception(refusal.__cause__)) if refusal.__cause__ is not None else "",
        }
    except BackendUnavailableError as error:
        return {"unavailable": str(error.details.get("state", "")), "text": error.message, "hint": error.hint or ""}
    except BaseException as error:  # the core's own fault, or a trick of the backend
        trace = "".join(traceback.format_exception(error))
        return {"code": str(ReasonCode.IMPORT_FAILED), "text": described(error), "hint": "", "facts": {}, "trace": trace}
    notes += [test, *_devices(backend, request["memory"])]
    if candidate.form is Form.LIBRARY:  # which knows nothing of Python: such functions are the adapter's
        changes = [change for change in changes if not change.startswith("functions to call at exit")]
    notes += [f"{ReasonCode.SIDE_EFFECT}: loading it changes {change}" for change in dict.fromkeys(changes)]
    return {"notes": notes, "postponed": is_postponed, "drivers": _drivers(_mapped() - before, request["folders"], begun_ns)}


def _devices(backend: Any, memory: int) -> list[str]:
    """Say what is known of a backend's devices, where it is more than a name.

    A driver of the host's memory takes what this process may allocate for what there is.
    """
    from ..contract.backend_calls import devices_of
    from ..contract.device import DEFAULT_DEVICE
    from ..ground.errors import DovetailError

    try:
        devices = devices_of(f"backend {str(backend.id)!r}", backend)
    except DovetailError:  # told to whoever asks for one
        return []
    known = [one for one in devices if one != DEFAULT_DEVICE and one.description != one.name]
    limit = f" (numbers of memory are those of the probe, which may allocate {memory >> 20} MiB)"
    return [f"device {one.index}: {one.description}{limit * (memory > 0 and one.memory_bytes == memory)}" for one in known]


def _set_limits(memory: int) -> None:
    import resource

    def limit(which: int, maximum: int) -> None:
        soft, hard = resource.getrlimit(which)
        for now in (soft, hard):
            maximum = maximum if now == resource.RLIM_INFINITY else min(maximum, now)
        resource.setrlimit(which, (maximum, hard))

    limit(resource.RLIMIT_CORE, 0)
    if memory:
        # Drivers of devices reserve address space without using it, which counts for the one and
        # not for the other.
        limit(resource.RLIMIT_DATA, memory)
        limit(resource.RLIMIT_AS, 64 * memory)


def _is_out_of_memory(error: BaseException) -> bool:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, MemoryError):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def _mapped() -> set[str]:
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            fields = [line.rstrip("\n").split(None, 5) for line in maps]
    except OSError:
        return set()
    return {one[5] for one in fields if len(one) > 5 and ".so" in one[5] and one[5].startswith("/")}


def _drivers(paths: set[str], folders: list[str], begun_ns: int) -> list[tuple[str, int, int]]:
    """Return the libraries that are not the backend's own, with what shows their replacement.

    What was written since the probe began is none: a driver compiled it, and may drop it again.
    """
    found = []
    for path in sorted(paths):
        if any(path.startswith(folder.rstrip("/") + "/") for folder in folders):
            continue
        try:
            facts = os.stat(path)
        except OSError:
            continue
        if facts.st_mtime_ns < begun_ns:
            found.append((path, facts.st_size, facts.st_mtime_ns))
    return found


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
