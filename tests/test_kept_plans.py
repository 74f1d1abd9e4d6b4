"""Load model files again from the plans that were kept of them."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import golden_files
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import dovetail
import dovetail_onnx
from dovetail import ErrorCode, Limits, LoadedNetwork, ModelError, OptionError
from dovetail.loading import parsing, snapshots
from dovetail.loading.held_files import HeldFiles, stamp_of
from dovetail.runtime import plan_snapshot

BACKENDS = (["CpuRef"], ["CpuAcc", "CpuRef"])
RANDOM = np.random.default_rng(8)
FILTER = RANDOM.standard_normal((20, 3, 3, 3)).astype(np.float32)
OTHER = RANDOM.standard_normal((20, 3, 3, 3)).astype(np.float32)
WEIGHTS = RANDOM.standard_normal((20 * 6 * 6, 10)).astype(np.float32)
IMAGE = RANDOM.standard_normal((2, 3, 6, 6)).astype(np.float32)
OPERATORS = golden_files.MODELS / "tflite_ops"
FOLDERS = ("gen", "litert", "tflm_seanet")

Arrays = dict[str, np.ndarray[Any, Any]]


@pytest.fixture(autouse=True)
def keeping(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Keep plans in a folder of this test, of files that were just written, too."""
    monkeypatch.setenv("DOVETAIL_PLANS", "on")
    monkeypatch.setenv("DOVETAIL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(snapshots, "_SETTLED_NS", 0)
    return tmp_path / "cache" / "plans"


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was parsed since, one entry for each time."""
    found: list[str] = []
    parse = parsing.parse

    def counted(path: str) -> Any:
        found.append(path)
        return parse(path)

    monkeypatch.setattr(parsing, "parse", counted)
    return found


def convolutional(filters: np.ndarray[Any, Any] = FILTER, batch: int | str = 2) -> onnx.ModelProto:
    nodes = [
        helper.make_node("Conv", ["image", "filters"], ["conv"], name="conv", pads=[1] * 4),
        helper.make_node("Relu", ["conv"], ["act"]),
        helper.make_node("MaxPool", ["act"], ["pool"], kernel_shape=[3, 3], pads=[1] * 4),
        helper.make_node("Flatten", ["pool"], ["flat"]),
        helper.make_node("MatMul", ["flat", "weights"], ["dense"], name="dense"),
        helper.make_node("Softmax", ["dense"], ["probabilities"]),
    ]
    inputs = [helper.make_tensor_value_info("image", 1, [batch, 3, 6, 6])]
    outputs = [helper.make_tensor_value_info("probabilities", 1, None)]
    arrays = [numpy_helper.from_array(filters, "filters"), numpy_helper.from_array(WEIGHTS, "weights")]
    graph = helper.make_graph(nodes, "convolutional", inputs, outputs, arrays)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def written(path: Path, model: onnx.ModelProto) -> Path:
    path.write_bytes(model.SerializeToString())
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return written(tmp_path / "model.onnx", convolutional())


def run(net: LoadedNetwork, image: np.ndarray[Any, Any] = IMAGE) -> np.ndarray[Any, Any]:
    return net.run({"image": image})["probabilities"]


def expected(filters: np.ndarray[Any, Any] = FILTER, image: np.ndarray[Any, Any] = IMAGE) -> np.ndarray[Any, Any]:
    """The network in float64."""
    windows = np.lib.stride_tricks.sliding_window_view(
        np.pad(image.astype(np.float64), [(0, 0), (0, 0), (1, 1), (1, 1)]), (3, 3), (2, 3)
    )
    x = np.maximum(np.einsum("nchwij,ocij->nohw", windows, filters.astype(np.float64)), 0)
    x = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)], constant_values=-np.inf)
    x = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3)).max((-2, -1))
    x = x.reshape(len(x), -1) @ WEIGHTS.astype(np.float64)
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


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


def test_a_file_that_changed_is_another_network(model: Path, keeping: Path) -> None:
    before = model.stat()
    with dovetail.load(model) as net:
        run(net)
    content = convolutional(OTHER).SerializeToString()
    assert len(content) == before.st_size
    model.write_bytes(content)
    os.utime(model, ns=(before.st_atime_ns, before.st_mtime_ns))  # only the time of the inode tells
    with dovetail.load(model) as net:
        np.testing.assert_allclose(run(net), expected(OTHER), rtol=1e-4, atol=1e-6)
    assert len(list(keeping.iterdir())) == 2


def test_external_data_that_changed_is_another_network(tmp_path: Path, parsed: list[str]) -> None:
    model = tmp_path / "model.onnx"
    onnx.save(convolutional(), model, save_as_external_data=True, location="weights.bin", size_threshold=64)
    for count in (1, 1):
        with dovetail.load(model) as net:
            np.testing.assert_allclose(run(net), expected(), rtol=1e-4, atol=1e-6)
        assert len(parsed) == count
    data = tmp_path / "weights.bin"
    content = bytearray(data.read_bytes())
    content[3] ^= 0x80  # the sign of the first weight
    data.write_bytes(content)
    with dovetail.load(model) as net:
        assert not np.array_equal(run(net), expected())
    assert len(parsed) == 2


def test_a_network_outlives_its_file_but_what_was_not_read_is_gone(model: Path) -> None:
    with dovetail.load(model):
        pass
    with dovetail.load(model) as net:
        model.unlink()
        np.testing.assert_allclose(run(net), expected(), rtol=1e-4, atol=1e-6)
        with pytest.raises(ModelError) as raised:
            net.placement  # noqa: B018
    assert raised.value.code == ErrorCode.MODEL_NOT_FOUND
    with pytest.raises(ModelError):
        dovetail.load(model)


@pytest.mark.parametrize("backends", BACKENDS, ids=",".join)
def test_damaged_plans_are_not_used(model: Path, keeping: Path, parsed: list[str], backends: list[str]) -> None:
    with dovetail.load(model, backends) as net:
        wanted = run(net)
    (plan,) = keeping.iterdir()
    whole = plan.read_bytes()
    damages: list[Callable[[bytearray], Any]] = [bytearray.clear]
    damages += [lambda content, n=n: content.__delitem__(slice(n, None)) for n in (1, 15, 64, len(whole) // 2, len(whole) - 64)]
    damages += [lambda content, n=n: content.__setitem__(slice(n, n + 512), bytes(512)) for n in (0, 64, len(whole) // 2)]
    damages += [lambda content: content.extend(bytes(64))]
    for place in RANDOM.integers(0, len(whole), 60):
        damages.append(lambda content, place=int(place): content.__setitem__(place, content[place] ^ 0x55))
    for number, damage in enumerate(damages):
        content = bytearray(whole)
        damage(content)
        plan.write_bytes(content)
        parsed.clear()
        with dovetail.load(model, backends) as net:
            np.testing.assert_array_equal(run(net), wanted)
        if bytes(content[:56]) != whole[:56] or content[64:] != whole[64:]:  # the head ends with bytes that mean nothing
            assert len(parsed) == 1, number
            assert plan.read_bytes() == whole


def test_ways_of_loading_have_plans_of_their_own(model: Path, keeping: Path, parsed: list[str]) -> None:
    ways: list[dict[str, Any]] = [
        {"backends": ["CpuRef"]},
        {"backends": ["CpuAcc", "CpuRef"]},
        {"backends": "CpuAcc", "threads": 1},
        {"backends": "CpuAcc", "threads": 1, "options": {"CpuAcc": {"isa": "scalar"}}},
        {"backends": ["CpuAcc", "CpuRef"], "fallback": False, "threads": 1},
    ]
    for _ in range(2):
        for way in ways:
            with dovetail.load(model, **way) as net:
                np.testing.assert_allclose(run(net), expected(), rtol=1e-4, atol=1e-6)
    assert len(parsed) == len(list(keeping.iterdir())) == len(ways)


def test_other_requests_are_not_kept(model: Path, keeping: Path) -> None:
    class Mine(dovetail.PlacementPolicy):
        def choose(self, layer: Any, answers: Any) -> Any:
            return next(iter(answers))

    ways: list[dict[str, Any]] = [
        {"require": {"conv": "CpuRef"}},
        {"forbid": {"conv": "CpuAcc"}},
        {"limits": Limits()},
        {"passes": False},
        {"debug": lambda *_: None},
        {"tuned": False},
        {"runtime": dovetail.Runtime(guard=dovetail.Guard())},
    ]
    for way in ways:
        with dovetail.load(model, ["CpuAcc", "CpuRef"], **way) as net:
            np.testing.assert_allclose(run(net), expected(), rtol=1e-4, atol=1e-6)
        assert not keeping.exists(), way


def test_nothing_is_kept_where_nobody_wants_it(model: Path, keeping: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOVETAIL_PLANS", "off")
    with dovetail.load(model):
        pass
    assert not keeping.exists()


def test_a_file_that_may_still_change_is_not_kept(model: Path, keeping: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "_SETTLED_NS", 3600 * 10**9)
    with dovetail.load(model):
        pass
    assert not keeping.exists()


def test_plans_that_others_could_write_are_not_believed(model: Path, keeping: Path, parsed: list[str]) -> None:
    with dovetail.load(model):
        pass
    (plan,) = keeping.iterdir()
    plan.chmod(0o666)
    with dovetail.load(model) as net:
        run(net)
    assert len(parsed) == 2
    keeping.chmod(0o777)
    with dovetail.load(model) as net:
        run(net)
    assert len(parsed) == 3


def test_a_folder_that_cannot_be_written_costs_a_load_nothing(model: Path, keeping: Path) -> None:
    keeping.parent.mkdir()
    keeping.write_text("no folder")
    with dovetail.load(model) as net:
        np.testing.assert_allclose(run(net), expected(), rtol=1e-4, atol=1e-6)


def test_the_oldest_plans_go(tmp_path: Path, keeping: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    models = [written(tmp_path / f"{number}.onnx", convolutional()) for number in range(4)]
    with dovetail.load(models[0]):
        pass
    (first,) = keeping.iterdir()
    monkeypatch.setattr(snapshots, "_ALL", 2 * first.stat().st_size + 100)
    for number, model in enumerate(models[1:], 1):
        for plan in keeping.iterdir():
            os.utime(plan, ns=(0, plan.stat().st_mtime_ns - 10**9))
        with dovetail.load(model):
            pass
        assert len(list(keeping.iterdir())) == min(number + 1, 2)
    assert not first.exists()


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


def test_threads_count_as_the_runtime_has_them(model: Path, keeping: Path, parsed: list[str]) -> None:
    with dovetail.Runtime(threads=1) as one, dovetail.Runtime(threads=2) as two:
        for runtime, threads, count in ((one, 2, 1), (two, 2, 2), (two, None, 2), (two, 7, 2), (one, None, 2)):
            with dovetail.load(model, runtime=runtime, threads=threads) as net:
                np.testing.assert_allclose(run(net), expected(), rtol=1e-4, atol=1e-6)
            assert len(parsed) == count
    assert len(list(keeping.iterdir())) == 2


def test_a_folder_above_a_link_is_that_of_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "real" / "inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real" / "inner")
    written(tmp_path / "model.onnx", convolutional())
    written(tmp_path / "real" / "model.onnx", convolutional(OTHER))
    for path, filters in ((tmp_path, FILTER), (tmp_path / "link" / "..", OTHER)):
        for _ in range(2):
            with dovetail.load(os.path.join(path, "model.onnx")) as net:
                np.testing.assert_allclose(run(net), expected(filters), rtol=1e-4, atol=1e-6)
                net.placement.explain()


def test_a_network_that_others_helped_to_read_is_not_kept(tmp_path: Path, keeping: Path, parsed: list[str]) -> None:
    nodes = [helper.make_node("Scale", ["x"], ["y"], domain="test.scale")]
    x, y = (helper.make_tensor_value_info(name, 1, [3]) for name in "xy")
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("test.scale", 1)]
    made = helper.make_model(helper.make_graph(nodes, "scaling", [x], [y]), opset_imports=opsets, ir_version=8)
    model = written(tmp_path / "model.onnx", made)
    for factor in (2.0, 3.0):

        @dovetail_onnx.operator("test.scale", "Scale")
        def scale(node: Any, factor: float = factor) -> Any:
            return node.network.multiplication(node.input(0), np.float32(factor))

        with scale, dovetail.load(model) as net:
            (result,) = net.run({"x": np.ones(3, np.float32)}).values()
        np.testing.assert_array_equal(result, np.full(3, factor, np.float32))
    assert not keeping.exists()
    assert len(parsed) == 2


def negated(node: Any) -> Any:
    return node.network.unary(node.input(0), "neg", name=node.label())


def test_a_plan_is_not_used_where_an_operator_is_translated_otherwise(model: Path, keeping: Path, parsed: list[str]) -> None:
    """A plan that was kept before knows nothing of a function that came to translate its Relu."""
    with dovetail.load(model) as net:
        np.testing.assert_allclose(run(net), expected(), rtol=1e-4, atol=1e-6)
    for _ in range(2):  # what such a function made is not kept
        with dovetail_onnx.operator("", "Relu", replace=True)(negated), dovetail.load(model) as net:
            assert not np.allclose(run(net), expected(), rtol=1e-2)
    assert len(parsed) == 3
    with dovetail.load(model) as net:
        np.testing.assert_allclose(run(net), expected(), rtol=1e-4, atol=1e-6)
    assert len(parsed) == 3
    assert len(list(keeping.iterdir())) == 1


def test_a_model_without_the_operators_of_others_is_kept_beside_them(model: Path, parsed: list[str]) -> None:
    for _ in range(3):
        with dovetail_onnx.operator("", "Sigmoid", replace=True)(negated), dovetail.load(model) as net:
            np.testing.assert_allclose(run(net), expected(), rtol=1e-4, atol=1e-6)
    assert len(parsed) == 1


def test_a_network_whose_operators_changed_while_it_was_planned_is_not_kept(
    model: Path, keeping: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The function goes while the model is read, and is there again before the plan is written."""
    registered = dovetail_onnx.operator("", "Relu", replace=True)(negated)
    parse = parsing.parse
    again = []

    def late(path: str) -> Any:
        registered.unregister()
        network = parse(path)
        again.append(dovetail_onnx.operator("", "Relu", replace=True)(negated))
        return network

    with monkeypatch.context() as patched:
        patched.setattr(parsing, "parse", late)
        with dovetail.load(model) as net:
            np.testing.assert_allclose(run(net), expected(), rtol=1e-4, atol=1e-6)
    assert not keeping.exists()
    with again[0], dovetail.load(model) as net:
        assert not np.allclose(run(net), expected(), rtol=1e-2)


def test_what_is_read_again_is_read_by_the_same_functions(model: Path) -> None:
    with dovetail.load(model):
        pass
    with dovetail.load(model) as net, dovetail_onnx.operator("", "Relu", replace=True)(negated):
        with pytest.raises(ModelError, match="registered after the model was loaded") as raised:
            net.placement  # noqa: B018
        np.testing.assert_allclose(run(net), expected(), rtol=1e-4, atol=1e-6)
    assert raised.value.code == ErrorCode.OPERATOR_FAILED


def test_external_data_that_may_still_change_is_not_kept(
    tmp_path: Path, keeping: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tmp_path / "model.onnx"
    onnx.save(convolutional(), model, save_as_external_data=True, location="weights.bin", size_threshold=64)
    time.sleep(0.6)
    (tmp_path / "weights.bin").touch()
    monkeypatch.setattr(snapshots, "_SETTLED_NS", 500_000_000)
    with dovetail.load(model):
        pass
    assert not keeping.exists()
    time.sleep(0.6)
    with dovetail.load(model):
        pass
    assert len(list(keeping.iterdir())) == 1


@pytest.mark.parametrize("error", [TypeError("cannot pickle"), OSError("no memory to map"), MemoryError(), KeyError(1)])
def test_a_plan_that_cannot_be_written_costs_a_load_nothing(
    model: Path, keeping: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fails(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr(snapshots, "written", fails)
    with dovetail.load(model) as net:
        np.testing.assert_allclose(run(net), expected(), rtol=1e-4, atol=1e-6)
    assert not keeping.exists()


def test_a_workload_that_asks_for_other_memory_than_was_planned_is_not_used(
    model: Path, parsed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with dovetail.load(model, "CpuRef"):
        pass
    needs = plan_snapshot._needs
    monkeypatch.setattr(plan_snapshot, "_needs", lambda *what: (*needs(*what), "more"))
    with dovetail.load(model, "CpuRef") as net:
        np.testing.assert_allclose(run(net), expected(), rtol=1e-4, atol=1e-6)
    assert len(parsed) == 2


@pytest.mark.parametrize("backends", [5, True, object()])
def test_what_names_no_backend_is_refused_as_ever(model: Path, backends: Any) -> None:
    with pytest.raises(OptionError) as raised:
        dovetail.load(model, backends)
    assert raised.value.code == ErrorCode.OPTION_INVALID


def test_an_option_without_an_end_is_refused_as_ever(model: Path) -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(OptionError) as raised:
        dovetail.load(model, "CpuAcc", options={"CpuAcc": {"isa": endless}})
    assert raised.value.code == ErrorCode.OPTION_INVALID


def test_further_sizes_write_little(tmp_path: Path, keeping: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = written(tmp_path / "model.onnx", convolutional(batch="N"))
    monkeypatch.setattr(snapshots, "_OF_SIZES", 1000)
    with dovetail.load(model) as net:
        for n in (1, 3, 4):
            image = RANDOM.standard_normal((n, 3, 6, 6)).astype(np.float32)
            np.testing.assert_allclose(run(net, image), expected(image=image), rtol=1e-4, atol=1e-6)
    assert len(list(keeping.iterdir())) == 1  # what is told of the network, with the plan for one set of sizes


def _replace(model: Path, network: onnx.ModelProto) -> None:
    written(model.with_suffix(".new.onnx"), network).replace(model)


@pytest.mark.parametrize(
    "change", [lambda model: model.unlink(), lambda model: _replace(model, convolutional(OTHER, batch="N"))]
)
@pytest.mark.parametrize("is_external", [False, True])
def test_a_network_of_open_sizes_outlives_its_file(
    tmp_path: Path, parsed: list[str], change: Callable[[Path], None], is_external: bool
) -> None:
    model = tmp_path / "model.onnx"
    external = {"save_as_external_data": True, "location": "weights.bin", "size_threshold": 64} if is_external else {}
    onnx.save(convolutional(batch="N"), model, **external)
    for _ in range(2):
        net = dovetail.load(model, ["CpuAcc", "CpuRef"])
        np.testing.assert_allclose(run(net), expected(), rtol=1e-4, atol=1e-6)
    assert len(parsed) == 1
    change(model)
    for n in (3, 4):
        image = RANDOM.standard_normal((n, 3, 6, 6)).astype(np.float32)
        np.testing.assert_allclose(run(net, image), expected(image=image), rtol=1e-4, atol=1e-6)
    assert net.outputs[0].shape == ("N", 10)
    assert len(parsed) == 2


def test_a_file_that_was_written_over_is_missed(tmp_path: Path) -> None:
    model = written(tmp_path / "model.onnx", convolutional(batch="N"))
    for _ in range(2):
        net = dovetail.load(model)
        run(net)
    with model.open("r+b") as file:
        file.write(b"other")
    with pytest.raises(ModelError) as raised:
        run(net, np.concatenate([IMAGE, IMAGE]))
    assert raised.value.code == ErrorCode.MODEL_NOT_FOUND


def test_files_are_held_as_long_as_the_network(tmp_path: Path) -> None:
    model = written(tmp_path / "model.onnx", convolutional(batch="N"))
    dovetail.load(model).unload()

    def held() -> int:
        return sum(os.path.realpath(one) == str(model) for one in Path("/proc/self/fd").iterdir())

    nets = [dovetail.load(model) for _ in range(5)]
    for net in nets:
        np.testing.assert_allclose(run(net), expected(), rtol=1e-4, atol=1e-6)
    assert held() == 5
    del net, nets
    gc.collect()
    assert held() == 0


def test_what_was_installed_after_it_was_imported_keeps_no_plan(
    model: Path, keeping: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest = max(path.stat().st_ctime_ns for path in Path(dovetail.__file__).parent.rglob("*.py"))
    monkeypatch.setattr(dovetail, "IMPORTED_NS", newest)
    snapshots._installed.cache_clear()
    with dovetail.load(model, "CpuRef"):
        pass
    assert not keeping.exists()
    monkeypatch.undo()
    snapshots._installed.cache_clear()


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


def test_held_files_are_copied_by_several_threads_at_once(tmp_path: Path) -> None:
    file = tmp_path / "weights.bin"
    file.write_bytes(np.arange(3 << 18, dtype=np.int64).tobytes())
    wanted = file.read_bytes()
    held = HeldFiles({str(file): stamp_of(str(file)) or ()})
    file.unlink()
    folders = [tmp_path / str(number) for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        copies = list(pool.map(lambda folder: held.copy(str(file), str(folder)), folders))
    assert all(Path(copy).read_bytes() == wanted for copy in copies)


def test_a_held_file_that_cannot_be_copied_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = written(tmp_path / "model.onnx", convolutional(batch="N"))
    for _ in range(2):
        net = dovetail.load(model)
        run(net)
    model.unlink()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with pytest.raises(ModelError, match="TMPDIR") as raised:
        run(net, np.concatenate([IMAGE, IMAGE]))
    assert raised.value.code == ErrorCode.MODEL_NOT_FOUND
