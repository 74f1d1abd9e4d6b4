"""One worker process as the host sees it, and those that take its place when it dies."""

from __future__ import annotations

import json
import os
import time
import weakref
from collections import deque
from collections.abc import Sequence
from typing import Any

from ..ground.errors import BackendError, ErrorCode, RunError
from ..ground.foreign_text import one_line
from ..ground.progress import report
from .channel import CANCELLED, DIED, LOST, IsolatedCall, SharedBytes, WorkerEnd
from .endings import Ending
from .messages import ChildError, EndedError, Message, rebuilt_error, receive, send
from .parts import FlatPart, input_infos, placed, shared_memory
from .template import Look, Process, Template, look_at_limits

MAX_DEATHS = 4
"""So often may a process die within `DEATHS_SECONDS`, and no run succeed, before it is given up."""
DEATHS_SECONDS = 60.0
_MAX_HELD = 1 << 46
"""Bytes that a process may say it holds; no machine has as many."""


class SharedFile:
    """A file in memory that the host keeps, and closes once nobody needs it."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._finalizer = weakref.finalize(self, os.close, descriptor)
        self._finalizer.atexit = False


class Remains:
    """What is left of a worker that nobody asks any more, and ends with it.

    Attributes:
        is_of_network: It served a loaded network.
    """

    def __init__(self, template: Template, *, is_of_network: bool) -> None:
        self.template = template
        self.is_of_network = is_of_network
        self.end = WorkerEnd()
        self.process: Process | None = None

    def end_process(self) -> Ending | None:
        """End the process, if there is one; return how it ended."""
        process, self.process = self.process, None
        if process is None:
            return None
        self.end.detach()
        process.connection.close()
        return self.template.ending(process.number)


def _end_worker(remains: Remains, ended: deque[Remains], host: int) -> None:
    """Kill the process of a worker; whoever holds the locks buries it.

    The collector may call this anywhere, so that it takes none.
    """
    if os.getpid() == host:
        remains.end.kill()
        if remains.process is not None:
            remains.process.connection.close()
        ended.append(remains)


class Worker:
    """A process of a backend: started when it is asked, and again once it died.

    Args:
        template: What it is forked from.
        ended: Gets what is left once it will not be asked any more.
        is_of_network: It serves a loaded network.

    Attributes:
        end: Of the channel.
        surplus: Numbers of parts that nobody runs any more. The process hears of them with the next
            question: the collector, which may find them anywhere, must wait for nothing.

    Raises from all that asks:
        BackendError: It died (`ISOLATED_PROCESS_DIED`).
        DovetailError: What the backend raised there.
    """

    def __init__(self, template: Template, ended: deque[Remains], *, is_of_network: bool) -> None:
        self._state = Remains(template, is_of_network=is_of_network)
        self._deaths: list[float] = []
        self._successes = 0
        self._numbers = 0
        self.surplus: deque[int] = deque()
        self.end = self._state.end
        self._finalizer = weakref.finalize(self, _end_worker, self._state, ended, os.getpid())

    @property
    def origin(self) -> str:
        """Whose process it is, for messages."""
        return f"backend {self._state.template.name!r}"

    def forget(self) -> None:
        """In a forked child of the host: close what it has of the parent's process."""
        self._finalizer.detach()
        if self._state.process is not None:
            self._state.process.connection.close()

    def close(self) -> None:
        """Kill the process for good; what is left is to be buried."""
        self._finalizer()

    def call(self, message: Message, descriptors: Sequence[int], look: Look = look_at_limits) -> Message:
        """Ask something, and return the reply; one thread at a time.

        Args:
            message: What is asked.
            descriptors: What goes with it.
            look: Called while the process works; ends the wait by raising, and the process with it.
        """
        self.end.acquire(look)
        try:
            return self.ask(message, descriptors, look)
        finally:
            self.end.release()

    def ask(self, message: Message, descriptors: Sequence[int], look: Look) -> Message:
        """Do what `call` does; the lock is held."""
        process = self._started(look)

        def wait() -> None:
            look()
            if not self.end.is_alive:
                raise EndedError("it died")

        surplus_parts = [self.surplus.popleft() for _ in range(len(self.surplus))]
        try:
            send(process.connection, {**message, "unload": surplus_parts}, descriptors)
            self.end.ask_to_look()
            while True:
                reply, surplus = receive(process.connection, wait)
                for one in surplus:
                    os.close(one)
                if "progress" not in reply:
                    break
                self._report(reply)
        except EndedError as error:
            self.end.kill()  # it may live, and speak nonsense
            raise self.death() from error
        except BaseException:  # nobody waits for its reply any more
            self._state.end_process()
            raise
        if "error" in reply:
            raise rebuilt_error(reply["error"], self.origin)
        answer = reply.get("reply")
        if not isinstance(answer, dict):
            raise nonsense(self.origin)
        return answer

    def _report(self, reply: Message) -> None:
        fraction, what = reply["progress"], reply.get("what")
        if isinstance(fraction, int | float) and isinstance(what, str):
            report(self._state.template.name, fraction, one_line(what))

    def _started(self, look: Look) -> Process:
        state = self._state
        if state.process is not None and not self.end.is_alive:
            self.death()
        if state.process is None:
            self._refuse_a_loop()
            process = state.template.fork(look)
            self.end.attach(process.channel, process.pidfd)
            state.process = process
        return state.process

    def make_sure(self, look: Look) -> None:
        """Start the process, unless it lives; the lock is held."""
        self._started(look)

    def _refuse_a_loop(self) -> None:
        if self.end.successes > self._successes:
            self._successes, self._deaths[:] = self.end.successes, []
        recent = [one for one in self._deaths if time.monotonic() - one < DEATHS_SECONDS]
        if len(recent) >= MAX_DEATHS:
            raise BackendError(
                f"{self.origin}: its process died {len(recent)} times within {DEATHS_SECONDS:g} s, with no run in between that "
                "succeeded; it is not started again for now",
                code=ErrorCode.ISOLATED_PROCESS_DIED,
                hint=f"wait for {DEATHS_SECONDS:g} s, load the network without this backend, or tell its makers",
                backend=self._state.template.name,
            )

    def death(self) -> BackendError:
        """Clear a dead process away, and return the error that tells of it; the lock is held."""
        was_killed = self.end.was_killed
        ending = self._state.end_process()
        self._deaths = [*self._deaths[-MAX_DEATHS:], time.monotonic()]
        ending = ending or Ending("was gone", "")
        text = "was killed, because it did not end its run in time" if was_killed else ending.text
        return BackendError(
            f"{self.origin}: its process {text}{ending.shown_output}",
            code=ErrorCode.ISOLATED_PROCESS_DIED,
            hint="later calls start a new process by themselves; tell the backend's makers",
            backend=self._state.template.name,
            signal=ending.signal,
            output=ending.output,
        )

    def teach(self, modules: object) -> None:
        """Have the template import what a load had to import, so that later processes have it."""
        if isinstance(modules, list) and all(isinstance(name, str) for name in modules):
            self._state.template.learn(modules)

    def next_number(self) -> int:
        """Return a number for a part."""
        self._numbers += 1
        return self._numbers


def nonsense(origin: str) -> BackendError:
    """Return the error for a reply that is none."""
    return BackendError(
        f"{origin}: its process gave a reply that cannot be understood",
        code=ErrorCode.BACKEND_CONTRACT,
        hint="its code may write over memory that is not its own; tell its makers",
    )


class LoadedPart:
    """A part of a network that a worker has loaded, or will load again.

    Args:
        worker: The process.
        file: The part, as `parts.written` writes it.
        part: The same.
        outputs: Infos of its outputs.
        question: What a process is asked to load it, but for number; its first descriptor.
    """

    def __init__(self, worker: Worker, file: SharedFile, part: FlatPart, outputs: Sequence[Any], question: Any) -> None:
        self._worker = worker
        self._file = file
        self._message, self._options = question
        self.number = worker.next_number()
        inputs = input_infos(part)
        places = placed([*inputs, *outputs])
        nbytes = max(places.nbytes, 1)
        self._tensors = SharedFile(shared_memory(nbytes, "dovetail-tensors"))
        self._memory = SharedBytes(self._tensors.descriptor, nbytes, True)
        self._places, self._inputs = places.places, len(inputs)
        self._generation = 0

    def load(self) -> IsolatedCall:
        """Have the process compile it; return its workload."""
        end = self._worker.end
        end.acquire(look_at_limits)
        try:
            held = self._load(look_at_limits) + os.fstat(self._file.descriptor).st_size
            return IsolatedCall(end, self, self.number, self._memory, self._places, self._inputs, held)
        finally:
            end.release()

    def _load(self, look: Look) -> int:
        """Have a process load it; return the bytes that are held for it there, as it says."""
        descriptors = (self._options.descriptor, self._file.descriptor, self._tensors.descriptor)
        reply = self._worker.ask({**self._message, "do": "load", "number": self.number}, descriptors, look)
        self._worker.teach(reply.get("modules"))
        self._generation = self._worker.end.generation
        held = reply.get("held")
        return held if isinstance(held, int) and 0 <= held < _MAX_HELD else 0

    def revive(self, look: Look) -> None:
        """Make sure that a process has it; called by a run that found none, with the lock held.

        Raises:
            BackendError: A process died of it, or none is started any more.
        """
        self._worker.make_sure(look)
        if self._generation != self._worker.end.generation:
            self._load(look)

    def failure(self, status: int) -> BaseException:
        """Return the error for a run that failed; the lock is held."""
        if status == DIED:
            died = self._worker.death()
            return RunError(died.message, code=died.code, hint=died.hint, **died.details)
        if status in (LOST, CANCELLED):
            return ChildError("its process said that the run was cancelled, which nobody had asked for", "")
        try:
            facts = json.loads(self._worker.end.text())
        except (ValueError, RecursionError):
            facts = None
        if not isinstance(facts, dict) or not isinstance(facts.get("text"), str):
            return ChildError("its process said nothing that can be understood", "")
        trace = facts.get("trace")
        return ChildError(one_line(facts["text"]), trace if isinstance(trace, str) else "")

    def __del__(self) -> None:
        self._worker.surplus.append(self.number)
