"""Models that are served: loaded, called, and replaced while they are being called."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from problems import Problem


class Loaded:
    """One load of a model, which is unloaded after it was retired and its last request has ended.

    Attributes:
        net: The loaded network.
        version: 1 for the first load of the model, one more for each reload.
        seconds: How long loading took.
    """

    def __init__(self, net: Any, version: int, seconds: float) -> None:
        self.net = net
        self.version = version
        self.seconds = seconds
        self.in_use = 0
        self._is_retired = False
        self._closed = asyncio.Event()

    def release(self) -> None:
        """End one use."""
        self.in_use -= 1
        self._close_if_unused()

    async def retire(self) -> None:
        """Wait for the last use to end, and unload."""
        self._is_retired = True
        self._close_if_unused()
        await self._closed.wait()
        await asyncio.to_thread(self.net.unload)

    def _close_if_unused(self) -> None:
        if self._is_retired and not self.in_use:
            self._closed.set()


class Model:
    """A model by name. All methods belong to the event loop's thread.

    Args:
        name: How clients call it.
        path: Its file, which is read again when the model is reloaded.
        load: Loads a file. What it returns has `inputs` and `outputs` (each with `name`, `shape`
            and `dtype`), `run_async(feeds, timeout=)`, `placement` and `unload`, as a loaded
            network of dovetail's has.
    """

    def __init__(self, name: str, path: str, load: Callable[[str], Any]) -> None:
        self.name = name
        self.path = path
        self._load = load
        self._current: Loaded | None = None
        self._reloading = asyncio.Lock()
        self._retiring: set[asyncio.Task[None]] = set()

    @property
    def current(self) -> Loaded:
        """The load that new requests get."""
        if self._current is None:
            raise Problem(503, "NOT_READY", f"model {self.name!r} is not loaded", "ask again once /health says ready")
        return self._current

    async def reload(self) -> Loaded:
        """Load the file again beside what runs, and give new requests that.

        Requests that have begun end with what they began with. If loading fails, nothing changes.
        """
        async with self._reloading:
            begin = time.perf_counter()
            net = await asyncio.to_thread(self._load, self.path)
            before = self._current
            version = 1 if before is None else before.version + 1
            self._current = Loaded(net, version, time.perf_counter() - begin)
            if before is not None:
                task = asyncio.create_task(before.retire())
                self._retiring.add(task)
                task.add_done_callback(self._retiring.discard)
            return self._current

    @asynccontextmanager
    async def using(self) -> AsyncIterator[Loaded]:
        """Use the current load for one request."""
        loaded = self.current
        loaded.in_use += 1
        try:
            yield loaded
        finally:
            loaded.release()

    async def close(self) -> None:
        """Unload, once the requests in flight have ended."""
        async with self._reloading:
            last, self._current = self._current, None
        if last is not None:
            await last.retire()
        await asyncio.gather(*self._retiring)


def models_of(files: Mapping[str, str], load: Callable[[str], Any]) -> dict[str, Model]:
    """Return a model for each name."""
    return {name: Model(name, path, load) for name, path in files.items()}
