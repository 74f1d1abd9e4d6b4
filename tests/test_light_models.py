"""Run real architectures end to end: ONNX's "light" models match, with tight memory plans.

The dump alone shows how tight.
"""

from __future__ import annotations

import gc
import os
from pathlib import Path

import numpy as np
import onnx
import onnx.numpy_helper
import pytest

import dovetail

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
MODELS = ("resnet50", "squeezenet", "shufflenet", "densenet121")


def load_pb(path: Path) -> np.ndarray:
    tensor = onnx.TensorProto()
    tensor.ParseFromString(path.read_bytes())
    return onnx.numpy_helper.to_array(tensor)


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    path = LIGHT / f"light_{request.param}.onnx"
    if not path.exists():
        pytest.fail(f"the onnx package no longer carries {path.name}")
    with dovetail.load(path, backends=["CpuRef"]) as net:
        yield request.param, net


def feeds_of(name: str, net) -> dict[str, np.ndarray]:
    """The input of the golden output, as ONNX's runner fills it: 0, 1, ..., over their count."""
    spec = net.inputs[0]
    count = int(np.prod(spec.shape))
    return {spec.name: (np.arange(count) / count).astype(np.float32).reshape(spec.shape)}


def test_outputs_match(model):
    name, net = model
    expected = load_pb(LIGHT / f"light_{name}_output_0.pb")
    (actual,) = net.run(feeds_of(name, net)).values()
    np.testing.assert_allclose(actual, expected.reshape(actual.shape), rtol=1e-3, atol=1e-6)


def live_ranges(dump: dict) -> list[list[tuple[int, int]]]:
    """For each step, the byte ranges of the first arena that hold something still needed."""
    steps, tensors = dump["steps"], dump["tensors"]
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for number, step in enumerate(steps):
        for tensor in step["outputs"]:
            first.setdefault(tensor, number)
            last[tensor] = max(last.get(tensor, 0), number)
        for tensor in step["inputs"]:
            last[tensor] = max(last.get(tensor, 0), number)
    alive: list[list[tuple[int, int]]] = [[] for _ in steps]
    for tensor, begin in first.items():
        place = tensors[tensor]
        if place["storage"] == "arena":
            for number in range(begin, last[tensor] + 1):
                alive[number].append((place["offset"], place["offset"] + place["nbytes"]))
    for number, step in enumerate(steps):
        if step["workspace"]:
            begin = step["workspace"]["offset"]
            alive[number].append((begin, begin + step["workspace"]["nbytes"]))
    return alive


def union_bytes(ranges: list[tuple[int, int]]) -> int:
    total, reach = 0, 0
    for begin, end in sorted(ranges):
        total += max(0, end - max(begin, reach))
        reach = max(reach, end)
    return total


def test_memory_plan_is_tight(model):
    _, net = model
    dump = net.dump_plan()
    alive = live_ranges(dump)
    bound = max(union_bytes(ranges) for ranges in alive)
    reach = max(end for ranges in alive for _, end in ranges)
    (arena,) = dump["arenas"]
    assert reach <= arena["nbytes"] <= reach + 64
    private = sum(step["private_bytes"] for step in dump["steps"])
    assert bound > 0
    assert arena["nbytes"] + private <= 1.10 * (bound + private)


def test_no_step_overwrites_what_a_later_one_reads(model):
    """Replay the plan over a shadow of the arena: reads must find the last stamp they expect.

    Each step stamps its outputs. Only a concatenation may stamp over what is still read: its inputs
    may already be parts of its output.
    """
    _, net = model
    dump = net.dump_plan()
    tensors = dump["tensors"]
    block = 64
    shadow = np.full(-(-dump["arenas"][0]["nbytes"] // block), -1)
    written: dict[int, np.ndarray] = {}

    def blocks(place: dict) -> slice:
        return slice(place["offset"] // block, -(-(place["offset"] + place["nbytes"]) // block))

    for number, step in enumerate(dump["steps"]):
        for tensor in step["inputs"]:
            if tensor in written:
                np.testing.assert_array_equal(shadow[blocks(tensors[tensor])], written[tensor], err_msg=step["name"])
        if step["elided"]:  # its outputs are bytes of its inputs, as they stand
            written.update((tensor, shadow[blocks(tensors[tensor])].copy()) for tensor in step["outputs"])
            continue
        if step["workspace"]:
            shadow[blocks(step["workspace"])] = -2 - number
        for tensor in step["outputs"]:
            place = tensors[tensor]
            if place["storage"] == "arena":
                shadow[blocks(place)] = number
                written[tensor] = shadow[blocks(place)].copy()
        for tensor in step["inputs"] if step["kind"] in ("dovetail.Concat", "dovetail.Stack") else ():
            if tensor in written:
                written[tensor] = shadow[blocks(tensors[tensor])].copy()


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="resident memory is read from /proc")
def test_resident_memory_agrees_with_the_plan():
    """A first run adds the arena and the outputs, and little else."""
    with dovetail.load(LIGHT / "light_squeezenet.onnx", backends=["CpuRef"]) as net:
        feeds = feeds_of("squeezenet", net)
        gc.collect()
        before = resident_bytes()
        outputs = net.run(feeds)
        after = resident_bytes()
        planned = net.memory.peak_bytes + sum(a.nbytes for a in outputs.values())
        slack = 4 << 20
        assert after - before <= planned + slack
        again = [net.run(feeds) for _ in range(3)][-1]
        assert resident_bytes() - after <= slack
        assert all(np.array_equal(outputs[k], again[k]) for k in outputs)
