"""Every table of every command fits 80 and 120 columns, and breaks no word."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import numpy as np
import pytest

from dovetail import Network
from dovetail_onnx import export_network

WORDS = re.compile(r"[A-Za-z]{4,}")


def on_a_terminal(width: int, *arguments: object) -> str:
    """Run the command line on a terminal; return what it shows, without colours and spinners."""
    child, terminal = pty.fork()
    if not child:
        os.environ.pop("COLUMNS", None)
        os.environ["TERM"] = "xterm"
        words = [sys.executable, "-m", "dovetail_sdk", *map(str, arguments)]
        while os.get_terminal_size(1).columns != width:  # until the other end has set it
            pass
        os.execv(sys.executable, words)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    shown = b""
    while True:
        try:
            read = os.read(terminal, 1 << 16)
        except OSError:  # the other end is closed
            break
        shown += read
    os.waitpid(child, 0)
    os.close(terminal)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode()).replace("\r\n", "\n")
    return re.sub(r".*\r", "", text)  # what a spinner drew before, where the machine is slow


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network whose names are as long as converters make them."""
    rng, net = np.random.default_rng(1), Network("long")
    path = "FeatureExtractor/MobilenetV2/expanded_conv_12/depthwise/"
    y = net.input("serving_default_image_of_the_camera", (1, 4, 16, 16))
    for number in range(3):
        y = net.convolution2d(
            y, rng.normal(size=(4, 4, 3, 3)).astype(np.float32), padding=1, name=f"{path}Relu6_{number};{path}bn"
        )
        y = net.activation(y, "bounded_relu", 6.0, name=f"{path}activation_{number}")
    net.output(net.softmax(net.flatten(y)), "StatefulPartitionedCall/probabilities_of_the_classes")
    file = tmp_path_factory.mktemp("model") / "a_model_with_a_rather_long_name_of_its_file.onnx"
    file.write_bytes(export_network(lambda sizes: net).SerializeToString())
    return file


COMMANDS: tuple[tuple[str, ...], ...] = (
    ("backends",),
    ("show", "MODEL"),
    ("explain", "MODEL", "-b", "CpuRef"),
    ("claims", "CpuRef", "--model", "MODEL"),
    ("run", "MODEL", "-i", "random", "-b", "CpuRef"),
    ("benchmark", "MODEL", "-b", "CpuRef", "--iterations", "2", "--profile"),
    ("diff", "MODEL", "-b", "CpuRef", "--against", "CpuRef", "--layers"),
)


@pytest.mark.parametrize(
    "command",
    [
        ("show", "MODEL"),
        ("run", "MODEL", "-i", "random", "-b", "CpuRef", "--expect", "GOLDEN"),
        ("diff", "MODEL", "-b", "CpuRef", "--against", "VsiNpu,CpuRef"),
        ("doctor", "VsiNpu", "--no-probe"),
        ("explain", "MODEL", "-b", "VsiNpu", "--threads", "1"),  # the log: a backend that was named runs nothing
        ("explain", "MODEL", "-b", "VsiNpu,CpuRef", "--no-fallback"),  # a complaint
        ("show", "a model that is not where it was looked for, in no folder at all, however long.onnx"),
        ("run", "MODEL", "-i", "a picture that is not where it was looked for, in no folder at all, however long.png"),
        ("run", "MODEL", "--an-option-that-there-is-not-and-that-is-long=and-a-value-that-is-rather-long-as-well"),
        ("a-command-that-is-not-there",),
        ("--an-option-that-there-is-not-and-that-is-long=and-a-value-that-is-rather-long-as-well",),
        ("quarantine", "release", "TheBackendOfAVendor", "AnotherBackendOfAVendorWithAVeryLongNameThatIsInNoQuarantine"),
    ],
    ids=lambda command: " ".join(command[:3])[:30],
)
def test_sentences_break_between_words(command: tuple[str, ...], model: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "golden.npz", StatefulPartitionedCall=np.zeros((3, 2), np.float32))
    words = [{"MODEL": model, "GOLDEN": tmp_path / "golden.npz"}.get(word, word) for word in command]
    wide = on_a_terminal(1000, *words)
    shown = on_a_terminal(80, *words).split("\n")
    assert "unexpected" not in wide
    assert not [line for line in shown if len(line.rstrip()) > 80 and " " in line.strip()]  # a path is one word
    known = set(wide.split())
    broken = [word for line in shown if "\u2500" not in line for word in line.split() if word not in known]
    assert not [word for word in broken if WORDS.fullmatch(word)], broken


def test_the_log_keeps_its_lines_in_a_file() -> None:
    """Whoever searches it finds a sentence whole."""
    command = [sys.executable, "-m", "dovetail_sdk", "explain", "digits", "-b", "CpuRef"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, "COLUMNS": "40"})
    lines = done.stderr.splitlines()
    assert [line for line in lines if line.startswith("note: N is open") and len(line) > 40], lines


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_tables_fit_and_break_no_word(command: tuple[str, ...], width: int, model: Path) -> None:
    shown = on_a_terminal(width, *(model if word == "MODEL" else word for word in command))
    assert "error" not in shown, shown
    rules = [number for number, line in enumerate(shown.split("\n")) if set(line.strip()) == {"\u2500"}]
    lines = shown.split("\n")
    tables = [
        lines[number - 1 : next((end for end in range(number, len(lines)) if not lines[end].strip()), None)] for number in rules
    ]
    assert tables or command[0] == "explain"
    for table in tables or [lines]:
        for line in table:
            assert len(line.rstrip()) <= width, line
    # Whatever begins a word in a cell is a word of what is known, or the end of a shortened name.
    known = set(WORDS.findall(on_a_terminal(1000, *(model if word == "MODEL" else word for word in command))))
    for table in tables:
        for line in table[2:]:
            for cell in re.split(r"\s{2,}", line.strip()):
                for word in WORDS.findall(re.sub(r"\.\.\.[A-Za-z]*", "", cell)):
                    assert word in known, f"{word!r} is broken in {line!r}"
