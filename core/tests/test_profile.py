import copy
import json
import pickle
import statistics
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from dovetail import Network, Runtime
from dovetail.runtime import Profile, Span, Work


def step(name, kind, backend="CpuFake", queue=None, copied_bytes=0):
    return SimpleNamespace(
        name=name, layer_kind=kind, backend=backend, sources=(name,), tuned="", queue=queue, copied_bytes=copied_bytes
    )


STEP = step("stem", "dovetail.Convolution2d")
ON_DEVICE = [
    step("x.to_Npu", "dovetail.MemoryCopy", "Npu", 0, copied_bytes=4096),
    step("stem", "dovetail.Convolution2d", "Npu", 0),
    step("head", "dovetail.Softmax", "Other", 1),
    step("wait", "dovetail.Wait", "Npu", 0),
]


def profile():
    found = Profile("toy")
    for thread in (1 << 46, (1 << 46) + (1 << 32), 1 << 46):  # pthread ids, alike in their low 32 bits
        found.add([STEP], [(1_000, 3_500)], [(0, "packed", 2_000)], thread)
    return found


def test_trace_numbers_the_threads():
    events = json.loads(profile().to_chrome_trace())["traceEvents"]
    assert [event["tid"] for event in events if event["ph"] == "X"] == [1, 2, 1]
    assert [event["tid"] for event in events if event["ph"] == "i"] == [1, 2, 1]
    assert all(event["ts"] == 1.0 and event["dur"] == 2.5 for event in events if event["ph"] == "X")


def test_table_names_core_kinds_by_their_last_name():
    heading, row = profile().table().splitlines()
    assert heading.split()[:3] == ["layer", "kind", "backend"]
    assert row.split() == ["stem", "Convolution2d", "CpuFake", "2.50", "100.0%"]


def test_repr_is_short():
    assert repr(profile()) == "<Profile of 'toy': 3 runs>"


def of_devices(runs=2):
    """Two runs of 10 us: a device that tells works from 2 us on, another one tells nothing."""
    found = Profile("toy")
    for begin in range(0, 20_000 * runs, 20_000):
        times = [(begin + at, begin + at + 500) for at in (1_000, 2_000, 3_000)] + [(begin + 4_000, begin + 11_000)]
        spans = [(0, "in", 2_000, 3_000), (1, "gather", 3_000, 6_000), (1, "product", 5_000, 10_000)]
        found.add(ON_DEVICE, times, [], 7, [Span(number, 0, name, begin + at, begin + end) for number, name, at, end in spans])
    return found


def test_device_times_stand_beside_those_of_the_host():
    copy, stem, head, wait = of_devices().layers
    assert (copy.mean_ns, copy.mean_device_ns) == (500, 1_000)
    assert (stem.mean_ns, stem.device_ns, stem.device_min_ns) == (500, 14_000, 7_000), "what two spans cover, once"
    assert (head.mean_device_ns, head.mean_cost_ns, head.least_ns) == (None, 500, 500)
    assert (wait.mean_ns, wait.device_ns, wait.mean_cost_ns) == (7_000, 0, 0), "its layers count what it waited for"


def test_a_run_that_failed_counts_for_the_host_alone():
    found = of_devices()
    found.add(ON_DEVICE, [(1, 501)] * 4, [], 7)
    stem = found.layers[1]
    assert (stem.calls, stem.device_calls, stem.mean_ns, stem.mean_device_ns) == (3, 2, 500, 7_000)


def test_table_of_a_device():
    heading, *rows = (line.split() for line in of_devices().table().splitlines())
    assert heading == ["layer", "kind", "backend", "host", "us", "device", "us", "share"]
    assert [(row[0], *row[3:]) for row in rows] == [
        ("stem", "0.50", "7.00", "82.4%"),
        ("x.to_Npu", "0.50", "1.00", "11.8%"),
        ("head", "0.50", "-", "5.9%"),
        ("wait", "7.00", "0.00", "0.0%"),
    ]


def test_copies_have_the_time_of_the_device():
    profile = of_devices()
    assert [(copy.name, copy.copied_bytes) for copy in profile.copies] == [("x.to_Npu", 4096)]
    assert profile.copy_times() == {"x.to_Npu": pytest.approx(0.001)}


def test_time_of_a_copy_that_was_only_enqueued_is_not_known():
    found = Profile("toy")
    found.add(ON_DEVICE, [(0, 1)] * 4, [], 7)
    assert found.copy_times() == {}


def test_trace_has_a_track_for_the_host_and_one_for_the_device():
    events = json.loads(of_devices().to_chrome_trace())["traceEvents"]
    names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert list(names.values()) == ["host", "device Npu"]
    shown = [(names[event["tid"]], event["name"], event["ts"], event["dur"]) for event in events if event["ph"] == "X"]
    assert shown[:4] == [
        ("host", "x.to_Npu", 1, 0.5),
        ("host", "stem", 2, 0.5),
        ("host", "head", 3, 0.5),
        ("host", "wait", 4, 7),
    ]
    assert shown[4:7] == [
        ("device Npu", "x.to_Npu", 2, 1),
        ("device Npu", "stem: gather", 3, 3),
        ("device Npu", "stem: product", 5, 5),
    ]
    arrows = [(event["ph"], event["id"], event["ts"], names[event["tid"]]) for event in events if event["ph"] in "sf"]
    assert len(arrows) == 8
    assert [arrow[2:] for arrow in arrows[:4]] == [(1, "host"), (2, "device Npu"), (2, "host"), (3, "device Npu")]
    assert len({arrow[1] for arrow in arrows}) == 4, "one for each step and run"
    copied = [event["args"].get("bytes") for event in events if event["ph"] == "X" and event["name"] == "x.to_Npu"]
    assert copied == [4096] * 4


def test_threads_have_tracks_of_their_own_on_a_device():
    found = Profile("toy")
    for thread in (7, 8):
        found.add(ON_DEVICE, [(1, 2)] * 4, [], thread, [Span(1, 0, "", 1, 2)])
    events = json.loads(found.to_chrome_trace())["traceEvents"]
    names = [event["args"]["name"] for event in events if event["name"] == "thread_name"]
    assert names == ["host, thread 1", "host, thread 2", "device Npu, thread 1", "device Npu, thread 2"]


def timed(*runs):
    """Runs of two steps that took so many nanoseconds; None: the run ended before the step."""
    found = Profile("toy")
    for stem, head in runs:
        times = [(1_000, 1_000 + stem), (0, 0) if head is None else (9_000_000, 9_000_000 + head)]
        found.add([STEP, step("head", "dovetail.Softmax")], times, [], 7)
    return found


@pytest.mark.parametrize("count", [1, 2, 3, 10, 11])
def test_medians_are_those_of_the_standard_library(count):
    numbers = np.random.default_rng(count).integers(1, 10_000_000, (count, 2)).tolist()
    for layer, times in zip(timed(*numbers).layers, zip(*numbers, strict=True), strict=True):
        assert layer.median_ns == layer.median_cost_ns == statistics.median(times)
        assert (layer.total_ns, layer.min_ns, layer.calls, layer.device_median_ns) == (sum(times), min(times), count, None)


def test_one_slow_run_moves_no_share():
    rows = [line.split() for line in timed(*[(1_000, 3_000)] * 9, (80_000_000, 3_000)).table().splitlines()[1:]]
    assert [(row[0], row[-2], row[-1]) for row in rows] == [("head", "3.00", "75.0%"), ("stem", "1.00", "25.0%")]


def test_median_of_a_device_that_tells():
    found = Profile("toy")
    for took in (7_000, 90_000, 6_000):
        found.add(ON_DEVICE, [(1, 501)] * 4, [], 7, [Span(1, 0, "", 2_000, 2_000 + took)])
    _, stem, head, wait = found.layers
    assert (stem.device_median_ns, stem.median_cost_ns, stem.median_ns) == (7_000, 7_000, 500)
    assert (head.device_median_ns, head.median_cost_ns, wait.median_cost_ns) == (None, 500, 0)
    assert found.copy_times() == {"x.to_Npu": 0}


def test_a_step_that_a_run_did_not_reach_has_no_time_of_it():
    stem, head = timed((1_000, 500), (2_000, None), (3_000, 700)).layers
    assert (stem.calls, head.calls) == (3, 2)
    assert (head.median_ns, head.min_ns, head.mean_ns) == (600, 500, 600)
    events = json.loads(timed((1_000, None)).to_chrome_trace())["traceEvents"]
    assert [event["name"] for event in events if event["ph"] == "X"] == ["stem"]


def test_latest_runs():
    found = timed((1, 1), (2, 2), (3, 3))
    assert [run.times[0][1] for run in found.latest(2).each_run] == [1_002, 1_003]
    assert (found.latest(9).runs, found.latest(0).runs, found.latest(1).network) == (3, 0, "toy")


COPIES = {
    "pickle": lambda profile: pickle.loads(pickle.dumps(profile)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
def test_a_profile_can_be_copied(copied):
    network = Network("sum")
    network.output(network.addition(network.input("x", (2, 3)), 1.0), "y")
    with Runtime(threads=1) as runtime:
        loaded = runtime.load(network, optimize={"backends": ["CpuRef"]})
        with loaded.profiling() as profile:
            loaded.run({"x": np.zeros((2, 3), np.float32)})
            twin = copied(profile)
            loaded.run({"x": np.zeros((2, 3), np.float32)})
    assert (twin.runs, profile.runs) == (1, 2)
    assert twin.layers[0].calls == 1
    assert twin.each_run[0] == profile.each_run[0]
    twin.add(*profile.each_run[1])
    assert twin.layers == profile.layers
    assert twin.to_chrome_trace() == profile.to_chrome_trace()
    assert profile.runs == 2


def test_threads_add_runs_at_the_same_time():
    found = Profile("toy")

    def add():
        for number in range(500):
            found.add([STEP], [(1, 3)], [], threading.get_ident())
            if number % 50 == 0:
                assert found.layers[0].median_ns == 2

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    pickle.dumps(found)
    for thread in threads:
        thread.join()
    assert found.runs == found.layers[0].calls == 2_000


def test_workers_have_tracks_behind_the_threads():
    found = Profile("toy")
    works = [Work(0, 0, 1_000, 3_000, 2_000), Work(0, 1, 1_500, 3_000, 1_000), Work(0, 2, 1_250, 2_000, 750)]
    found.add([STEP], [(1_000, 3_500)], [], 7, works=works)
    found.add([STEP], [(4_000, 5_000)], [], 8, works=[Work(0, 2, 4_000, 4_500, 500)])
    events = json.loads(found.to_chrome_trace())["traceEvents"]
    names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    order = {event["tid"]: event["args"]["sort_index"] for event in events if event["name"] == "thread_sort_index"}
    assert [names[tid] for tid in sorted(names, key=order.get)] == ["host, thread 1", "host, thread 2", "worker 1", "worker 2"]
    shown = [(names[e["tid"]], e["name"], e["ts"], e["dur"], e["args"]["busy_us"]) for e in events if e.get("cat") == "worker"]
    assert shown == [
        ("worker 1", "stem", 1.5, 1.5, 1.0),
        ("worker 2", "stem", 1.25, 0.75, 0.75),
        ("worker 2", "stem", 4.0, 0.5, 0.5),
    ]
    assert pickle.loads(pickle.dumps(found)).each_run[0].works == works


def test_numbers_of_tracks_and_arrows_are_fit_for_viewers():
    """Tracks have 32 bits, arrows a number of their own each, and numbers are finite."""
    found = of_devices(3)
    for thread in range(1_500):  # more than any other kind of track may be numbered from
        found.add([*ON_DEVICE], [(1, 2)] * 3 + [(0, 0)], [], thread, [Span(1, 0, "", 1, 2)], [Work(0, 1, 1, 2, 1)])
    text = found.to_chrome_trace()
    events = json.loads(text, parse_constant=lambda name: pytest.fail(name))["traceEvents"]
    kinds = {}
    for event in events:
        assert 0 <= event.get("tid", 0) < 1 << 31
        if event["ph"] == "X":
            assert event["dur"] >= 0
            kinds.setdefault(event["tid"], set()).add(event["cat"])
    assert all(len(cats) == 1 for cats in kinds.values()), "a track shows one kind of thing"
    begun = [event["id"] for event in events if event["ph"] == "s"]
    assert len(set(begun)) == len(begun) == 2 * 3 + 1_500
    assert begun == [event["id"] for event in events if event["ph"] == "f"]
