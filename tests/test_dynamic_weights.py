"""Scheme `dynamic` of `dovetail quantize` on trained models with labelled data."""

from __future__ import annotations

from pathlib import Path

import golden_files
import numpy as np
import onnx
import pytest
from click.testing import CliRunner

import dovetail
from dovetail_sdk.cli import main

pytestmark = pytest.mark.skipif(not golden_files.MODELS.is_dir(), reason=golden_files.ABSENT)


def digits() -> tuple[np.ndarray, np.ndarray]:
    """Return pictures as the model was trained with, and what they show."""
    with np.load(golden_files.MODELS / "mnist" / "mnist500.data.npz") as held:
        pixels, labels = held["x"], held["y"]
    return ((pixels / 255 - 0.1307) / 0.3081).astype(np.float32)[:, None, None], labels


def things() -> tuple[np.ndarray, np.ndarray]:
    """Return pictures of ten kinds of things; LiteRT names 76 of these 100 by the float model."""
    with np.load(golden_files.MODELS / "mlperf_tiny" / "ic01.data.npz") as held:
        return held["x_uint8"].astype(np.float32)[:, None], held["y"]


@pytest.mark.parametrize(("model", "data"), [("mnist/mnist_pytorch.onnx", digits), ("mlperf_tiny/ic_resnet.tflite", things)])
def test_trained_models_lose_at_most_a_point(tmp_path: Path, model: str, data) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="the reference is ONNX Runtime; see [bench] in pyproject.toml")
    source, output = golden_files.MODELS / model, tmp_path / "dynamic.onnx"
    pictures, labels = data()
    name = dovetail.parse(source).inputs[0].name
    np.savez(tmp_path / "samples.npz", **{name: pictures[:4]})
    arguments = [
        "quantize",
        str(source),
        "--calibration",
        str(tmp_path / "samples.npz"),
        "-o",
        str(output),
        "--scheme",
        "dynamic",
    ]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    found = {}
    for path, backends in ((source, ["CpuAcc", "CpuRef"]), (output, ["CpuAcc", "CpuRef"]), (output, ["CpuRef"])):
        with dovetail.load(path, backends) as net:
            found[path, len(backends)] = np.stack([next(iter(net.run({name: one}).values()))[0] for one in pictures])
    session = runtime.InferenceSession(output.read_bytes(), providers=["CPUExecutionProvider"])
    expected = np.stack([session.run(None, {name: one})[0][0] for one in pictures])
    for count in (1, 2):
        # Sums of some hundred products in float32, in another order.
        np.testing.assert_allclose(found[output, count], expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())
    right = {path: np.mean(found[path, 2].argmax(axis=1) == labels) for path in (source, output)}
    assert right[source] > 0.75
    assert right[output] >= right[source] - 0.01
    assert np.abs(found[output, 2] - found[source, 2]).max() > 1e-3 * np.abs(expected).max()  # its weights are others
    stored = {one.data_type for one in onnx.load(output).graph.initializer if len(one.dims) > 1}
    assert onnx.TensorProto.INT8 in stored
    assert onnx.TensorProto.FLOAT not in stored
