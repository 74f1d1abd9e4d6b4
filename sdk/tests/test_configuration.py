"""The configuration file, and what a shell completes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import Result

from dovetail_sdk import configuration
from dovetail_sdk.cli import main

Invoke = Callable[..., Result]


@pytest.fixture
def configured(dovetail: Invoke, tmp_path: Path) -> Callable[..., Result]:
    """Run the command line with a configuration file."""

    def run(text: str, *arguments: object) -> Result:
        file = tmp_path / "config.toml"
        file.write_text(text, encoding="utf-8")
        return dovetail(*arguments, environment={configuration.VARIABLE: str(file)})

    return run


def test_defaults_for_all_commands_and_for_one(configured: Callable[..., Result], adder: Path) -> None:
    text = 'backends = "CpuRef"\nthreads = 1\n[explain]\njson = true\n'
    result = configured(text, "explain", adder)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert {layer["backend"] for layer in found["layers"]} == {"CpuRef"}
    assert json.loads(configured(text, "show", adder, "--json").stdout)["layers"]  # which has neither option


def test_lists_are_lists(configured: Callable[..., Result], adder: Path, fussy: str) -> None:
    for text in (
        f'backends = ["{fussy}", "CpuRef"]',
        f'backends = "{fussy},CpuRef"',
        f'[explain]\nbackends = ["{fussy}", "CpuRef"]',
    ):
        found = json.loads(configured(text, "explain", adder, "--json").stdout)
        assert {layer["backend"] for layer in found["layers"]} == {"Fussy", "CpuRef"}, text


def test_the_command_line_wins(configured: Callable[..., Result], adder: Path) -> None:
    result = configured('backends = "NotThere"', "explain", adder, "-b", "CpuRef")
    assert result.exit_code == 0, result.output
    assert configured('backends = "NotThere"', "explain", adder).exit_code == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("backend = 'CpuRef'", "did you mean 'backends'?"),
        ("[explain]\nthread = 2", "`dovetail explain` has no option 'thread'; did you mean 'threads'?"),
        ("[explian]\nthreads = 2", "there is no command 'explian'; did you mean 'explain'?"),
        ("threads = 'many'", "threads is 'many': 'many' is not a valid integer range."),
        ("threads = 0", "threads is 0: 0 is not in the range x>=1."),
        ("threads = [1, 2]", "threads is a list, but `--threads` takes one value"),
        ("explain = 3", "'explain' is a command, whose options stand in a table [explain]"),
        ("[explain]\njson = 'yes'", "json is 'yes', but true or false is expected"),
        ("[explain.threads]\nmost = 2", "threads is a table"),
        ("threads = ", "cannot be read"),
        ("threads = 2\nthreads = 3", "cannot be read"),
        ("\u0000", "cannot be read"),
    ],
)
def test_what_is_wrong_is_named(configured: Callable[..., Result], adder: Path, text: str, expected: str) -> None:
    result = configured(text, "explain", adder)
    assert result.exit_code == 2
    assert "config.toml" in result.stderr
    assert expected in result.stderr


def test_help_is_there_whatever_the_file_says(configured: Callable[..., Result]) -> None:
    assert configured("nonsense", "--help").exit_code == 0


def test_where_the_file_is_looked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(configuration.VARIABLE, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")  # the specification has such ones ignored
    assert configuration.configuration_file() is None
    file = tmp_path / ".config" / "dovetail" / "config.toml"
    file.parent.mkdir(parents=True)
    file.touch()
    assert configuration.configuration_file() == file
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "other"))
    assert configuration.configuration_file() is None
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv(configuration.VARIABLE, "")
    assert configuration.configuration_file() is None
    monkeypatch.setenv(configuration.VARIABLE, str(tmp_path / "missing.toml"))
    with pytest.raises(click.UsageError, match="is no file"):
        configuration.configuration_file()


def test_doctor_tells_of_the_file(configured: Callable[..., Result]) -> None:
    result = configured("threads = 1", "doctor", "CpuRef", "--no-probe")
    assert "options have defaults from" in result.stdout, result.output


def test_common_options_are_options_of_several_commands() -> None:
    context = click.Context(main)
    named = [
        {flag.removeprefix("--") for one in command.params for flag in one.opts}
        for command in (main.get_command(context, name) for name in main.list_commands(context))
        if command is not None
    ]
    for option in configuration.COMMON:
        assert sum(option in names for names in named) > 1, option


def completed(words: str, number: int) -> list[str]:
    """Return what bash would offer for the last of some words."""
    environment = {**os.environ, "_DOVETAIL_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(number)}
    code = "import sys; sys.argv[0] = 'dovetail'; from dovetail_sdk.cli import main; main(prog_name='dovetail')"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]


def test_commands_options_and_backends_are_completed() -> None:
    assert completed("dovetail exp", 1) == ["explain"]
    assert "--no-fallback" in completed("dovetail explain --no", 2)
    assert "CpuRef" in completed("dovetail explain m.onnx -b Cpu", 4)
    assert completed("dovetail explain m.onnx -b CpuRef,cpur", 4) == []
    assert completed("dovetail run m.onnx --layout n", 4) == ["nchw", "nhwc"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_one_that_the_shell_reads(dovetail: Invoke, shell: str) -> None:
    script = dovetail("completion", shell).stdout
    assert "_DOVETAIL_COMPLETE" in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)
