"""Read the next pictures of many while the network runs on one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

from .pictures import SUFFIXES

_Content = TypeVar("_Content")

MAX_THREADS = 8
"""Threads that read: a disk and the network have no use for more."""
BYTES_OF_A_THREAD = 128 << 20
"""Memory of pictures that are read ahead, for each thread; one is, however large."""


def in_order(
    paths: Sequence[Path], read: Callable[[Path], _Content], threads: int, size_of: Callable[[Path], int]
) -> Generator[tuple[Path, Callable[[], _Content]], None, None]:
    """Read files one after the other, and pictures ahead of their turn.

    Pillow decodes without the GIL. Sounds and arrays are read when it is their turn: that takes
    little but memory.

    Args:
        paths: The files.
        read: Reads one, in any thread.
        threads: CPU threads that may be used; with one alone nothing is read ahead.
        size_of: Says how many bytes reading a picture takes; 0: it is none.

    Yields:
        Each file, in order, and what returns its content, or raises what reading it raised. Close
        the generator to end the threads.
    """
    if threads < 2:
        for path in paths:
            yield path, partial(read, path)
        return
    threads = min(threads, MAX_THREADS)
    most = threads * BYTES_OF_A_THREAD
    waiting: deque[tuple[Path, Callable[[], _Content], int]] = deque()
    left = deque(paths)
    held, size = 0, _size(left, size_of)
    pool = ThreadPoolExecutor(threads, thread_name_prefix="dovetail-pictures")
    try:
        while left or waiting:
            while left and len(waiting) < 2 * threads and (not waiting or held + size <= most):
                path = left.popleft()
                take: Callable[[], _Content] = pool.submit(read, path).result if size else partial(read, path)
                waiting.append((path, take, size))
                held += size
                size = _size(left, size_of)
            path, take, one = waiting.popleft()
            yield path, take
            held -= one
            del take  # and what it holds
    finally:
        pool.shutdown(cancel_futures=True)


def _size(paths: Sequence[Path], size_of: Callable[[Path], int]) -> int:
    """Return the bytes that the first of some files takes; 0 without one that is a picture."""
    return size_of(paths[0]) if paths and paths[0].suffix.lower() in SUFFIXES else 0
