"""Load model files again from the plans that were kept of them."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import golden_files
import numpy as np
import pytest
from onnx import helper

import dovetail
from dovetail.loading import snapshots
from kept_plans.networks import BACKENDS, IMAGE, RANDOM, convolutional, expected, run, written

OPERATORS = golden_files.MODELS / "tflite_ops"
FOLDERS = ("gen", "litert", "tflm_seanet")


@pytest.mark.parametrize("batch", [2, "N"])
def test_what_the_file_says_of_itself_is_kept(tmp_path: Path, parsed: list[str], batch: int | str) -> None:
    said = convolutional(batch=batch)
    said.doc_string = "finds cats"
    helper.set_model_props(said, {"names": "cat, dog"})
    path = written(tmp_path / "said.onnx", said)
    for _ in range(3):
        with dovetail.load(path, ["CpuRef"]) as net:
            assert net.metadata == {"description": "finds cats", "opset": "17", "metadata_props.names": "cat, dog"}
            net.run({"image": IMAGE})
            assert net.metadata["description"] == "finds cats"
    assert len(parsed) == 1


@pytest.mark.parametrize("backends", BACKENDS, ids=",".join)
def test_a_later_load_parses_nothing_and_computes_the_same_bits(model: Path, parsed: list[str], backends: list[str]) -> None:
    with dovetail.load(model, backends) as first:
        before = run(first)
        steps, memory = first.plan.steps, first.memory
    assert len(parsed) == 1
    with dovetail.load(model, backends) as net:
        np.testing.assert_array_equal(run(net), before)
        assert (net.name, net.inputs, net.outputs) == (first.name, first.inputs, first.outputs)
        assert (net.plan.steps, net.memory) == (steps, memory)
    assert len(parsed) == 1
    np.testing.assert_allclose(before, expected(), rtol=1e-4, atol=1e-6)


def test_what_is_asked_of_the_network_itself_is_read_then(model: Path, parsed: list[str]) -> None:
    with dovetail.load(model) as first:
        placement = first.placement.explain()
    with dovetail.load(model) as net:
        assert len(parsed) == 1
        assert net.placement.explain() == placement
        assert len(parsed) == 2
        assert len(net.optimized.graph) == len(first.optimized.graph)
        (inner,) = net.run({"image": IMAGE}, outputs=["conv"]).values()
        assert inner.shape == (2, 20, 6, 6)


def test_it_runs_in_all_ways(model: Path) -> None:
    with dovetail.load(model):
        pass
    with dovetail.load(model) as net:
        wanted = run(net)
        with net.profiling() as profile:
            np.testing.assert_array_equal(run(net), wanted)
        assert {row.name for row in profile.layers} >= {"dense"}
        np.testing.assert_array_equal(net.submit({"image": IMAGE}).result()["probabilities"], wanted)
        binding = net.bind({"image": IMAGE})
        np.testing.assert_array_equal(binding.run()["probabilities"], wanted)
        found: list[Any] = []
        threads = [threading.Thread(target=lambda: found.extend(run(net) for _ in range(20))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 80
        assert all(np.array_equal(one, wanted) for one in found)


@pytest.mark.parametrize("backends", BACKENDS, ids=",".join)
def test_each_set_of_sizes_is_kept(tmp_path: Path, parsed: list[str], backends: list[str]) -> None:
    model = written(tmp_path / "model.onnx", convolutional(batch="N"))
    images = [RANDOM.standard_normal((n, 3, 6, 6)).astype(np.float32) for n in (1, 3, 4)]
    with dovetail.load(model, backends) as first:
        wanted = [run(first, image) for image in images[:2]]
    with dovetail.load(model, backends) as net:
        for image, before in zip(images, wanted, strict=False):
            np.testing.assert_array_equal(run(net, image), before)
        assert (net.inputs, len(parsed)) == (first.inputs, 1)
        np.testing.assert_allclose(run(net, images[2]), expected(image=images[2]), rtol=1e-4, atol=1e-6)  # not met before
        assert len(parsed) == 2
        assert net.outputs == first.outputs
        np.testing.assert_array_equal(run(net, images[0]), wanted[0])
    parsed.clear()
    with dovetail.load(model, backends) as net:
        np.testing.assert_allclose(run(net, images[2]), expected(image=images[2]), rtol=1e-4, atol=1e-6)
    assert not parsed


def test_a_plan_is_kept_across_processes(model: Path, tmp_path: Path) -> None:
    program = """
import sys
import numpy as np
import dovetail
from dovetail.loading import snapshots
snapshots._SETTLED_NS = 0
with dovetail.load(sys.argv[1], ["CpuAcc", "CpuRef"]) as net:
    np.save(sys.argv[3], net.run({"image": np.load(sys.argv[2])})["probabilities"])
print("dovetail_onnx" in sys.modules)
"""
    np.save(tmp_path / "image.npy", IMAGE)
    results = []
    for number in range(2):
        output = tmp_path / f"{number}.npy"
        command = [sys.executable, "-c", program, str(model), str(tmp_path / "image.npy"), str(output)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        results.append((done.stdout.strip(), np.load(output)))
    assert [said for said, _ in results] == ["True", "False"]
    np.testing.assert_array_equal(results[0][1], results[1][1])


CASES = [
    *((None, name) for name in golden_files.of_networks(".tflite")),
    *((folder, name) for folder in FOLDERS for name in golden_files.of_operators(OPERATORS / folder)),
]


@pytest.mark.skipif(bool(CASES), reason="the tests below run them")
def test_there_are_models() -> None:
    pytest.skip(golden_files.ABSENT)


@pytest.mark.parametrize(("folder", "name"), CASES, ids=[name for _, name in CASES])
def test_models_compute_the_same_bits_from_their_plans(folder: str | None, name: str, parsed: list[str]) -> None:
    golden = golden_files.network(name) if folder is None else golden_files.operator(OPERATORS / folder, name)
    results = []
    for _ in range(2):
        parsed.clear()
        try:
            net = dovetail.load(golden.model, ["CpuAcc", "CpuRef"])
        except dovetail.UnsupportedModelError as error:
            pytest.skip(str(error))
        with net:
            feeds = dict(zip([info.name for info in net.inputs], golden.inputs, strict=True))
            results.append([net.run(feeds), net.run(feeds)])
            by_value = bool(net._value_inputs)
    assert len(parsed) == by_value, "plans for values of inputs are not kept"
    for before, after in zip(*results, strict=True):
        assert list(before) == list(after)
        for one in before:
            np.testing.assert_array_equal(before[one], after[one])


def test_further_sizes_write_little(tmp_path: Path, keeping: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = written(tmp_path / "model.onnx", convolutional(batch="N"))
    monkeypatch.setattr(snapshots, "_OF_SIZES", 1000)
    with dovetail.load(model) as net:
        for n in (1, 3, 4):
            image = RANDOM.standard_normal((n, 3, 6, 6)).astype(np.float32)
            np.testing.assert_allclose(run(net, image), expected(image=image), rtol=1e-4, atol=1e-6)
    assert len(list(keeping.iterdir())) == 1  # what is told of the network, with the plan for one set of sizes


def test_sizes_from_a_plan_share_what_is_read_for_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "_OF_SIZES", 0)
    model = written(tmp_path / "model.onnx", convolutional(batch="N"))
    held = []
    for _ in range(2):
        net = dovetail.load(model, ["CpuAcc", "CpuRef"])
        for n in (1, 2, 3, 4):
            run(net, RANDOM.standard_normal((n, 3, 6, 6)).astype(np.float32))
        held.append(net.memory.constant_bytes)
    assert held[1] <= 2 * held[0]


def test_the_sizes_met_first_lie_with_what_is_told_of_the_network(tmp_path: Path, keeping: Path, parsed: list[str]) -> None:
    model = written(tmp_path / "model.onnx", convolutional(batch="N"))
    images = {n: RANDOM.standard_normal((n, 3, 6, 6)).astype(np.float32) for n in (1, 2, 3)}
    for order in ((2, 1), (1, 2), (2, 1, 2), (1,)):
        with dovetail.load(model, plan_cache_bytes=0) as net:  # it holds one plan
            for n in order:
                np.testing.assert_allclose(run(net, images[n]), expected(image=images[n]), rtol=1e-4, atol=1e-6)
        assert len(list(keeping.iterdir())) == 2
    assert len(parsed) == 1
    with dovetail.load(model) as net:
        np.testing.assert_allclose(run(net, images[3]), expected(image=images[3]), rtol=1e-4, atol=1e-6)
    assert len(list(keeping.iterdir())) == 3
    assert len(parsed) == 2
