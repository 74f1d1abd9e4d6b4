"""Every check of levels 3 and 4 finds the fault that it is for, and none where there is none."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dovetail import DType, Network, TensorInfo
from dovetail_sdk.conformance.checks import Check, Level, all_checks
from dovetail_sdk.conformance.drawing import Style
from dovetail_sdk.conformance.evaluation import Estimate, complaint, evaluate
from dovetail_sdk.conformance.random_graphs import draw, known_styles
from dovetail_sdk.conformance.results import CheckResult, Status
from dovetail_sdk.conformance.runner import run_check
from dovetail_sdk.conformance.subject import Settings
from dovetail_sdk.conformance.target import Target

_spec = importlib.util.spec_from_file_location("broken_backends_stress", Path(__file__).with_name("broken_backends_stress.py"))
assert _spec is not None
assert _spec.loader is not None
broken: Any = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = broken
_spec.loader.exec_module(broken)

# Backends that fail the check of choices stand in test_conformance_rejects.py, with those that
# compute wrong numbers; those that leave their tensors in test_guarded.py, which need processes of
# their own; a device whose times are not true in tests/test_device_backend.py, which needs queues;
# what loses bits of what it wrote down in tests/test_conformance_snapshots.py, which needs CpuAcc.
CHECKS = {
    one.id: one
    for one in all_checks()
    if one.level in (Level.GRAPHS, Level.STRESS) and not one.id.startswith(("choices.", "guarded.", "profiles.", "snapshots."))
}


def judged(check: Check, backend: Any, **settings: Any) -> CheckResult:
    return run_check(check, Target(backend, manifest=backend.manifest), Settings(**settings))


FAULTS = {
    "WritesBehindItsOutput": 45,
    "WritesItsInput": 46,
    "WritesItsWeights": 46,
    "NeverReusesMemory": 47,
    "LeaksMemory": 47,
    "LeaksFiles": 47,
    "LeaksThreads": 47,
    "LeavesTheLastElement": 56,
    "OnlyTheFirstInput": 57,
    "ForgetsTheActivation": 57,
    "RemembersNan": 58,
    "SharesScratch": 60,
}
"""Numbers in docs/faults.md of the faults that the kit is there to find."""


def _marked(kind: Any) -> Any:
    number = FAULTS.get(kind.__name__)
    return pytest.param(kind, id=kind.__name__, marks=[pytest.mark.fault(number)] if number else [])


@pytest.mark.parametrize("kind", [_marked(kind) for kind in broken.FINDINGS])
def test_a_broken_backend_is_found_out_for_the_right_reason(kind: Any) -> None:
    id, text = broken.FINDINGS[kind]
    result = judged(CHECKS[id], kind())
    assert result.status is Status.FAILED, result.text
    assert re.search(text, result.text), result.text
    assert result.check.troubleshooting


@pytest.mark.parametrize("id", CHECKS)
def test_nothing_is_found_where_nothing_is_wrong(id: str) -> None:
    backend = broken.FailsWhenAsked() if "late" in id else broken.PrivateHonest() if "copies" in id else broken.Honest()
    result = judged(CHECKS[id], backend)
    assert result.status is Status.PASSED, f"{result.status}: {result.text}"


LATE = "stress.late_errors_are_told"


def test_late_errors_are_judged_by_the_options_of_the_manifest_or_of_the_run() -> None:
    unnamed = broken.FailsWhenAsked()
    unnamed.manifest = None
    assert judged(CHECKS[LATE], unnamed).status is Status.NOT_APPLICABLE
    assert judged(CHECKS[LATE], unnamed, late_failure={"fail": True}).status is Status.PASSED
    overridden = judged(CHECKS[LATE], broken.FailsWhenAsked(), late_failure={"fail": False})
    assert "three runs succeeded with the options {'fail': False}" in overridden.text


def test_a_queue_whose_late_errors_cannot_be_judged_is_told_of() -> None:
    class Enqueues(broken.Honest):  # type: ignore[misc]  # the module is loaded by its path
        def capabilities(self) -> Any:
            return super().capabilities()._replace(asynchronous=True)

    result = judged(CHECKS[LATE], Enqueues())
    assert result.status is Status.NOT_APPLICABLE
    assert "its manifest names no 'late_failure' options" in result.notes[0]
    assert judged(CHECKS[LATE], broken.Honest()).notes == []


def test_each_check_has_a_backend_that_it_rejects() -> None:
    rejecting = {id for id, _ in broken.FINDINGS.values()}
    # What these two look at is the sum of what the others do: a backend that is wrong anywhere is
    # wrong here too.
    assert set(CHECKS) - rejecting <= {"graphs.graphs_are_right", "fallback.alternation_is_right"}


@pytest.mark.parametrize("id", ["graphs.graphs_are_right", "fallback.alternation_is_right"])
def test_a_wrong_layer_is_found_in_graphs(id: str) -> None:
    result = judged(CHECKS[id], broken.OnlyTheFirstInput())
    assert result.status is Status.FAILED
    assert "further off than" in result.text


def test_a_backend_that_takes_nothing_is_not_applicable() -> None:
    class Nothing(broken.Honest):  # type: ignore[misc]  # the module is loaded by its path
        def supports(self, layer: Any, options: Any, device: Any) -> Any:
            return broken.Support.no("kind", "nothing at all")

    for id in ("graphs.graphs_are_right", "memory.outputs_are_written", "stress.deadlines_are_kept"):
        assert judged(CHECKS[id], Nothing()).status is Status.NOT_APPLICABLE


def test_graphs_are_made_of_what_is_accepted() -> None:
    kinds = {"dovetail.Convolution2d", "dovetail.ElementwiseBinary"}

    def accepts(layer: Any) -> bool:
        infos = [info for info in layer.input_infos if info is not None]
        return layer.kind in kinds and infos[0].dtype is DType.INT8 and getattr(layer.descriptor, "layout", "NHWC") == "NHWC"

    styles = known_styles(accepts)
    assert {style.dtype for style, _ in styles} == {DType.INT8}
    seen = set()
    for seed in range(20):
        graph = draw(styles[0][0], accepts, np.random.default_rng(seed))
        seen |= {graph.network.layer(name).kind for name in graph.layers}
        assert all(accepts(graph.network.layer(name)) for name in graph.layers)
    assert seen == kinds


def test_a_backend_that_takes_one_image_at_a_time_gets_graphs() -> None:
    def accepts(layer: Any) -> bool:
        info = layer.input_infos[0]
        return layer.kind == "dovetail.DepthwiseConvolution2d" and info.shape[0] == 1 and info.shape[-1] % 16 == 0

    styles = known_styles(accepts)
    assert styles
    assert {(style.batch, style.channels, blocks) for style, blocks in styles if style.layout == "NHWC"} == {
        (1, 16, ("depthwise",))
    }


def test_the_same_seed_draws_the_same_graph() -> None:
    style = Style(DType.FLOAT32, None, 8)
    one, two = (draw(style, lambda layer: True, np.random.default_rng(7)) for _ in range(2))
    assert [layer.name for layer in one.network] == [layer.name for layer in two.network]
    assert all(np.array_equal(one.feeds[name], two.feeds[name]) for name in one.feeds)


def test_the_bound_is_tight_enough_to_find_small_errors() -> None:
    net = Network("bound")
    x = net.input("x", (4, 12))
    random = np.random.default_rng(1)
    for _ in range(6):
        x = net.relu(net.fully_connected(x, random.standard_normal((12, 12)).astype(np.float32) / 4))
    net.output(x, "y")
    estimate = evaluate(net, {"x": random.standard_normal((4, 12)).astype(np.float32)})["y"]
    info = TensorInfo((4, 12), DType.FLOAT32)
    right = estimate.value.astype(np.float32)
    assert complaint(right, estimate, info) == ""
    off = right.copy()
    off[2, 3] += np.float32(3e-3 * np.abs(right).max())
    assert "off on average" in complaint(off, estimate, info)
    off[2, 3] += np.abs(right).max()
    assert "element [2, 3]" in complaint(off, estimate, info)
    assert "shape" in complaint(right[:2], estimate, info)
    off[2, 3] = np.nan
    assert "[2, 3] is nan" in complaint(off, estimate, info)


def test_an_estimate_covers_what_float32_gives() -> None:
    random = np.random.default_rng(3)
    net = Network("float32")
    a = net.input("a", (3, 64))
    net.output(net.tanh(net.fully_connected(a, random.standard_normal((32, 64)).astype(np.float32))), "y")
    x = random.standard_normal((3, 64)).astype(np.float32)
    weights = net.layer("fullyconnected").constant(1)
    assert weights is not None
    got = np.tanh(x @ weights.T)
    estimate = evaluate(net, {"a": x})["y"]
    assert complaint(got, estimate, TensorInfo((3, 32), DType.FLOAT32)) == ""
    assert isinstance(estimate, Estimate)
