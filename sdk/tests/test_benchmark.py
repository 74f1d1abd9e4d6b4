from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

import dovetail as dovetail_package
from dovetail import Network
from dovetail.runtime import default_runtime
from dovetail_sdk.concurrent_runs import Amount, Measured, measure

Invoke = Callable[..., Result]


def test_table(dovetail: Invoke, adder: Path) -> None:
    result = dovetail("benchmark", adder, "-b", "CpuRef", "--iterations", 5, "--warm-up", 1, "--profile")
    assert result.exit_code == 0, result.output
    for text in ("CpuRef", "load", "5 runs in", "throughput", "planned memory", "held by", "peak memory", "negate", "share"):
        assert text in result.stdout
    for row in ("minimum", "median", "mean", "90th percentile", "95th percentile", "99th percentile", "maximum"):
        assert f"latency, {row}" in result.stdout
    assert "multiply-accumulates" not in result.stdout, "what columns are stands in --help"
    assert "multiply-accumulates" in dovetail("benchmark", "--help").stdout


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
    ascending = [times[name] for name in ("minimum", "median", "p90", "p95", "p99", "maximum")]
    assert 0 < ascending[0] <= ascending[-1]
    assert ascending == sorted(ascending)
    assert times["minimum"] <= times["mean"] <= times["maximum"]
    assert found["runs_per_second"] == pytest.approx(7 / found["measured_seconds"])
    assert (found["threads"], found["requests"], found["warm_up_runs"]) == (1, 1, 10)
    assert {"what", "text", "advice"}.issuperset(key for one in found["noise"] for key in one)
    assert found["backends"] == ["CpuRef"]
    assert found["plan_peak_bytes"] > 0
    assert found["constant_bytes"] >= 80
    assert found["crossing_bytes"] == {"to_devices": 0, "to_host": 0}
    assert found["load_seconds"] > 0
    layers = found["layers"]
    assert [layer["backend"] for layer in layers] == ["CpuRef"] * len(layers)
    assert sum(layer["share"] for layer in layers) == pytest.approx(1)
    for sums in ("kinds", "layer_backends"):
        assert sum(one["layers"] for one in found[sums]) == len(layers)
        assert sum(one["median_seconds"] for one in found[sums]) == pytest.approx(found["all_layers"]["median_seconds"])
    assert found["all_layers"]["macs"] == sum(layer["macs"] for layer in layers) > 0
    assert found["profiled_runs"] == 7
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


def test_documented_keys(dovetail: Invoke, adder: Path) -> None:
    """The table of keys in the README has those that there are, and no others."""
    arguments = ("benchmark", adder, "-b", "CpuRef", "--iterations", 2, "--requests", 2, "--profile", "--json")
    report = json.loads(dovetail(*arguments).stdout)
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    section = readme.partition("### Its JSON")[2].partition("\n## ")[0]
    documented = set(re.findall(r"`(\w+)`", section)) - {"show"}
    named = {"what", "text", "advice", "to_devices", "to_host"}  # of lists and objects that may be empty
    layer = report["layers"][0]
    found = {*report, *report["run_seconds"], *layer, *layer["outputs"][0], *report["kinds"][0], *named}
    assert documented == found


@pytest.mark.parametrize(
    ("arguments", "amount"),
    [
        (("--duration", 0.05), Amount(seconds=0.05, min_runs=1)),
        (("--duration", 0.05, "--requests", 2), Amount(seconds=0.05, min_runs=2)),
        (("--iterations", 4), Amount(runs=4)),
        ((), Amount(seconds=3.0, min_runs=10)),
    ],
)
def test_how_much_is_measured(
    dovetail: Invoke, adder: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[object, ...], amount: Amount
) -> None:
    asked = []

    def quick(requests: Any, wanted: Amount, **others: Any) -> Measured:
        asked.append(wanted)
        return measure(requests, Amount(runs=len(requests)), **others)

    monkeypatch.setattr("dovetail_sdk.concurrent_runs.measure", quick)
    assert dovetail("benchmark", adder, "-b", "CpuRef", *arguments).exit_code == 0
    assert asked == [amount]


@pytest.mark.parametrize("network", ["adder", "classifier"])
def test_concurrent_requests(dovetail: Invoke, request: pytest.FixtureRequest, network: str, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    result = dovetail(
        *("benchmark", request.getfixturevalue(network), "-b", "CpuRef", "--requests", 3, "--iterations", 30),
        *("--profile", "--trace", trace, "--json"),
    )
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert (found["requests"], found["run_seconds"]["count"], found["profiled_runs"]) == (3, 30, 30)
    assert found["threads"] == max(1, default_runtime().threads - 2)
    runs = {event["args"]["run"] for event in json.loads(trace.read_text())["traceEvents"] if event["ph"] == "X"}
    assert len(runs) == 20, "a trace has the latest runs alone"


def test_threads_that_were_given_are_kept(dovetail: Invoke, adder: Path) -> None:
    arguments = ("benchmark", adder, "-b", "CpuRef", "--requests", 2, "--iterations", 2, "--threads", 1000, "--json")
    assert json.loads(dovetail(*arguments).stdout)["threads"] == default_runtime().threads


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--duration", 1, "--iterations", 5), "exclude each other"),
        (("--requests", 4, "--iterations", 3), "some would never run"),
        (("--duration", 0), "0"),
        (("--requests", 0), "1"),
    ],
)
def test_contradictions_are_refused(dovetail: Invoke, adder: Path, arguments: tuple[object, ...], text: str) -> None:
    result = dovetail("benchmark", adder, *arguments)
    assert result.exit_code == 2
    assert text in result.stderr


def test_a_network_that_remembers(dovetail: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It cannot be bound to arrays; it is measured all the same, each request in its own stream."""
    net = Network("running sum")
    after = net.addition(net.state("total", (2, 3)), net.input("x", (2, 3)))
    net.write_state("total", after)
    net.output(after, "y")
    load = dovetail_package.load
    monkeypatch.setattr(dovetail_package, "parse", lambda model: net)
    monkeypatch.setattr(dovetail_package, "load", lambda model, *arguments, **options: load(net, *arguments, **options))
    result = dovetail("benchmark", tmp_path / "sum.onnx", "-b", "CpuRef", "--requests", 2, "--iterations", 8, "--profile")
    assert result.exit_code == 0, result.output
    assert "8 runs in" in result.stdout


def test_weights_that_a_backend_packed_are_counted(dovetail: Invoke) -> None:
    """CpuAcc packs all weights of the demo, and lets the originals go."""
    found = json.loads(dovetail("benchmark", "digits", "-b", "CpuAcc", "--iterations", 1, "--json").stdout)
    assert found["constant_bytes"] == 0
    assert found["private_bytes"] > 4 * 14_000, "the demo has 14,000 weights and more, of 4 bytes"
