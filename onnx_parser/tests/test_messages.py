"""The classes of a file's messages are those of `onnx`, which need not be imported for them."""

from __future__ import annotations

import subprocess
import sys
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

import onnx
import pytest

from dovetail_onnx import messages

READ = """
import sys
import dovetail_onnx
network = dovetail_onnx.parse({path!r})
assert not any(name.partition(".")[0] == "onnx" for name in sys.modules), "onnx was imported"
from dovetail_onnx.messages import ModelProto
import onnx
assert onnx.ModelProto is ModelProto and onnx.onnx_ml_pb2.ModelProto is ModelProto
assert dovetail_onnx.parse(onnx.load({path!r})).name == network.name == "g"
import copy, pickle
assert type(pickle.loads(pickle.dumps(ModelProto()))) is ModelProto
"""


@pytest.mark.parametrize("protobuf", ["upb", "python"])
def test_a_file_is_read_without_importing_onnx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protobuf: str) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(
        onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 21]> g (float[1] x) => (float[1] y) { y = Relu(x) }'), path
    )
    monkeypatch.setenv("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", protobuf)
    subprocess.run([sys.executable, "-c", READ.format(path=str(path))], check=True, timeout=120)


def test_the_classes_are_those_of_onnx() -> None:
    assert messages.__all__
    assert all(getattr(messages, name) is getattr(onnx, name) for name in messages.__all__)


@pytest.mark.parametrize("found", [None, ModuleSpec("onnx", None, is_package=True)])
def test_where_the_generated_module_cannot_be_found_onnx_is_imported(
    monkeypatch: pytest.MonkeyPatch, found: ModuleSpec | None
) -> None:
    monkeypatch.delitem(sys.modules, "onnx")
    asked: list[str] = []

    def find_spec(name: str, *_: object) -> ModuleSpec | None:
        asked.append(name)
        monkeypatch.setitem(sys.modules, "onnx", stand_in)  # what the import then finds
        return found

    stand_in = ModuleType("onnx")
    monkeypatch.setattr(PathFinder, "find_spec", find_spec)
    assert messages._definitions() is stand_in
    assert asked == ["onnx"]
