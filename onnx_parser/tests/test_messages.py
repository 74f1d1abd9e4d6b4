"""A file is read without `onnx` and without protobuf: neither is imported for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import onnx

READ = """
import sys
import dovetail_onnx
network = dovetail_onnx.parse({path!r})
foreign = [name for name in sys.modules if name.partition(".")[0] == "onnx" or name.startswith("google.protobuf")]
assert not foreign, foreign
import onnx
assert dovetail_onnx.parse(onnx.load({path!r})).name == network.name == "g"
"""


def test_a_file_is_read_without_importing_onnx(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(
        onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 21]> g (float[1] x) => (float[1] y) { y = Relu(x) }'), path
    )
    subprocess.run([sys.executable, "-c", READ.format(path=str(path))], check=True, timeout=120)
