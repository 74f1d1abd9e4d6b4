from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dovetail
from dovetail.ground.errors import ErrorCode, LimitError, ModelError, OptionError
from dovetail.ground.limits import Limits
from dovetail.loading.parsers import installed_suffixes
from dovetail.loading.parsing import parse

PARSER = """
from dovetail import ModelError, Network

class Parser:
    def parse(self, path):
        with open(path) as file:
            text = file.read()
        if text == "bad":
            raise ModelError("the model is bad")
        net = Network(text)
        net.output(net.relu(net.input("x", (1,))), "y")
        return net
"""

AddParser = Callable[..., str]


@pytest.fixture
def add_parser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AddParser]:
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    packages: list[str] = []

    def add(suffix: str = "fake", source: str = PARSER, package: str = "fake_parser") -> str:
        packages.append(package)
        (site / f"{package}.py").write_text(source)
        info = site / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[dovetail.parsers]\n{suffix} = {package}:Parser\n")
        return package

    yield add
    for package in packages:
        sys.modules.pop(package, None)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.fake"
    path.write_text("named_in_file")
    return path


def refusal(path: Path | str) -> ModelError:
    with pytest.raises(ModelError) as caught:
        parse(path)
    return caught.value


@pytest.mark.parametrize("name", ["model.fake", "MODEL.FAKE", "my.model.Fake"])
def test_parser_is_found_by_suffix(add_parser: AddParser, tmp_path: Path, name: str) -> None:
    add_parser()
    path = tmp_path / name
    path.write_text("named_in_file")
    assert parse(path).name == "named_in_file"
    assert parse(str(path)).name == "named_in_file"


def test_a_parser_that_is_being_installed_is_found_when_it_is_there(add_parser: AddParser, tmp_path: Path, model: Path) -> None:
    package = add_parser(suffix="other")
    assert refusal(model).code == ErrorCode.MODEL_FORMAT_UNKNOWN
    text = tmp_path / "site" / f"{package}-1.0.dist-info" / "entry_points.txt"
    text.write_text(f"[dovetail.parsers]\nfake = {package}:Parser\n")  # the folder's time stays as it is
    assert parse(model).name == "named_in_file"


def test_listing_suffixes_imports_no_parser(add_parser: AddParser) -> None:
    package = add_parser(source="raise SystemExit")
    assert "fake" in installed_suffixes()
    assert package not in sys.modules


def test_unknown_suffix_lists_what_there_is(add_parser: AddParser, tmp_path: Path) -> None:
    add_parser()
    path = tmp_path / "model.unheard"
    path.touch()
    error = refusal(path)
    assert error.code == ErrorCode.MODEL_FORMAT_UNKNOWN
    assert ".unheard" in error.message
    assert ".fake" in str(error.hint)
    assert "pip" in str(error.hint)


def test_file_without_a_suffix(tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.touch()
    error = refusal(path)
    assert error.code == ErrorCode.MODEL_FORMAT_UNKNOWN
    assert "without a suffix" in error.message


def test_missing_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    error = refusal("absent.fake")
    assert error.code == ErrorCode.MODEL_NOT_FOUND
    assert "'absent.fake' does not exist" in error.message
    assert str(tmp_path) in error.message


def test_missing_file_with_a_namesake_nearby(model: Path) -> None:
    assert refusal(model.with_name("modle.fake")).hint == "did you mean model.fake?"
    assert refusal(model.parent / "absent" / "model.fake").hint == "check the path"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with names")
def test_what_is_no_regular_file_is_not_suggested_instead_of_itself(model: Path) -> None:
    pipe = model.with_name("moddel.fake")
    os.mkfifo(pipe)
    error = refusal(pipe)
    assert "is not a regular file" in error.message
    assert error.hint == "check the path"


def test_folder_names_the_models_in_it(add_parser: AddParser, model: Path) -> None:
    add_parser()
    error = refusal(model.parent)
    assert error.code == ErrorCode.MODEL_NOT_FOUND
    assert "is a folder" in error.message
    assert error.hint == "models in it: model.fake"


@pytest.mark.parametrize("path", ["nul\0byte.fake", "x" * 5000 + ".fake"])
def test_path_that_no_file_can_have(path: str) -> None:
    assert refusal(path).code == ErrorCode.MODEL_NOT_FOUND


@pytest.mark.parametrize("path", [None, 3, np.zeros(3)], ids=lambda path: type(path).__name__)
def test_what_is_no_path(path: Any) -> None:
    with pytest.raises(OptionError, match=f"'{type(path).__name__}' is not the path of a model file") as caught:
        parse(path)
    assert caught.value.code is ErrorCode.OPTION_INVALID


CONTENT_PARSER = """
from dovetail import ModelError, Network

class Parser:
    def parse(self, path):
        raise AssertionError("nothing is on disk")

    def takes(self, content):
        assert not isinstance(content, bytes) or len(content) <= 64
        return content[:4] == b"FAKE" if isinstance(content, bytes) else type(content).__name__ == "FakeModel"

    def parse_content(self, content):
        if content == b"FAKE bad":
            raise ModelError("the model is bad")
        net = Network(f"{len(content)} bytes" if isinstance(content, (bytes, bytearray, memoryview)) else "of a package")
        net.output(net.relu(net.input("x", (1,))), "y")
        return net
"""


class FakeModel:
    """What a package for the format holds."""


@pytest.mark.parametrize(
    ("model", "name"),
    [
        pytest.param(lambda: b"FAKE model", "10 bytes", id="bytes"),
        pytest.param(lambda: bytearray(b"FAKE model"), "10 bytes", id="bytearray"),
        pytest.param(lambda: memoryview(b"FAKE model"), "10 bytes", id="memoryview"),
        pytest.param(lambda: b"FAKE" + bytes(1000), "1004 bytes", id="more than is looked at"),
        pytest.param(lambda: io.BytesIO(b"FAKE model"), "10 bytes", id="BytesIO"),
        pytest.param(FakeModel, "of a package", id="model of a package"),
    ],
)
def test_what_lies_in_memory_is_read_by_the_parser_that_takes_it(add_parser: AddParser, model: Any, name: str) -> None:
    add_parser()  # a parser that reads files alone
    add_parser("memory", CONTENT_PARSER, "memory_parser")
    assert parse(model()).name == name
    with dovetail.load(model(), "CpuRef") as net:
        assert net.run({"x": np.array([-1.0], np.float32)})["y"] == 0


def test_a_file_that_is_open_is_read_where_it_stands(add_parser: AddParser, tmp_path: Path) -> None:
    add_parser("memory", CONTENT_PARSER, "memory_parser")
    (tmp_path / "container").write_bytes(b"1234FAKE model")
    with open(tmp_path / "container", "rb") as file:
        file.seek(4)
        assert parse(file).name == "10 bytes"


@pytest.mark.parametrize("content", [b"", b"something else", bytes(100)])
def test_bytes_in_no_format_are_refused_with_the_formats_there_are(add_parser: AddParser, content: bytes) -> None:
    add_parser("memory", CONTENT_PARSER, "memory_parser")
    with pytest.raises(ModelError) as caught:
        parse(content)
    assert caught.value.code is ErrorCode.MODEL_FORMAT_UNKNOWN
    assert ".memory" in (caught.value.hint or "")


def test_a_text_file_is_refused(add_parser: AddParser) -> None:
    add_parser("memory", CONTENT_PARSER, "memory_parser")
    with pytest.raises(OptionError, match="'StringIO' gave 'str', not bytes"):
        parse(io.StringIO("FAKE model"))


def test_a_refusal_of_what_lies_in_memory_comes_through(add_parser: AddParser) -> None:
    add_parser("memory", CONTENT_PARSER, "memory_parser")
    with pytest.raises(ModelError, match="the model is bad"):
        parse(b"FAKE bad")


def test_an_open_file_counts_against_the_limits(add_parser: AddParser) -> None:
    add_parser("memory", CONTENT_PARSER, "memory_parser")
    with pytest.raises(LimitError, match="LIMIT_EXCEEDED"):
        parse(io.BytesIO(b"FAKE" + bytes(5000)), limits=Limits(memory=4096))


class Pipe:
    """A stream that gives few bytes at once, and counts what was asked of it."""

    def __init__(self, content: bytes, most: int = 7) -> None:
        self.file, self.most, self.given = io.BytesIO(content), most, 0

    def read(self, size: int) -> bytes:
        piece = self.file.read(min(size, self.most))
        self.given += len(piece)
        return piece


class Endless(Pipe):
    def read(self, size: int) -> bytes:
        self.given += size
        return b"FAKE"[:size] + b"y" * (size - 4) if self.most else b"y" * size


@pytest.mark.parametrize("length", [5, 63, 64, 65, 1000, (1 << 20) + 65])
def test_a_pipe_is_read_to_its_end(add_parser: AddParser, length: int) -> None:
    add_parser("memory", CONTENT_PARSER, "memory_parser")
    assert parse(Pipe(b"FAKE" + bytes(length - 4), 4096 if length > 1000 else 7)).name == f"{length} bytes"


def test_a_pipe_that_never_ends_is_read_as_far_as_a_load_may(add_parser: AddParser) -> None:
    add_parser("memory", CONTENT_PARSER, "memory_parser")
    pipe = Endless(b"")
    with pytest.raises(LimitError, match=r"the model needs 1048576 bytes, 3145792 are taken"):
        parse(pipe, limits=Limits(memory=4 << 20))
    assert pipe.given <= 5 << 20
    unknown = Endless(b"", most=0)
    with pytest.raises(ModelError, match="begins as no format does") as caught:
        parse(unknown)
    assert caught.value.code is ErrorCode.MODEL_FORMAT_UNKNOWN
    assert unknown.given == 64
    slow = Endless(b"")
    with pytest.raises(LimitError, match="TIMEOUT"):
        parse(slow, limits=Limits(seconds=1e-9))


@pytest.mark.parametrize("padding", [0, 1000])
def test_bytes_that_are_something_else_are_told_so(add_parser: AddParser, padding: int) -> None:
    add_parser("memory", CONTENT_PARSER, "memory_parser")
    page = b"<!DOCTYPE html>\n<html>404" + bytes(padding)
    for model in (page, Pipe(page)):
        with pytest.raises(ModelError) as caught:
            parse(model)
        assert caught.value.code is ErrorCode.MODEL_FORMAT_UNKNOWN
        assert "it is a web page" in (caught.value.hint or "")


def test_refusal_of_the_parser_comes_through(add_parser: AddParser, model: Path) -> None:
    add_parser()
    model.write_text("bad")
    assert refusal(model).message == "the model is bad"


@pytest.mark.parametrize(
    ("content", "hint"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "`git lfs pull` fetches"),
        (b"\x1f\x8b\x08\x00", "compressed by gzip"),
        (b"PK\x03\x04\x14\x00", "a ZIP archive"),
        (b"<!DOCTYPE html>\n<html>", "a web page"),
        (b"FAKE of another format", "begins as a .memory file does"),
        (b"of no format", "ask its makers"),
    ],
)
def test_file_that_is_something_else_is_told_so(add_parser: AddParser, model: Path, content: bytes, hint: str) -> None:
    refusing = "from dovetail import ModelError\n\nclass Parser:\n    def parse(self, path):\n        "
    add_parser(source=refusing + 'raise ModelError("it is bad", hint="ask its makers")\n')
    add_parser("memory", CONTENT_PARSER, "memory_parser")
    model.write_bytes(content)
    error = refusal(model)
    assert (error.code, error.message) == (ErrorCode.MODEL_MALFORMED, "it is bad")
    assert hint in (error.hint or "")


def test_broken_parser_of_another_format_does_not_hide_what_is_malformed(add_parser: AddParser, model: Path) -> None:
    add_parser()
    add_parser("other", "raise RuntimeError\n", "other_parser")
    model.write_text("bad")
    assert refusal(model).message == "the model is bad"


def test_endless_nesting_is_an_error_of_the_model(add_parser: AddParser, model: Path) -> None:
    add_parser(source="class Parser:\n    def parse(self, path):\n        return self.parse(path)\n")
    error = refusal(model)
    assert error.code == ErrorCode.MODEL_MALFORMED
    assert "nested too deeply" in error.message


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("raise ImportError('no protobuf')", "ImportError: no protobuf"),
        ("raise SystemExit(2)", "SystemExit: 2"),
        ("", "AttributeError"),
        ("class Parser:\n    def __init__(self): raise OSError('disk')\n", "OSError: disk"),
        ("Parser = None", "has no method parse"),
        ("class Parser:\n    def parse(self, path): return {}\n", "returned dict, not a Network"),
    ],
)
def test_broken_parser_is_named(add_parser: AddParser, model: Path, source: str, found: str) -> None:
    add_parser(source=source)
    error = refusal(model)
    assert found in error.message
    assert "fake-parser 1.0 (fake_parser:Parser)" in error.message


def test_ctrl_c_is_not_swallowed(add_parser: AddParser, model: Path) -> None:
    add_parser(source="raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        parse(model)


def test_two_parsers_for_a_suffix_are_refused_by_name(add_parser: AddParser, model: Path) -> None:
    add_parser()
    add_parser(package="fake_rival")
    error = refusal(model)
    assert "fake-parser" in error.message
    assert "fake-rival" in error.message
