"""How much a load may take: memory, elements, layers, nesting, time.

A file of some bytes may ask for terabytes. Whoever reads, expands, folds or plans asks the budget
of the load under way before it does so. The budget belongs to the thread that loads: loads on other
threads have budgets of their own.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from math import prod
from time import monotonic
from typing import TypeVar

from .errors import ErrorCode, LimitError, LoadTimeoutError, ModelError, OptionError, shown_argument
from .records import Record, field

ADDRESSABLE = 1 << 47
"""Bytes of the address space of a process on today's 64-bit machines."""
_CGROUPS = "/sys/fs/cgroup"
_MEMBERSHIPS = "/proc/self/cgroup"
_NO_LOCK = "can't allocate"
"""How Python's RuntimeError begins where there is no memory for a lock."""


@cache
def machine_memory() -> int:
    """Return the bytes that this process can have.

    That is the machine's memory, or the smallest limit of a cgroup around it.
    """
    found = [ADDRESSABLE, *_cgroup_limits()]
    with suppress(AttributeError, OSError, ValueError):  # a system that does not tell
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return min(size for size in found if size > 0)


def _cgroup_limits() -> Iterator[int]:
    memberships = b""
    with suppress(OSError), open(_MEMBERSHIPS, "rb") as file:
        memberships = file.read()
    for line in memberships.splitlines():
        _, controllers, path = os.fsdecode(line).split(":", 2)
        if not controllers:
            root, name = _CGROUPS, "memory.max"
        elif "memory" in controllers.split(","):
            root, name = f"{_CGROUPS}/memory", "memory.limit_in_bytes"
        else:
            continue
        group = (root + path).rstrip("/")
        while len(group) >= len(root):  # inside a container the path may not be there, but the root is
            with suppress(OSError, ValueError), open(f"{group}/{name}", "rb") as file:  # "max" is no number
                yield int(file.read())
            group = group.rpartition("/")[0]


class Limits(Record, frozen=True, kw_only=True):
    """What one load may take; given to `dovetail.parse`, `load` and `optimize`.

    The defaults refuse nothing that could usefully run on this machine.

    Attributes:
        memory: Bytes of what a file is read into, of constants that are made while loading, and of
            what one run allocates, results included.
        elements: Elements of one tensor.
        layers: Layers of one graph, and nodes of a model once its functions are expanded.
        nesting: Depth of functions and branches inside one another.
        seconds: How long a load may take; None: any time. A plan made later, by a run of another
            size, has this long again, or what the timeout of that run says.

    Raises:
        OptionError: One is no positive number.
    """

    memory: int = field(default_factory=machine_memory)
    elements: int = ADDRESSABLE
    layers: int = 1_000_000
    nesting: int = 64
    seconds: float | None = None

    def __post_init__(self) -> None:
        for name in ("memory", "elements", "layers", "nesting"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                text = f"limit {name}={shown_argument(value)} is not a count"
                raise OptionError(text, code=ErrorCode.OPTION_INVALID, hint="1 or more")
        seconds = self.seconds
        if seconds is not None and not (_is_number(seconds) and 0 < seconds <= float("inf")):
            text = f"limit seconds={shown_argument(seconds)} is not a time"
            raise OptionError(text, code=ErrorCode.OPTION_INVALID, hint="above 0, or None")


def _is_number(value: object) -> bool:
    """Tell whether a value is a number that a float can hold."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        float(value)
    except OverflowError:
        return False
    return True


class Budget:
    """What a load has taken of its limits.

    Args:
        limits: What it may take.
        seconds: How long it may take, in the place of what the limits say.

    Attributes:
        memory: Bytes taken.
        known_graphs: Identities of graphs that were made before and are counted.
        token: What a graph keeps that is made in this load (`Graph.made_in`).
        error: What it raised last; see `is_of_budget`.
    """

    __slots__ = ("_deadline", "_layers", "_seconds", "error", "known_graphs", "limits", "memory", "token")

    def __init__(self, limits: Limits, seconds: float | None = None) -> None:
        self.limits = limits
        self.memory = 0
        self.token = object()
        self.error: LimitError | None = None
        self.known_graphs: set[int] = set()
        self._layers = 0
        self._seconds = limits.seconds if seconds is None else seconds
        self._deadline = None if self._seconds is None else monotonic() + self._seconds

    def affords_memory(self, nbytes: int) -> bool:
        """Say whether so many bytes may still be taken."""
        return self.memory + nbytes <= self.limits.memory

    def take_memory(self, nbytes: int, what: str) -> None:
        """Count bytes that are about to be allocated for as long as the load lasts, or longer.

        Raises:
            LimitError: They are too many (`LIMIT_EXCEEDED`).
        """
        memory = self.memory + nbytes
        if memory > self.limits.memory:
            taken = f", {self.memory} are taken" if self.memory else ""
            raise self._exceeded("memory", self.limits.memory, f"{what} needs {nbytes} bytes{taken}", nbytes)
        self.memory = memory

    def check_memory(self, nbytes: int, what: str) -> None:
        """Refuse bytes that no load or run could have, whatever else there is.

        Raises:
            LimitError: They are too many (`LIMIT_EXCEEDED`).
        """
        if nbytes > self.limits.memory:
            raise self._exceeded("memory", self.limits.memory, f"{what} needs {nbytes} bytes", nbytes)

    def give_memory(self, nbytes: int) -> None:
        """Give bytes back that were taken."""
        self.memory = max(0, self.memory - nbytes)

    def take_layers(self, count: int, what: str) -> None:
        """Count nodes or layers that something is to become, all expansions of the load together.

        Raises:
            LimitError: They are too many (`LIMIT_EXCEEDED`).
        """
        self.check_layers(self._layers + count, what)
        self._layers += count

    def check_layers(self, count: int, what: str) -> None:
        """Refuse a number of layers.

        Raises:
            LimitError: They are too many (`LIMIT_EXCEEDED`).
        """
        if count > self.limits.layers:
            raise self._exceeded("layers", self.limits.layers, f"{what} would have {count} layers", count)

    def check_elements(self, count: int, what: str) -> None:
        """Refuse a number of elements of one tensor.

        Raises:
            LimitError: They are too many (`LIMIT_EXCEEDED`).
        """
        if count > self.limits.elements:
            raise self._exceeded("elements", self.limits.elements, f"{what} would have {count} elements", count)

    @property
    def limits_elements(self) -> bool:
        """True if tensors may be refused that could be addressed.

        Those that could not `TensorInfo.check` refuses.
        """
        return self.limits.elements < ADDRESSABLE

    def check_shape(self, shape: Sequence[object], name: str) -> None:
        """Refuse a tensor of too many elements; symbolic sizes count as one.

        Raises:
            LimitError: They are too many (`LIMIT_EXCEEDED`).
        """
        if self.limits_elements:
            self.check_elements(prod([size for size in shape if isinstance(size, int)]), f"tensor {name!r}")

    def check_nesting(self, depth: int, what: str) -> None:
        """Refuse a depth of nesting.

        Raises:
            LimitError: It is too deep (`LIMIT_EXCEEDED`).
        """
        if depth > self.limits.nesting:
            raise self._exceeded("nesting", self.limits.nesting, f"{what} is nested {depth} deep", depth)

    @property
    def is_timeless(self) -> bool:
        """True if there is no deadline."""
        return self._deadline is None

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the deadline, above 0; None without one."""
        return None if self._deadline is None else max(self._deadline - monotonic(), 1e-6)

    def check_time(self) -> None:
        """End a load that takes too long; asked often, since it costs some 50 ns.

        Raises:
            LoadTimeoutError: The time is over (`TIMEOUT`).
        """
        if self._deadline is not None and monotonic() > self._deadline:
            self.error = LoadTimeoutError(
                f"loading took longer than {self._seconds:g} s",
                hint="give it more time: limits=dovetail.Limits(seconds=...), or timeout= of a run that makes a plan",
                limit="seconds",
                allowed=self._seconds,
            )
            raise self.error

    def _exceeded(self, limit: str, allowed: int, found: str, wanted: int) -> LimitError:
        self.error = LimitError(
            f"{found}; the limit is {allowed}",
            hint=f"check the model, or allow it: limits=dovetail.Limits({limit}=...)",
            limit=limit,
            allowed=allowed,
            wanted=wanted,
        )
        return self.error


class _Thread(threading.local):
    """A load runs on one thread from end to end.

    A `ContextVar` would make each array that NumPy makes in it look further.
    """

    budget: Budget | None = None


_thread = _Thread()


def under_way() -> Budget | None:
    """Return the budget of the load under way; None outside of one."""
    return _thread.budget


def budget() -> Budget:
    """Return the budget of the load under way; outside of one a new one with the default limits."""
    return _thread.budget or Budget(Limits())


_Item = TypeVar("_Item")


def watched(items: Iterable[_Item]) -> Iterator[_Item]:
    """Hand on items, such as the layers of a graph, and check the deadline of the load under way.

    It looks at the time now and then, if the load has a deadline.

    Raises:
        LoadTimeoutError: The time is over (`TIMEOUT`).
    """
    load = _thread.budget
    return iter(items) if load is None or load.is_timeless else _watched(items, load)


def _watched(items: Iterable[_Item], load: Budget) -> Iterator[_Item]:
    for number, item in enumerate(items):
        if not number & 0x3FF:
            load.check_time()
        yield item


def is_of_budget(error: BaseException) -> bool:
    """Tell whether an error came from the budget of the load.

    If so, it is no fault of the backend that let it through.
    """
    current = _thread.budget
    return current is not None and current.error is error


@contextmanager
def limited(limits: Limits | None, *, seconds: float | None = None, joining: bool = False) -> Iterator[Budget]:
    """Hold what the block loads to a budget.

    Args:
        limits: Its limits; None: it is part of the load under way, or has the default limits where
            there is none.
        seconds: How long it may take, in the place of what the limits say.
        joining: Be part of a load under way whatever the limits are.

    Raises:
        OptionError: What was given are no limits.
        ModelError: Memory could not be had (`OUT_OF_MEMORY`).
    """
    if limits is not None and not isinstance(limits, Limits):
        raise OptionError(
            f"{type(limits).__name__!r} are no limits",
            code=ErrorCode.OPTION_INVALID,
            hint="give dovetail.Limits(memory=..., seconds=...)",
        )
    current = _thread.budget
    if current is not None and (joining or limits is None):
        yield current
        return
    made = Budget(limits or Limits(), seconds)
    try:
        _thread.budget = made  # inside: a signal's handler may raise right after it
        yield made
    except (MemoryError, RuntimeError) as error:  # NumPy's and Python's own, wherever it was met
        if not isinstance(error, MemoryError) and not str(error).startswith(_NO_LOCK):
            raise
        raise ModelError(
            f"loading ran out of memory{f': {error}' if str(error) else ''}",
            code=ErrorCode.OUT_OF_MEMORY,
            hint="use smaller sizes, or a machine with more memory; the file itself may be sound",
        ) from error
    finally:
        _thread.budget = current
        made.error = None  # whoever remembers the load would keep all that the error refers to
