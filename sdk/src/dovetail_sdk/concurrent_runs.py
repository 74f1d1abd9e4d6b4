"""Run a network again and again, in one thread or in several at once, and note when."""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dovetail import LoadedNetwork

Request = Callable[[], Any]
"""Runs a network once, on arrays of its own."""

Clock = Callable[[], float]

Told = Callable[[float], object]
"""Is told between runs, now and then, which part of them is done: 0 to 1."""

TOLD_EVERY = 0.25
"""Seconds between two calls of it: what it prints empties caches, and should rarely do so."""


@dataclass(frozen=True)
class Amount:
    """How much is run.

    Attributes:
        runs: At most so many, of all requests together; None for no limit.
        seconds: No run begins later than so many after the first; None for no limit.
        min_runs: So many are run even if they take longer than `seconds`.
    """

    runs: int | None = None
    seconds: float | None = None
    min_runs: int = 1

    def __post_init__(self) -> None:
        if self.runs is None and self.seconds is None:
            raise ValueError("an amount of runs needs a number or a duration, or it never ends")

    def part(self, runs: int, seconds: float) -> float:
        """Return which part is done after so many runs and seconds, 0 to 1."""
        of_runs = runs / self.runs if self.runs else 0.0
        of_time = min(seconds / self.seconds, runs / self.min_runs) if self.seconds else 0.0
        return min(max(of_runs, of_time), 1.0)


@dataclass(frozen=True)
class Measured:
    """When runs began and ended.

    Attributes:
        times: For each request an array [runs, 2] of float64: begin and end, in seconds.
    """

    times: tuple[npt.NDArray[np.float64], ...]

    @property
    def count(self) -> int:
        """Runs of all requests."""
        return sum(len(one) for one in self.times)

    @property
    def latencies(self) -> npt.NDArray[np.float64]:
        """Seconds that each run took, in the order in which they began."""
        every = np.concatenate(self.times)
        every = every[np.argsort(every[:, 0], kind="stable")]
        return every[:, 1] - every[:, 0]

    @property
    def wall_seconds(self) -> float:
        """From the beginning of the first run to the end of the last."""
        every = np.concatenate(self.times)
        return float(every[:, 1].max() - every[:, 0].min()) if len(every) else 0.0

    @property
    def throughput(self) -> float:
        """Runs per second, of all requests together; 0 if no time passed."""
        seconds = self.wall_seconds
        return self.count / seconds if seconds > 0 else 0.0


def request_of(loaded: LoadedNetwork, feeds: Mapping[str, npt.NDArray[Any]], timeout: float | None) -> Request:
    """Return what runs a network on these arrays, and returns its outputs by name.

    It is a binding: inputs are read and outputs written in place, and nothing is allocated in a
    run. A network that remembers cannot be bound; it gets a stream of its own.

    Args:
        loaded: The network.
        feeds: Array by input name, which nobody changes meanwhile.
        timeout: Seconds that a run may take; None for no limit.

    Raises:
        DovetailError: Whatever `LoadedNetwork.bind` reports.
    """
    from dovetail import ErrorCode, InputError

    try:
        binding = loaded.bind(feeds)
    except InputError as error:
        if error.code is not ErrorCode.BINDING_INVALID:
            raise
        return partial(loaded.run, feeds, timeout=timeout, state=loaded.new_state())
    return partial(binding.run, timeout=timeout)


def measure(
    requests: Sequence[Request],
    amount: Amount,
    *,
    warm_up: int = 0,
    clock: Clock = perf_counter,
    told: Told = lambda part: None,
) -> Measured:
    """Run requests at the same time, each in a thread of its own, as often as wanted.

    A request runs again as soon as it is done. The first is run by the calling thread, so that
    Ctrl-C ends its run. All begin together, once each was warmed up.

    Args:
        requests: At least one.
        amount: How much, besides the warming up.
        warm_up: How often each request is run before.
        clock: Tells the time in seconds.
        told: Called by the calling thread.

    Raises:
        Exception: What a request raises; the others end with their run under way.
    """
    crew = _Crew(requests, amount, warm_up, clock)
    threads = [
        threading.Thread(target=crew.work, args=(number,), name=f"dovetail-request-{number + 1}", daemon=True)
        for number in range(1, len(requests))
    ]
    try:
        for thread in threads:
            thread.start()
        crew.work(0, told)
    finally:
        crew.stop()
        for thread in threads:
            if thread.ident is not None:  # it was started
                thread.join()
    if crew.errors:
        raise crew.errors[0]
    return Measured(tuple(np.asarray(times, np.float64).reshape(-1, 2) for times in crew.times))


class _Crew:
    """Threads that run requests at the same time."""

    def __init__(self, requests: Sequence[Request], amount: Amount, warm_up: int, clock: Clock) -> None:
        self.times: list[list[float]] = [[] for _ in requests]
        self.errors: list[BaseException] = []
        self._requests, self._amount, self._warm_up, self._clock = requests, amount, warm_up, clock
        self._stopped = False
        self._begin, self._deadline = 0.0, math.inf
        self._together = threading.Barrier(len(requests), action=self._start)
        # Shared: a thread takes a turn by one call that holds the GIL throughout.
        self._turns: Iterable[int] = iter(range(amount.runs)) if amount.runs is not None else itertools.count()

    def _start(self) -> None:
        self._begin = self._clock()
        if self._amount.seconds is not None:
            self._deadline = self._begin + self._amount.seconds

    def stop(self) -> None:
        """Let nobody begin another run."""
        self._stopped = True
        self._together.abort()

    def work(self, number: int, told: Told | None = None) -> None:
        """Run a request until enough was run; the first one tells."""
        try:
            for _ in range(self._warm_up):
                if self._stopped:
                    return
                self._requests[number]()
            self._together.wait()
            self._run(number, told)
        except threading.BrokenBarrierError:
            return  # another one failed, and says why
        except BaseException as error:
            if told is not None:  # the caller's thread: an error of its own, such as Ctrl-C, goes first
                raise
            self.errors.append(error)
            self.stop()

    def _run(self, number: int, told: Told | None) -> None:
        request, clock, times, amount = self._requests[number], self._clock, self.times[number], self._amount
        deadline, last = self._deadline, amount.min_runs - 1
        tell_at = self._begin + TOLD_EVERY if told is not None else math.inf
        for turn in self._turns:
            begin = clock()
            request()
            end = clock()
            times.append(begin)
            times.append(end)
            if end >= tell_at and told is not None:
                told(amount.part(turn + 1, end - self._begin))
                tell_at = clock() + TOLD_EVERY
            if self._stopped or (end >= deadline and turn >= last):
                break
