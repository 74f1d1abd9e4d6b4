"""The runtimes that dovetail can be compared with: one table."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dovetail import ErrorCode, OptionError

from . import worker

RUNTIMES = Path(__file__).with_name("runtimes")


@dataclass(frozen=True, slots=True)
class Peer:
    """A runtime, and how a child process gets at it.

    Attributes:
        name: As it is asked for.
        module: What is imported, and where that is missing, what `distribution` provides.
        distribution: What `pip install` takes.
        source: The module that runs it; see `versus.runtimes`.
        suffix: Of the file it loads, which lies beside the ONNX file under the same name.
        exact: It computes float32 in float32, and is another runtime: fit to be the best peer.
        channels_last: Its file may hold pictures channels last.
        ours: It is dovetail once more, and lives in dovetail's environment.
        options: For its session.
    """

    name: str
    module: str
    distribution: str
    source: Path
    suffix: str = ".onnx"
    exact: bool = True
    channels_last: bool = False
    ours: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)

    def file_for(self, model: Path) -> Path:
        """Name the file that it loads for a model."""
        return model if self.suffix == ".onnx" else model.with_suffix(self.suffix)


DOVETAIL = Peer("dovetail", "dovetail", "dovetail-core", RUNTIMES / "dovetail.py")

PEERS: dict[str, Peer] = {
    peer.name: peer
    for peer in (
        Peer("onnxruntime", "onnxruntime", "onnxruntime", RUNTIMES / "onnxruntime.py"),
        Peer("openvino", "openvino", "openvino", RUNTIMES / "openvino.py", options={"precision": "f32"}),
        Peer("openvino-bf16", "openvino", "openvino", RUNTIMES / "openvino.py", exact=False, options={"precision": "bf16"}),
        Peer("litert", "ai_edge_litert", "ai-edge-litert", RUNTIMES / "litert.py", suffix=".tflite", channels_last=True),
        Peer("tinygrad", "tinygrad", "tinygrad", RUNTIMES / "tinygrad.py", options={"device": "CL"}),
        Peer(
            "dovetail-tflite",
            "dovetail_tflite",
            "dovetail-tflite-parser",
            RUNTIMES / "dovetail_tflite.py",
            suffix=".tflite",
            exact=False,
            channels_last=True,
            ours=True,
        ),
        Peer(
            "CpuAcc",
            "dovetail_neon",
            "dovetail-neon",
            RUNTIMES / "dovetail.py",
            ours=True,
            options={"backends": ["CpuAcc", "CpuRef"]},
        ),
    )
}


def versions_of(peers: Iterable[Peer], python: str) -> dict[str, str | None]:
    """Ask an interpreter which peers it has, importing none: versions by name, None if missing.

    Raises:
        OptionError: It is no interpreter that can be used.
    """
    wanted = {peer.name: [peer.module, peer.distribution] for peer in peers}
    command = [python, worker.__file__, "--versions", json.dumps(wanted)]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _unusable(python, str(error)) from error
    if answer.returncode:
        lines = answer.stderr.strip().splitlines()
        raise _unusable(python, lines[-1] if lines else f"it ended with {answer.returncode}")
    found: dict[str, str | None] = json.loads(answer.stdout)
    return found


def _unusable(python: str, reason: str) -> OptionError:
    return OptionError(
        f"the interpreter {python!r} cannot run peers: {reason}",
        code=ErrorCode.OPTION_INVALID,
        hint="name a Python with NumPy and the peers by --peer-python, such as VENV/bin/python",
        python=python,
    )


def absent_reason(peer: Peer, python: str) -> str:
    """Say that a peer is not installed, and what to do."""
    other = "" if python != sys.executable else "; or name an interpreter that has it by --peer-python"
    return f"not installed for {python}: {python} -m pip install {peer.distribution}{other}"
