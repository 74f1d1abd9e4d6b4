"""What runs and when, by clocks and requests whose times are known."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import dovetail
from dovetail_sdk.concurrent_runs import Amount, Measured, measure, request_of
from dovetail_sdk.statistics import Timing


class FakeTime:
    """A clock that only requests move."""

    def __init__(self, *seconds: float) -> None:
        self.now = 100.0
        self.runs = 0
        self._seconds = seconds

    def __call__(self) -> float:
        return self.now

    def request(self) -> None:
        self.now += self._seconds[self.runs % len(self._seconds)]
        self.runs += 1


def test_latencies_and_throughput_of_known_times() -> None:
    time = FakeTime(0.5, 0.25, 1.0, 0.25)
    measured = measure([time.request], Amount(runs=4), clock=time)
    np.testing.assert_array_equal(measured.latencies, [0.5, 0.25, 1.0, 0.25])
    assert (measured.count, measured.wall_seconds, measured.throughput) == (4, 2.0, 2.0)


def test_warm_up_runs_are_not_measured() -> None:
    time = FakeTime(8.0, 8.0, 8.0, 1.0)
    measured = measure([time.request], Amount(runs=1), warm_up=3, clock=time)
    assert time.runs == 4
    np.testing.assert_array_equal(measured.latencies, [1.0])


@pytest.mark.parametrize(
    ("amount", "runs"),
    [
        (Amount(seconds=2.0), 4),  # the run that ends at the deadline is the last one
        (Amount(seconds=2.1), 5),
        (Amount(seconds=0.1), 1),
        (Amount(seconds=0.1, min_runs=10), 10),
        (Amount(runs=3, seconds=9.0), 3),
        (Amount(runs=30, seconds=1.0), 2),
        (Amount(runs=7), 7),
    ],
)
def test_how_much_is_run(amount: Amount, runs: int) -> None:
    time = FakeTime(0.5)
    assert measure([time.request], amount, clock=time).count == time.runs == runs


def test_an_amount_has_an_end() -> None:
    with pytest.raises(ValueError, match="never ends"):
        Amount()


def test_progress_is_told_between_runs_in_parts() -> None:
    time = FakeTime(0.2)
    parts: list[float] = []
    measure([time.request], Amount(runs=10), clock=time, told=parts.append)
    assert parts == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])  # each second run: 0.25 s lie between two calls
    assert Amount(seconds=4.0, min_runs=10).part(5, 4.0) == 0.5
    assert Amount(runs=10, seconds=4.0).part(5, 3.0) == 0.75


def test_requests_run_at_the_same_time() -> None:
    """Each run waits until all three are in it: one after the other would never end."""
    meeting = threading.Barrier(3)
    measured = measure([lambda: meeting.wait(timeout=60)] * 3, Amount(runs=12), warm_up=2)
    assert [len(times) for times in measured.times] == [4, 4, 4]
    assert measured.count == 12


def test_latencies_of_several_requests_are_in_the_order_of_their_beginnings() -> None:
    measured = Measured((np.array([[0.0, 4.0], [4.0, 5.0]]), np.array([[1.0, 3.0], [3.5, 8.0]])))
    np.testing.assert_array_equal(measured.latencies, [4.0, 2.0, 4.5, 1.0])
    assert (measured.wall_seconds, measured.throughput) == (8.0, 0.5)


@pytest.mark.parametrize("failing", [0, 1, 2])
@pytest.mark.parametrize("warm_up", [0, 5])
def test_an_error_of_one_request_ends_all(failing: int, warm_up: int) -> None:
    def fails() -> None:
        raise RuntimeError("the third wheel")

    requests: list[Callable[[], object]] = [lambda: None] * 3
    requests[failing] = fails
    before = threading.active_count()
    with pytest.raises(RuntimeError, match="the third wheel"):
        measure(requests, Amount(seconds=600.0), warm_up=warm_up)
    assert threading.active_count() == before


def test_interruption_ends_all() -> None:
    before = threading.active_count()
    turns = iter(range(3))

    def interrupted() -> None:
        if next(turns) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure([interrupted, lambda: None], Amount(seconds=600.0))
    assert threading.active_count() == before


def test_percentiles_against_numbers_by_hand() -> None:
    """101 runs of 0 to 100 ms in any order: the p-th percentile is p ms."""
    seconds = np.random.default_rng(4).permutation(101) / 1e3
    timing = Timing.of(seconds)
    found = (timing.minimum, timing.median, timing.p90, timing.p95, timing.p99, timing.maximum, timing.mean)
    assert found == pytest.approx((0, 0.050, 0.090, 0.095, 0.099, 0.100, 0.050))
    assert timing.count == 101
    assert Timing.of([0.25]) == Timing(*[0.25] * 7, count=1)


def doubling() -> dovetail.Network:
    net = dovetail.Network("doubling")
    x = net.input("x", ("N", 3))
    net.output(net.addition(x, x), "y")
    return net


def running_sum() -> dovetail.Network:
    net = dovetail.Network("running sum")
    after = net.addition(net.state("total", (2, 3), "float32"), net.input("x", (2, 3)), name="after")
    net.write_state("total", after)
    net.output(after, "y")
    return net


@pytest.mark.parametrize("backend", ["CpuRef", "CpuAcc"])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_every_output_of_concurrent_requests_is_right(backend: str, count: int) -> None:
    """Each request looks at its outputs after each run, and changes its inputs for the next."""
    random = np.random.default_rng(count)
    weights = random.standard_normal((64, 33)).astype(np.float32)
    net = dovetail.Network("product")
    net.output(net.relu(net.matmul(net.input("x", (7, 64)), net.constant(weights))), "y")
    wrong: list[float] = []
    checked: list[int] = []

    def checking(number: int, run: Callable[[], Any], x: np.ndarray[Any, Any]) -> Iterator[None]:
        numbers = np.random.default_rng(1000 + number)
        while True:
            x[...] = numbers.standard_normal(x.shape)
            expected = np.maximum(x.astype(np.float64) @ weights.astype(np.float64), 0)
            error = np.abs(run()["y"] - expected).max()
            checked.append(number)
            if not error < 1e-4:
                wrong.append(float(error))
            yield

    with dovetail.load(net, backends=[backend], threads=2) as loaded:
        arrays = [np.zeros((7, 64), np.float32) for _ in range(count)]
        requests = [checking(number, request_of(loaded, {"x": x}, 60.0), x) for number, x in enumerate(arrays)]
        measured = measure([lambda one=one: next(one) for one in requests], Amount(runs=40 * count), warm_up=2)
    assert measured.count == 40 * count
    assert len(checked) == 42 * count
    assert wrong == []


def test_a_request_writes_its_outputs_in_place() -> None:
    with dovetail.load(doubling(), backends=["CpuRef"], shapes={"N": 2}) as loaded:
        x = np.ones((2, 3), np.float32)
        one, other = request_of(loaded, {"x": x}, None), request_of(loaded, {"x": x.copy()}, None)
        first = one()["y"]
        x[...] = 5
        assert one()["y"] is first
        np.testing.assert_array_equal(first, 10)
        np.testing.assert_array_equal(other()["y"], 2)


def test_requests_of_a_network_that_remembers_have_streams_of_their_own() -> None:
    with dovetail.load(running_sum(), backends=["CpuRef"]) as loaded:
        requests = [request_of(loaded, {"x": np.full((2, 3), value, np.float32)}, None) for value in (1, 10)]
        measure(requests, Amount(runs=2), warm_up=4)
        sums = sorted(float(request()["y"].max()) for request in requests)
    # Of the two runs that are measured one request may take both.
    assert (sums[0] - 1, sums[1] / 10 - 1) in [(4 + own, 4 + 2 - own) for own in range(3)]
