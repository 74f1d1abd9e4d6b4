"""The hybrid example, run as its page says."""

import re
import shlex
import subprocess
import sys
from pathlib import Path


def test_the_commands_of_the_page_run_one_network_on_three_backends(root, tmp_path):
    page = (root / "examples" / "hybrid" / "README.md").read_text("utf-8")
    commands = [shlex.split(line) for line in page.splitlines() if line.startswith("    ")]
    scripts = Path(sys.executable).parent
    outputs = []
    for name, *arguments in commands:
        program = [sys.executable, "-W", "error"] if name == "python" else [str(scripts / name)]
        given = [str(root / one) if one.startswith("examples/") else one for one in arguments]
        done = subprocess.run([*program, *given], cwd=tmp_path, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout)
    report = outputs[-1]
    rows = dict(re.findall(r"^(\d) +(\w+) +\d+: ", report, re.MULTILINE))
    assert {"VsiNpu", "CpuAcc"} < set(rows.values())
    assert set(rows.values()) & {"GpuAcc", "CpuRef"}
    assert "convolution, " in report, "operations of the NPU's programs"
    assert "layout of an image, in bytes" in report
    right = int(re.search(r"the same answer as CpuRef alone to (\d+) of 40", report).group(1))
    assert right >= 39


def test_other_models_are_refused_in_a_sentence(root, tmp_path):
    (tmp_path / "notes.txt").write_text("no model")
    for model, said in (
        (root / "examples" / "digits" / "digits.onnx", "is not the quantized model: layer 'stem.conv': VsiNpu: [dtype]"),
        (root / "examples" / "tflite" / "frobnicate.tflite", "examples/hybrid/README.md says how it is made"),
        (tmp_path / "absent.onnx", "absent.onnx' does not exist"),
        (tmp_path / "notes.txt", "no parser is installed for .txt files"),
    ):
        program = [sys.executable, "-W", "error", str(root / "examples" / "hybrid" / "run.py"), str(model)]
        done = subprocess.run(program, check=False, capture_output=True, text=True)
        assert done.returncode == 1
        assert said in done.stderr
        assert "Traceback" not in done.stderr
