"""Runs that an event loop waits for: brief ones on its own thread, all others on another.

To hand a run to another thread and to be told of its end costs the loop's thread some 60 to 100
microseconds, and more where the two want the GIL at once. A run that is briefer than that holds the
loop up for less if it is carried out at once. A plan is a fixed list of steps on tensors of fixed
sizes, so that what its runs took of late says what the next one takes.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from types import coroutine
from typing import TYPE_CHECKING, Any

from ..graph.descriptor import Array

if TYPE_CHECKING:
    from concurrent.futures import Future

    from .executor import NetworkRunner


@coroutine
def _turn_of_the_loop() -> Generator[None, None, None]:
    """Let the event loop do what is due; a task that was cancelled ends here."""
    yield


async def run_beside_loop(
    network: NetworkRunner,
    feeds: Mapping[str, Any],
    timeout: float | None,
    hand_over: Callable[[], Future[dict[str, Array]]],
    *,
    is_plain: bool,
) -> dict[str, Array]:
    """Carry out `LoadedNetwork.run_async`.

    Args:
        network: What to run.
        feeds: Array by input name.
        timeout: Seconds.
        hand_over: Begins the run on another thread.
        is_plain: Whether the run is for the network's own outputs, and of its own state.
    """
    if is_plain and network._is_brief(feeds):
        if network._is_turn_due():  # a task that does nothing but run would keep all others waiting
            await _turn_of_the_loop()
        if network._is_brief(feeds):  # still: others may have run meanwhile
            return network.run(feeds, timeout=timeout)
    from asyncio import wrap_future  # not by every process

    return await wrap_future(hand_over())
