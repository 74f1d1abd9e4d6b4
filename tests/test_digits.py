"""The demo, run as a user runs it."""

import re
import subprocess
import sys


def test_the_demo_recognises_the_held_out_digits(root, tmp_path):
    command = [sys.executable, "-W", "error", str(root / "examples" / "digits" / "run.py")]
    done = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    right, accuracy = re.search(r"(\d+) right, accuracy ([\d.]+)%", done.stdout).groups()
    assert (int(right), float(accuracy)) == (356, 98.9)  # what onnxruntime answers on the same pictures
    assert re.search(r"CpuAcc +[\d.]+ ", done.stdout), "the demo runs on the fastest backend"
    assert "gives the same answer to 360 of 360 pictures" in done.stdout
