"""`python -m dovetail` is the command of another package."""

import subprocess
import sys

import pytest

from dovetail import __main__ as command


def test_it_says_which_package_brings_the_command(monkeypatch, capsys):
    monkeypatch.setattr(command, "entry_points", lambda **which: ())
    assert command.main() == 2
    assert "pip install dovetail-sdk" in capsys.readouterr().err


def test_it_is_the_command():
    pytest.importorskip("dovetail_sdk", reason="dovetail-sdk, which brings the command, is not installed")

    def called(*arguments):
        return subprocess.run([sys.executable, "-m", "dovetail", *arguments], capture_output=True, text=True, check=False)

    version = called("--version")
    assert version.returncode == 0
    assert version.stdout.startswith("dovetail, version ")
    missing = called("run", "missing.onnx")
    assert missing.returncode != 0
    assert "MODEL_NOT_FOUND" in missing.stderr
    assert called("--help").stdout.startswith("Usage: python -m dovetail ")
