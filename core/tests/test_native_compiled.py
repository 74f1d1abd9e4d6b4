"""Test compiled parts: single layers, and artefacts.

Artefacts are kept, damaged, refused, and written by several processes.
"""

from __future__ import annotations

import ctypes
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dovetail
from dovetail.layers.elementwise import BinaryOperation, ElementwiseBinary
from dovetail.layers.normalization import LayerNormalization
from dovetail.native import load_backend

ADD = ElementwiseBinary(operation=BinaryOperation("add"))
FEEDS = {name: np.full((2, 3), value, np.float32) for name, value in zip("abc", (1, 2, 4), strict=True)}


def lone(made: dovetail.Network, build: Any, feeds: dict[str, Any]) -> np.ndarray:
    backend = load_backend(build("compile_only.c", "compile_only", "-lm"))
    with dovetail.Runtime() as runtime, dovetail.load(made, backend, runtime=runtime, passes=False) as loaded:
        result: np.ndarray = loaded.run(feeds)["out"]
        return result


@pytest.mark.parametrize("case", ["two", "constant", "constant first", "twice", "both constant"])
def test_without_optimization_each_layer_is_a_part_of_its_own(build: Any, case: str) -> None:
    made = dovetail.Network(case)
    a, b = made.input("a", (2, 3)), made.input("b", (2, 3))
    fixed, other = np.float32([[1, -2, 3], [4, 5, 6]]), np.float32([[9, 8, 7], [6, 5, 4]])
    rng = np.random.default_rng(2)
    feeds = {name: rng.standard_normal((2, 3)).astype(np.float32) for name in "ab"}
    operands = {
        "two": (a, b), "constant": (a, fixed), "constant first": (fixed, a), "twice": (a, a), "both constant": (fixed, other),
    }[case]  # fmt: skip
    arrays = {id(a): feeds["a"], id(b): feeds["b"]}
    first, second = (arrays.get(id(one), one) for one in operands)
    made.output(made.add(ADD, made.add(ADD, *operands).output, b).output, "out")
    np.testing.assert_array_equal(lone(made, build, feeds), first + second + feeds["b"])


@pytest.mark.parametrize(("scale", "bias"), [(False, False), (True, False), (True, True), (False, True)])
def test_a_part_of_one_layer_whose_inputs_are_left_out(build: Any, scale: bool, bias: bool) -> None:
    made = dovetail.Network("normalized")
    x = np.random.default_rng(3).standard_normal((4, 5)).astype(np.float32)
    factor, shift = np.float32([1, 2, 3, 4, 5]), np.float32([-1, 0, 1, 2, 3])
    operands = [made.input("x", (4, 5)), factor if scale else None, shift if bias else None]
    made.output(made.add(LayerNormalization(), *operands).output, "out")
    wide = x.astype(np.float64)
    deviation = np.sqrt(wide.var(axis=-1, keepdims=True) + LayerNormalization().epsilon)
    expected = (wide - wide.mean(axis=-1, keepdims=True)) / deviation
    expected = expected * (factor if scale else 1) + (shift if bias else 0)
    np.testing.assert_allclose(lone(made, build, {"x": x}), expected, rtol=1e-6, atol=1e-6)


# -- artefacts -------------------------------------------------------------------------------------


def additions() -> dovetail.Network:
    made = dovetail.Network("additions")
    a, b, c = (made.input(name, (2, 3)) for name in "abc")
    made.output(made.add(ADD, made.add(ADD, a, b), c).output, "out")
    return made


class Compiler:
    """The compiling library, and a load of one network with it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.library = ctypes.CDLL(str(path))

    def load(self, folder: Path, backend: Any = None) -> int:
        """Load and run; returns how often the compiler told how far it is."""
        told: list[Any] = []
        options = {"TableCompiler": {"artefacts": str(folder)}}
        backend = backend or load_backend(self.path)
        with (
            dovetail.Runtime() as runtime,
            dovetail.load(
                additions(), backend, runtime=runtime, options=options, progress=lambda *one: told.append(one)
            ) as loaded,
        ):
            np.testing.assert_array_equal(loaded.run(FEEDS)["out"], np.full((2, 3), 7, np.float32))
        return len(told)

    @property
    def loaded(self) -> int:
        return int(self.library.artefacts_loaded())


@pytest.fixture
def compiler(build: Any) -> Iterator[Compiler]:
    made = Compiler(build("compiler.c"))
    yield made
    made.library.set_verdict(0)


def only(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


@pytest.mark.parametrize(("verdict", "words"), [(1, "must be compiled again"), (2, "is unusable"), (9, "answered with 9")])
def test_an_artefact_that_the_backend_refuses(
    compiler: Compiler, tmp_path: Path, caplog: pytest.LogCaptureFixture, verdict: int, words: str
) -> None:
    assert compiler.load(tmp_path) > 0
    before, content = compiler.loaded, only(tmp_path).read_bytes()
    compiler.library.set_verdict(verdict)
    with caplog.at_level(logging.INFO, "dovetail"):
        assert compiler.load(tmp_path) > 0
    assert compiler.loaded == before
    assert f"{words}: the test says {verdict}" in caplog.text
    compiler.library.set_verdict(0)
    assert compiler.load(tmp_path) == 0
    assert (compiler.loaded, only(tmp_path).read_bytes()) == (before + 1, content)


@pytest.mark.parametrize("which", ["folder", "file", "link"])
def test_an_artefact_that_others_could_have_written_is_not_used(
    compiler: Compiler, tmp_path: Path, caplog: pytest.LogCaptureFixture, which: str
) -> None:
    compiler.load(tmp_path)
    path, before = only(tmp_path), compiler.loaded
    if which == "link":
        path.rename(tmp_path.parent / f"{tmp_path.name} elsewhere")
        path.symlink_to(tmp_path.parent / f"{tmp_path.name} elsewhere")
    else:
        (tmp_path if which == "folder" else path).chmod(0o777)
    with caplog.at_level(logging.INFO, "dovetail"):
        assert compiler.load(tmp_path) > 0
    assert compiler.loaded == before
    assert which == "link" or "others can write" in caplog.text


def test_a_miss_is_told_with_what_differs(compiler: Compiler, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder, rebuilt = tmp_path / "kept", tmp_path / "libcompiler.so"
    compiler.load(folder)
    rebuilt.write_bytes(compiler.path.read_bytes() + b"another build")
    with caplog.at_level(logging.INFO, "dovetail"):
        assert compiler.load(folder, load_backend(rebuilt)) > 0
    assert "no artefact: files: " in caplog.text


@pytest.mark.parametrize("position", [0, 25, -1, None])
def test_a_damaged_artefact_is_made_anew(compiler: Compiler, tmp_path: Path, position: int | None) -> None:
    compiler.load(tmp_path)
    path, before = only(tmp_path), compiler.loaded
    content = path.read_bytes()
    if position is None:
        path.write_bytes(content[: len(content) // 2])
    else:
        changed = bytearray(content)
        changed[position] ^= 0x40
        path.write_bytes(changed)
    assert compiler.load(tmp_path) > 0
    assert compiler.loaded == before
    assert path.read_bytes() == content
    assert compiler.load(tmp_path) == 0


def test_a_folder_that_cannot_be_written_is_one_warning(
    compiler: Compiler, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("no folder")
    backend = load_backend(compiler.path)
    with caplog.at_level(logging.WARNING, "dovetail"):
        for _ in range(2):
            assert compiler.load(tmp_path / "file" / "below", backend) > 0
    assert [record.levelname for record in caplog.records if "cannot be kept" in record.getMessage()] == ["WARNING"]


def test_processes_share_a_folder(compiler: Compiler, tmp_path: Path) -> None:
    """Whoever comes second replaces the file by an equal one: nobody ever sees half of it."""
    script = """
import sys
import numpy as np
import dovetail
from dovetail.layers.elementwise import BinaryOperation, ElementwiseBinary
from dovetail.native import load_backend
add = ElementwiseBinary(operation=BinaryOperation("add"))
made = dovetail.Network("additions")
a, b, c = (made.input(name, (2, 3)) for name in "abc")
made.output(made.add(add, made.add(add, a, b), c).output, "out")
for _ in range(20):
    options = {"TableCompiler": {"artefacts": sys.argv[2]}}
    with dovetail.load(made, load_backend(sys.argv[1]), options=options) as net:
        result = net.run({name: np.full((2, 3), value, np.float32) for name, value in zip("abc", (1, 2, 4))})["out"]
    assert (result == 7).all()
"""
    command = [sys.executable, "-c", script, str(compiler.path), str(tmp_path)]
    processes = [subprocess.Popen(command) for _ in range(3)]
    assert [process.wait(120) for process in processes] == [0, 0, 0]
    assert only(tmp_path).suffix == ".artefact"
    assert compiler.load(tmp_path) == 0
