"""Model files that change or go while a network that was loaded from its plan lives."""

from __future__ import annotations

import gc
import os
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest

import dovetail
from dovetail import ErrorCode, ModelError
from dovetail.loading.held_files import HeldFiles, stamp_of
from kept_plans.networks import IMAGE, OTHER, RANDOM, convolutional, expected, run, written


def test_a_network_outlives_its_file_but_what_was_not_read_is_gone(model: Path) -> None:
    with dovetail.load(model):
        pass
    with dovetail.load(model) as net:
        model.unlink()
        np.testing.assert_allclose(run(net), expected(), rtol=1e-4, atol=1e-6)
        with pytest.raises(ModelError) as raised:
            net.placement  # noqa: B018
    assert raised.value.code == ErrorCode.MODEL_NOT_FOUND
    with pytest.raises(ModelError):
        dovetail.load(model)


def _replace(model: Path, network: onnx.ModelProto) -> None:
    written(model.with_suffix(".new.onnx"), network).replace(model)


@pytest.mark.parametrize(
    "change", [lambda model: model.unlink(), lambda model: _replace(model, convolutional(OTHER, batch="N"))]
)
@pytest.mark.parametrize("is_external", [False, True])
def test_a_network_of_open_sizes_outlives_its_file(
    tmp_path: Path, parsed: list[str], change: Callable[[Path], None], is_external: bool
) -> None:
    model = tmp_path / "model.onnx"
    external = {"save_as_external_data": True, "location": "weights.bin", "size_threshold": 64} if is_external else {}
    onnx.save(convolutional(batch="N"), model, **external)
    for _ in range(2):
        net = dovetail.load(model, ["CpuAcc", "CpuRef"])
        np.testing.assert_allclose(run(net), expected(), rtol=1e-4, atol=1e-6)
    assert len(parsed) == 1
    change(model)
    for n in (3, 4):
        image = RANDOM.standard_normal((n, 3, 6, 6)).astype(np.float32)
        np.testing.assert_allclose(run(net, image), expected(image=image), rtol=1e-4, atol=1e-6)
    assert net.outputs[0].shape == ("N", 10)
    assert len(parsed) == 2


def test_a_file_that_was_written_over_is_missed(tmp_path: Path) -> None:
    model = written(tmp_path / "model.onnx", convolutional(batch="N"))
    for _ in range(2):
        net = dovetail.load(model)
        run(net)
    with model.open("r+b") as file:
        file.write(b"other")
    with pytest.raises(ModelError) as raised:
        run(net, np.concatenate([IMAGE, IMAGE]))
    assert raised.value.code == ErrorCode.MODEL_NOT_FOUND


def test_files_are_held_as_long_as_the_network(tmp_path: Path) -> None:
    model = written(tmp_path / "model.onnx", convolutional(batch="N"))
    dovetail.load(model).unload()

    def held() -> int:
        return sum(os.path.realpath(one) == str(model) for one in Path("/proc/self/fd").iterdir())

    nets = [dovetail.load(model) for _ in range(5)]
    for net in nets:
        np.testing.assert_allclose(run(net), expected(), rtol=1e-4, atol=1e-6)
    assert held() == 5
    del net, nets
    gc.collect()
    assert held() == 0


def test_held_files_are_copied_by_several_threads_at_once(tmp_path: Path) -> None:
    file = tmp_path / "weights.bin"
    file.write_bytes(np.arange(3 << 18, dtype=np.int64).tobytes())
    wanted = file.read_bytes()
    held = HeldFiles({str(file): stamp_of(str(file)) or ()})
    file.unlink()
    folders = [tmp_path / str(number) for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        copies = list(pool.map(lambda folder: held.copy(str(file), str(folder)), folders))
    assert all(Path(copy).read_bytes() == wanted for copy in copies)


def test_a_held_file_that_cannot_be_copied_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = written(tmp_path / "model.onnx", convolutional(batch="N"))
    for _ in range(2):
        net = dovetail.load(model)
        run(net)
    model.unlink()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with pytest.raises(ModelError, match="TMPDIR") as raised:
        run(net, np.concatenate([IMAGE, IMAGE]))
    assert raised.value.code == ErrorCode.MODEL_NOT_FOUND
