"""Test that weights stay in their files until something asks for their elements."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import dovetail
from dovetail import Constant, ErrorCode, LimitError, Limits, ModelError, Network
from dovetail.graph.late_array import LateArray

pytest.importorskip("dovetail_reference", reason="what is loaded here needs a backend")

RNG = np.random.default_rng(11)
X = RNG.random((2, 64), np.float32)
WEIGHTS = {"w": RNG.random((64, 96), np.float32), "v": RNG.random((32, 96), np.float32), "c": RNG.random(32, np.float32)}
NODES = (
    helper.make_node("Gemm", ["x", "w"], ["h"], name="first", alpha=0.5),
    helper.make_node("Gemm", ["h", "v", "c"], ["y"], name="second", transB=1),
)
HUGE = (1 << 14, 1 << 14)
"""A GiB of float32."""


def model(nodes: tuple[onnx.NodeProto, ...], tensors: list[TensorProto], x: tuple[int | str, ...]) -> onnx.ModelProto:
    ends = [
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    ]
    graph = helper.make_graph(list(nodes), "late", *ends, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def external(name: str, shape: tuple[int, ...], offset: int, dtype: int = TensorProto.FLOAT) -> TensorProto:
    tensor = TensorProto(name=name, data_type=dtype, dims=shape, data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="weights.bin")
    tensor.external_data.add(key="offset", value=str(offset))
    return tensor


def inside(folder: Path) -> tuple[Path, Path]:
    path = folder / "model.onnx"
    tensors = [numpy_helper.from_array(value, name) for name, value in WEIGHTS.items()]
    path.write_bytes(model(NODES, tensors, (2, 64)).SerializeToString())
    return path, path


def beside(folder: Path) -> tuple[Path, Path]:
    path, data, tensors = folder / "model.onnx", bytearray(8), []
    for name, value in WEIGHTS.items():
        tensors.append(external(name, value.shape, len(data)))
        data += value.tobytes()
    (folder / "weights.bin").write_bytes(data)
    path.write_bytes(model(NODES, tensors, (2, 64)).SerializeToString())
    return path, folder / "weights.bin"


Saver = Callable[[Path], tuple[Path, Path]]
saved = pytest.mark.parametrize("save", [inside, beside])


def huge(folder: Path, x: tuple[int | str, ...]) -> Path:
    """A file of a GiB that takes no room: what nobody wrote to a file reads as zeros."""
    with (folder / "weights.bin").open("wb") as file:
        file.truncate(4 * HUGE[0] * HUGE[1])
    nodes = (
        helper.make_node("MatMul", ["w", "x"], ["h"]),
        helper.make_node("Gemm", ["h", "w"], ["g"]),
        helper.make_node("Relu", ["g"], ["y"]),
    )
    path = folder / "model.onnx"
    path.write_bytes(model(nodes, [external("w", HUGE, 0)], x).SerializeToString())
    return path


def constants(network: Network) -> dict[str, Constant]:
    return {layer.name: layer.descriptor for layer in network if isinstance(layer.descriptor, Constant)}


def names_of_read(found: dict[str, Constant]) -> set[str]:
    return {name for name, one in found.items() if one.unread is None}


@saved
def test_values_are_those_of_the_file(tmp_path: Path, save: Saver) -> None:
    path, _ = save(tmp_path)
    early, late = constants(dovetail.parse(path)), constants(dovetail.parse(path, late_weights=True))
    assert early.keys() == late.keys()
    assert names_of_read(early) == early.keys()
    assert names_of_read(late) == {"c"}
    for name, one in late.items():
        assert (one.elements, one.nbytes) == (early[name].value.size, early[name].value.nbytes)
        assert one.infer([]) == early[name].infer([])
        value = one.value
        assert value is one.value
        assert one.unread is None
        assert not value.flags.writeable
        assert value.flags.c_contiguous
        assert (value.dtype, value.shape) == (early[name].value.dtype, early[name].value.shape)
        assert value.tobytes() == early[name].value.tobytes()


@saved
def test_a_network_whose_weights_wait_loads_as_any_other(tmp_path: Path, save: Saver) -> None:
    path, _ = save(tmp_path)
    wanted = (X @ WEIGHTS["w"] * 0.5) @ WEIGHTS["v"].T + WEIGHTS["c"]
    network = dovetail.parse(path, late_weights=True)
    twin = pickle.loads(pickle.dumps(dovetail.parse(path, late_weights=True)))
    for one in (network, twin, network.copy()):
        with dovetail.load(one, "CpuRef") as net:
            np.testing.assert_allclose(net.run({"x": X})["y"], wanted, rtol=1e-5)


@pytest.mark.parametrize("code", [TensorProto.BFLOAT16, TensorProto.BOOL, TensorProto.INT64], ids=str)
def test_element_types(tmp_path: Path, code: int) -> None:
    itemsize = {TensorProto.BFLOAT16: 2, TensorProto.BOOL: 1, TensorProto.INT64: 8}[code]
    data = RNG.integers(0, 256, 8192 * itemsize, np.uint8)
    (tmp_path / "weights.bin").write_bytes(data.tobytes())
    node = helper.make_node("Cast", ["w"], ["h"], to=TensorProto.FLOAT)
    path = tmp_path / "model.onnx"
    both = (node, helper.make_node("Add", ["x", "h"], ["y"]))
    path.write_bytes(model(both, [external("w", (8192,), 0, code)], (8192,)).SerializeToString())
    early, late = (dovetail.parse(path, late_weights=is_late) for is_late in (False, True))
    assert late.layer("w").output.info == early.layer("w").output.info
    found, wanted = constants(late)["w"], constants(early)["w"]
    assert found.unread is not None
    assert found.value.tobytes() == wanted.value.tobytes()
    assert found.dtype == wanted.dtype


@pytest.mark.parametrize("x", [(HUGE[1], 1 << 14), (HUGE[1], "N"), ("N", "M")], ids=["fixed", "open", "all open"])
def test_showing_a_network_reads_no_weights(tmp_path: Path, x: tuple[int | str, ...]) -> None:
    from dovetail_sdk.summary import summarize, with_known_shapes, with_sizes_of_one

    path = huge(tmp_path, x)
    tracemalloc.start()
    try:
        network = dovetail.parse(path, late_weights=True, limits=Limits(memory=1 << 20))
        graph, reason = with_known_shapes(network, {})
        summary = summarize(graph, reason, *with_sizes_of_one(network, {}))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 22
    assert summary.parameter_bytes in (4 * HUGE[0] * HUGE[1], 8 * HUGE[0] * HUGE[1])  # with its transpose or without
    assert not names_of_read(constants(network))


def test_the_command_reads_no_weights(tmp_path: Path) -> None:
    path = huge(tmp_path, (HUGE[1], "N"))
    program = (
        "import sys; from click.testing import CliRunner; from dovetail_sdk.cli import main;"
        "done = CliRunner().invoke(main, ['show', sys.argv[1]]); print(done.output);"
        # Not ru_maxrss: that begins with what the process had that started this one.
        "most = next(line for line in open('/proc/self/status') if line.startswith('VmHWM'));"
        "print(done.exit_code, most.split()[1])"
    )
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=True)
    code, kibibytes = map(int, done.stdout.splitlines()[-1].split())
    assert code == 0, done.stdout
    assert kibibytes < 200 << 10
    assert "1.0 GiB" in done.stdout or "2.0 GiB" in done.stdout


@saved
@pytest.mark.parametrize("harm", ["removed", "cut", "written", "replaced"])
def test_a_file_that_changed_is_not_read(tmp_path: Path, save: Saver, harm: str) -> None:
    path, data = save(tmp_path)
    network = dovetail.parse(path, late_weights=True)
    found = constants(network)
    first = found["v"].value.copy()
    content = data.read_bytes()
    if harm == "removed":
        data.unlink()
    elif harm == "cut":
        os.truncate(data, len(content) // 2)
    elif harm == "written":
        data.write_bytes(bytes(len(content)))
        os.utime(data, ns=(1, 1))  # whatever the grain of the clock
    else:
        (tmp_path / "new").write_bytes(bytes(len(content)))
        (tmp_path / "new").replace(data)
    weights = next(one for one in found.values() if one.unread is not None)
    for _ in range(2):
        with pytest.raises(ModelError, match=rf"'.*{data.name}' was removed or changed before tensor 'w' was read") as caught:
            _ = weights.value
        assert caught.value.code is ErrorCode.MODEL_NOT_FOUND
        assert caught.value.hint
    with pytest.raises(ModelError, match="was removed or changed"):
        dovetail.load(network, "CpuRef")
    np.testing.assert_array_equal(found["v"].value, first)


@pytest.mark.parametrize("nbytes", [None, 0, 100])
def test_data_that_is_missing_or_short_is_told_of_at_once(tmp_path: Path, nbytes: int | None) -> None:
    path, data = beside(tmp_path)
    data.unlink() if nbytes is None else os.truncate(data, nbytes)
    told = []
    for is_late in (False, True):
        with pytest.raises(ModelError) as caught:
            dovetail.parse(path, late_weights=is_late)
        told.append((caught.value.code, str(caught.value)))
    assert told[0] == told[1]


def test_a_file_cut_within_a_tensor_is_told_of_at_once(tmp_path: Path) -> None:
    path, _ = inside(tmp_path)
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(ModelError, match="is not an ONNX model"):
        dovetail.parse(path, late_weights=True)


def test_what_is_read_later_counts_then(tmp_path: Path) -> None:
    path, _ = beside(tmp_path)
    limits = Limits(memory=WEIGHTS["w"].nbytes)
    with pytest.raises(LimitError, match="tensor"):
        dovetail.parse(path, limits=limits)
    network = dovetail.parse(path, limits=limits, late_weights=True)
    assert network.bytes_of_constants() > limits.memory
    with pytest.raises(LimitError):
        dovetail.load(network, "CpuRef", limits=limits)


def test_a_relative_path_stays_that_of_the_folder_it_was_read_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside(tmp_path)
    monkeypatch.chdir(tmp_path)
    network = dovetail.parse("model.onnx", late_weights=True)
    monkeypatch.chdir("/")
    np.testing.assert_array_equal(constants(network)["v"].value, WEIGHTS["v"])


@pytest.mark.parametrize("make", [inside, beside])
def test_a_path_up_from_a_link_is_that_of_the_folder_it_leads_to(tmp_path: Path, make: Callable[[Path], Any]) -> None:
    (tmp_path / "models" / "inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to("models/inner")
    make(tmp_path / "models")
    network = dovetail.parse(os.path.join(tmp_path, "link", "..", "model.onnx"), late_weights=True)
    np.testing.assert_array_equal(constants(network)["w"].value, WEIGHTS["w"])


@pytest.mark.parametrize("make", [inside, beside])
def test_a_change_is_noticed_though_the_time_of_the_content_is_set_back(
    tmp_path: Path, make: Callable[[Path], tuple[Path, Path]]
) -> None:
    path, data = make(tmp_path)
    network, before = dovetail.parse(path, late_weights=True), data.stat()
    for _ in range(200):  # until the clock of the file system has gone on
        data.write_bytes(bytes(before.st_size))
        os.utime(data, ns=(before.st_atime_ns, before.st_mtime_ns))
        if data.stat().st_ctime_ns != before.st_ctime_ns:
            break
        time.sleep(0.01)
    with pytest.raises(ModelError, match="was removed or changed"):
        _ = constants(network)["w"].value


def test_a_constant_is_shown_without_its_value(tmp_path: Path) -> None:
    """A debugger or a failed test shows it, also where its file is gone."""
    path, _ = inside(tmp_path)
    found = constants(dovetail.parse(path, late_weights=True))["w"]
    path.unlink()
    assert repr(found) == "Constant(value=<float32[64, 96] in a file>, dtype=None)"
    assert found.unread is not None


def test_its_size_is_told_while_a_thread_reads_it(tmp_path: Path) -> None:
    """The thread may be done with it between any two looks."""
    path, _ = inside(tmp_path)

    class Reading(Constant, kind="test.Reading"):
        @property
        def unread(self) -> LateArray | None:
            found = super().unread
            _ = self.value  # as another thread would
            return found

    late = constants(dovetail.parse(path, late_weights=True))["w"].unread
    assert late is not None
    for told, expected in (("nbytes", 64 * 96 * 4), ("elements", 64 * 96)):
        assert getattr(Reading.late(late), told) == expected


def test_threads_get_one_array(tmp_path: Path) -> None:
    path, _ = beside(tmp_path)
    for _ in range(20):
        found = constants(dovetail.parse(path, late_weights=True))["v"]
        with ThreadPoolExecutor(8) as pool:
            assert len({id(one) for one in pool.map(lambda _: found.value, range(16))}) == 1  # noqa: B023  # all run in here
