"""What only a process of its own can show: the end of the interpreter, and a fork.

`levels.lifecycle` reads what such processes say.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dovetail import DovetailError, ErrorCode, LoadedNetwork, Runtime

from .samples import accepted, arrays_of, run_and_judge
from .subject import RUN_SECONDS, Settings, Subject
from .target import open_target
from .trials import Batch

_KEPT: list[object] = []
"""What lives until the interpreter itself is taken down."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a subprocess check ended: its exit code, what it said last, and what else it printed."""

    code: int
    said: str
    printed: str


def subprocess_check(subject: Subject, name: str, seconds: float = 60.0) -> Ended:
    """Run one of `SUBPROCESS_CHECKS` in a fresh process.

    Raises:
        subprocess.TimeoutExpired: It did not end in time.
    """
    orders = {
        "name": name,
        "target": subject.target.name,
        "options": dict(subject.options),
        "seed": subject.settings.seed,
        "isolate": subject.settings.isolate,
        "kinds": sorted({trial.layer.kind for trial in accepted(subject, 4)}),
    }
    done = subprocess.run(
        [sys.executable, "-m", "dovetail_sdk.conformance.subprocess_checks", json.dumps(orders)],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=seconds,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("check: ")]
    return Ended(done.returncode, lines[-1].removeprefix("check: ") if lines else "", done.stderr[-3000:])


def _say(text: str) -> None:
    print(f"check: {text}", flush=True)


def _prepared(subject: Subject) -> tuple[Batch, LoadedNetwork]:
    batch = Batch(accepted(subject, 4))
    loaded = subject.load(batch.network)
    run_and_judge(loaded, batch, "before the check")
    return batch, loaded


def _exit_while_loaded(subject: Subject) -> None:
    _KEPT.append(_prepared(subject))
    _say("loaded")


def _exit_call(subject: Subject) -> None:
    _KEPT.append(_prepared(subject))
    _say("loaded")
    sys.exit(0)


def _exit_after_running_on_threads(subject: Subject) -> None:
    batch, loaded = _prepared(subject)
    threads = [threading.Thread(target=run_and_judge, args=(loaded, batch, "on a thread")) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    _KEPT.append(loaded)
    _say("loaded")


def _exit_in_a_cycle(subject: Subject) -> None:
    batch, loaded = _prepared(subject)
    cycle: list[object] = [batch, loaded, subject]
    cycle.append(cycle)
    gc.disable()
    _say("loaded")


def _fork(subject: Subject) -> None:
    batch, loaded = _prepared(subject)
    child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(RUN_SECONDS + 5, exit=True)
        os._exit(_in_forked_child(batch, loaded))
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    run_and_judge(loaded, batch, "in the parent, after a fork")
    _say({0: "works", 3: "forked"}.get(code, f"the forked child ended with exit code {code}"))


def _in_forked_child(batch: Batch, loaded: LoadedNetwork) -> int:
    """Return 0 if a run works, 3 if it is refused as it should be on a device, 1 for all else."""
    try:
        loaded.run(arrays_of(batch), timeout=RUN_SECONDS)
    except DovetailError as error:
        if error.code is ErrorCode.FORKED:
            return 3
        print(f"{error}", file=sys.stderr, flush=True)
        return 1
    try:
        run_and_judge(loaded, batch, "in the forked child")
    except Exception as error:
        print(f"{error}", file=sys.stderr, flush=True)
        return 1
    return 0


SUBPROCESS_CHECKS: Mapping[str, Callable[[Subject], None]] = {
    "ends while a network is loaded": _exit_while_loaded,
    "calls sys.exit while a network is loaded": _exit_call,
    "ends after runs on several threads": _exit_after_running_on_threads,
    "ends with a network in a reference cycle": _exit_in_a_cycle,
    "fork": _fork,
}


def main(orders: Mapping[str, Any]) -> None:
    """Do one check; leave the subject open, so that what it holds meets the interpreter's end."""
    faulthandler.enable()
    settings = Settings(**{name: orders[name] for name in ("options", "seed", "isolate", "kinds")})
    subject = Subject(open_target(orders["target"]), settings)
    _KEPT.append((subject, Runtime))
    SUBPROCESS_CHECKS[orders["name"]](subject)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
