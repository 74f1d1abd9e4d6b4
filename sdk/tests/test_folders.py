"""`dovetail run` on many files, one after the other."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
import onnx
import pytest
from click.testing import Result
from PIL import Image
from rich.cells import cell_len

from dovetail import DType, Network
from dovetail_onnx import export_network
from dovetail_sdk import rendering
from dovetail_sdk.answers import Answer, Answers
from dovetail_sdk.feeding import InputSpec
from dovetail_sdk.file_lines import Lines
from dovetail_sdk.folders import ManyFiles, find_many
from dovetail_sdk.many_runs import Outcome, Stack
from dovetail_sdk.pictures import UnreadableFile

Invoke = Callable[..., Result]
A, B = InputSpec("a", (1, 3, 8, 8), DType.FLOAT32), InputSpec("b", (2,), DType.INT64)
COLORS = {"blue.png": (0, 0, 255), "green.bmp": (0, 255, 0), "red.jpg": (255, 0, 0)}


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Three pictures of one color, and files that are none of their business."""
    folder = tmp_path / "photos"
    (folder / "below").mkdir(parents=True)
    for name, color in COLORS.items():
        Image.new("RGB", (9, 7), color).save(folder / name)
    Image.new("RGB", (8, 8), (255, 255, 255)).save(folder / "below" / "white.png")
    (folder / "notes.txt").write_text("no picture")
    (folder / ".hidden.png").write_bytes(b"")
    return folder


def sources(many: ManyFiles | None) -> tuple[str | None, list[str], list[str]]:
    assert many is not None
    return many.input, [path.name for path in many.files], list(many.others)


def test_a_folder_a_pattern_and_several_files(photos: Path) -> None:
    all_of_it = sorted(COLORS)
    assert sources(find_many([A], [str(photos)])) == (None, all_of_it, [])
    assert sources(find_many([A], [f"a={photos}"])) == ("a", all_of_it, [])
    assert sources(find_many([A], [f"{photos}/*.*g"])) == (None, ["blue.png", "red.jpg"], [])
    assert sources(find_many([A], [f"{photos}/**/*.png"])) == (None, ["white.png", "blue.png"], [])
    named = [str(photos / name) for name in ("red.jpg", "blue.png")]
    assert sources(find_many([A], named)) == (None, ["red.jpg", "blue.png"], [])
    assert sources(find_many([A], [*named, str(photos)])) == (None, ["red.jpg", "blue.png", *all_of_it], [])


def test_one_of_several_inputs(photos: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "b.npy", np.zeros(2, np.int64))
    array = f"b={tmp_path / 'b.npy'}"
    assert sources(find_many([A, B], [f"a={photos}", array])) == ("a", sorted(COLORS), [array])
    assert sources(find_many([A, B], [str(photos), array])) == ("a", sorted(COLORS), [array])
    assert sources(find_many([A, B], [f"a={photos}", "random"])) == ("a", sorted(COLORS), ["random"])
    many = find_many([A, B], [f"a={photos}", array])
    assert many is not None
    assert many.texts(many.files[0]) == [array, f"a={many.files[0]}"]


def test_a_single_source_is_not_many(photos: Path) -> None:
    picture = str(photos / "red.jpg")
    for texts in ([picture], ["random"], [f"a={picture}"], [], [picture, "random"]):
        assert find_many([A], texts) is None
    assert find_many([A, B], [f"a={picture}", "b=random"]) is None


def test_a_file_whose_name_looks_like_a_pattern(tmp_path: Path) -> None:
    path = tmp_path / "photo[1].png"
    Image.new("RGB", (8, 8)).save(path)
    assert find_many([A], [str(path)]) is None
    assert find_many([A], [f"a={path}"]) is None
    assert sources(find_many([A], [str(tmp_path)])) == (None, ["photo[1].png"], [])


def test_what_is_no_source_of_many(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for specs, texts, found in (
        ([A], [str(tmp_path / "empty")], "has no pictures, sounds, .npy or .npz in it; for those in folders below it"),
        ([A], [f"{photos}/*.tif"], r"no pictures, sounds, .npy or .npz match .*\*.tif"),
        ([A, B], [str(photos)], "which input are the files for.*still open: 'a', 'b'"),
        ([A, B], [f"a={photos}", f"b={photos}"], "several inputs are given many files: 'a', 'b'"),
        ([A], [f"c={photos}"], "there is no input 'c'"),
        ([A], [str(tmp_path / "absent.png"), str(photos)], "absent.png' does not exist"),
    ):
        with pytest.raises(click.UsageError, match=found):
            find_many(specs, texts)


def test_a_line_for_each_picture_and_a_summary(dovetail: Invoke, classifier: Path, photos: Path) -> None:
    result = dovetail("run", classifier, "-b", "CpuRef", "-i", photos)
    assert result.exit_code == 0, result.output
    lines = [line.split() for line in result.stdout.splitlines()]
    assert lines[:4] == [
        ["file", "logit", "class"],
        ["blue.png", "1", "class", "2"],
        ["green.bmp", "1", "class", "1"],
        ["red.jpg", "0.9961", "class", "0"],
    ]
    assert lines[4][:5] == ["3", "of", "3", "files", "in"]
    assert "a second" in result.stdout


def test_more_classes_take_more_lines(dovetail: Invoke, classifier: Path, photos: Path, tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("red\ngreen\nblue\nlow\nquarter\n")
    result = dovetail("run", classifier, "-b", "CpuRef", "-i", photos, "--top", 2, "--labels", tmp_path / "names.txt")
    lines = [line.split() for line in result.stdout.splitlines()]
    assert lines[1:3] == [["blue.png", "1", "blue"], ["0.25", "quarter"]]
    nothing = dovetail("run", classifier, "-b", "CpuRef", "-i", photos, "--top", 0)
    assert [line.split()[0] for line in nothing.stdout.splitlines()[:3]] == sorted(COLORS)
    assert "class" not in nothing.stdout


def test_a_picture_that_cannot_be_read_is_named_and_does_not_end_the_run(
    dovetail: Invoke, classifier: Path, photos: Path, tmp_path: Path
) -> None:
    (photos / "damaged.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(40))
    np.save(photos / "shape.npy", np.zeros((1, 3, 5, 5), np.float32))
    output = tmp_path / "scores.npz"
    result = dovetail("run", classifier, "-b", "CpuRef", "-i", photos, "-o", output)
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[2].startswith("damaged.png  failed: ")
    assert str(photos) not in lines[2]
    assert lines[5].startswith("shape.npy")
    assert "failed: " in lines[5]
    assert lines[6].startswith("3 of 5 files in ")
    assert lines[7] == f"2 failed: {photos / 'damaged.png'}, {photos / 'shape.npy'}"
    with np.load(output) as written:
        assert [Path(name).name for name in written["files"]] == sorted(COLORS)
        np.testing.assert_allclose(written["scores"][:, :3], np.eye(3)[[2, 1, 0]], atol=0.01)


def test_all_fail(dovetail: Invoke, classifier: Path, tmp_path: Path) -> None:
    folder = tmp_path / "broken"
    folder.mkdir()
    for name in ("a.png", "b.npy", "c.npz", "d.wav"):
        (folder / name).write_bytes(b"nonsense")
    output = tmp_path / "scores.npz"
    result = dovetail("run", classifier, "-b", "CpuRef", "-i", folder, "-o", output)
    assert (result.exit_code, output.exists()) == (1, False)
    assert "0 of 4 files" in result.stdout
    assert "takes no sound" in result.stdout


def test_what_would_fail_for_every_picture_ends_the_run(dovetail: Invoke, classifier: Path, photos: Path) -> None:
    result = dovetail("run", classifier, "-b", "CpuRef", "-i", photos, "--mean", "1,2")
    assert result.exit_code == 2
    assert "--mean has 2 numbers for 3 channels" in result.stderr


def test_files_that_a_shell_lists(dovetail: Invoke, classifier: Path, photos: Path) -> None:
    files = [photos / name for name in sorted(COLORS)]
    for words in (
        ["-i", *files],
        ["--input", *files, "--top", "1"],
        [f"--input=picture={files[0]}", "-i", f"picture={files[1]}"],
    ):
        result = dovetail("run", "-b", "CpuRef", *words, classifier)
        assert result.exit_code == 0, result.output
        count = sum(isinstance(word, Path) or "png" in word or "bmp" in word for word in words)
        assert f"{count} of {count} files" in result.stdout
    one = dovetail("run", "-i", files[0], classifier, "-b", "CpuRef")
    assert one.exit_code == 0, one.output
    assert "picture <- " in one.stdout


def test_json_of_many(dovetail: Invoke, classifier: Path, photos: Path) -> None:
    (photos / "damaged.png").write_bytes(b"")
    result = dovetail("run", classifier, "-b", "CpuRef", "-i", photos, "--json")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert [Path(one["file"]).name for one in document["files"]] == ["blue.png", "damaged.png", "green.bmp", "red.jpg"]
    assert document["failed"] == 1
    assert document["files_per_second"] > 0
    assert "not a picture" in document["files"][1]["error"]
    assert document["files"][0]["outputs"] == [
        {"name": "scores", "scores": "logit", "classes": [[{"class": 2, "label": None, "score": 1.0}]]}
    ]


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("wrong", ["type", "shape", "pickle", "empty", "cut", "far", "complex"])
def test_a_wrong_array_is_counted_wherever_it_stands(dovetail: Invoke, tmp_path: Path, wrong: str, is_first: bool) -> None:
    network = Network("indices")
    network.output(network.addition(network.input("x", (3,), "int32"), np.int32([1, 1, 1])), "y")
    model = tmp_path / "model.onnx"
    model.write_bytes(export_network(lambda sizes: network).SerializeToString())
    folder = tmp_path / "arrays"
    folder.mkdir()
    for number in range(1, 4):
        np.save(folder / f"{number}.npy", np.int32([number, 2, 3]))
    path = folder / ("0.npy" if is_first else "2.npy")
    arrays = {
        "type": np.zeros(3, np.float32),
        "shape": np.zeros(4, np.int32),
        "far": np.array([1 << 40, 0, 0]),
        "complex": np.zeros(3, np.complex64),
    }
    if wrong in arrays:
        np.save(path, arrays[wrong])
    elif wrong == "pickle":
        np.save(path, np.array([{}, 1, 2], object), allow_pickle=True)
    else:
        path.write_bytes(b"" if wrong == "empty" else (folder / "1.npy").read_bytes()[:-4])
    result = dovetail("run", model, "-b", "CpuRef", "-i", folder, "--json")
    assert result.exit_code == 1
    found = {Path(one["file"]).name: "error" in one for one in json.loads(result.stdout)["files"]}
    assert found == {name: name == path.name for name in sorted({"1.npy", "2.npy", "3.npy", path.name})}


def test_an_archive_that_lacks_an_input_is_counted_too(dovetail: Invoke, adder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "arrays"
    folder.mkdir()
    a = np.ones((2, 3), np.float32)
    for name, arrays in (("0", {"a": a}), ("1", {"a": a, "b": a}), ("2", {"c": a, "d": a}), ("3", {"b": a, "a": a})):
        np.savez(folder / f"{name}.npz", **arrays)
    result = dovetail("run", adder, "-b", "CpuRef", "-i", folder)
    assert result.exit_code == 1, result.output
    assert result.stdout.splitlines()[-1] == f"2 failed: {folder / '0.npz'}, {folder / '2.npz'}"
    assert "0.npz  failed: does not have all inputs: 1 input is not given: 'b' float32[2, 3]" in result.stdout


@pytest.mark.parametrize(
    ("options", "code", "found"),
    [
        (["-i", "c=FOLDER"], 2, "there is no input 'c'"),
        (["-i", "a=FOLDER"], 2, "1 input is not given: 'b' float32[2, 3]"),
        (["-i", "a=FOLDER", "-i", "b=absent.npy"], 2, "absent.npy' does not exist"),
        (["-i", "a=FOLDER", "-i", "b=text.npy"], 2, "text.npy cannot be read as arrays"),
        (["-i", "a=FOLDER", "-i", "b=shape.npy"], 1, "input 'b' has shape [3, 3], expected [2, 3]"),
        (["-i", "a=FOLDER", "-i", "b=type.npy"], 1, "input 'b' is complex64, expected float32"),
    ],
)
def test_what_fits_no_file_ends_the_run_at_once(
    dovetail: Invoke, adder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], code: int, found: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("arrays").mkdir()
    for number in range(3):
        np.save(f"arrays/{number}.npy", np.ones((2, 3), np.float32))
    np.savez("arrays/one.npz", a=np.ones((2, 3), np.float32))
    Path("text.npy").write_text("no array")
    np.save("shape.npy", np.ones((3, 3), np.float32))
    np.save("type.npy", np.ones((2, 3), np.complex64))
    result = dovetail("run", adder, "-b", "CpuRef", *(word.replace("FOLDER", "arrays") for word in options))
    assert (result.exit_code, result.stdout) == (code, "")
    assert found in result.stderr


def test_links_that_lead_nowhere_are_named(dovetail: Invoke, classifier: Path, photos: Path) -> None:
    (photos / "gone.png").symlink_to("nowhere.png")
    (photos / "loop.png").symlink_to("loop.png")
    (photos / "good.png").symlink_to("red.jpg")
    (photos / "folder.png").mkdir()
    for words in ([photos], [f"{photos}/*.*g"], [photos / "gone.png", photos / "loop.png", photos / "red.jpg"]):
        result = dovetail("run", "-b", "CpuRef", "-i", *words, "--top", 1, classifier)
        assert result.exit_code == 1, result.output
        assert re.search(r"gone.png +failed: is a link to 'nowhere.png', which does not exist\n", result.stdout)
        assert re.search(r"loop.png +failed: is a link to 'loop.png', which does not exist\n", result.stdout)
        assert "2 failed: " in result.stdout
        assert "folder.png" not in result.stdout
    alone = dovetail("run", classifier, "-b", "CpuRef", "-i", photos / "gone.png")
    assert alone.exit_code == 2
    assert "gone.png is a link to 'nowhere.png', which does not exist" in alone.stderr


@pytest.fixture
def logarithm(tmp_path: Path) -> Path:
    """A network that gives NaN for what is negative."""
    path = tmp_path / "logarithm.onnx"
    text = """<ir_version: 8, opset_import: ["" : 18]> g (float[4] x) => (float[1,4] y) {
        logarithms = Log(x)
        y = Flatten <axis = 0> (logarithms)
    }"""
    onnx.save(onnx.parser.parse_model(text), path)
    return path


def test_nan_is_told_and_counted(dovetail: Invoke, logarithm: Path, tmp_path: Path) -> None:
    folder = tmp_path / "arrays"
    folder.mkdir()
    for name, row in (("all", [-1, -1, -1, -1]), ("none", [1, 2, 3, 4]), ("one", [1, -1, 8, 1]), ("zero", [0, 1, 2, 3])):
        np.save(folder / f"{name}.npy", np.float32(row))
    result = dovetail("run", logarithm, "-b", "CpuRef", "-i", folder)
    assert result.exit_code == 0, result.output
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert lines[1:7] == [
        "all.npy nan no class",
        "output 'y': 4 of 4 elements are NaN",
        "none.npy 1.386 class 3",
        "one.npy 2.079 class 2",
        "output 'y': 1 of 4 elements is NaN",
        "zero.npy 1.099 class 3",
    ]
    assert lines[-1] == f"2 gave NaN: {folder / 'all.npy'}, {folder / 'one.npy'}"
    document = json.loads(dovetail("run", logarithm, "-b", "CpuRef", "-i", folder, "--json").stdout)
    assert (document["nan"], document["failed"]) == (2, 0)
    assert [one["nan"] for one in document["files"]] == [{"y": 4}, {}, {"y": 1}, {}]


def test_options_of_a_single_input(dovetail: Invoke, classifier: Path, photos: Path) -> None:
    result = dovetail("run", classifier, "-b", "CpuRef", "-i", photos, "--guarded")
    assert result.exit_code == 2
    assert "--guarded takes one input, but there are 3 files" in result.stderr


def test_what_was_written_can_be_expected(dovetail: Invoke, classifier: Path, photos: Path, tmp_path: Path) -> None:
    output = tmp_path / "scores.npz"
    assert dovetail("run", classifier, "-b", "CpuRef", "-i", photos, "-o", output).exit_code == 0
    same = dovetail("run", classifier, "-b", "CpuRef", "-i", photos, "--expect", output, "--tolerance", 0)
    assert same.exit_code == 0, same.output
    Image.new("RGB", (9, 7), (0, 0, 200)).save(photos / "blue.png")
    other = dovetail("run", classifier, "-b", "CpuRef", "-i", photos, "--expect", output)
    assert other.exit_code == 1
    assert "element [0, 2] is 0.784314, expected 1" in other.stdout


def test_outputs_are_compared_by_the_names_of_files(dovetail: Invoke, classifier: Path, photos: Path, tmp_path: Path) -> None:
    golden = tmp_path / "golden.npz"
    files = [photos / name for name in ("red.jpg", "green.bmp", "blue.png")]
    arguments = ("run", "-b", "CpuRef", "--expect", golden, "--tolerance", 0, classifier)
    assert dovetail("run", "-b", "CpuRef", "-o", golden, "-i", *files, "--top", 1, classifier).exit_code == 0
    in_order = dovetail(*arguments, "-i", photos)
    assert in_order.exit_code == 0, in_order.output
    moved = photos.rename(tmp_path / "moved")
    assert dovetail(*arguments, "-i", moved).exit_code == 0
    (moved / "green.bmp").rename(moved / "lime.bmp")
    shutil.copy(moved / "red.jpg", moved / "blue.png")
    result = dovetail(*arguments, "-i", moved, "--json", tmp_path / "found.json")
    assert result.exit_code == 1
    assert f"1 file of {golden} did not run: {photos / 'green.bmp'}" in result.stdout
    assert f"1 file not in {golden}: {moved / 'lime.bmp'}" in result.stdout
    assert f"elements are too far; it is of {moved / 'blue.png'}" in result.stdout
    found = json.loads((tmp_path / "found.json").read_text())["expected"]
    assert (found["is_within"], found["failure"]) == (False, None)
    assert (found["not_run"], found["not_expected"]) == ([str(photos / "green.bmp")], [str(moved / "lime.bmp")])
    assert found["outputs"][0]["worst_file"] == str(moved / "blue.png")


def test_a_file_that_fails_leaves_the_others_comparable(
    dovetail: Invoke, classifier: Path, photos: Path, tmp_path: Path
) -> None:
    golden = tmp_path / "golden.npz"
    assert dovetail("run", classifier, "-b", "CpuRef", "-i", photos, "-o", golden).exit_code == 0
    (photos / "blue.png").write_bytes(b"")
    result = dovetail("run", classifier, "-b", "CpuRef", "-i", photos, "--expect", golden)
    assert result.exit_code == 1
    assert result.stdout.splitlines()[-2:] == [
        f"1 file of {golden} did not run: {photos / 'blue.png'}",
        f"the outputs that were compared are as in {golden}, within the tolerance",
    ]


@pytest.mark.parametrize("is_archive", [True, False])
def test_json_has_why_outputs_cannot_be_compared(
    dovetail: Invoke, classifier: Path, photos: Path, tmp_path: Path, is_archive: bool
) -> None:
    golden = tmp_path / ("golden.npz" if is_archive else "golden.npy")
    scores = np.zeros((2, 5), np.float32)
    if is_archive:
        np.savez(golden, scores=scores)
    else:
        np.save(golden, scores)
    why = f"output 'scores' has the shape [3, 5], but {golden} has [2, 5] for it"
    result = dovetail("run", classifier, "-b", "CpuRef", "-i", photos, "--expect", golden, "--json")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert len(document["files"]) == 3
    assert (document["expected"]["is_within"], document["expected"]["failure"]) == (False, why)
    one = dovetail("run", classifier, "-b", "CpuRef", "-i", photos / "red.jpg", "--expect", golden, "--json")
    assert one.exit_code == 1
    assert "has the shape [1, 5]" in json.loads(one.stdout)["expected"]["failure"]
    assert dovetail("run", classifier, "-b", "CpuRef", "-i", photos, "--expect", golden).stdout.splitlines()[-1] == why
    for name in COLORS:
        (photos / name).write_bytes(b"")
    none = dovetail("run", classifier, "-b", "CpuRef", "-i", photos, "--expect", golden, "--json")
    assert json.loads(none.stdout)["expected"]["failure"] == "no file ran, so that there is nothing to compare"


def test_a_stack_of_outputs() -> None:
    stack = Stack()
    for number in range(3):
        outputs = {"y": np.full((1, 2), number), "files": np.array(number), "z": np.full((4,), number)}
        stack.add(Path(f"{number}.png"), outputs)
    arrays = stack.with_files()
    assert {name: array.shape for name, array in arrays.items()} == {"y": (3, 2), "files": (3,), "z": (3, 4), "files_": (3,)}
    assert arrays["y"][:, 0].tolist() == arrays["files"].tolist() == arrays["z"][:, 3].tolist() == [0, 1, 2]
    assert arrays["files_"].tolist() == ["0.png", "1.png", "2.png"]
    with pytest.raises(UnreadableFile, match=r"output 'y' is \[1, 3\], and \[1, 2\] of 0.png"):
        stack.add(Path("3.png"), {"z": np.zeros(4), "files": np.array(0), "y": np.zeros((1, 3))})
    assert {name: array.shape for name, array in stack.with_files().items()} == {n: a.shape for n, a in arrays.items()}


def test_lines_have_room() -> None:
    files = [Path("a") / f"{'long' * 20}{number}.jpg" for number in range(2)]
    lines = Lines(files, "log probability", 80)
    answers = Answers("y", "log probability", ((Answer(3, "a label of " * 9, -1.25e-9, None),),))
    (line,) = lines.of(Outcome(files[0], answers=[answers]))
    assert len(line) == 80
    assert line.startswith("...")
    assert "long0.jpg" in line
    assert line.endswith("...")
    assert lines.heading.index("class") == line.index("a label")
    (failure,) = lines.of(Outcome(files[1], error="a reason " * 20))
    assert failure.count("a reason") == 20, "what went wrong is told in full"


def test_a_failure_is_broken_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering.sys, "stdout", type("Terminal", (), {"isatty": lambda self: True})())
    monkeypatch.setattr(rendering, "room", lambda *_: 60)
    files = [Path("a") / name for name in ("1.jpg", "a_second_one.jpg")]
    lines = Lines(files, "", 60).of(Outcome(files[0], error="a reason " * 20))
    assert lines[0].startswith("1.jpg             failed: a reason")
    assert all(line.startswith((f"{' ' * 18}a", f"{' ' * 18}reason")) for line in lines[1:])
    assert 3 < len(lines) < 8
    assert max(map(len, lines)) <= 60
    assert " ".join(" ".join(lines).split()).count("a reason") == 20


def test_lines_of_wide_names_are_aligned() -> None:
    files = [Path(name) for name in ("猫.jpg", "한국어.jpg", "cafe\u0301.jpg", "👍🏽" * 40 + ".jpg")]
    lines = Lines(files, "logit", 80)
    answers = [Answers("y", "logit", ((Answer(3, "猫" * 60, 0.5, None),),))]
    found = [line for path in files for line in lines.of(Outcome(path, answers=answers))]
    assert {cell_len(line.partition("0.5")[0]) for line in found} == {cell_len(found[0].partition("0.5")[0])}
    assert all(78 <= cell_len(line) <= 80 for line in found)


def test_progress_on_a_terminal_leaves_a_piped_output_alone(classifier: Path, photos: Path) -> None:
    reader, terminal = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-m", "dovetail_sdk", "run", classifier, "-b", "CpuRef", "-i", photos],
        stdout=subprocess.PIPE,
        stderr=terminal,
        env={**os.environ, "TERM": "xterm"},
        check=True,
    )
    os.close(terminal)
    shown = os.read(reader, 1 << 16).decode()
    os.close(reader)
    assert [line.split()[0] for line in done.stdout.decode().splitlines()] == ["file", *sorted(COLORS), "3"]
    assert "3/3" in shown
    assert "blue.png" not in shown
