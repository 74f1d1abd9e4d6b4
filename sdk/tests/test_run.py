from __future__ import annotations

import errno
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import Result
from PIL import Image

from dovetail_sdk import saving

Invoke = Callable[..., Result]


@pytest.fixture
def green(tmp_path: Path) -> Path:
    path = tmp_path / "green.png"
    Image.new("RGB", (20, 10), (51, 255, 102)).save(path)
    return path


def test_picture_to_classes(dovetail: Invoke, classifier: Path, green: Path) -> None:
    """The classifier's scores are the means of red, green, blue, and two constants."""
    result = dovetail("run", classifier, "-b", "CpuRef", "--shape", "N=1", "--input", green)
    assert result.exit_code == 0, result.output
    lines = [line.split() for line in result.stdout.splitlines()]
    first = lines.index(["0", "1", "1"])
    assert [line[0] for line in lines[first + 1 : first + 5]] == ["2", "4", "0", "3"]
    for text in ("20x10 RGB", "resized to 8x8, bilinear", "NCHW [1, 3, 8, 8]", "* 0.00392157"):
        assert text in result.stdout


def test_settings_of_pictures_reach_the_tensor(dovetail: Invoke, classifier: Path, green: Path, tmp_path: Path) -> None:
    output = tmp_path / "scores.npy"
    settings = ["--mean", "51,0,0", "--scale", "1", "--channels", "bgr", "--output", str(output)]
    result = dovetail("run", classifier, "-b", "CpuRef", "--shape", "N=1", "-i", green, *settings)
    assert result.exit_code == 0, result.output
    np.testing.assert_allclose(np.load(output), [[51, 255, 51, -1, 0.25]])


def test_size_that_stays_open_is_taken_from_the_array(dovetail: Invoke, classifier: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((4, 3, 8, 8)))
    result = dovetail("run", classifier, "-b", "CpuRef", "-i", tmp_path / "x.npy", "--top", 1)
    assert result.exit_code == 0, result.output
    assert "converted to float32" in result.stdout
    assert "[4, 5]" in result.stdout


def test_open_size_of_a_random_input_is_one(dovetail: Invoke, classifier: Path) -> None:
    result = dovetail("run", classifier, "-b", "CpuRef", "-i", "random")
    assert result.exit_code == 0, result.output
    assert "picture <- random float32[1, 3, 8, 8]" in result.stdout
    assert result.stderr == "note: N is open: taking N = 1; --shape N=8 for another size\n"


@pytest.mark.parametrize("layout", ["nchw", "NCHW"])
def test_layout_in_any_case(dovetail: Invoke, classifier: Path, green: Path, layout: str) -> None:
    result = dovetail("run", classifier, "-b", "CpuRef", "-i", green, "--layout", layout, "--channels", "BGR")
    assert result.exit_code == 0, result.output
    assert "BGR" in result.stdout
    assert "NCHW [1, 3, 8, 8]" in result.stdout


def test_a_guarded_run_says_that_nothing_was_touched(dovetail: Invoke, classifier: Path, green: Path) -> None:
    result = dovetail("run", classifier, "-b", "CpuRef", "--shape", "N=1", "--input", green, "--guarded")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-1] == "guarded: no kernel left its tensors"


def test_a_guarded_run_tells_of_memory_that_nobody_wrote(
    dovetail: Invoke, classifier: Path, green: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dovetail import LoadedNetwork

    outputs = iter((0, 1, 2))
    monkeypatch.setattr(
        LoadedNetwork, "run", lambda self, feeds, timeout=None: {"scores": np.full((1, 5), next(outputs), "f4")}
    )
    result = dovetail("run", classifier, "-b", "CpuRef", "--shape", "N=1", "--input", green, "--guarded")
    assert result.exit_code == 1
    assert "output 'scores' changes with what lies in memory that nobody wrote" in result.stderr


def test_several_inputs_and_outputs(dovetail: Invoke, adder: Path, tmp_path: Path) -> None:
    a, b = np.arange(6, dtype=np.float32).reshape(2, 3), np.full((2, 3), 10, np.float32)
    np.savez(tmp_path / "in.npz", a=a, b=b)
    output = tmp_path / "out.npz"
    result = dovetail("run", adder, "-b", "CpuRef", "-i", tmp_path / "in.npz", "-o", output)
    assert result.exit_code == 0, result.output
    with np.load(output) as written:
        assert set(written.files) == {"sum", "negative"}
        np.testing.assert_array_equal(written["sum"], a + b)
        np.testing.assert_array_equal(written["negative"], -(a + b))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["adder.onnx", "in.npz", "out.npz"]


def test_one_array_file_does_not_hold_two_outputs(dovetail: Invoke, adder: Path, tmp_path: Path) -> None:
    result = dovetail("run", adder, "-b", "CpuRef", "-i", "random", "-o", tmp_path / "out.npy")
    assert result.exit_code == 2
    assert "write them to a .npz" in result.stderr


@pytest.fixture
def reshaper(tmp_path: Path) -> Path:
    """A network whose outputs have the shape that the value of an input says."""
    path = tmp_path / "reshaper.onnx"
    text = """<ir_version: 8, opset_import: ["" : 18]> g (float[6] x, int64[2] sizes) => (float[A, B] y, float[A, B] z) {
        y = Reshape(x, sizes)
        z = Neg(y)
    }"""
    onnx.save(onnx.parser.parse_model(text), path)
    np.savez(tmp_path / "feeds.npz", x=np.arange(6, dtype=np.float32), sizes=np.array([2, 3]))
    return path


def test_outputs_that_a_run_decides(dovetail: Invoke, reshaper: Path, tmp_path: Path) -> None:
    given = ["run", reshaper, "-b", "CpuRef", "-i", tmp_path / "feeds.npz"]
    written = tmp_path / "out.npz"
    result = dovetail(*given, "-o", written)
    assert result.exit_code == 0, result.output
    np.testing.assert_array_equal(np.load(written)["z"], -np.arange(6, dtype=np.float32).reshape(2, 3))
    result = dovetail(*given, "--expect", written, "--tolerance", "0")
    assert result.exit_code == 0, result.output
    assert "all outputs are as in" in result.stdout
    wrong = np.load(written)["y"]
    np.savez(tmp_path / "wrong.npz", y=wrong, z=wrong)
    assert dovetail(*given, "--expect", tmp_path / "wrong.npz").exit_code == 1
    result = dovetail(*given, "-o", tmp_path / "out.npy")
    assert result.exit_code == 2
    assert "the network has 2 outputs; write them to a .npz" in result.stderr
    many = tmp_path / "many"
    many.mkdir()
    for name, sizes in (("a", [2, 3]), ("b", [3, 2])):
        np.savez(many / f"{name}.npz", x=np.arange(6, dtype=np.float32), sizes=np.array(sizes))
    result = dovetail("run", reshaper, "-b", "CpuRef", "-i", many)
    assert result.exit_code == 0, result.output
    assert "2 of 2 files" in result.stdout


def test_missing_input(dovetail: Invoke, adder: Path) -> None:
    result = dovetail("run", adder, "-b", "CpuRef")
    assert result.exit_code == 2
    assert "'a' float32[2, 3], 'b' float32[2, 3]" in result.stderr


def test_wrong_shape_is_refused_by_the_runtime(dovetail: Invoke, adder: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((3, 2), np.float32))
    result = dovetail("run", adder, "-b", "CpuRef", "-i", f"a={tmp_path / 'x.npy'}", "-i", "random")
    assert result.exit_code == 1
    assert "[INPUT_SHAPE]" in result.stderr
    assert "[3, 2]" in result.stderr


def test_absent_backend(dovetail: Invoke, adder: Path) -> None:
    result = dovetail("run", adder, "-b", "CpuReff", "-i", "random")
    assert result.exit_code == 1
    assert "[BACKEND_UNAVAILABLE]" in result.stderr
    assert "did you mean CpuRef?" in result.stderr


def test_failed_write_leaves_no_file(dovetail: Invoke, adder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill_the_disk(file: Any, arrays: Any) -> None:
        file.write(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(saving, "write_npz", fill_the_disk)
    folder = tmp_path / "results"
    folder.mkdir()
    result = dovetail("run", adder, "-b", "CpuRef", "-i", "random", "-o", folder / "out.npz")
    assert result.exit_code == 1
    assert f"error No space left on device: {folder / 'out.npz'}" in result.stderr
    assert "Traceback" not in result.stderr
    assert list(folder.iterdir()) == []


def test_failed_write_names_the_path_that_was_given(dovetail: Invoke, adder: Path, tmp_path: Path) -> None:
    wanted = tmp_path / f"{'o' * 246}.npz"  # too long with what the name of the partial file adds
    result = dovetail("run", adder, "-b", "CpuRef", "-i", "random", "-o", wanted)
    assert result.exit_code == 1
    assert result.stderr == f"error File name too long: {wanted}\n"


@pytest.mark.parametrize(("command", "option"), [("run", "--output"), ("benchmark", "--trace")])
def test_nothing_runs_if_the_folder_of_a_result_is_absent(
    dovetail: Invoke, adder: Path, tmp_path: Path, command: str, option: str
) -> None:
    result = dovetail(command, adder, "-b", "CpuRef", option, tmp_path / "absent" / "out.npz")
    assert result.exit_code == 2
    wanted = tmp_path / "absent" / "out.npz"
    assert f"{str(wanted)!r}: there is no folder {str(wanted.parent)!r}" in result.stderr
    assert result.stdout == ""


def test_nothing_runs_if_the_folder_of_a_result_takes_no_files(
    dovetail: Invoke, adder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    wanted = tmp_path / "out.npz"
    result = dovetail("run", adder, "-b", "CpuRef", "-i", "random", "-o", wanted)
    assert result.exit_code == 2
    assert f"{str(wanted)!r}: the folder {str(tmp_path)!r} is not writable" in result.stderr
    assert result.stdout == ""


def test_tables_fit_into_a_terminal_of_80_columns(tmp_path: Path) -> None:
    import onnx

    name = f"model/{'block/' * 20}Predictions"
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[1,1000] x) => (float[1,1000] y) { y = Softmax(x) }'
    )
    model.graph.output[0].name = model.graph.node[0].output[0] = name
    model.metadata_props.add(key="names", value=str([f"label {number} {'of many words ' * 9}" for number in range(1000)]))
    onnx.save(model, tmp_path / "long.onnx")
    np.savez(
        tmp_path / "golden.npz",
        **{"x": np.zeros((1, 1000), np.float32), name.replace("/", "_") + "_0": np.full((1, 1000), 0.1)},
    )
    reader, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    arguments = [
        "run",
        tmp_path / "long.onnx",
        "-b",
        "CpuRef",
        "-i",
        tmp_path / "golden.npz",
        "--expect",
        tmp_path / "golden.npz",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "dovetail_sdk", *arguments],
        stdout=terminal,
        stderr=subprocess.PIPE,
        env={name: value for name, value in os.environ.items() if name != "COLUMNS"} | {"TERM": "dumb"},
        check=False,
    )
    os.close(terminal)
    shown = os.read(reader, 1 << 16).decode()
    os.close(reader)
    assert done.returncode == 1, done.stderr
    lines = [line.rstrip() for line in shown.splitlines()]
    rows = [line for line in lines if re.match(r" \S| {9}", line)]  # further lines of a sentence have two blanks
    assert max(map(len, rows)) <= 80
    long = [row.split() for row in rows if "float32" in row or "beyond" in row]
    assert len(long) == 2
    assert all(row[0].startswith("...") and row[0].endswith("block/Predictions") for row in long)
    (heading,) = [row for row in rows if "class" in row]
    assert heading.split()[-4:] == ["row", "class", "probability", "label"]
    best = rows[rows.index(heading) + 2 : rows.index(heading) + 7]
    assert [row[heading.index("label") :].split()[:2] for row in best] == [["label", f"{number}"] for number in range(5)]
    assert all(row.endswith("...") for row in best)


def test_json_of_one_run(dovetail: Invoke, classifier: Path, green: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    plain = dovetail("run", classifier, "-b", "CpuRef", "-i", green, "--top", 2)
    both = dovetail("run", classifier, "-b", "CpuRef", "-i", green, "--top", 2, "--json", path)
    assert both.stdout == plain.stdout
    document = json.loads(dovetail("run", classifier, "-b", "CpuRef", "-i", green, "--top", 2, "--json").stdout)
    assert document == json.loads(path.read_text())
    dashed = dovetail("run", classifier, "-b", "CpuRef", "--json", "-", "-i", green, "--top", 2)
    assert document == json.loads(dashed.stdout)
    (output,) = document["outputs"]
    assert (output["name"], output["shape"], output["dtype"], output["scores"]) == ("scores", [1, 5], "float32", "logit")
    assert [one["class"] for one in output["classes"][0]] == [1, 2]
    assert output["minimum"] == -1
    assert "20x10 RGB" in document["inputs"]["picture"]
