"""Trained networks on the model of the NPU: answers beside those of the reference."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dovetail

MODELS = Path(__file__).parents[3] / "shared" / "models"
NEEDED = pytest.mark.skipif(not MODELS.is_dir(), reason=f"{MODELS} is not there: trained networks that are not the project's")

pytestmark = [NEEDED, pytest.mark.slow]


def answers(path, pictures, backends):
    """Return the first output for each picture, in the quantization of the model."""
    with dovetail.load(path, backends) as net:
        (info,), (name,) = net.inputs, [one.name for one in net.outputs][:1]
        return np.concatenate([net.run({info.name: picture[None]})[name] for picture in pictures])


def goldens(folder):
    """Return the pictures of a model's golden files, and what LiteRT answers."""
    files = sorted((MODELS / folder).glob("*.golden.npz"))
    loaded = [np.load(file) for file in files if "rand" not in file.name]
    return [one["in_0"][0] for one in loaded], np.concatenate([one["ref_0"] for one in loaded])


@pytest.mark.parametrize(
    ("folder", "model"),
    [
        ("mobilenet_v1_0.25_128_quant", "mobilenet_v1_0.25_128_quant.tflite"),
        ("mobilenet_v1_0.75_192_quant", "mobilenet_v1_0.75_192_quant.tflite"),
        ("mobilenet_v2_1.0_224_quant", "mobilenet_v2_1.0_224_quantized_1_default_1.tflite"),
        ("person_detect", "person_detect_fixed.tflite"),
    ],
)
def test_pictures_are_classified_as_by_the_reference(folder, model):
    pictures, expected = goldens(folder)
    made = answers(MODELS / folder / model, pictures, ["VsiNpu", "CpuRef"])
    np.testing.assert_array_equal(made.argmax(axis=1), expected.argmax(axis=1))
    assert np.abs(made.astype(int) - expected).max() <= 32  # of 256: an eighth, after 28 layers that round otherwise


def test_keywords_are_spotted_as_often_as_by_the_reference():
    data = np.load(MODELS / "mlperf_tiny" / "kws01.data.npz")
    sounds, labels = data["x_int8"], data["y"]
    path = MODELS / "mlperf_tiny" / "kws_ref_model.tflite"
    answered = [answers(path, sounds, backends) for backends in (["VsiNpu", "CpuRef"], ["CpuRef"])]
    right = [np.mean(one.argmax(axis=1) == labels) for one in answered]
    assert right[1] > 0.85
    assert abs(right[0] - right[1]) <= 0.005


@pytest.mark.parametrize(
    "model",
    [
        "mobilenet_v1_0.25_128_quant/mobilenet_v1_0.25_128_quant.tflite",
        "mobilenet_v2_1.0_224_quant/mobilenet_v2_1.0_224_quantized_1_default_1.tflite",
        "person_detect/person_detect_fixed.tflite",
        "mlperf_tiny/kws_ref_model.tflite",
    ],
)
def test_every_layer_of_these_networks_is_on_the_npu(model):
    network = dovetail.parse(MODELS / model)
    (info,) = (layer.output.known_info for layer in network.inputs)
    sizes = [size if isinstance(size, int) else 1 for size in info.shape]
    placement = dovetail.optimize(network, ["VsiNpu", "CpuRef"], shapes={network.inputs[0].name: sizes}).placement
    (row,) = placement.layers
    assert row.backend == "VsiNpu"
