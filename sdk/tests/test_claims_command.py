"""`dovetail claims`: what a manifest alone tells of a backend."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from dovetail.contract.claims import read_claims
from dovetail_sdk.bundled import demo_model
from dovetail_sdk.cli import main
from dovetail_sdk.coverage import coverage_of, dtypes_text


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["--quiet", "claims", *arguments])
    return result.exit_code, result.output


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    claims = {
        "dovetail.Pooling2d": [{"dtypes": ["float"], "where": {"function": "max", "stride": {"max": 2}}}],
        "dovetail.Convolution2d": [{"dtypes": ["float32"], "where": {"weights.height": 1, "device.lines": {"min": 4}}}],
    }
    facts = {"id": "AbsentNpu", "abi": [0, 2], "device": "npu", "rank": 1, "description": "not installed", "claims": claims}
    path = tmp_path / "absent.json"
    path.write_text(json.dumps(facts))
    return path


def test_claims_of_an_installed_backend_are_shown_without_its_code() -> None:
    loaded = {name for name in sys.modules if name.startswith("dovetail_reference")}
    code, text = run("CpuRef")
    assert code == 0
    assert "dovetail.Softmax\n  float\n" in text
    assert "    output.quantization: the same as input.quantization\n" in text
    assert {name for name in sys.modules if name.startswith("dovetail_reference")} == loaded


def test_a_model_is_covered_by_the_manifest_alone(manifest: Path) -> None:
    code, text = run(str(manifest), "--model", str(demo_model()))
    assert code == 0
    assert "AbsentNpu takes 2 of 10 layers by its claims" in text
    assert "dovetail.Softmax is not taken; dovetail.Pooling2d and dovetail.Convolution2d are" in text
    code, text = run(str(manifest), "--model", str(demo_model()), "--fact", "lines=8", "--json")
    layers = {layer["name"]: layer for layer in json.loads(text)}
    assert code == 0
    assert layers["pool1"]["taken"]
    assert layers["pool2"]["taken"]
    assert [name for name, layer in layers.items() if layer["reason"].startswith("weights.height is 3; 1 is taken")]
    assert not any("device.lines" in layer["reason"] for layer in layers.values())


def test_what_a_device_says_decides() -> None:
    claims = read_claims({"dovetail.Softmax": [{"dtypes": ["float32"], "where": {"device.half_precision": True}}]})
    for facts, expected in (({"half_precision": True}, [True]), ({}, [False])):
        rows = coverage_of(claims, demo_model(), {}, facts).layers
        assert [row.taken for row in rows if row.kind == "dovetail.Softmax"] == expected


def test_element_types_are_named_by_their_groups() -> None:
    [claim] = read_claims({"a.B": [{"dtypes": ["float", "int8", "bool"]}]})["a.B"]
    assert dtypes_text(claim) == "float, int8, bool"
    [claim] = read_claims({"a.B": [{"dtypes": ["any"]}]})["a.B"]
    assert dtypes_text(claim) == "any"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({}, "claims nothing"),
        ({"claims": {"dovetail.Softmax": [{}]}}, "must be an object of 'dtypes'"),
        ({"claims": {"dovetail.Softmx": [{"dtypes": ["any"]}]}}, "did you mean dovetail.Softmax?"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, content: dict[str, object], words: str) -> None:
    facts = {"id": "Wrong", "abi": [0, 2], "device": "npu", "rank": 1, "description": "wrong", **content}
    path = tmp_path / "wrong.json"
    path.write_text(json.dumps(facts))
    assert words in run(str(path))[1]


def test_an_unknown_backend_is_named() -> None:
    code, text = run("CpuNowhere")
    assert code == 1
    assert "'CpuNowhere' is not installed" in text
    assert "did you mean CpuRef?" in run("CpuReff")[1]


@pytest.fixture
def promising(manifest: Path) -> Path:
    """A manifest that promises bits and declares a deviation."""
    facts = json.loads(manifest.read_text())
    entry = {"dtypes": ["float32"], "what": "NaN becomes 0", "why": "the unit has no NaN", "nonfinite": True}
    facts["bit_exact"] = {"dovetail.Convolution2d": [{"dtypes": ["float32"], "standard": "ieee"}]}
    facts["deviations"] = {"dovetail.Pooling2d": [{**entry, "where": {"function": "max"}, "link": "https://acme.example/7"}]}
    manifest.write_text(json.dumps(facts))
    return manifest


def test_promises_are_shown_with_the_claims(promising: Path) -> None:
    code, text = run(str(promising))
    assert code == 0
    assert "promised to the bit\n  dovetail.Convolution2d of float32: IEEE 754" in text
    assert "known deviations\n  dovetail.Pooling2d of float32; function: max: NaN becomes 0 (by anything where" in text
    data = json.loads(run(str(promising), "--json")[1])
    assert data["claims"]["dovetail.Pooling2d"][0]["dtypes"] == ["float64", "float32", "float16", "bfloat16"]
    assert data["deviations"][0]["link"] == "https://acme.example/7"
    assert data["bit_exact"] == [{"kind": "dovetail.Convolution2d", "dtypes": ["float32"], "where": [], "standard": "ieee"}]


def test_deviations_are_told_of_the_layers_of_a_model(promising: Path) -> None:
    text = run(str(promising), "--model", str(demo_model()))[1]
    assert "deviates pool1: NaN becomes 0 (by anything where NaN or an infinity is expected), because the unit" in text
    assert text.count("deviates ") == 2  # of no convolution, and of nothing that is not taken


def test_malformed_promises_are_refused(promising: Path) -> None:
    facts = json.loads(promising.read_text())
    facts["bit_exact"] = {"dovetail.Convolution2d": [{"dtypes": ["float32"], "standard": "mine"}]}
    promising.write_text(json.dumps(facts))
    code, text = run(str(promising))
    assert code == 1
    assert "'standard' in 'bit_exact' of dovetail.Convolution2d is 'mine'" in text
