from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from click.testing import Result

from dovetail import Network
from dovetail_onnx import export_network

Invoke = Callable[..., Result]


def test_every_layer_has_a_home_and_a_reason(dovetail: Invoke, adder: Path) -> None:
    result = dovetail("explain", adder, "-b", "CpuRef", "--no-fallback")
    assert result.exit_code == 0, result.output
    for text in ("add", "negate", "CpuRef", "fallback: none"):
        assert text in result.stdout


def test_fallback_is_told_and_may_be_an_error(dovetail: Invoke, adder: Path, fussy: str) -> None:
    arguments = ("explain", adder, "-b", f"{fussy},CpuRef")
    result = dovetail(*arguments)
    assert result.exit_code == 0, result.output
    assert "Fussy: [kind] it only adds" in result.stdout
    strict = dovetail(*arguments, "--no-fallback")
    assert strict.exit_code == 1
    assert strict.stdout == result.stdout
    assert "1 layer fell back, the first is 'negate'" in strict.stderr


def test_absent_backend_is_a_fallback(dovetail: Invoke, adder: Path) -> None:
    arguments = ("explain", adder, "-b", "Absent?,CpuRef")
    assert dovetail(*arguments).exit_code == 0
    strict = dovetail(*arguments, "--no-fallback")
    assert strict.exit_code == 1
    assert "backend Absent? is absent" in strict.stderr


def test_layer_without_a_home(dovetail: Invoke, adder: Path, fussy: str) -> None:
    result = dovetail("explain", adder, "-b", fussy)
    assert result.exit_code == 1
    assert "[NO_BACKEND_FOR_LAYER]" in result.stderr
    assert "it only adds" in result.stderr


def test_an_error_that_lists_many_layers_is_cut_and_names_the_option(dovetail: Invoke, fussy: str, tmp_path: Path) -> None:
    network = Network("deep")
    x = network.input("x", (4,))
    for number in range(40):
        x = network.relu(network.multiplication(x, x), name=f"layer{number}")
    network.output(x, "y")
    path = tmp_path / "deep.onnx"
    path.write_bytes(export_network(lambda sizes: network).SerializeToString())
    result = dovetail("explain", path, "-b", fussy)
    assert result.exit_code == 1
    lines = [line for line in result.stderr.splitlines() if line.startswith("  ")]
    assert "  ... and 71 more" in lines
    assert lines[-1] == "  -> name a backend that takes these layers behind the others, as in -b AcmeNpu,CpuRef"
    assert len(lines) == 11


def test_the_log_names_the_command(dovetail: Invoke, adder: Path, fussy: str) -> None:
    result = dovetail("run", adder, "-i", "random", "-b", f"{fussy},CpuRef")
    assert result.exit_code == 0, result.output
    assert "; `dovetail explain` says why\n" in result.stderr
    assert "placement.explain()" not in result.stderr


def test_json(dovetail: Invoke, adder: Path, fussy: str) -> None:
    found = json.loads(dovetail("explain", adder, "-b", f"{fussy},CpuRef", "--json").stdout)
    assert {layer["name"]: layer["backend"] for layer in found["layers"]} == {"add": "Fussy", "negate": "CpuRef"}


def test_open_size_is_one(dovetail: Invoke, classifier: Path) -> None:
    result = dovetail("explain", classifier, "-b", "CpuRef", "--json")
    assert result.exit_code == 0, result.output
    assert result.stderr == "note: N is open: taking N = 1; --shape N=8 for another size\n"
    assert json.loads(result.stdout)["assumed"] == {"N": 1}
    fixed = dovetail("explain", classifier, "-b", "CpuRef", "--shape", "N=2", "--json")
    assert fixed.stderr == ""
    assert json.loads(fixed.stdout)["assumed"] == {}


def test_what_exceeds_a_limit_is_told(dovetail: Invoke, adder: Path) -> None:
    result = dovetail("explain", adder, "-b", "CpuRef", "--limit", "layers=1")
    assert result.exit_code == 1
    assert "[LIMIT_EXCEEDED]" in result.stderr
    assert dovetail("explain", adder, "-b", "CpuRef", "--limit", "memory=1G", "--limit", "seconds=60").exit_code == 0


def test_what_is_no_limit_is_told(dovetail: Invoke, adder: Path) -> None:
    for text in ("layers", "layers=-1", "seconds=0", "colour=3", "memory=1T"):
        result = dovetail("explain", adder, "--limit", text)
        assert result.exit_code == 2, text
        assert "limit" in result.stderr
