"""`dovetail run` on many files, one after the other."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import Result
from PIL import Image

from dovetail import DType
from dovetail_sdk.answers import Answer, Answers
from dovetail_sdk.feeding import InputSpec
from dovetail_sdk.folders import Lines, ManyFiles, Outcome, Stack, find_many
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
