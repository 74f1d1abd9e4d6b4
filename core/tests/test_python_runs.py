"""Test Python workloads that ask their run whether it ends, when it must, and for its threads."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fakes.backends import Willing

import dovetail
from dovetail import IWorkloadFactory, Layer, RunError, RunTimeoutError

X = np.arange(6, dtype=np.float32)
PATIENCE = 20.0  # seconds after which a run that should have ended counts as hanging


class Asking:
    """ReLU that does something with its run first."""

    sees_run = True

    def __init__(self, ask: Callable[[Any], None]) -> None:
        self.ask = ask

    def execute(self, inputs: list[Any], outputs: list[Any], run: Any) -> None:
        self.ask(run)
        np.maximum(inputs[0], 0, out=outputs[0])


class Backend(Willing):
    def __init__(self, make: Callable[[], Any]) -> None:
        super().__init__("Asking")
        self.make = make

    def create_workload_factory(self, *arguments: Any) -> IWorkloadFactory:
        factory = Factory()
        factory.make = self.make
        return factory


class Factory(IWorkloadFactory):
    make: Callable[[], Any]

    def create_workload(self, layer: Layer) -> Any:
        return self.make()


def load(runtime: dovetail.Runtime, ask: Callable[[Any], None], **arguments: Any) -> dovetail.LoadedNetwork:
    made = dovetail.Network("asking")
    made.output(made.relu(made.input("x", (6,))), "y")
    return dovetail.load(made, Backend(lambda: Asking(ask)), runtime=runtime, passes=False, **arguments)


def wait_for_the_end(run: Any) -> None:
    """What a session does that is told to end."""
    end = time.monotonic() + PATIENCE
    while not run.is_cancelled():
        assert time.monotonic() < end, "nobody told it"
        time.sleep(0.002)


def test_a_run_tells_its_deadline_and_threads() -> None:
    seen: list[tuple[float | None, int, bool]] = []
    with (
        dovetail.Runtime(threads=3) as runtime,
        load(runtime, lambda run: seen.append((run.deadline, run.threads, run.is_cancelled())), threads=2) as net,
    ):
        np.testing.assert_array_equal(net.run({"x": X})["y"], X)
        before = time.monotonic()
        net.run({"x": X}, timeout=100.0)
    (none, threads, ended), (deadline, _, _) = seen
    assert (none, threads, ended) == (None, 2, False)
    assert deadline is not None
    assert before + 100.0 <= deadline <= time.monotonic() + 100.0


def test_a_deadline_ends_a_workload_that_asks() -> None:
    with dovetail.Runtime() as runtime, load(runtime, wait_for_the_end) as net, pytest.raises(RunTimeoutError):
        net.run({"x": X}, timeout=0.05)


def test_what_a_workload_raises_when_it_is_told_to_end_is_the_end_it_was_told() -> None:
    def give_up(run: Any) -> None:
        wait_for_the_end(run)
        raise ValueError("the session was terminated")

    with dovetail.Runtime() as runtime, load(runtime, give_up) as net, pytest.raises(RunTimeoutError):
        net.run({"x": X}, timeout=0.05)


def test_a_session_that_ends_itself_at_the_deadline_need_not_ask() -> None:
    def terminated(run: Any) -> None:
        time.sleep(max(run.deadline - time.monotonic(), 0) + 0.2)
        raise ValueError("the session was terminated")

    with dovetail.Runtime() as runtime, load(runtime, terminated) as net, pytest.raises(RunTimeoutError):
        net.run({"x": X}, timeout=0.05)


def test_what_a_workload_raises_otherwise_is_its_failure() -> None:
    def fail(run: Any) -> None:
        assert not run.is_cancelled()
        raise ValueError("a weight is missing")

    with (
        dovetail.Runtime() as runtime,
        load(runtime, fail) as net,
        pytest.raises(RunError, match="a weight is missing"),
    ):
        net.run({"x": X}, timeout=100.0)


def test_the_run_may_be_asked_on_another_thread_and_not_afterwards() -> None:
    kept: list[Any] = []

    def ask(run: Any) -> None:
        kept.append(run)
        watcher = threading.Thread(target=wait_for_the_end, args=(run,))
        watcher.start()
        watcher.join()

    with dovetail.Runtime() as runtime, load(runtime, ask) as net, pytest.raises(RunTimeoutError):
        net.run({"x": X}, timeout=0.05)
    questions: list[Callable[[], Any]] = [
        lambda: kept[0].is_cancelled(),
        lambda: kept[0].deadline,
        lambda: kept[0].threads,
        lambda: kept[0].is_profiled,
        lambda: kept[0].worked("", 1.0, 2.0),
    ]
    for question in questions:
        with pytest.raises(RuntimeError, match="after execute"):
            question()


def test_a_workload_tells_when_its_device_worked() -> None:
    told: list[tuple[bool, float]] = []

    def tell(run: Any) -> None:
        now = time.monotonic()
        told.append((run.is_profiled, now))
        run.worked("pr\u00fcfen", now - 5e-6, now - 2e-6)
        run.worked("", now - 3e-6, now - 1e-6)
        run.worked("backwards", now, now - 1.0)
        run.worked("before time began", -1.0, now)

    with dovetail.Runtime() as runtime, load(runtime, tell) as net:
        net.run({"x": X})
        with net.profiling() as profile:
            for _ in range(2):
                net.run({"x": X})
        net.run({"x": X})
    assert [is_profiled for is_profiled, _ in told] == [False, True, True, False]
    for run, (_, now) in zip(profile.each_run, told[1:], strict=False):
        assert [(span.name, span.queue) for span in run.spans] == [("pr\u00fcfen", -1), ("", -1)]
        ends = [now - span.end / 1e9 for span in run.spans]
        np.testing.assert_allclose(ends, [2e-6, 1e-6], atol=1e-7)
    (layer,) = (one for one in profile.layers if one.device_ns is not None)
    assert abs(layer.device_ns - 2 * 4000) < 100, "the time that the spans cover, of both runs"
    events = json.loads(profile.to_chrome_trace())["traceEvents"]
    assert sum(event.get("cat") == "device" for event in events) == 4
    assert not any(event["name"] == "enqueued" for event in events)


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), 1e300])
def test_a_time_that_is_none_fails_the_workload_alone(seconds: float) -> None:
    with (
        dovetail.Runtime() as runtime,
        load(runtime, lambda run: run.worked("", 0.0, seconds)) as net,
        pytest.raises(RunError, match=r"Value|Overflow"),
    ):
        net.run({"x": X})


def test_a_run_that_fails_has_no_time_of_the_device() -> None:
    def fail(run: Any) -> None:
        run.worked("", 1.0, 2.0)
        raise ValueError("lost")

    with (
        dovetail.Runtime() as runtime,
        load(runtime, fail) as net,
        net.profiling() as profile,
        pytest.raises(RunError, match="lost"),
    ):
        net.run({"x": X})
    assert all(layer.device_ns is None for layer in profile.layers)


def test_ctrl_c_ends_a_workload_that_asks() -> None:
    def interrupted(run: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        wait_for_the_end(run)

    with dovetail.Runtime() as runtime, load(runtime, interrupted) as net, pytest.raises(KeyboardInterrupt):
        net.run({"x": X})


def test_a_workload_that_does_not_want_it_gets_two_arguments() -> None:
    class Plain:
        def execute(self, inputs: list[Any], outputs: list[Any]) -> None:
            np.maximum(inputs[0], 0, out=outputs[0])

    made = dovetail.Network("plain")
    made.output(made.relu(made.input("x", (6,))), "y")
    with dovetail.Runtime() as runtime, dovetail.load(made, Backend(Plain), runtime=runtime) as net:
        np.testing.assert_array_equal(net.run({"x": X})["y"], X)


# --- what they hold -------------------------------------------------------------------------------


class Holding(Asking):
    """Holds what it packed."""

    def __init__(self, told: Any) -> None:
        super().__init__(lambda run: None)
        self.private_bytes = told


def held(told: Any) -> dovetail.LoadedNetwork:
    made = dovetail.Network("holding")
    made.output(made.relu(made.relu(made.input("x", (6,)))), "y")
    return dovetail.load(made, Backend(lambda: Holding(told)), passes=False)


@pytest.mark.parametrize("told", [0, 1, 12_345, np.int64(77), (1 << 47) - 1])
def test_a_workload_in_python_tells_what_it_holds(told: Any) -> None:
    with held(told) as net:
        assert net.memory.private_bytes == 2 * int(told)
        assert [step.private_bytes for step in net.memory.steps] == [int(told)] * 2
        np.testing.assert_array_equal(net.run({"x": X})["y"], X)


@pytest.mark.parametrize("told", [-1, 1 << 47, 1 << 200, 3.5, "12", None, float("nan")])
def test_bytes_that_nothing_can_hold_are_refused(told: Any) -> None:
    with pytest.raises(dovetail.BackendError, match=r"its workload says that it holds .* private bytes") as caught:
        held(told)
    assert caught.value.code == "BACKEND_CONTRACT"
    assert "private_bytes" in str(caught.value.hint)


def test_an_attribute_that_raises_is_the_backends_fault() -> None:
    class Raising(Asking):
        @property
        def private_bytes(self) -> int:
            raise OSError("the device does not say")

    made = dovetail.Network("holding")
    made.output(made.relu(made.input("x", (6,))), "y")
    with pytest.raises(dovetail.BackendError, match="the device does not say"):
        dovetail.load(made, Backend(lambda: Raising(lambda run: None)), passes=False)
