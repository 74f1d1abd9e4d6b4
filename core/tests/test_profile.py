import json
from types import SimpleNamespace

from dovetail.runtime.profile import Profile

STEP = SimpleNamespace(name="stem", layer_kind="dovetail.Convolution2d", backend="CpuFake", sources=("stem", "relu"), tuned="")


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
