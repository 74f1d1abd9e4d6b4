from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import Result

import dovetail as library
from dovetail.discovery.registry import BackendRow, BackendState, Registry
from dovetail_sdk.cli import main

Invoke = Callable[..., Result]
COMMANDS = [
    "backends",
    "benchmark",
    "claims",
    "completion",
    "conform",
    "diff",
    "doctor",
    "explain",
    "guarded",
    "lock",
    "new-backend",
    "probe",
    "quantize",
    "quarantine",
    "run",
    "show",
    "tune",
]


def run_in_process(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "dovetail_sdk", *arguments], capture_output=True, text=True, check=False
    )


def test_commands_are_the_modules(dovetail: Invoke) -> None:
    result = dovetail("--help")
    assert result.exit_code == 0
    assert main.list_commands(click.Context(main)) == COMMANDS


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_has_a_help_text(dovetail: Invoke, name: str) -> None:
    assert dovetail(name, "--help").exit_code == 0
    command = main.get_command(click.Context(main), name)
    assert command is not None
    assert command.help
    for parameter in command.params:
        assert isinstance(parameter, click.Argument) or getattr(parameter, "help", None), parameter.name


def test_help_imports_neither_numpy_nor_rich() -> None:
    program = (
        "import sys\nfrom dovetail_sdk.cli import main\n"
        "main(['run', '--help'], standalone_mode=False)\n"
        "print([name for name in ('numpy', 'rich', 'PIL', 'dovetail') if name in sys.modules], file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["rnu", "model"], "did you mean 'run'?"),
        (["xyz"], "the commands are backends"),
        (["list"], "the commands are backends"),  # and no guess at "claims"
        (["run"], "Missing argument 'MODEL'"),
        (["run", "model.onnx", "--shape", "x"], "is not a shape"),
        (["run", "model.onnx", "-b", "no id"], "is not a backend id"),
        (["run", "model.onnx", "--threads", "0"], "0 is not in the range"),
        (["run", "model.onnx", "--output", "out.txt"], "must be .npz or .npy"),
        (["run", "model.onnx", "--mean", "a"], "neither a number"),
        (["show", "model.onnx", "--json", "--dot"], "exclude each other"),
    ],
)
def test_wrong_command_line_is_exit_code_2(dovetail: Invoke, arguments: list[str], found: str) -> None:
    result = dovetail(*arguments)
    assert result.exit_code == 2
    assert found in result.stderr
    assert "Traceback" not in result.output


def test_error_of_the_library_is_a_sentence_and_exit_code_1(dovetail: Invoke) -> None:
    for command in ("run", "show", "explain", "benchmark"):
        result = dovetail(command, "absent.onnx")
        assert result.exit_code == 1
        assert "error [MODEL_NOT_FOUND] model file 'absent.onnx' does not exist" in result.stderr
        assert "  -> check the path" in result.stderr
        assert result.stdout == ""
        assert "Traceback" not in result.stderr


def test_a_terminal_whose_encoding_lacks_the_characters_of_a_name(adder: Path, tmp_path: Path) -> None:
    model = adder.rename(tmp_path / "größe.onnx")
    reader, terminal = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-m", "dovetail_sdk", "benchmark", model, "-b", "CpuRef", "--iterations", "1"],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        stdout=terminal,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(terminal)
    shown = os.read(reader, 4096).decode()
    os.close(reader)
    assert done.returncode == 0, done.stderr
    assert "gr\\xf6\\xdfe.onnx" in shown


def test_debug_lets_the_traceback_through(dovetail: Invoke) -> None:
    with pytest.raises(library.ModelError):
        dovetail("--debug", "show", "absent.onnx")
    with pytest.raises(library.ModelError):
        dovetail("show", "absent.onnx", environment={"DOVETAIL_DEBUG": "1"})


def test_defect_is_a_sentence_too(dovetail: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    def defective(self: Registry) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(Registry, "rows", defective)
    result = dovetail("backends")
    assert result.exit_code == 1
    assert "unexpected ZeroDivisionError oops" in result.stderr


def test_ctrl_c_is_exit_code_130(dovetail: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: Registry) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Registry, "rows", interrupted)
    result = dovetail("backends")
    assert result.exit_code == 130
    assert result.stderr == "interrupted\n"


def test_reader_that_goes_away_is_no_traceback() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "dovetail_sdk", "backends", "--json"],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writing)
    assert "Traceback" not in done.stderr


def test_module_can_be_run() -> None:
    done = run_in_process("rnu")
    assert done.returncode == 2
    assert done.stderr.startswith("Usage: dovetail ")


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> tuple[BackendRow, ...]:
    facts = {"id": "CpuFake", "abi": [0, 1], "device": "cpu", "rank": 7, "description": "fast kernels"}
    listed = (
        BackendRow("CpuFake", BackendState.AVAILABLE, "fake", "1.0", "fake:Backend", facts),
        BackendRow("Gone", BackendState.BROKEN, "gone", "2.0", "gone:Backend", None, "it is broken", "reinstall it"),
    )
    monkeypatch.setattr(Registry, "rows", lambda self: listed)
    return listed


def test_backends_as_a_table(dovetail: Invoke, rows: object) -> None:
    result = dovetail("backends")
    assert result.exit_code == 0
    for text in ("CpuFake", "available", "fake 1.0", "fast kernels", "Gone", "broken", "why: it is broken", "do: reinstall it"):
        assert text in result.stdout


def test_backends_tell_of_known_deviations(dovetail: Invoke, rows: tuple[BackendRow, ...]) -> None:
    assert rows[0].manifest is not None
    assert "known deviation" not in dovetail("backends").stdout
    rows[0].manifest["deviations"] = {"dovetail.Softmax": [{}, {}], "dovetail.Pad": [{}]}  # type: ignore[index]  # a dict here
    assert "CpuFake: 3 known deviations: dovetail claims CpuFake" in dovetail("backends").stdout


def test_backends_as_json(dovetail: Invoke, rows: tuple[BackendRow, ...]) -> None:
    listed = json.loads(dovetail("backends", "--json").stdout)
    assert [row["id"] for row in listed] == ["CpuFake", "Gone"]
    assert listed[0]["manifest"] == rows[0].manifest
    assert listed[1]["reason"] == "it is broken"


def test_no_backends(dovetail: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Registry, "rows", lambda self: ())
    result = dovetail("backends")
    assert (result.exit_code, result.stdout) == (
        0,
        "no backend is installed; this brings the usual ones: pip install dovetail\n",
    )


def test_check_imports_backends(dovetail: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "fake_cli_backend.py").write_text("raise ImportError('libfake.so is missing')")
    info = tmp_path / "fake_cli_backend-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fake-cli-backend\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[dovetail.backends]\nFakeCli = fake_cli_backend:Backend\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("dovetail.discovery.registry.default_registry", Registry)
    listed = {row["id"]: row for row in json.loads(dovetail("backends", "--json").stdout)}
    assert listed["FakeCli"]["state"] == "available"
    result = dovetail("backends", "--check", "--json")
    assert result.exit_code == 0
    listed = {row["id"]: row for row in json.loads(result.stdout)}
    assert listed["FakeCli"]["state"] == "broken"
    assert "libfake.so is missing" in listed["FakeCli"]["reason"]
