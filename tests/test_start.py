"""Check what a process pays before its first answer: known backends import only what they need."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

DIGITS = Path(__file__).parents[1] / "examples" / "digits" / "digits.onnx"
UNNEEDED = {
    "onnx": "all of ONNX, for the messages of one file",
    "google": "protobuf, for the same",
    "subprocess": "a child process, for a backend that was tried before",
    "hashlib": "OpenSSL, for files that have not changed",
    "email": "a parser of mail, for a version number",
    "importlib_metadata": "the same, for lists of some lines",
    "logging": "formatting, for lines that nobody asked to see",
    "concurrent": "pools of threads, for `submit`",
    "difflib": "close matches, for names that are right",
    "tempfile": "random names, for files that are only read",
    "zipfile": "archives, for what lies in folders",
    "pathlib": "urllib and ipaddress besides, for names of files",
    "dovetail_reference": "a backend that nobody named, where the one before it takes all",
}
UNNEEDED_OF_OURS = (
    "dovetail.discovery.elf",
    "dovetail.discovery.locked_imports",
    "dovetail.discovery.opening_failures",
    "dovetail.discovery.probe",
    "dovetail.discovery.scanning",
    "dovetail.ground.names_elsewhere",
    "dovetail.optimizer.choosing",
    "dovetail.optimizer.passes.branches",
    "dovetail.optimizer.passes.fold_pad",
    "dovetail.optimizer.passes.insert_debug",
    "dovetail.optimizer.passes.integer_layers",
    "dovetail.optimizer.passes.inverse_permutes",
    "dovetail.optimizer.passes.reduce_float",
    "dovetail.optimizer.tuned_choices",
    "dovetail.runtime.guard",
    "dovetail.runtime.plan_dump",
    "dovetail.runtime.profile",
    "dovetail_neon.convolution.transposed",
    "dovetail_neon.fusion.precision",
    "dovetail_neon.movement.joining",
    "dovetail_neon.quantized.kinds",
    "dovetail_neon.resizing.taps",
    "dovetail_onnx.beneath",
    "dovetail_onnx.operators.einsum",
    "dovetail_onnx.operators.resizing",
    "dovetail_sdk",
)
MODULES = 275
"""Most modules that the demo imports beyond NumPy's until its first result.

Each takes some 0.2 ms; it imports 273.
"""

LOAD = """
import sys
import numpy
before = set(sys.modules)
import dovetail
image = numpy.zeros((1, 1, 8, 8), numpy.float32)
dovetail.load({path!r}).run({{"image": image}})
print(*sorted(set(sys.modules) - before))
"""


def test_a_second_process_imports_only_what_it_needs(tmp_path: Path) -> None:
    environment = {**os.environ, "DOVETAIL_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": ""}
    environment.pop("DOVETAIL_PROBE", None)
    (tmp_path / "cache").mkdir(mode=0o700)
    for _ in range(2):  # the first one tries the backends
        done = subprocess.run(
            [sys.executable, "-c", LOAD.format(path=str(DIGITS))], env=environment, capture_output=True, text=True, check=True
        )
    modules = done.stdout.split()
    imported = {name.partition(".")[0] for name in modules}
    assert "dovetail" in imported
    assert not {name: why for name, why in UNNEEDED.items() if name in imported}
    assert not {*UNNEEDED_OF_OURS} & {*modules}
    assert len(modules) <= MODULES
