from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from click.testing import Result

Invoke = Callable[..., Result]


def test_tables(dovetail: Invoke, classifier: Path) -> None:
    result = dovetail("show", classifier, "--shape", "N=2")
    assert result.exit_code == 0, result.output
    for text in ("picture", "[2, 3, 8, 8]", "scores", "[2, 5]", "20 parameters (80 B)", "30 multiply-accumulates"):
        assert text in result.stdout


def test_open_sizes(dovetail: Invoke, classifier: Path) -> None:
    result = dovetail("show", classifier)
    assert result.exit_code == 0, result.output
    assert "[N, 3, 8, 8]" in result.stdout
    assert "15 multiply-accumulates for N = 1" in result.stdout
    assert "?" not in result.stdout
    assert result.stderr == "note: N is open: taking N = 1; --shape N=8 for another size\n"


def test_open_sizes_in_json(dovetail: Invoke, classifier: Path) -> None:
    found = json.loads(dovetail("show", classifier, "--json").stdout)
    assert found["assumed"] == {"N": 1}
    assert found["macs"] == 15
    assert found["inputs"][0]["shape"] == ["N", 3, 8, 8]
    assert json.loads(dovetail("show", classifier, "--shape", "N=2", "--json").stdout)["assumed"] == {}


def test_json(dovetail: Invoke, classifier: Path) -> None:
    found = json.loads(dovetail("show", classifier, "--shape", "picture=1,3,8,8", "--json").stdout)
    assert found["parameters"] == 20
    assert found["macs"] == 15
    assert found["outputs"] == [{"name": "scores", "dtype": "float32", "shape": [1, 5]}]


def test_dot(dovetail: Invoke, adder: Path) -> None:
    lines = dovetail("show", adder, "--dot").stdout.splitlines()
    assert lines[0].startswith("digraph")
    assert sum("->" in line for line in lines) == 5


def test_shape_of_something_else(dovetail: Invoke, classifier: Path) -> None:
    result = dovetail("show", classifier, "--shape", "M=2")
    assert result.exit_code == 2
    assert "inputs picture; symbolic sizes N" in result.stderr
