"""Children forked from a process with everything imported, and watched.

A crash, a hang or a bomb becomes a line.

A child gets a batch of numbers. It tells through a pipe which one it begins, at which stage it is
and how that ended. The parent reads, and looks at the children's memory and processor time.
Whatever ends a child is the doing of the mutant that it had in hand; the rest of its batch goes to
a new child. Needs Linux: it reads /proc.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import resource
import selectors
import signal
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from .verdicts import Outcome, Verdict

Task = Callable[[int, Callable[[str], None]], Outcome]

TICK = 0.1
"""Seconds between two looks at the children."""
SLEEPING = 6
"""How many times as long as it may compute a child may take, waits included.

The machine may be busy, or the child waits for ever."""
STILLBORN = 5
"""Children in a row that may end before they begin: a busy machine may lack memory for a while."""
PAGE = os.sysconf("SC_PAGE_SIZE")
CLOCK = os.sysconf("SC_CLK_TCK")
DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG


@dataclass(frozen=True)
class Limits:
    """What a mutant may take.

    Attributes:
        seconds: Of processor time.
        memory: Bytes of memory that it may grow by.
        space: Bytes of address space beyond those that the process has at the start: what is asked
            for beyond is not given.
    """

    seconds: float = 10.0
    memory: int = 1 << 30
    space: int = 4 << 30


@dataclass
class _Child:
    pid: int
    pipe: int
    log: int
    numbers: deque[int]
    buffer: bytes = b""
    number: int | None = None
    last: int | None = None
    stage: str = ""
    began: float = 0.0
    computed: float = 0.0
    resident: int = 0
    peak: int = 0
    condemned: Verdict | None = None
    condemned_at: int | None = None


class ForkServer:
    """Carries out a task on numbers, in children.

    Args:
        begin: Called in each child, before its first number; returns the task.
        jobs: Children at a time.
        limits: What one number may take.
    """

    def __init__(self, begin: Callable[[], Task], jobs: int = 1, limits: Limits | None = None) -> None:
        self._begin = begin
        self._jobs = jobs
        self._limits = limits or Limits()
        self._selector = selectors.DefaultSelector()
        self._children: dict[int, _Child] = {}
        self._watched = 0.0
        self._stillborn = 0

    def run(self, batches: Iterable[Iterable[int]]) -> Iterator[tuple[int, Outcome]]:
        """Carry out the task on every number of every batch; yield each with its end, as they come.

        Raises:
            RuntimeError: One child after another ended before it took anything in hand.
        """
        waiting = iter(batches)
        again: deque[deque[int]] = deque()
        exhausted = False
        try:
            while True:
                while len(self._children) < self._jobs and not (exhausted and not again):
                    batch = again.popleft() if again else deque(next(waiting, ()))
                    if not batch:
                        exhausted = True
                        continue
                    self._fork(batch)
                if not self._children:
                    return
                for key, _ in self._selector.select(TICK):
                    yield from self._read(self._children[key.fd], again)
                self._watch()
        finally:
            self._kill_all()

    def _fork(self, numbers: deque[int]) -> None:
        reading, writing = os.pipe()
        log = os.memfd_create("fuzz")
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            _child(self._begin, numbers, writing, log, self._limits)
        os.close(writing)
        child = _Child(pid, reading, log, numbers, began=time.monotonic())
        self._children[reading] = child
        self._selector.register(reading, selectors.EVENT_READ)

    def _read(self, child: _Child, again: deque[deque[int]]) -> Iterator[tuple[int, Outcome]]:
        data = os.read(child.pipe, 1 << 16)
        if not data:
            yield from self._ended(child, again)
            return
        *lines, child.buffer = (child.buffer + data).split(b"\n")
        for line in lines:
            told = json.loads(line)
            if "begin" in told:
                child.number, child.stage, child.began = told["begin"], "making", time.monotonic()
                child.computed, child.resident, child.peak = _processor_time(child.pid), _resident(child.pid), 0
            elif "stage" in told:
                child.stage = told["stage"]
            else:
                assert child.number is not None
                child.numbers.popleft()
                outcome = Outcome.from_data(told["end"])
                if outcome.peak > self._limits.memory:
                    outcome.text = f"{outcome.peak >> 20} MiB more; {outcome.verdict}: {outcome.text}"
                    outcome.verdict, outcome.what = Verdict.MEMORY, "memory"
                number, child.last, child.number = child.number, child.number, None
                self._stillborn = 0
                yield number, outcome

    def _ended(self, child: _Child, again: deque[deque[int]]) -> Iterator[tuple[int, Outcome]]:
        _, status = os.waitpid(child.pid, 0)
        self._selector.unregister(child.pipe)
        del self._children[child.pipe]
        os.close(child.pipe)
        said = _tail(child.log)
        os.close(child.log)
        if child.condemned and child.number != child.condemned_at:
            # It went on before it was killed: what it was condemned for has ended and told what it
            # took, and what it had in hand since has done nothing.
            if child.numbers:
                again.append(child.numbers)
            return
        if child.number is None:
            if child.numbers:
                again.append(child.numbers)
            if child.last is not None and status:
                yield child.last, Outcome(Verdict.CRASH, "afterwards", _cause(status), _where(said), said)
            elif status:
                self._stillborn += 1
                if self._stillborn > STILLBORN:
                    raise RuntimeError(f"children end with {_cause(status)} before they take anything in hand:\n{said}")
            return
        verdict = child.condemned or Verdict.CRASH
        what = verdict if child.condemned else _cause(status)
        where = _where(said)
        if child.stage == "peer":
            verdict, where = Verdict.PEER_DIED, ""
        elif child.stage == "making":
            verdict = Verdict.BROKEN
        child.numbers.popleft()
        if child.numbers:
            again.append(child.numbers)
        seconds = round(time.monotonic() - child.began, 3)
        yield child.number, Outcome(verdict, child.stage, what, where, said, seconds=seconds, peak=child.peak)

    def _watch(self) -> None:
        """Condemn children that take too much: ask them where they are, then kill them."""
        if time.monotonic() < self._watched + TICK:
            return
        self._watched = time.monotonic()
        for child in self._children.values():
            if child.number is None or child.condemned:
                continue
            computed = _processor_time(child.pid) - child.computed
            child.peak = max(child.peak, _resident(child.pid) - child.resident)
            if child.peak > self._limits.memory * 1.1:
                child.condemned = Verdict.MEMORY
            elif computed > self._limits.seconds or time.monotonic() - child.began > self._limits.seconds * SLEEPING:
                child.condemned = Verdict.HANG
            if child.condemned:
                child.condemned_at = child.number
                os.kill(child.pid, signal.SIGUSR1)
                time.sleep(0.2)
                os.kill(child.pid, signal.SIGKILL)

    def _kill_all(self) -> None:
        for child in self._children.values():
            os.kill(child.pid, signal.SIGKILL)
            os.waitpid(child.pid, 0)
            self._selector.unregister(child.pipe)
            os.close(child.pipe)
            os.close(child.log)
        self._children.clear()


def _child(begin: Callable[[], Task], numbers: Iterable[int], pipe: int, log: int, limits: Limits) -> NoReturn:
    """Be a child: never returns."""
    status = 1
    try:
        ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is told, and kills
        silent = os.open(os.devnull, os.O_RDWR)
        os.dup2(silent, 0)
        os.dup2(silent, 1)
        os.dup2(log, 2)
        faulthandler.enable(2)
        faulthandler.register(signal.SIGUSR1, 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        task = begin()
        space = _status("VmSize") + limits.space
        resource.setrlimit(resource.RLIMIT_AS, (space, space))

        def tell(**line: Any) -> None:
            os.write(pipe, json.dumps(line).encode() + b"\n")

        for number in list(numbers):
            tell(begin=number)
            _forget_peak()
            before = _resident(os.getpid())
            peaks: list[int] = []

            def stage(name: str, before: int = before, peaks: list[int] = peaks) -> None:
                if name == "peer":  # what it takes is its own affair
                    peaks.append(_status("VmHWM") - before)
                tell(stage=name)

            outcome = task(number, stage)
            outcome.peak = max(0, *peaks[:1] or [_status("VmHWM") - before])
            outcome.text = outcome.text[:4000]
            tell(end=outcome.as_data())
        status = 0
    except BaseException:  # of the task itself: the parent reports it with the number in hand
        traceback.print_exc()
    finally:
        os._exit(status)


def _forget_peak() -> None:
    """Let the largest size of this process begin anew."""
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")


def _status(key: str) -> int:
    """Return a size of this process, in bytes."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith(key + ":"):
                return int(line.split()[1]) << 10
    raise RuntimeError(f"/proc/self/status has no {key}")


def _resident(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * PAGE
    except OSError:  # it has just ended
        return 0


def _processor_time(pid: int) -> float:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:  # it has just ended
        return 0.0
    return (int(fields[11]) + int(fields[12])) / CLOCK


def _cause(status: int) -> str:
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return f"exit {os.WEXITSTATUS(status)}"


def _tail(log: int) -> str:
    size = os.lseek(log, 0, os.SEEK_END)
    return os.pread(log, 6000, max(0, size - 6000)).decode("utf-8", "replace")


def _where(said: str) -> str:
    """Name the innermost of our functions in what faulthandler wrote."""
    for line in said.splitlines():
        line = line.strip()
        if line.startswith("File ") and "dovetail" in line:
            path, _, function = line.partition(" in ")
            return f"{os.path.basename(path.split(chr(34))[1]).partition('.')[0]}.{function}"
    return "?"
