"""A model that comes by standard input, for every command that takes a model."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

COMMANDS = (
    ("show", "-"),
    ("explain", "-", "-b", "CpuRef"),
    ("run", "-", "-b", "CpuRef", "-i", "random"),
    ("run", "-", "-b", "CpuRef", "-i", "random", "--guarded"),
    ("benchmark", "-", "-b", "CpuRef", "--iterations", "2", "--profile"),
    ("diff", "-", "-b", "CpuRef", "--against", "CpuRef"),
    ("tune", "-", "-b", "CpuRef", "--rounds", "3"),
    ("claims", "CpuRef", "--model", "-"),
    ("quantize", "-", "--calibration", "SAMPLES", "-o", "OUTPUT"),
)


def run(*words: object, stdin: bytes | int, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    given = {"input": stdin} if isinstance(stdin, bytes) else {"stdin": stdin}
    command = [sys.executable, "-m", "dovetail_sdk", *map(str, words)]
    done = subprocess.run(command, capture_output=True, check=False, cwd=folder, timeout=120, **given)  # type: ignore[call-overload]  # one of two
    return subprocess.CompletedProcess(command, done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    from dovetail import Network
    from dovetail_onnx import export_network

    # Its layers have the names that kinds give, which a command's own networks may use, too.
    rng, net = np.random.default_rng(7), Network("piped")
    x = net.input("x", (1, 3, 9, 7))
    y = net.relu(net.convolution2d(x, rng.normal(size=(5, 3, 3, 3)).astype(np.float32), padding=1))
    net.output(net.softmax(net.flatten(y)), "y")
    written: bytes = export_network(lambda sizes: net).SerializeToString()
    return written


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join((command[0], *command[-1:])))
def test_every_command_reads_its_model(command: tuple[str, ...], content: bytes, tmp_path: Path) -> None:
    np.savez(tmp_path / "samples.npz", x=np.random.default_rng(3).normal(size=(4, 3, 9, 7)).astype(np.float32))
    (tmp_path / "model.onnx").write_bytes(content)
    names = {"SAMPLES": "samples.npz", "OUTPUT": "quantized.onnx"}
    words = [names.get(word, word) for word in command]
    done = run(*words, stdin=content, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    if command[0] in ("show", "explain", "claims"):  # which measure nothing
        of_file = run(*("model.onnx" if word == "-" else word for word in words), stdin=subprocess.DEVNULL, folder=tmp_path)
        assert of_file.returncode == 0
        assert done.stdout == of_file.stdout


def test_a_result_is_that_of_the_file(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(content)
    for model, output in (("-", "a.npy"), ("model.onnx", "b.npy")):
        done = run("run", model, "-b", "CpuRef", "-i", "random", "-o", output, "--json", stdin=content, folder=tmp_path)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["model"] == model
    assert np.array_equal(np.load(tmp_path / "a.npy"), np.load(tmp_path / "b.npy"))


@pytest.mark.parametrize(
    ("stream", "code", "what", "hint"),
    [
        (b"", 1, "error [MODEL_FORMAT_UNKNOWN] standard input is empty: no model came by it", "what writes into the pipe"),
        (b"abc", 1, "error [MODEL_FORMAT_UNKNOWN] the 3 bytes are a model in no format", "formats that are read"),
        (b"<!doctype html>" + b" " * 100, 1, "error [MODEL_FORMAT_UNKNOWN] the model begins as no format does", "a web page"),
        ("cut", 1, "error [MODEL_MALFORMED] the model is not an ONNX model", "is complete"),
    ],
)
def test_what_is_no_model_is_told(stream: bytes | str, code: int, what: str, hint: str, content: bytes) -> None:
    done = run("show", "-", stdin=content[: len(content) // 2] if isinstance(stream, str) else stream)
    assert (done.returncode, done.stdout) == (code, "")
    assert what in done.stderr
    assert hint in done.stderr.partition("  -> ")[2]


def test_a_stream_that_never_ends_is_not_read_for_ever() -> None:
    with subprocess.Popen(["yes"], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        done = run("show", "-", stdin=writer.stdout.fileno())
        writer.kill()
    assert done.returncode == 1
    assert "begins as no format does" in done.stderr


def test_a_terminal_is_not_waited_for() -> None:
    reader, terminal = pty.openpty()
    done = run("show", "-", stdin=terminal)
    os.close(terminal)
    os.close(reader)
    assert done.returncode == 2
    assert "standard input is a terminal, and a model comes from a pipe or a file" in done.stderr


def test_closed_standard_input_is_told() -> None:
    words = [sys.executable, "-m", "dovetail_sdk", "show", "-"]
    done = subprocess.run(["sh", "-c", 'exec "$@" <&-', "sh", *words], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "standard input is closed" in done.stderr


def test_standard_input_is_one_thing(content: bytes) -> None:
    done = run("diff", "-", "-", stdin=content)
    assert done.returncode == 2
    assert "standard input holds one model, which another argument takes" in done.stderr
    done = run("run", "-", "-i", "-", stdin=content)
    assert done.returncode == 2
    assert "an input is not read from standard input" in done.stderr


def test_limits_hold_for_a_stream(content: bytes) -> None:
    done = run("explain", "-", "-b", "CpuRef", "--limit", "memory=100", stdin=content)
    assert done.returncode == 1
    assert "error [LIMIT_EXCEEDED] the model needs" in done.stderr
