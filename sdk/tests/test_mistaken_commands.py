"""What somebody types by mistake is told in words of the command line; streams may be closed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result

Invoke = Callable[..., Result]


@pytest.mark.parametrize(
    ("words", "code", "told", "hint"),
    [
        (("explain", "MODEL", "-b", ","), 2, "it names no backend", "leave it out for the default"),
        (("run", "MODEL", "-b", ""), 2, "it names no backend", "leave it out for the default"),
        (("diff", "MODEL", "--against", " , "), 2, "it names no backend", "leave it out for the default"),
        (("explain", "MODEL", "-b", "CpuRef", "--limit", "memory=1"), 1, "[LIMIT_EXCEEDED]", "--limit memory=..."),
        (("explain", "MODEL", "-b", "CpuRef", "--limit", "layers=1"), 1, "[LIMIT_EXCEEDED]", "--limit layers=..."),
        (("explain", "digits", "-b", "CpuRef", "--limit", "seconds=0.000001"), 1, "[TIMEOUT]", "--limit seconds=..."),
        (("run", "digits", "-b", "CpuRef", "-i", "random", "--timeout", "1e-9"), 1, "[TIMEOUT]", "--timeout SECONDS"),
        (("explain", "MODEL", "-b", "CpuRef", "--isolate", "Nope"), 1, "--isolate names 'Nope', which is not among", "CpuRef"),
        (
            ("explain", "MODEL", "-b", "CpuRef", "--option", "Nope.a=1"),
            1,
            "--option names 'Nope', which is not",
            "CpuRef",
        ),
        (("claims", "MODEL"), 1, "is no manifest that can be used", "a model goes behind --model"),
        (("claims", "TEXT"), 1, "is no manifest that can be used", "give a dovetail-backend.json, or the id of a backend"),
        (("quantize", "MODEL", "--calibration", "SAMPLES", "-o", "q.tflite"), 2, "the name of the file must end in .onnx", ""),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_mistake_is_told_in_words_of_the_command_line(
    dovetail: Invoke, adder: Path, tmp_path: Path, words: tuple[str, ...], code: int, told: str, hint: str
) -> None:
    (tmp_path / "notes.txt").write_text("no manifest")
    np.savez(tmp_path / "samples.npz", a=np.zeros((2, 2), np.float32))
    names = {"MODEL": adder, "TEXT": tmp_path / "notes.txt", "SAMPLES": tmp_path / "samples.npz"}
    result = dovetail(*(names.get(word, word) for word in words))
    assert result.exit_code == code, result.stderr
    assert told in result.stderr
    assert hint in result.stderr
    for python in ("dovetail.Limits", "net.", "backends="):
        assert python not in result.stderr


@pytest.mark.parametrize("command", [("show", "MODEL"), ("run", "MODEL", "-i", "random", "-b", "CpuRef"), ("backends",)])
@pytest.mark.parametrize("closed", ["1>&-", "2>&-", "1>&- 2>&-"])
def test_a_closed_stream_is_nowhere(adder: Path, command: tuple[str, ...], closed: str) -> None:
    words = [sys.executable, "-m", "dovetail_sdk", *(str(adder) if word == "MODEL" else word for word in command)]
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", *words], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "unexpected" not in done.stderr
    assert bool(done.stdout) == ("1>&-" not in closed)


def test_a_finding_that_cannot_be_kept_is_not_said_to_be(adder: Path, tmp_path: Path) -> None:
    from dovetail import Network
    from dovetail_onnx import export_network

    pytest.importorskip("dovetail_neon", reason="it has several ways to compute a layer")
    rng, net = np.random.default_rng(5), Network("tuned")
    x = net.input("x", (1, 16, 12, 12))
    net.output(net.convolution2d(x, rng.normal(size=(16, 16, 3, 3)).astype(np.float32), padding=1), "y")
    (tmp_path / "model.onnx").write_bytes(export_network(lambda sizes: net).SerializeToString())
    (tmp_path / "a file").write_text("where a folder is wanted")
    done = subprocess.run(
        [sys.executable, "-m", "dovetail_sdk", "tune", "model.onnx", "-b", "CpuAcc", "--rounds", "3"],
        env={**os.environ, "DOVETAIL_CACHE_DIR": str(tmp_path / "a file")},
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    if "there is nothing to choose" not in done.stdout:
        assert "is not kept: " in done.stderr
        assert done.stdout.rstrip().endswith("kept nowhere")


def test_json_stays_json_where_standard_error_is_closed(adder: Path) -> None:
    words = [sys.executable, "-m", "dovetail_sdk", "show", str(adder), "--json"]
    done = subprocess.run(["sh", "-c", 'exec "$@" 2>&-', "sh", *words], capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(done.stdout)["layers"]
