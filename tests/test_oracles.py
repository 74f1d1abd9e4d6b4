"""Which oracles compute layers of constants, what comes of those that fail, and what is kept."""

from __future__ import annotations

import json
import os
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from constant_networks import CASES, REF, A, Alone, Array, Fake, bits, network_of, normal, registered, result, softmax64

import dovetail
from dovetail import BackendError, Layer, Limits, LoadTimeoutError, Network
from dovetail.contract.backend_id import BackendId
from dovetail.discovery.registry import Registry
from dovetail.ground.limits import budget
from dovetail.isolation import template
from dovetail.loading import snapshots
from dovetail.optimizer import constant_layers, oracles
from dovetail.optimizer.oracles import InstalledOracles
from dovetail.runtime.runtime import run_once

# -- oracles ---------------------------------------------------------------------------------------


def test_without_an_oracle_nothing_folds_and_a_note_says_so() -> None:
    net = network_of(CASES["softmax"][0])
    placement = dovetail.optimize(net, REF, registry=Alone()).placement
    (left,) = placement.left_constant
    assert (left.layer, left.reason) == ("softmax", oracles.NONE_INSTALLED)
    assert f"constant, yet computed by each run: softmax: {oracles.NONE_INSTALLED}" in placement.explain(200)
    np.testing.assert_allclose(result(net, registry=Alone())[0], softmax64(A), rtol=1e-6)


def test_the_report_names_the_oracle_and_its_layers() -> None:
    placement = dovetail.optimize(network_of(CASES["chain"][0]), ["CpuAcc", "CpuRef"]).placement
    row = next(row for row in dovetail.backends() if row.id == "CpuRef")
    (one,) = placement.constants
    assert one.oracle == f"CpuRef {row.version}"
    assert len(one.layers) == 3
    assert f"constants folded by CpuRef {row.version}: 3 layers: " in placement.explain(200)
    assert json.loads(placement.to_json())["constants"] == [{"oracle": one.oracle, "layers": list(one.layers)}]
    assert set(one.layers) <= set(placement.folded)


def test_any_vendors_oracle_computes_and_the_best_is_asked_first() -> None:
    class Nine:
        def execute(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
            outputs[0][...] = 9

    registry = registered(Fake("CpuNine", ["dovetail.Softmax"], lambda layer: Nine()), alone=False)
    net = network_of(lambda n: (n.softmax(n.constant(A)), n.cumulative_sum(n.constant(A), 1)))
    placement = dovetail.optimize(net, REF, registry=registry).placement
    assert [(one.oracle.split()[0], one.layers) for one in placement.constants] == [
        ("CpuNine", ("softmax",)),
        ("CpuRef", ("cumulativesum",)),
    ]
    first, second = result(net, registry=registry)
    assert (first == 9).all()
    np.testing.assert_allclose(second, A.cumsum(1), rtol=1e-5)


def test_an_oracle_is_not_told_what_the_user_prefers() -> None:
    net = network_of(CASES["softmax"][0])
    placement = dovetail.optimize(net, ["CpuAcc", "CpuRef"], forbid={"*": "CpuRef"}, fallback=False).placement
    assert [one.oracle.split()[0] for one in placement.constants] == ["CpuRef"]


def test_an_oracle_that_refuses_leaves_the_layer_with_its_reason() -> None:
    registry = registered(Fake("CpuPicky", [], lambda layer: None))
    (left,) = dovetail.optimize(network_of(CASES["softmax"][0]), REF, registry=registry).placement.left_constant
    assert left.reason == "CpuPicky: [kind] no dovetail.Softmax here (attribute kind)"


class Raises:
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def execute(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        raise self.error


def _fails(error: BaseException) -> Callable[[Layer], Any]:
    def fail(layer: Layer) -> Any:
        raise error

    return fail


FAILURES: Mapping[str, Callable[[Layer], Any]] = {
    "in a run": lambda layer: Raises(ValueError("out of paper")),
    "in a run, ending the program": lambda layer: Raises(SystemExit("out of paper")),
    "making a workload": _fails(ValueError("out of paper")),
    "making a workload, ending the program": _fails(SystemExit("out of paper")),
    "with an error of dovetail's": _fails(BackendError("out of paper")),
}


@pytest.mark.parametrize("name", FAILURES)
def test_an_oracle_that_raises_leaves_the_layer_and_the_load_goes_on(name: str, caplog: pytest.LogCaptureFixture) -> None:
    registry = registered(Fake("CpuBad", ["dovetail.Softmax"], FAILURES[name]))
    net = network_of(CASES["softmax"][0])
    with dovetail.load(net, REF, registry=registry) as loaded:
        (left,) = loaded.placement.left_constant
        np.testing.assert_allclose(loaded.run({})["y0"], softmax64(A), rtol=1e-6)
    assert left.reason.startswith("CpuBad failed: ")
    assert "out of paper" in left.reason
    assert "CpuBad computed no constants of layer 'softmax'" in caplog.text


def test_an_oracle_that_fails_over_and_over_is_not_asked_for_ever() -> None:
    bad = Fake("CpuBad", ["dovetail.Softmax"], FAILURES["in a run"])
    net = network_of(lambda n: tuple(n.softmax(n.constant(normal(2, 2))) for _ in range(10)))
    placement = dovetail.optimize(net, REF, registry=registered(bad)).placement
    assert len(bad.made) == 3
    assert len(placement.left_constant) == 10
    assert placement.left_constant[-1].reason == "CpuBad failed too often to be asked again"


class Dies:
    def execute(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        os.abort()


class Deadly(Fake):
    def __init__(self) -> None:
        super().__init__("CpuDeadly", ["dovetail.Softmax"], lambda layer: Dies())


def test_an_oracle_that_crashes_in_a_process_of_its_own_leaves_the_layer() -> None:
    registry = registered(Deadly(), isolate=True)
    with dovetail.load(network_of(CASES["softmax"][0]), REF, registry=registry) as loaded:
        (left,) = loaded.placement.left_constant
        np.testing.assert_allclose(loaded.run({})["y0"], softmax64(A), rtol=1e-6)
    assert left.reason.startswith("CpuDeadly failed: ")


class Waits:
    sees_run = True

    def execute(self, inputs: Sequence[Any], outputs: Sequence[Any], run: Any) -> None:
        while not run.is_cancelled():
            time.sleep(0.01)


def test_an_oracle_that_hangs_ends_with_the_time_of_the_load() -> None:
    registry = registered(Fake("CpuSlow", ["dovetail.Softmax"], lambda layer: Waits()))
    began = time.monotonic()
    with pytest.raises(LoadTimeoutError):
        dovetail.load(network_of(CASES["softmax"][0]), REF, registry=registry, limits=Limits(seconds=0.3))
    assert time.monotonic() - began < 10


def test_a_load_without_a_deadline_waits_no_longer_for_constants_than_it_must(monkeypatch: pytest.MonkeyPatch) -> None:
    """All layers together, so that a thousand of them take no longer than one."""
    monkeypatch.setattr(constant_layers, "PATIENCE", 0.3)
    slow = Fake("CpuSlow", ["dovetail.Softmax"], lambda layer: Waits())
    net = network_of(lambda n: tuple(n.softmax(n.constant(normal(2, 2)), name=f"s{number}") for number in range(5)))
    began = time.monotonic()
    optimized = dovetail.optimize(net, REF, registry=registered(slow))
    assert 0.3 <= time.monotonic() - began < 10
    assert optimized.oracle_failed  # such a plan is not kept
    reasons = [row.reason for row in optimized.placement.left_constant]
    assert len(slow.made) == 1
    assert len(reasons) == 5
    assert reasons[0] == "CpuSlow took longer than layers of constants may while a network is loaded"
    assert set(reasons[1:]) == {"the constants before it took 0.3 s, and a load waits no longer for them"}


@pytest.mark.parametrize("count", [1, 4])
def test_time_that_constants_did_take_counts(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    class Slow:
        def execute(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
            time.sleep(0.2)
            outputs[0][...] = 7

    monkeypatch.setattr(constant_layers, "PATIENCE", 0.5)
    registry = registered(Fake("CpuSlow", ["dovetail.Softmax"], lambda layer: Slow()))
    net = network_of(lambda n: tuple(n.softmax(n.constant(normal(2, 2))) for _ in range(count)))
    optimized = dovetail.optimize(net, REF, registry=registry)
    assert (len(optimized.placement.left_constant) > 0) == (count > 1)
    assert optimized.oracle_failed == (count > 1)


def test_positions_out_of_range_are_an_error_of_the_run_alone() -> None:
    net = network_of(lambda n: n.gather_nd(n.constant(A), np.array([[99]])))
    with dovetail.load(net, REF) as loaded:
        assert "failed" in loaded.placement.left_constant[0].reason
        with pytest.raises(dovetail.DovetailError):
            loaded.run({})


def test_a_networks_own_registry_without_oracles_will_do() -> None:
    class Small:
        def get(self, id: Any) -> Any:
            return Registry().get(id)

        def default_preferences(self) -> Any:
            return [BackendId("CpuRef")]

        def device_failed(self, backend: Any, error: Any) -> None: ...
        def device_opened(self, backend: Any) -> None: ...

    evaluator = InstalledOracles(run_once, Small())
    layer = network_of(CASES["softmax"][0]).layer("softmax")
    assert evaluator.evaluate(layer, (), 1.0).reasons == (oracles.NONE_INSTALLED,)


# -- loads that come later -------------------------------------------------------------------------


def test_open_sizes_fold_for_each_set_of_sizes() -> None:
    net = Network()
    net.output(net.addition(net.input("x", ("n", 7)), net.strided_slice(net.softmax(net.constant(A)), [0, 0], [1, 7])), "y")
    with dovetail.load(net, REF) as loaded:
        for count in (1, 3, 2):
            found = loaded.run({"x": np.zeros((count, 7), np.float32)})["y"]
            np.testing.assert_allclose(found, np.broadcast_to(softmax64(A)[:1], (count, 7)), rtol=1e-6)


def _model(folder: Path) -> Path:
    onnx = pytest.importorskip("onnx")
    from onnx import helper, numpy_helper

    nodes = [helper.make_node("Softmax", ["a"], ["s"], name="s"), helper.make_node("Add", ["x", "s"], ["y"], name="add")]
    one, other = (helper.make_tensor_value_info(name, 1, [3, 7]) for name in "xy")
    graph = helper.make_graph(nodes, "kept", [one], [other], [numpy_helper.from_array(A, "a")])
    path = folder / "kept.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.fixture
def keeping(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Keep plans of files that were just written, in a folder of this test."""
    monkeypatch.setenv("DOVETAIL_PLANS", "on")
    monkeypatch.setenv("DOVETAIL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(snapshots, "_SETTLED_NS", 0)
    return tmp_path / "cache" / "plans"


def _runs(path: Path) -> tuple[Array, list[str]]:
    with dovetail.load(path, REF) as loaded:
        y = loaded.run({"x": np.zeros((3, 7), np.float32)})["y"]
        return y, [row.kind for row in loaded.placement.layers]


def test_a_plan_with_folded_constants_is_kept_and_needs_no_oracle(
    keeping: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, asked = _model(tmp_path), []
    run = InstalledOracles._run
    monkeypatch.setattr(
        InstalledOracles, "_run", lambda self, layer, *more: asked.append(layer.name) or run(self, layer, *more)
    )
    with dovetail.load(path, REF) as loaded:
        first = loaded.run({"x": np.zeros((3, 7), np.float32)})["y"]
    assert asked == ["s"]
    assert len(list(keeping.glob("*.plan"))) == 1
    with dovetail.load(path, REF) as loaded:
        again = loaded.run({"x": np.zeros((3, 7), np.float32)})["y"]
        assert asked == ["s"]  # once for both loads
        assert [row.kind for row in loaded.placement.layers] == ["dovetail.ElementwiseBinary"]  # told as it was made
    assert bits(first) == bits(again)


def test_a_kept_plan_is_not_that_of_another_oracle(keeping: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, made = _model(tmp_path), []
    read = snapshots.ModelSnapshots.load
    monkeypatch.setattr(snapshots.ModelSnapshots, "load", lambda self, *given: made.append(read(self, *given)) or made[-1])
    now = "an oracle, 1.0"
    monkeypatch.setattr(snapshots, "_oracles", lambda: now)
    _runs(path)
    _runs(path)
    now = "an oracle, 1.1"
    _runs(path)
    _runs(path)
    assert [one is not None for one in made] == [False, True, False, True]


def test_a_plan_is_not_kept_after_an_oracle_failed(keeping: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Any, layer: Layer, name: str, seconds: float) -> Any:
        raise BackendError("not today")

    path = _model(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(InstalledOracles, "_run", fail)
        assert "dovetail.Softmax" in _runs(path)[1]
    assert not list(keeping.glob("*.plan"))
    assert "dovetail.Softmax" not in _runs(path)[1]


def test_ctrl_c_in_an_oracle_ends_the_load() -> None:
    registry = registered(Fake("CpuBad", ["dovetail.Softmax"], lambda layer: Raises(KeyboardInterrupt())))
    with pytest.raises(KeyboardInterrupt):
        dovetail.load(network_of(CASES["softmax"][0]), REF, registry=registry)


def test_runtimes_and_threads_of_oracles_do_not_pile_up() -> None:
    def threads() -> int:
        return len(os.listdir("/proc/self/task"))

    net = network_of(lambda n: tuple(n.softmax(n.constant(normal(2, 2))) for _ in range(20)))
    dovetail.optimize(net, REF)
    before = threads()
    dovetail.optimize(net, REF)
    assert threads() <= before


def test_what_was_only_read_to_compute_a_constant_is_released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, read = _model(tmp_path), []
    evaluate = InstalledOracles.evaluate

    def noted(self: Any, layer: Layer, *more: Any) -> Any:
        read.append(weakref.ref(layer.constant(0)))
        return evaluate(self, layer, *more)

    monkeypatch.setattr(InstalledOracles, "evaluate", noted)
    monkeypatch.setenv("DOVETAIL_PLANS", "off")
    with dovetail.load(path, REF):
        assert [one() for one in read] == [None]


def test_constants_that_are_there_are_not_counted_twice() -> None:
    net = network_of(
        lambda n: n.reduce(n.one_hot(n.constant(np.zeros(512, np.int64)), 512, np.array([0, 1], np.float32)), "max")
    )
    with dovetail.load(net, REF, limits=Limits(memory=(1 << 20) + (1 << 16))) as loaded:  # 1 MiB in between
        assert [len(one.layers) for one in loaded.placement.constants] == [2]
        assert loaded.run({})["y0"].item() == 1


def test_an_oracle_that_needs_more_than_the_load_may_take_has_not_failed(caplog: pytest.LogCaptureFixture) -> None:
    class Greedy:
        def execute(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None: ...

    def greedy(layer: Layer) -> Any:
        budget().take_memory(1 << 62, "a workspace")
        return Greedy()

    made = Fake("CpuGreedy", ["dovetail.Softmax"], greedy)
    net = network_of(lambda n: tuple(n.softmax(n.constant(normal(2, 2))) for _ in range(5)))
    left = dovetail.optimize(net, REF, registry=registered(made)).placement.left_constant
    assert len(made.made) == len(left) == 5
    assert all(row.reason.startswith("CpuGreedy: a workspace needs") for row in left)
    assert not caplog.records


@pytest.mark.parametrize("loads", [True, False])
def test_an_isolated_oracle_starts_once_for_all_layers_and_ends(loads: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []

    class Counted(template._Running):
        def __init__(self, *arguments: Any) -> None:
            started.append(self)
            super().__init__(*arguments)

    monkeypatch.setattr(template, "_Running", Counted)
    net = network_of(lambda n: tuple(n.softmax(n.constant(normal(3, number + 2))) for number in range(4)))
    if loads:
        with dovetail.load(net, REF, isolate=REF) as loaded:
            assert sum(len(one.layers) for one in loaded.placement.constants) == 4
            assert len(loaded.run({})) == 4
    else:
        placement = dovetail.optimize(net, REF, isolate=REF).placement
        assert sum(len(one.layers) for one in placement.constants) == 4
    assert len(started) == 1
    assert all(one.has_ended() for one in started)
