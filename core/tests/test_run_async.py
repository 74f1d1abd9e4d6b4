"""`run_async` for event loops."""

import asyncio
import threading
import time

import numpy as np
import pytest
from fakes.isolated import Faulty

import dovetail
from dovetail import InputError, Network, OptionError, RunError, Runtime


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


def recorded(net, monkeypatch):
    """Return what tells on which thread each run of a network was carried out."""
    threads, run = [], type(net).run

    def noting(self, *arguments, **more):
        threads.append(threading.get_ident())
        return run(self, *arguments, **more)

    monkeypatch.setattr(type(net), "run", noting)
    return threads


async def awaited(net, feeds, count, **more):
    return [await net.run_async(feeds, **more) for _ in range(count)]


def test_brief_runs_come_to_the_thread_of_the_loop(monkeypatch):
    """Once enough of them were timed, and no other runs."""
    x = {"x": np.arange(4, dtype=np.float32)}
    with dovetail.load(adding(), "CpuRef") as net:
        threads = recorded(net, monkeypatch)

        async def scene():
            for _ in range(100):  # a busy machine may interrupt some
                results = await awaited(net, x, 60)
                if threads[-1] == threading.get_ident():
                    break
            assert threading.get_ident() not in threads[:8]
            assert threads[-1] == threading.get_ident()
            for result in results:
                np.testing.assert_array_equal(result["y"], x["x"] + 1)
            threads.clear()
            await awaited(net, x, 8, outputs=["y"])
            await awaited(net, x, 8, state=net.new_state())
            await awaited(net, {"x": np.arange(8, dtype=np.float32)[::2]}, 8)  # which is copied first
            with net.profiling():
                await awaited(net, x, 8)
            assert threading.get_ident() not in threads

        asyncio.run(scene())


def test_a_run_that_takes_long_never_holds_up_the_loop(monkeypatch):
    network = Network("long")
    weights = np.random.default_rng(0).standard_normal((512, 512)).astype(np.float32)
    network.output(network.matmul(network.input("x", (64, 512)), weights), "y")
    x = {"x": np.ones((64, 512), np.float32)}  # 17 million multiply-accumulates: far beyond 0.1 ms on any core
    with dovetail.load(network, "CpuRef", threads=1) as net:
        threads = recorded(net, monkeypatch)
        asyncio.run(awaited(net, x, 60))
    assert len(threads) == 60
    assert threading.get_ident() not in threads


def test_each_size_is_brief_for_itself(monkeypatch):
    network = Network("sizes")
    network.output(network.relu(network.input("x", ("N", 64))), "y")
    small, large, new = ({"x": np.ones((size, 64), np.float32)} for size in (1, 1 << 14, 3))
    with dovetail.load(network, "CpuRef", threads=1) as net:
        threads = recorded(net, monkeypatch)

        async def scene():
            for _ in range(100):
                await awaited(net, small, 60)
                await awaited(net, large, 1)
                threads.clear()
                await awaited(net, small, 1)  # not of the latest plan any more
                if threads[-1] == threading.get_ident():
                    break
            await awaited(net, large, 1)
            await awaited(net, new, 1)
            assert [one == threading.get_ident() for one in threads] == [True, False, False]

        asyncio.run(scene())


def test_other_tasks_go_on_beside_one_that_does_nothing_but_run():
    x = {"x": np.zeros(4, np.float32)}

    async def turning(turns, stop):
        while not stop:
            turns.append(time.perf_counter())
            await asyncio.sleep(0)

    async def scene(net):
        turns, stop = [], []
        other = asyncio.ensure_future(turning(turns, stop))
        await awaited(net, x, 200)
        turns.clear()
        end = time.thread_time() + 0.25  # of what a busy machine leaves it
        while time.thread_time() < end:
            await net.run_async(x)
        stop.append(True)
        await other
        assert len(turns) > 20  # every 5 ms were 50

    with dovetail.load(adding(), "CpuRef") as net:
        asyncio.run(scene(net))


def test_loops_of_several_threads_each_turn_in_time():
    """That the loop of one thread turned says nothing of the others, whatever they await."""
    with dovetail.load(adding(), "CpuRef") as one, dovetail.load(adding(), "CpuRef") as other:
        for _ in range(100):  # a busy machine may keep a thread waiting for 5 ms
            begin = time.perf_counter()
            told = []

            def looks(told=told):
                told.extend((one._is_turn_due(), one._is_turn_due(), other._is_turn_due()))

            for _ in range(2):
                thread = threading.Thread(target=looks)
                thread.start()
                thread.join()
            if time.perf_counter() - begin < 0.005:
                assert told == [True, False, False] * 2
                return
        pytest.fail("the machine is too busy to tell")


def test_brief_runs_have_the_errors_of_run():
    x = {"x": np.zeros(4, np.float32)}

    async def scene(net):
        await awaited(net, x, 200)
        with pytest.raises(OptionError, match="timeout"):
            await net.run_async(x, timeout=0)
        with pytest.raises(InputError, match="INPUT_DTYPE"):
            await net.run_async({"x": np.zeros(4, np.int32)})
        with pytest.raises(InputError, match="INPUT_NAME"):
            await net.run_async({**x, "z": x["x"]})
        net.unload()
        with pytest.raises(RunError, match="unloaded"):
            await net.run_async(x)

    with dovetail.load(adding(), "CpuRef") as net:
        asyncio.run(scene(net))


def test_a_process_of_its_own_is_waited_for_by_a_thread(monkeypatch):
    """Another network may keep it busy for as long as it likes."""
    network = Network("scaled")
    network.output(network.relu(network.input("x", (4,)), name="scale"), "y")
    with Runtime(threads=1) as runtime:
        net = runtime.load(network, optimize={"backends": [Faulty()], "isolate": "Faulty"})
        threads = recorded(net, monkeypatch)
        results = asyncio.run(awaited(net, {"x": np.ones(4, np.float32)}, 80))
        assert {float(result["y"][0]) for result in results} == {2.0}
    assert len(threads) == 80
    assert threading.get_ident() not in threads
