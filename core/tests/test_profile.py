import json
from types import SimpleNamespace

import pytest

from dovetail.runtime import Profile, Span


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
