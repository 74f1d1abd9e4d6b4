"""`run_async` for event loops."""

import asyncio
import threading

import numpy as np
import pytest

import dovetail
from dovetail import InputError, Network, OptionError, RunError


def adding():
    network = Network("adding")
    network.output(network.addition(network.input("x", (4,)), np.float32(1), name="added"), "y")
    return network


def test_many_runs_are_awaited_at_once():
    async def runs(net):
        feeds = [{"x": np.full(4, number, np.float32)} for number in range(64)]
        return await asyncio.gather(*(net.run_async(one) for one in feeds))

    with dovetail.load(adding(), "CpuRef") as net:
        results = asyncio.run(runs(net))
    for number, result in enumerate(results):
        np.testing.assert_array_equal(result["y"], np.full(4, number + 1, np.float32))


def test_arguments_are_those_of_run():
    x = {"x": np.zeros(4, np.float32)}
    with dovetail.load(adding(), "CpuRef") as net:
        assert list(asyncio.run(net.run_async(x, outputs=["added"], timeout=10))) == ["added"]
        assert list(asyncio.run(net.run_async(x, state=net.new_state()))) == ["y"]


def test_errors_are_those_of_run():
    with dovetail.load(adding(), "CpuRef") as net:
        with pytest.raises(InputError, match="INPUT_NAME"):
            asyncio.run(net.run_async({"z": np.zeros(4, np.float32)}))
        with pytest.raises(OptionError, match="timeout"):
            asyncio.run(net.run_async({"x": np.zeros(4, np.float32)}, timeout=0))
    with pytest.raises(RunError, match="unloaded"):
        asyncio.run(net.run_async({"x": np.zeros(4, np.float32)}))


def test_the_event_loop_goes_on_and_a_cancelled_wait_ends(monkeypatch):
    """The run itself is held up, on the runtime's thread; what waits for it is not."""
    goes_on, begun = threading.Event(), threading.Event()

    def held(self, *arguments, **more):
        begun.set()
        goes_on.wait(20)
        return {}

    async def waits(net):
        task = asyncio.ensure_future(net.run_async({}))
        while not begun.is_set():
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not goes_on.is_set()
        goes_on.set()

    with dovetail.load(adding(), "CpuRef") as net:
        monkeypatch.setattr(type(net), "run", held)
        asyncio.run(waits(net))
