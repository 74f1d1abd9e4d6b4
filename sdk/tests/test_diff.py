from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import Result
from onnx import numpy_helper

from dovetail import LoadedNetwork

Invoke = Callable[..., Result]
Saved = Callable[..., Path]

TEXT = """<ir_version: 8, opset_import: ["" : 18]> g (float[{size}] x) => (float[{size}] y)
    {{ [first] a = Mul(x, two)  [second] b = {second}  [third] c = Relu(b)  [fourth] y = Add(c, a) }}"""


@pytest.fixture
def saved(tmp_path: Path) -> Saved:
    """Return what writes a model of four layers; `second` is what the second of them computes."""

    def save(name: str, second: str = "Add(a, one)", size: object = 4, change: tuple[str, str] = ("", "")) -> Path:
        text = TEXT.format(second=second, size=size).replace(*change)
        model = onnx.parser.parse_model(text)
        constants = {"one": 1, "two": 2, "more": 1.25, "nothing": 0, "nan": math.nan}
        for constant, value in constants.items():
            model.graph.initializer.append(numpy_helper.from_array(np.float32(value), constant))
        path = tmp_path / f"{name}.onnx"
        onnx.save(model, path)
        return path

    return save


@pytest.fixture
def ones(tmp_path: Path) -> Path:
    np.save(tmp_path / "ones.npy", np.ones(4, np.float32))
    return tmp_path / "ones.npy"


def found_by(result: Result) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(result.stdout)
    return document


# -- what is found ---------------------------------------------------------------------------------


def test_identical_models(dovetail: Invoke, saved: Saved) -> None:
    result = dovetail("diff", saved("a"), saved("b"), "-b", "CpuRef", "--layers", "--tolerance", 0)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    for name in ("first", "second", "third", "fourth", "y"):
        (row,) = [line.split() for line in lines if line.split()[:1] == [name]]
        assert row == [name, "CpuRef", "CpuRef", "0", "0", "0", "exact", "1.000000"]
    assert lines[-2:] == ["no layer parts", "all outputs are within the tolerance"]


def test_a_planted_difference_is_found_at_its_layer(dovetail: Invoke, saved: Saved, ones: Path) -> None:
    """2 + 1 against 2 + 1.25: everything behind differs too, but is not where they part."""
    a, b = saved("a"), saved("b", "Add(a, more)")
    result = dovetail("diff", a, b, "-b", "CpuRef", "-i", ones, "--layers")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[-2:] == [
        "they part first at layer 'second' (ElementwiseBinary, CpuRef): max abs error 0.25, beyond 0.0001",
        "1 of 1 outputs beyond the tolerance",
    ]
    found = found_by(dovetail("diff", a, b, "-b", "CpuRef", "-i", ones, "--layers", "--json"))
    assert found["parts_at"] == "second"
    assert found["is_within"] is False
    layers = {row["name"]: row for row in found["layers"]}
    assert list(layers) == ["first", "second", "third", "fourth"]
    assert [row["is_within"] for row in layers.values()] == [True, False, False, False]
    second = layers["second"]
    assert second["backends"] == ["CpuRef", "CpuRef"]
    assert (second["max_abs"], second["mean_abs"], second["largest_magnitude"]) == (0.25, 0.25, 3.0)
    assert second["max_relative"] == pytest.approx(0.25 / 3)
    assert second["snr_db"] == pytest.approx(20 * math.log10(3 / 0.25))
    assert second["cosine"] == pytest.approx(1)
    (output,) = found["outputs"]
    assert (output["max_abs"], output["largest_magnitude"]) == (0.25, 5.0)


def test_one_model_on_two_backends(dovetail: Invoke, saved: Saved, tmp_path: Path) -> None:
    arguments = ("diff", saved("a"), "-b", "CpuRef", "--against", "CpuAcc,CpuRef", "--layers", "--runs", 3)
    result = dovetail(*arguments, "--json", tmp_path / "found.json")
    assert result.exit_code == 0, result.output
    assert "A: " in result.stdout
    found = json.loads((tmp_path / "found.json").read_text())
    assert (found["a"]["backends"], found["b"]["backends"]) == ("CpuRef", "CpuAcc")
    assert [row["backends"] for row in found["layers"]] == [["CpuRef", "CpuAcc"]] * 4
    assert found["runs"] == 3
    assert found["a"]["run_seconds"]["count"] == 3
    assert len({note for one in found["inputs"] for note in one.values()}) == 3  # a seed for each
    assert found["outputs"][0]["elements"] == 12


def test_runs_are_summed_up(dovetail: Invoke, saved: Saved) -> None:
    """The mean error of each run, as TensorFlow's inference_diff sums them up."""
    found = found_by(dovetail("diff", saved("a"), saved("b", "Mul(a, more)"), "-b", "CpuRef", "--runs", 4, "--json"))
    images = [np.random.default_rng(seed).standard_normal(4, np.float32).astype(np.float64) for seed in range(4)]
    errors = [np.abs(np.maximum(2 * x + 1, 0) - np.maximum(2.5 * x, 0)) for x in images]
    means = [error.mean() for error in errors]
    told = found["outputs"][0]["mean_abs_of_runs"]
    np.testing.assert_allclose(told["minimum"], min(means), rtol=1e-5)
    np.testing.assert_allclose(told["maximum"], max(means), rtol=1e-5)
    np.testing.assert_allclose(told["deviation"], np.std(means), rtol=1e-5)
    np.testing.assert_allclose(found["outputs"][0]["mean_abs"], np.mean(means), rtol=1e-5)
    np.testing.assert_allclose(found["outputs"][0]["max_abs"], np.max(errors), rtol=1e-5)


def test_tolerance_decides(dovetail: Invoke, saved: Saved, ones: Path) -> None:
    arguments = ("diff", saved("a"), saved("b", "Add(a, more)"), "-b", "CpuRef", "-i", ones)  # off by 0.25 of 5
    assert dovetail(*arguments, "--tolerance", 0.051).exit_code == 0
    assert dovetail(*arguments, "--tolerance", 0.049).exit_code == 1
    assert "not equal" in dovetail(*arguments, "--tolerance", 0).stdout


def test_what_is_not_finite_is_counted(dovetail: Invoke, saved: Saved, ones: Path) -> None:
    a = saved("a", "Div(a, nothing)")  # infinite
    b = saved("b", "Mul(a, nan)")
    found = found_by(dovetail("diff", a, b, "-b", "CpuRef", "-i", ones, "--layers", "--json"))
    (second,) = [row for row in found["layers"] if row["name"] == "second"]
    assert (second["infinite"], second["nan"], second["unlike"]) == ([4, 0], [0, 4], 4)
    assert second["is_within"] is False
    assert found["parts_at"] == "second"
    same = dovetail("diff", a, a, "-b", "CpuRef", "-i", ones)
    assert same.exit_code == 0, same.output
    assert "infinite: 4 in A, 4 in B" in same.stdout


def test_a_layer_of_another_name_is_looked_through(dovetail: Invoke, saved: Saved, ones: Path) -> None:
    b = saved("b", "Add(a, more)", change=("[second] b", "[other] b"))
    result = dovetail("diff", saved("a"), b, "-b", "CpuRef", "-i", ones, "--layers")
    assert result.exit_code == 1
    assert "layers that were not compared: 1 of A alone, 1 of B alone" in result.stdout
    assert "they part first at layer 'third'" in result.stdout  # the first that both have


def test_names_that_only_one_has(dovetail: Invoke, saved: Saved, adder: Path, tmp_path: Path) -> None:
    model = onnx.load(adder)
    del model.graph.output[1]
    del model.graph.node[1]
    onnx.save(model, tmp_path / "less.onnx")
    result = dovetail("diff", adder, tmp_path / "less.onnx", "-b", "CpuRef", "--layers")
    assert result.exit_code == 1
    assert "only A has the output negative" in result.stdout
    assert "layers that were not compared: 1 of A alone" in result.stdout
    assert result.stdout.splitlines()[-1] == "what could be compared is within the tolerance"
    assert found_by(dovetail("diff", tmp_path / "less.onnx", adder, "-b", "CpuRef", "--json"))["only_in_b"]["outputs"] == [
        "negative"
    ]


def test_inputs_and_outputs_of_other_names_go_by_position(dovetail: Invoke, saved: Saved) -> None:
    renamed = saved("b", change=(" x)", " other)"))
    model = onnx.load(renamed)
    model.graph.node[0].input[0] = "other"
    model.graph.node[3].output[0] = model.graph.output[0].name = "z"
    onnx.save(model, renamed)
    result = dovetail("diff", saved("a"), renamed, "-b", "CpuRef")
    assert result.exit_code == 0, result.output
    assert "y | z" in result.stdout


def test_shapes_of_outputs_that_differ(dovetail: Invoke, tmp_path: Path) -> None:
    paths = []
    for name, axis in (("a", 0), ("b", 1)):
        text = """<ir_version: 8, opset_import: ["" : 18]> g (float[2,3] x) => (float[N] y)
            { [sum] y = ReduceSum<keepdims=0>(x, axes) }"""
        model = onnx.parser.parse_model(text)
        model.graph.initializer.append(numpy_helper.from_array(np.array([axis]), "axes"))
        paths.append(tmp_path / f"{name}.onnx")
        onnx.save(model, paths[-1])
    result = dovetail("diff", *paths, "-b", "CpuRef", "--layers")
    assert result.exit_code == 1
    assert "shapes [3] and [2]" in result.stdout
    assert "layers that were not compared: 1 of other shapes" in result.stdout
    found = found_by(dovetail("diff", *paths, "-b", "CpuRef", "--layers", "--json"))
    assert [row["shapes"] for row in found["outputs"] + found["other_shapes"]] == [[[3], [2]]] * 2


# -- what is given ---------------------------------------------------------------------------------


def test_inputs_that_do_not_fit_are_refused(dovetail: Invoke, saved: Saved, adder: Path) -> None:
    shapes = dovetail("diff", saved("a"), saved("b", size=5), "-b", "CpuRef")
    assert shapes.exit_code == 2
    assert "input 'x' is float32[4] in A, but float32[5] in B" in shapes.stderr
    count = dovetail("diff", saved("a"), adder, "-b", "CpuRef")
    assert count.exit_code == 2
    assert "the inputs of A are x, those of B a, b: these cannot be fed alike" in count.stderr


def test_channels_are_moved_where_that_makes_inputs_fit(dovetail: Invoke, tmp_path: Path) -> None:
    """As between a model of TensorFlow and the same in ONNX."""
    for name, shape, axes in (("a", "1,2,5,3", [1, 2]), ("b", "1,3,2,5", [2, 3])):
        text = f"""<ir_version: 8, opset_import: ["" : 18]> g (float[{shape}] x) => (float[1,3] y)
            {{ [sum] y = ReduceSum<keepdims=0>(x, axes) }}"""
        model = onnx.parser.parse_model(text)
        model.graph.initializer.append(numpy_helper.from_array(np.array(axes), "axes"))
        onnx.save(model, tmp_path / f"{name}.onnx")
    for pair in ("ab", "ba"):
        result = dovetail("diff", *(tmp_path / f"{name}.onnx" for name in pair), "-b", "CpuRef", "--runs", 2)
        assert result.exit_code == 0, result.output
        assert result.stderr.count("its channels are moved for B") == 1


def test_a_second_model_or_backends_are_needed(dovetail: Invoke, saved: Saved) -> None:
    result = dovetail("diff", saved("a"), "-b", "CpuRef")
    assert result.exit_code == 2
    assert "--against" in result.stderr


@pytest.mark.parametrize(
    ("a", "b", "idle", "told"),
    [
        ("CpuRef", "Fussy,CpuRef", [None, "Fussy"], "but Fussy, the first choice for B, ran no layer (see `dovetail explain`)"),
        ("Fussy,CpuRef", "CpuRef", ["Fussy", None], "but Fussy, the first choice for A, ran no layer"),
        ("Fussy,CpuRef", "Fussy:0,CpuRef", ["Fussy", "Fussy"], "but Fussy, the first choice for A and B, ran no layer"),
        ("CpuRef", "Fussy?,CpuRef", [None, "Fussy"], "but Fussy, the first choice for B, ran no layer"),
        ("CpuRef", "CpuAcc,Fussy,CpuRef", [None, None], ""),
        ("CpuRef", "Absent?,CpuRef", [None, "Absent"], "but Absent, the first choice for B, ran no layer (it is absent)"),
    ],
)
def test_a_backend_that_runs_nothing_is_not_compared(
    dovetail: Invoke, fussy: str, tmp_path: Path, a: str, b: str, idle: list[str | None], told: str
) -> None:
    """It only adds, and there is no addition: all of it runs elsewhere."""
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 18]> g (float[4] x) => (float[4] y) { a = Mul(x, x)  y = Relu(a) }"""
    )
    onnx.save(model, tmp_path / "model.onnx")
    arguments = ("diff", tmp_path / "model.onnx", "-b", a, "--against", b)
    result = dovetail(*arguments)
    assert result.exit_code == (told != "" and "it is absent" not in told), result.output
    lines = result.stdout.splitlines()
    assert "all outputs are within the tolerance" in lines
    if told:
        assert lines[-1].startswith(told)
        assert lines[-1].endswith(f": this shows nothing about {told.split()[1].rstrip(',')}")
    found = found_by(dovetail(*arguments, "--json"))
    assert [found["a"]["idle"], found["b"]["idle"]] == idle
    assert found["is_within"]


def test_a_backend_that_runs_some_of_it_is_compared(dovetail: Invoke, fussy: str, saved: Saved) -> None:
    result = dovetail("diff", saved("a", "Mul(a, one)"), "-b", "CpuRef", "--against", f"{fussy},CpuRef")
    assert result.exit_code == 0, result.output
    assert "this shows nothing" not in result.stdout


def test_what_moves_no_element_has_no_step_and_yet_a_home(dovetail: Invoke, tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["" : 18]> g (float[4] x) => (float[1,4] y)
        { s = Constant<value_ints=[1,4]>()  y = Reshape(x, s) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "model.onnx")
    result = dovetail("diff", tmp_path / "model.onnx", "-b", "CpuRef", "--against", "CpuAcc,CpuRef")
    assert result.exit_code == 0, result.output


def test_several_runs_need_random_inputs(dovetail: Invoke, saved: Saved, ones: Path) -> None:
    result = dovetail("diff", saved("a"), saved("b"), "-i", ones, "--runs", 2)
    assert result.exit_code == 2
    assert "no input is random" in result.stderr


def test_a_model_that_is_refused(dovetail: Invoke, saved: Saved, tmp_path: Path) -> None:
    (tmp_path / "broken.onnx").write_bytes(b"no model")
    for arguments in ((saved("a"), tmp_path / "broken.onnx"), (tmp_path / "broken.onnx", saved("a"))):
        result = dovetail("diff", *arguments, "-b", "CpuRef")
        assert result.exit_code == 1
        assert "broken.onnx" in result.stderr
        assert result.stdout == ""
    assert dovetail("diff", saved("a"), tmp_path / "absent.onnx").exit_code == 1


def test_sizes_and_options_go_to_those_that_know_them(dovetail: Invoke, saved: Saved) -> None:
    a, b = saved("a", size="N"), saved("b", size="M")
    result = dovetail("diff", a, b, "-b", "CpuRef", "--shape", "N=4", "--shape", "M=4", "--json")
    assert result.exit_code == 0, result.output
    assert found_by(result)["outputs"][0]["elements"] == 4
    unknown = dovetail("diff", a, b, "-b", "CpuRef", "--shape", "K=4")
    assert unknown.exit_code == 2
    assert "--shape K=" in unknown.stderr
    scalar = dovetail("diff", a, "-b", "CpuRef", "--against", "CpuAcc,CpuRef", "--option", "CpuAcc.isa=scalar")
    assert scalar.exit_code == 0, scalar.output
    wrong = dovetail("diff", a, "-b", "CpuRef", "--against", "CpuAcc,CpuRef", "--option", "CpuAccc.isa=scalar")
    assert wrong.exit_code == 1


def test_ctrl_c_ends_it(dovetail: Invoke, saved: Saved, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(self: Any, feeds: Any, **others: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(LoadedNetwork, "run", interrupt)
    result = dovetail("diff", saved("a"), saved("b"), "-b", "CpuRef")
    assert result.exit_code == 130
    assert result.stderr.splitlines()[-1] == "interrupted"


def test_layers_whose_channels_are_elsewhere(dovetail: Invoke, tmp_path: Path) -> None:
    """A network with its channels last, and the same with them first between two permutations."""
    texts = {
        "last": "m = Relu(x)  y = Mul(m, two)",
        "first": "p = Transpose <perm = [0,3,1,2]> (x)  m = Relu(p)  q = Mul(m, two)  y = Transpose <perm = [0,2,3,1]> (q)",
    }
    for name, text in texts.items():
        graph = f'<ir_version: 8, opset_import: ["" : 18]> g (float[1,2,3,4] x) => (float[1,2,3,4] y) {{ {text} }}'
        model = onnx.parser.parse_model(graph)
        model.graph.initializer.append(numpy_helper.from_array(np.float32(2), "two"))
        onnx.save(model, tmp_path / f"{name}.onnx")
    found = found_by(dovetail("diff", tmp_path / "last.onnx", tmp_path / "first.onnx", "-b", "CpuRef", "--layers", "--json"))
    assert {row["name"]: row["max_abs"] for row in found["layers"]} == {"m": 0}
    assert found["other_shapes"] == []
