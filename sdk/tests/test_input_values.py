"""`--value`: what branches and shapes depend on, of commands that run nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import Result

from dovetail import ErrorCode, GraphError, Network, load
from dovetail_sdk.command_hints import hint_for
from dovetail_sdk.options import values_for

Invoke = Callable[..., Result]

BRANCHES = """<ir_version: 8, opset_import: ["" : 18]> g (bool rectified, float[4] x) => (float[4] y)
    { y = If (rectified) <then_branch = t () => (float[4] a) { a = Relu(x) },
                          else_branch = e () => (float[4] b) { b = Neg(x) }> }"""
SIZES = """<ir_version: 8, opset_import: ["" : 18]> g (int64[2] sizes, float[2,6] x) => (float[rows,columns] y)
    { y = Reshape(x, sizes) }"""


def saved(text: str, path: Path) -> Path:
    onnx.save(onnx.parser.parse_model(text), path)
    return path


@pytest.fixture
def branches(tmp_path: Path) -> Path:
    return saved(BRANCHES, tmp_path / "branches.onnx")


@pytest.fixture
def sizes(tmp_path: Path) -> Path:
    return saved(SIZES, tmp_path / "sizes.onnx")


@pytest.mark.parametrize("command", [("explain", "-b", "CpuRef"), ("claims", "CpuRef", "--model")])
def test_a_value_that_is_missing_is_asked_for_in_words_of_the_command(
    dovetail: Invoke, branches: Path, command: tuple[str, ...]
) -> None:
    words = (command[0], branches, *command[1:]) if command[0] == "explain" else (*command, branches)
    result = dovetail(*words)
    assert result.exit_code == 1
    assert "[VALUE_REQUIRED]" in result.stderr
    assert "-> give its value: --value rectified=VALUE, where VALUE is such as true" in result.stderr
    assert "optimize(" not in result.stderr
    assert dovetail(*words, "--value", "rectified=true").exit_code == 0


def test_a_command_without_the_option_does_not_name_it() -> None:
    error = GraphError("a branch", code=ErrorCode.VALUE_REQUIRED, inputs=["rectified"])
    assert hint_for(error, ["--shape"]) == "this command gives inputs no values: make 'rectified' a constant of the model"
    assert str(hint_for(error, ["--value"])).startswith("give its value: --value rectified=VALUE")


def test_quantizing_asks_for_a_value(dovetail: Invoke, branches: Path, tmp_path: Path) -> None:
    """The flags are one a sample: arrays of no axes."""
    np.savez(tmp_path / "samples.npz", rectified=np.array([True, False]), x=np.zeros((2, 4), np.float32))
    given = ["quantize", branches, "--calibration", tmp_path / "samples.npz", "-o", tmp_path / "q.onnx"]
    result = dovetail(*given)
    assert result.exit_code == 1
    assert "-> give its value: --value rectified=VALUE" in result.stderr
    result = dovetail(*given, "--value", "rectified=maybe")
    assert result.exit_code == 2
    assert "--value rectified=maybe" in result.stderr


@pytest.mark.parametrize("is_first", [True, False])
def test_quantizing_the_branch_that_a_value_takes(dovetail: Invoke, tmp_path: Path, *, is_first: bool) -> None:
    random = np.random.default_rng(3)
    weights = [random.standard_normal((5, 3)).astype(np.float32) for _ in range(2)]
    text = """<ir_version: 8, opset_import: ["" : 18]> g (float[1,5] x, bool first) => (float[1,3] y) {
        y = If (first) <
            then_branch = one () => (float[1,3] a) { a = MatMul(x, w0) },
            else_branch = two () => (float[1,3] b) { b = MatMul(x, w1) }
        >
    }"""
    model = onnx.parser.parse_model(text)
    model.graph.initializer.extend(onnx.numpy_helper.from_array(one, f"w{at}") for at, one in enumerate(weights))
    onnx.save(model, tmp_path / "model.onnx")
    x = random.standard_normal((64, 5)).astype(np.float32)
    np.savez(tmp_path / "samples.npz", x=x)
    made = tmp_path / "made.onnx"
    given = ["--calibration", tmp_path / "samples.npz", "-o", made, "-b", "CpuRef", "--value", f"first={str(is_first).lower()}"]
    result = dovetail("quantize", tmp_path / "model.onnx", *given)
    assert result.exit_code == 0, result.output
    assert "1 layer quantized" in result.stdout
    with load(made, "CpuRef") as net:
        assert [spec.name for spec in net.inputs] == ["x"]
        found = np.concatenate([net.run({"x": row[np.newaxis]})["y"] for row in x])
    wanted = x @ weights[not is_first]
    assert np.abs(found - wanted).max() < 0.05 * np.abs(wanted).max()


@pytest.mark.parametrize(("value", "layer"), [("true", "then_branch"), ("false", "else_branch"), ("FILE", "then_branch")])
def test_the_branch_that_a_value_takes(dovetail: Invoke, branches: Path, tmp_path: Path, value: str, layer: str) -> None:
    np.save(tmp_path / "true.npy", np.array(True))
    text = str(tmp_path / "true.npy") if value == "FILE" else value
    page = tmp_path / "page.html"
    arguments = ("explain", branches, "-b", "CpuRef", "--json", "--html", page, "--value", f"rectified={text}")
    result = dovetail(*arguments)
    assert result.exit_code == 0, result.output
    (row,) = json.loads(result.stdout)["layers"]
    assert layer in row["name"]
    assert page.is_file()


@pytest.mark.parametrize("text", ["3,4", "[3, 4]", "FILE", "3.0,4"])
def test_sizes_that_a_value_decides(dovetail: Invoke, sizes: Path, tmp_path: Path, text: str) -> None:
    np.save(tmp_path / "sizes.npy", np.array([3, 4], np.int32))
    result = dovetail(
        "explain", sizes, "-b", "CpuRef", "--value", f"sizes={tmp_path / 'sizes.npy' if text == 'FILE' else text}"
    )
    assert result.exit_code == 0, result.output
    assert "float32[3, 4]" in result.stdout


def test_tuning_takes_values(dovetail: Invoke, sizes: Path) -> None:
    without = dovetail("tune", sizes, "-b", "CpuRef")
    assert without.exit_code == 1
    assert "-> fix the open sizes: --shape NAME=SIZE, or what decides them: --value INPUT=VALUE" in without.stderr
    result = dovetail("tune", sizes, "-b", "CpuRef", "--value", "sizes=3,4")
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("other=1", "--value other=...: there is no such input; the inputs are 'sizes', 'x'"),
        ("sizes", "'sizes' is no value; write NAME=VALUE"),
        ("sizes=", "'sizes=' is no value"),
        ("sizes=large", "--value sizes=large: it is neither a number, true, false, numbers with commas, nor a .npy file"),
        ("sizes=[[1],[2,3]]", "it is neither a number"),
        ("sizes=1.5,8", "input 'sizes' is int64, and this is no value of that type"),
        ("sizes=NaN,8", "input 'sizes' is int64, and this is no value of that type"),
        ("sizes=1e300,8", "input 'sizes' is int64, and this is no value of that type"),
        ("sizes=true,false", "input 'sizes' is int64, and this is no value of that type"),
        ("sizes=absent.npy", "there is no such file"),
    ],
)
def test_what_is_no_value(dovetail: Invoke, sizes: Path, given: str, found: str) -> None:
    result = dovetail("explain", sizes, "-b", "CpuRef", "--value", given)
    assert result.exit_code == 2
    assert found in result.stderr


def test_values_have_the_types_of_their_inputs() -> None:
    network = Network("test")
    x, flag, count = network.input("x", (2,)), network.input("a=b", (), "bool"), network.input("n", (1,), "uint8")
    network.output(network.relu(x), "y")
    values = values_for(network, {"x": "1,-2.5", "a=b": "false", "n": "[255]"})
    assert values is not None
    assert {name: (array.tolist(), array.dtype) for name, array in values.items()} == {
        "x": ([1.0, -2.5], np.float32),
        "a=b": (False, np.bool_),
        "n": ([255], np.uint8),
    }
    assert values_for(network, {}) is None
    assert (flag.shape, count.shape) == ((), (1,))
