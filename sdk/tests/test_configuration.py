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
    """Run the command line with a configuration file, whose table for it is given."""

    def run(text: str, *arguments: object) -> Result:
        file = tmp_path / "dovetail" / "config.toml"
        file.parent.mkdir(mode=0o700, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        file.chmod(0o600)
        return dovetail(*arguments, environment={"XDG_CONFIG_HOME": str(tmp_path)})

    return run


def test_defaults_for_all_commands_and_for_one(configured: Callable[..., Result], adder: Path) -> None:
    text = 'lock = ""\n[command_line]\nbackends = "CpuRef"\nthreads = 1\n[command_line.explain]\njson = true\n'
    result = configured(text, "explain", adder)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert {layer["backend"] for layer in found["layers"]} == {"CpuRef"}
    assert json.loads(configured(text, "show", adder, "--json").stdout)["layers"]  # which has neither option


def test_lists_are_lists(configured: Callable[..., Result], adder: Path, fussy: str) -> None:
    several = f'backends = ["{fussy}", "CpuRef"]'
    for text in (
        f"[command_line]\n{several}",
        f"[command_line]\nbackends = '{fussy},CpuRef'",
        f"[command_line.explain]\n{several}",
    ):
        found = json.loads(configured(text, "explain", adder, "--json").stdout)
        assert {layer["backend"] for layer in found["layers"]} == {"Fussy", "CpuRef"}, text


def test_the_command_line_wins(configured: Callable[..., Result], adder: Path) -> None:
    text = "[command_line]\nbackends = 'NotThere'"
    result = configured(text, "explain", adder, "-b", "CpuRef")
    assert result.exit_code == 0, result.output
    assert configured(text, "explain", adder).exit_code == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("backend = 'CpuRef'", "did you mean 'backends'?"),
        ("[command_line.explain]\nthread = 2", "`dovetail explain` has no option 'thread'; did you mean 'threads'?"),
        ("[command_line.explian]\nthreads = 2", "there is no command 'explian'; did you mean 'explain'?"),
        ("threads = 'many'", "threads is 'many': 'many' is not a valid integer range."),
        ("threads = 0", "threads is 0: 0 is not in the range x>=1."),
        ("threads = [1, 2]", "threads is a list, but `--threads` takes one value"),
        ("explain = 3", "'explain' is no option that several commands have"),
        ("[command_line.explain]\njson = 'yes'", "json is 'yes', but true or false is expected"),
        ("[command_line.explain.threads]\nmost = 2", "threads is a table"),
        ("limit = 'much'", "limit is 'much': 'much' is no limit; write memory=2G"),
        ("backends = ['CpuRef', '1x']", "backends is ['CpuRef', '1x']: "),
    ],
)
def test_what_is_wrong_is_named(configured: Callable[..., Result], adder: Path, text: str, expected: str) -> None:
    result = configured(text if text.startswith("[") else f"[command_line]\n{text}", "explain", adder)
    assert result.exit_code == 2
    assert "config.toml, table [command_line]: " in result.stderr
    assert expected in result.stderr


def test_what_is_no_table(configured: Callable[..., Result], adder: Path) -> None:
    result = configured("command_line = 3", "explain", adder)
    assert result.exit_code == 2
    assert "but a table [command_line] is expected" in result.stderr


@pytest.mark.parametrize("text", ["threads = ", "\u0000", "[command_line]\n[command_line]"])
def test_a_damaged_file_is_ignored_with_a_warning(configured: Callable[..., Result], adder: Path, text: str) -> None:
    assert configured(text, "explain", adder, "-b", "CpuRef").exit_code == 0


def test_what_the_core_reads_from_the_file_is_no_mistake(configured: Callable[..., Result], adder: Path) -> None:
    assert configured("backend_path = []\ntrusted_path = []", "explain", adder, "-b", "CpuRef").exit_code == 0


def test_help_is_there_whatever_the_file_says(configured: Callable[..., Result]) -> None:
    assert configured("[command_line]\nnonsense = 1", "--help").exit_code == 0


def test_doctor_tells_of_right_defaults_only(configured: Callable[..., Result]) -> None:
    text = (
        '[command_line]\nthread = 3\nthreads = "many"\nbackends = "CpuRef"\n'
        '[command_line.run]\ntopp = 3\ntop = "many"\nseed = 4\n[command_line.show]\nlevel = 3\n[command_line.rum]\ntop = 2\n'
    )
    result = configured(text, "doctor", "--no-probe", "CpuRef")
    assert result.exit_code == 1, result.output
    for wrong in (
        "'thread' is no option",
        "threads is 'many'",
        "no option 'topp'",
        "top is 'many'",
        "no option 'level'",
        "'rum'",
    ):
        assert wrong in result.stdout
    assert "options have defaults in config.toml: backends, run (seed)\n" in result.stdout
    report = json.loads(configured(text, "doctor", "--no-probe", "CpuRef", "--json").stdout)
    assert report["defaults"] == {"backends": "CpuRef", "run": {"seed": 4}}
    for text in ("[command_line]\nthread = 3\n", "command_line = 3\n"):
        result = configured(text, "doctor", "--no-probe", "CpuRef")
        assert (result.exit_code, "have defaults" in result.stdout) == (1, False)


def test_doctor_tells_of_defaults(configured: Callable[..., Result]) -> None:
    result = configured("[command_line]\nlimit = 'layers=100'", "doctor", "CpuRef", "--no-probe")
    assert "options have defaults in config.toml: limit" in result.stdout, result.output


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


def test_a_default_gives_way_to_what_excludes_it(configured: Callable[..., Result], adder: Path) -> None:
    text = "[command_line.benchmark]\niterations = 5"
    result = configured(text, "benchmark", adder, "-b", "CpuRef", "--duration", "0.01")
    assert result.exit_code == 0, result.output
    both = configured(text, "benchmark", adder, "-b", "CpuRef", "--duration", "0.01", "--iterations", "5")
    assert both.exit_code == 2


def test_no_option_with_a_file_takes_true(configured: Callable[..., Result], adder: Path) -> None:
    result = configured("[command_line.run]\noutput = true", "run", adder, "-b", "CpuRef")
    assert result.exit_code == 2
    assert "output is True, but a text or a number is expected" in result.stderr


@pytest.mark.parametrize("number", ["nan", "inf", "-inf"])
@pytest.mark.parametrize(
    "words",
    [
        ("benchmark", "--duration"),
        ("benchmark", "--timeout"),
        ("diff", "--against", "CpuRef", "--tolerance"),
        ("run", "--least"),
    ],
)
def test_what_is_not_finite_is_refused(dovetail: Invoke, adder: Path, words: tuple[str, ...], number: str) -> None:
    result = dovetail(words[0], adder, *words[1:], number)
    assert result.exit_code == 2
