from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from click.testing import Result

Invoke = Callable[..., Result]


def test_table(dovetail: Invoke, adder: Path) -> None:
    result = dovetail("benchmark", adder, "-b", "CpuRef", "--iterations", 5, "--warm-up", 1, "--profile")
    assert result.exit_code == 0, result.output
    for text in ("CpuRef", "load", "min of 5", "median", "90th percentile", "planned memory", "peak memory", "negate", "share"):
        assert text in result.stdout


def test_json(dovetail: Invoke, classifier: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    result = dovetail(
        *("benchmark", classifier, "-b", "CpuRef", "--shape", "N=2", "--iterations", 7, "--threads", 1),
        *("--profile", "--trace", trace, "--json"),
    )
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    times = found["run_seconds"]
    assert times["count"] == 7
    assert 0 < times["minimum"] <= times["median"] <= times["p90"] <= times["maximum"]
    assert found["backends"] == ["CpuRef"]
    assert found["plan_peak_bytes"] > 0
    assert found["constant_bytes"] >= 80
    assert found["crossing_bytes"] == {"to_devices": 0, "to_host": 0}
    assert found["load_seconds"] > 0
    assert [layer["backend"] for layer in found["layers"]] == ["CpuRef"] * len(found["layers"])
    assert json.loads(trace.read_text())["traceEvents"]


def test_open_size_is_one(dovetail: Invoke, classifier: Path) -> None:
    arguments = ("benchmark", classifier, "-b", "CpuRef", "--iterations", 1, "--warm-up", 0, "--json")
    result = dovetail(*arguments)
    assert result.exit_code == 0, result.output
    assert result.stderr == "note: N is open: taking N = 1; --shape N=8 for another size\n"
    assert json.loads(result.stdout)["assumed"] == {"N": 1}
    fixed = dovetail(*arguments, "--shape", "picture=2,3,8,8")
    assert fixed.stderr == ""
    assert json.loads(fixed.stdout)["assumed"] == {}


def test_json_before_the_model_prints(dovetail: Invoke, adder: Path, tmp_path: Path) -> None:
    before = adder.read_bytes()
    printed = dovetail("benchmark", "--json", adder, "-b", "CpuRef", "--iterations", 1)
    assert json.loads(printed.stdout)["run_seconds"]["count"] == 1
    assert adder.read_bytes() == before
    written = dovetail("benchmark", adder, "--json", tmp_path / "alone.json", "-b", "CpuRef", "--iterations", 1)
    assert "median" in written.stdout
    assert json.loads((tmp_path / "alone.json").read_text())["run_seconds"]["count"] == 1
