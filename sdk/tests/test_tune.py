"""`dovetail tune` and what explain and benchmark say of it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result

from dovetail import BackendId, Choices, Descriptor, IBackend, IWorkloadFactory, Layer, SubgraphView, Support, TensorInfo
from dovetail.discovery.registry import default_registry

Invoke = Callable[..., Result]


@dataclass(frozen=True, kw_only=True)
class QuickAddition(Descriptor, kind="patient.QuickAddition"):
    """An addition without a wait."""

    input_names = ("a", "b")
    required_inputs = 2

    def infer(self, inputs: Any) -> list[TensorInfo]:
        return [inputs[0]]


class Addition:
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def execute(self, inputs: list[Any], outputs: list[Any]) -> None:
        if self.seconds:
            time.sleep(self.seconds)
        np.add(inputs[0], inputs[1], out=outputs[0])


class PatientFactory(IWorkloadFactory):
    def create_workload(self, layer: Layer) -> Addition:
        return Addition(0.0 if layer.kind == "patient.QuickAddition" else 0.002)


class PatientBackend(IBackend):
    id = BackendId("Patient")

    def supports(self, layer: Layer, options: Any, device: Any) -> Support:
        operation = getattr(layer.descriptor, "operation", None)
        return Support.yes() if str(operation) == "add" else Support.no("kind", "it only adds")

    def create_workload_factory(self, context: Any, resources: Any, options: Any) -> PatientFactory:
        return PatientFactory()

    def choices(self, view: SubgraphView, options: Any, device: Any) -> Choices:
        answer = Choices(view)
        for layer in view.layers:
            answer.offer(layer, "patiently", {"at once": QuickAddition()})
        return answer


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DOVETAIL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr("dovetail_sdk.tuning.measuring.is_disturbed", lambda foreign, threads: False)
    return tmp_path / "cache" / "tuning"


@pytest.fixture
def patient() -> Iterator[str]:
    """A backend that waits before it adds, unless it is tuned."""
    default_registry().register(PatientBackend())
    yield "Patient"
    default_registry().unregister("Patient")


def test_the_table_has_each_layer_and_says_where_it_is_kept(dovetail: Invoke, adder: Path, patient: str, cache: Path) -> None:
    arguments = ("tune", adder, "-b", f"{patient},CpuRef", "--threads", 1, "--rounds", 3)
    result = dovetail(*arguments)
    assert result.exit_code == 0, result.output
    (row,) = (line for line in result.stdout.splitlines() if line.startswith(" add"))
    assert all(word in row for word in (patient, "patiently", "at once", "%"))
    assert float(row.split("%")[0].split()[-1]) > 50
    for text in ("1 of 1 choices differ from the default, with 1 thread\n", "estimated", "alternating", f"kept in {cache}"):
        assert text in result.stdout
    again = dovetail(*arguments)
    assert "known" in again.stdout
    assert "alternating" not in again.stdout


def test_later_commands_use_it_and_say_so(dovetail: Invoke, adder: Path, patient: str) -> None:
    place = (adder, "-b", f"{patient},CpuRef", "--threads", 1)
    assert dovetail("tune", *place, "--rounds", 3).exit_code == 0
    explained = dovetail("explain", *place).stdout
    assert "patient.QuickAddition" in explained
    assert "tuned: at once, not patiently" in explained
    measured = dovetail("benchmark", *place, "--iterations", 2, "--warm-up", 0, "--profile").stdout
    assert "patient.QuickAddition" in measured
    assert "tuned: at once, not patiently" in measured
    assert "tuned" not in dovetail("explain", *place[:-1], 2).stdout  # another number of threads
    off = dovetail("explain", *place, environment={"DOVETAIL_TUNING": "off"})
    assert "QuickAddition" not in off.stdout


def test_json(dovetail: Invoke, adder: Path, patient: str, cache: Path) -> None:
    result = dovetail("tune", adder, "-b", f"{patient},CpuRef", "--threads", 1, "--rounds", 3, "--json")
    report = json.loads(result.stdout)
    (layer,) = report["layers"]
    assert (layer["layers"], layer["default"], layer["winner"], layer["is_new"]) == (["add"], "patiently", "at once", True)
    assert layer["seconds"]["at once"] < 0.002 <= layer["seconds"]["patiently"]
    assert report["after_seconds"] < 0.002 <= report["before_seconds"]
    assert (report["threads"], report["folder"], report["notes"]) == (1, str(cache), [])


def test_clear_forgets(dovetail: Invoke, adder: Path, patient: str, cache: Path) -> None:
    dovetail("tune", adder, "-b", f"{patient},CpuRef", "--rounds", 3)
    assert dovetail("tune", "--clear", "-b", "CpuRef").stdout == f"0 findings removed from {cache}\n"
    assert dovetail("tune", "--clear").stdout == f"1 findings removed from {cache}\n"
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize(("arguments", "words"), [(("x.onnx", "--clear"), "takes no MODEL"), ((), "Missing argument 'MODEL'")])
def test_a_wrong_command_line(dovetail: Invoke, arguments: tuple[str, ...], words: str) -> None:
    result = dovetail("tune", *arguments)
    assert result.exit_code == 2
    assert words in result.stderr


def test_a_network_without_choices(dovetail: Invoke, adder: Path) -> None:
    result = dovetail("tune", adder, "-b", "CpuRef")
    assert result.exit_code == 0
    assert result.stdout.startswith("there is nothing to choose")


def test_ctrl_c_ends_it_with_130(dovetail: Invoke, adder: Path, patient: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("dovetail_sdk.tuning.measuring._block", interrupted)
    result = dovetail("tune", adder, "-b", f"{patient},CpuRef")
    assert result.exit_code == 130
    assert "interrupted" in result.stderr
