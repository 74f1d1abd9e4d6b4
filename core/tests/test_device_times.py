"""When a device worked, told by the queues of a table of C functions."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

import dovetail
from dovetail.native import load_backend

FEEDS = {"a": np.float32([[-3, 1, 2], [5, -8, 0]]), "b": np.float32([[1, 1, -4], [1, 1, 0.5]])}


def network() -> dovetail.Network:
    made = dovetail.Network("sum")
    a, b = made.input("a", (2, 3)), made.input("b", (2, 3))
    made.output(made.relu(made.addition(a, b, name="sum"), name="positive"), "y")
    return made


def load(path: Any, runtime: dovetail.Runtime, **options: Any) -> dovetail.LoadedNetwork:
    return dovetail.load(network(), load_backend(path), runtime=runtime, passes=False, options={"TableDevice": options})


def profiled(net: dovetail.LoadedNetwork) -> Any:
    with net.profiling() as profile:
        for _ in range(2):
            np.testing.assert_array_equal(net.run(FEEDS)["y"], np.maximum(FEEDS["a"] + FEEDS["b"], 0))
    return profile


def test_layers_and_copies_have_times_of_the_device(build: Any) -> None:
    path = build("device.c", "times", "-pthread")
    library = ctypes.CDLL(str(path))
    with dovetail.Runtime() as runtime, load(path, runtime) as net:
        assert net.run(FEEDS)
        assert library.count_profiles() == 0
        assert all(copy.milliseconds is None for copy in net.placement.copies)
        assert " ms " not in net.placement.explain()
        profile = profiled(net)
        assert library.count_profiles() == 0, "each queue is told to stop"
        told = {layer.name: layer.device_ns for layer in profile.layers}
        assert all(time is not None for time in told.values()), told
        names = [span.name for run in profile.each_run for span in run.spans]
        assert names == 2 * ["transfer", "transfer", "addition", "rectifier", "transfer"]
        for run in profile.each_run:
            begin, end = run.times[0][0], run.times[-1][1]
            assert all(begin - 1e6 <= span.begin <= span.end <= end + 1e6 for span in run.spans)
        placement = net.placement
        assert [copy.milliseconds is not None for copy in placement.copies] == [True] * 3
        assert placement.crossing == (48, 24)
        assert " ms " in placement.explain()
        assert "each run copies 48 bytes to devices, 24 bytes to the host" in placement.explain()
        assert placement.to_dict()["crossing"] == {"to_devices": 48, "to_host": 24}


@pytest.mark.parametrize("flags", [["-DOLD_QUEUES"], ["-DSYNCHRONOUS"]], ids=["old", "synchronous"])
def test_devices_that_tell_nothing_are_profiled_as_before(build: Any, flags: list[str]) -> None:
    path = build("device.c", "times" + flags[0], "-pthread", *flags)
    with dovetail.Runtime() as runtime, load(path, runtime) as net:
        assert not any(queues.tells_spans for queues, _ in net.plan.queues)
        profile = profiled(net)
        assert all(layer.device_ns is None and layer.total_ns > 0 for layer in profile.layers)
        measured = [copy.milliseconds is not None for copy in net.placement.copies]
        assert measured == [flags == ["-DSYNCHRONOUS"]] * 3


def test_a_queue_that_refuses_is_profiled_as_before(build: Any) -> None:
    path = build("device.c", "refused", "-pthread")
    ctypes.CDLL(str(path)).set_refuse_profiles(1)
    with dovetail.Runtime() as runtime, load(path, runtime) as net:
        assert all(layer.device_ns is None for layer in profiled(net).layers)


def test_a_run_that_failed_has_no_times_of_the_device(build: Any) -> None:
    path = build("device.c", "failing", "-pthread")
    library = ctypes.CDLL(str(path))
    with dovetail.Runtime() as runtime, load(path, runtime, fail=True) as net:
        with net.profiling() as profile, pytest.raises(dovetail.RunError):
            net.run(FEEDS)
        assert library.count_profiles() == 0
        assert all(layer.device_ns is None for layer in profile.layers)
