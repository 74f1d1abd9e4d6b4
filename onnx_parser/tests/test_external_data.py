"""Data beside the model: read where it belongs, refused everywhere else."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import dovetail
from dovetail import Constant, ErrorCode, LimitError, Limits, ModelError
from dovetail.ground.limits import limited
from dovetail_onnx import parse
from dovetail_onnx.external_data import ExternalData

VALUES = np.arange(4, dtype=np.float32)


def save(folder: Path, **entries: str) -> Path:
    proto = onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 21]> g (float[4] x) => (float[4] y) { y = Add(x, w) }')
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    proto.graph.initializer.append(tensor)
    path = folder / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def refusal(path: Path) -> ModelError:
    with pytest.raises(ModelError) as caught:
        parse(path)
    assert caught.value.hint
    return caught.value


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inside = tmp_path / "inside"
    (inside / "sub").mkdir(parents=True)
    for place in (tmp_path, inside, inside / "sub"):
        (place / "data.bin").write_bytes(bytes(8) + VALUES.tobytes())
    return inside


@pytest.mark.parametrize("location", ["data.bin", "sub/data.bin", "./data.bin"])
def test_data_in_the_folder_is_read(folder: Path, location: str) -> None:
    descriptor = parse(save(folder, location=location, offset="8", length="16")).layer("w").descriptor
    assert isinstance(descriptor, Constant)
    np.testing.assert_array_equal(descriptor.value, VALUES)


def test_a_network_is_not_made_again_of_other_data(folder: Path) -> None:
    net = dovetail.load(save(folder, location="data.bin", offset="8"), ["CpuRef"])
    np.testing.assert_array_equal(net.run({"x": VALUES})["y"], 2 * VALUES)
    source = net.optimized.source.network
    assert source is not net.optimized.source.network
    assert "w" in source
    (folder / "data.bin").write_bytes(bytes(8) + (VALUES + 1).tobytes())
    with pytest.raises(ModelError, match=r"data\.bin' was removed or changed after model .*model\.onnx' was loaded"):
        _ = net.optimized.source.network
    np.testing.assert_array_equal(net.run({"x": VALUES})["y"], 2 * VALUES)


def test_a_model_in_memory_needs_a_folder(folder: Path) -> None:
    data = save(folder, location="data.bin", offset="8").read_bytes()
    with pytest.raises(ModelError) as caught:
        parse(data)
    assert caught.value.code is ErrorCode.EXTERNAL_DATA_REFUSED
    assert "w" in parse(data, base_dir=folder)


@pytest.mark.parametrize(
    "location",
    [
        "../data.bin",
        "sub/../../data.bin",
        "..\\data.bin",
        "/etc/passwd",
        "C:\\data.bin",
        "C:data.bin",
        "\\\\host\\share",
        "",
        "a\0b",
    ],
)
def test_paths_that_leave_the_folder_are_refused(folder: Path, location: str) -> None:
    assert refusal(save(folder, location=location)).code is ErrorCode.EXTERNAL_DATA_REFUSED


def test_an_absolute_path_is_refused_even_into_the_folder(folder: Path) -> None:
    assert refusal(save(folder, location=str(folder / "data.bin"))).code is ErrorCode.EXTERNAL_DATA_REFUSED


def test_a_link_out_of_the_folder_is_refused(folder: Path) -> None:
    (folder / "link.bin").symlink_to(folder.parent / "data.bin")
    (folder / "door").symlink_to(folder.parent, target_is_directory=True)
    for location in ("link.bin", "door/data.bin"):
        assert refusal(save(folder, location=location)).code is ErrorCode.EXTERNAL_DATA_REFUSED


def test_a_link_inside_the_folder_is_followed(folder: Path) -> None:
    (folder / "link.bin").symlink_to("data.bin")
    assert "w" in parse(save(folder, location="link.bin", offset="8"))


def test_a_folder_with_a_similar_name_is_outside(folder: Path) -> None:
    twin = folder.with_name("inside2")
    twin.mkdir()
    (folder / "link.bin").symlink_to(twin / "data.bin")
    assert refusal(save(folder, location="link.bin")).code is ErrorCode.EXTERNAL_DATA_REFUSED


def test_links_inside_the_folder_are_walked(folder: Path) -> None:
    (folder / "way").symlink_to("sub")
    (folder / "sub" / "up.bin").symlink_to("../way/./data.bin")
    (folder / "absolute").symlink_to(folder / "sub", target_is_directory=True)
    for location in ("way/data.bin", "sub/up.bin", "way/up.bin", "absolute/up.bin"):
        assert "w" in parse(save(folder, location=location, offset="8"))


def test_links_that_climb_too_far_or_never_end_are_refused(folder: Path) -> None:
    (folder / "sub" / "far.bin").symlink_to("../../data.bin")
    (folder / "ring").symlink_to("ring")
    (folder / "sub" / "back").symlink_to("../../inside/data.bin")  # which comes back: it is not looked for outside
    for location in ("sub/far.bin", "ring", "ring/data.bin", "sub/back"):
        assert refusal(save(folder, location=location)).code is ErrorCode.EXTERNAL_DATA_REFUSED


def swap(path: Path, target: Path) -> None:
    path.rename(path.with_name(f"{path.name}.old"))
    path.symlink_to(target)


@pytest.mark.parametrize("location", ["data.bin", "sub/data.bin", "sub/sub/data.bin"])
@pytest.mark.parametrize("before", ["stat", "open"])
@pytest.mark.parametrize("swapped", ["sub", "sub/sub", "data.bin", "sub/data.bin", "sub/sub/data.bin"])
@pytest.mark.parametrize("call", range(5))
def test_what_is_swapped_for_a_link_on_the_way_is_not_followed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, location: str, before: str, swapped: str, call: int
) -> None:
    outside = folder.parent / "outside"
    for inner in (folder / "sub" / "sub", outside, outside / "sub"):
        inner.mkdir()
    data = bytes(8) + VALUES.tobytes()
    for place in (folder / "sub" / "sub", outside, outside / "sub"):
        (place / "data.bin").write_bytes(data if place.is_relative_to(folder) else bytes(8) + (VALUES + 1).tobytes())
    model = save(folder, location=location, offset="8")
    real, calls = getattr(os, before), []

    def hooked(path: object, *arguments: object, **named: object) -> object:
        if not Path(str(path)).name.endswith("onnx"):
            calls.append(path)
            if len(calls) == call + 1:
                target = outside / "data.bin" if swapped.endswith(".bin") else outside
                swap(folder / swapped, target)
        return real(path, *arguments, **named)

    data_before = parse(model).layer("w").descriptor
    assert isinstance(data_before, Constant)
    monkeypatch.setattr(os, before, hooked)
    try:
        found = parse(model).layer("w").descriptor
    except ModelError as error:
        assert error.code is ErrorCode.EXTERNAL_DATA_REFUSED  # noqa: PT017  # either is right, depending on the moment
    else:
        assert isinstance(found, Constant)
        np.testing.assert_array_equal(found.value, VALUES)


def test_a_file_that_is_cut_short_while_it_is_read_is_malformed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, real = save(folder, location="data.bin", offset="8"), os.fstat

    def hooked(descriptor: int) -> os.stat_result:
        status = real(descriptor)
        os.truncate(folder / "data.bin", 9)
        return status

    monkeypatch.setattr(os, "fstat", hooked)
    assert refusal(model).code is ErrorCode.MODEL_MALFORMED


def test_external_data_counts_against_the_memory_of_a_load(folder: Path) -> None:
    model = save(folder, location="data.bin", offset="8")
    size = model.stat().st_size
    with limited(Limits()) as load:
        assert "w" in parse(model)
    assert load.memory >= size + 16
    with limited(Limits(memory=load.memory - 1)), pytest.raises(LimitError, match="'w'"):
        parse(model)
    with limited(Limits(memory=load.memory)):
        assert "w" in parse(model)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with names")
def test_what_is_not_a_file_is_refused(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    assert refusal(save(folder, location="pipe")).code is ErrorCode.EXTERNAL_DATA_REFUSED
    assert refusal(save(folder, location="sub")).code in (ErrorCode.EXTERNAL_DATA_REFUSED, ErrorCode.MODEL_NOT_FOUND)


@pytest.mark.parametrize(
    "entries",
    [
        {"offset": "9"},
        {"offset": "1000000"},
        {"offset": "-8"},
        {"offset": "8", "length": "15"},
        {"offset": "8", "length": "160"},
        {"offset": "eight"},
        {"offset": "9" * 30},
        {"offset": "1_0"},
    ],
)
def test_ranges_that_do_not_fit_are_malformed(folder: Path, entries: dict[str, str]) -> None:
    error = refusal(save(folder, location="data.bin", **entries))
    assert error.code is ErrorCode.MODEL_MALFORMED
    assert "'w'" in error.message


def test_a_missing_file_is_named(folder: Path) -> None:
    error = refusal(save(folder, location="gone.bin"))
    assert error.code is ErrorCode.MODEL_NOT_FOUND
    assert "gone.bin" in error.message


def test_data_is_held_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = ExternalData.read
    found = []

    def noted(*arguments: Any) -> Any:
        found.append(read(*arguments))
        return found[-1]

    monkeypatch.setattr(ExternalData, "read", noted)
    network = parse(save(folder, location="data.bin", offset="8", length="16"))
    values = [layer.descriptor.value for layer in network.layers if isinstance(layer.descriptor, Constant)]
    assert len(values) == len(found) == 1
    assert np.shares_memory(values[0], found[0])
    assert not values[0].flags.writeable
