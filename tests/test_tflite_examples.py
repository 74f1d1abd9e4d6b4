"""The scripts of examples/tflite, run as a user runs them, where models lie beside the project."""

import re
import subprocess
import sys
import wave

import golden_files
import numpy as np
import pytest
from PIL import Image

MODELS = golden_files.MODELS
TINY = MODELS / "mlperf_tiny"
IMAGES = MODELS / "images"
SSD = MODELS / "ssd_mobilenet_v1_coco_quant" / "ssd_mobilenet_v1_coco_quant.tflite"
RATE = 16000

pytestmark = pytest.mark.skipif(not MODELS.is_dir(), reason=golden_files.ABSENT)


@pytest.fixture
def example(root, tmp_path):
    def run(name, *arguments):
        script = root / "examples" / "tflite" / f"{name}.py"
        command = [sys.executable, "-W", "error", str(script), *map(str, arguments)]
        done = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.mark.parametrize(
    "model",
    [
        "mobilenet_v1_0.75_192_quant/mobilenet_v1_0.75_192_quant.tflite",
        "mobilenet_v2_1.0_224_quant/mobilenet_v2_1.0_224_quantized_1_default_1.tflite",
        "mobilenet_v1_0.25_224_float/mobilenet_v1_0.25_224.tflite",
    ],
)
def test_a_cat_is_a_cat(example, model):
    lines = example("classify", MODELS / model, IMAGES / "cat.png", IMAGES / "imagenet_labels.txt").splitlines()
    assert len(lines) == 5
    assert "cat" in lines[0]
    shares = [float(line.split("%")[0]) for line in lines]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) <= 100.5


def test_two_dogs_are_found_and_drawn(example, tmp_path):
    """Against what LiteRT's reference kernels find: boxes of top, left, bottom, right."""
    output = example("detect", SSD, IMAGES / "pets.jpg", IMAGES / "coco_labels.txt", tmp_path / "found.png")
    found = re.findall(r"([\d.]+)  (\w+) +from \((-?\d+), (-?\d+)\) to \((-?\d+), (-?\d+)\)", output)
    with Image.open(IMAGES / "pets.jpg") as before, Image.open(tmp_path / "found.png") as after:
        size, shades = after.size, [np.asarray(image.convert("RGB")).astype(int) for image in (before, after)]
    expected = [(0.82, (0.11, 0.24, 0.68, 0.49)), (0.74, (0.38, 0.67, 0.85, 0.97))]
    assert [label for _, label, *_ in found] == ["dog", "dog"]
    for (score, _, left, top, right, bottom), (sure, box) in zip(found, expected, strict=True):
        assert abs(float(score) - sure) <= 0.02
        parts = [int(top) / size[1], int(left) / size[0], int(bottom) / size[1], int(right) / size[0]]
        np.testing.assert_allclose(parts, box, atol=0.02)
        side = (shades[1][int(top) : int(bottom), int(left)] == [255, 0, 0]).all(axis=-1)
        assert side.all(), "the left side of the box is drawn"
    changed = (shades[0] != shades[1]).any(axis=-1).mean()
    assert 0.005 < changed < 0.2, "boxes and labels are drawn, and nothing else"


def test_keywords(example):
    right, count = re.search(
        r"(\d+) of (\d+) right", example("keywords", TINY / "kws_ref_model.tflite", TINY / "kws01.data.npz")
    ).groups()
    assert int(count) == 1000
    assert abs(int(right) - 901) <= 10  # what LiteRT's reference kernels get right


@pytest.mark.parametrize(("model", "error", "area"), [("ad01_int8", 10.265, 0.9068), ("ad01_fp32", 9.707, 0.9142)])
def test_anomalies(example, model, error, area):
    """Against what LiteRT's reference kernels give for the same windows."""
    output = example("anomaly", TINY / f"{model}.tflite", TINY / "ad01.data.npz")
    found = re.search(r"as recorded ([\d.]+),.*ROC curve ([\d.]+)", output, re.DOTALL)
    assert abs(float(found[1]) - error) < 0.02 * error
    assert abs(float(found[2]) - area) < 0.005


def level(samples):
    return 20 * np.log10(np.sqrt((samples**2).mean()))


def samples_of(path):
    with wave.open(str(path), "rb") as file:
        return np.frombuffer(file.readframes(file.getnframes()), "<i2") / 32768


def test_noise_is_taken_out_of_a_stream(example, tmp_path):
    with np.load(MODELS / "silero_vad" / "speech10s.data.npz") as held:
        speech = held["pcm"][: 4 * RATE] / 32768
        spoken = np.repeat(held["prob"], 512)[: len(speech)]
    noisy = speech + np.random.default_rng(0).normal(0, 0.01, len(speech))
    with wave.open(str(tmp_path / "noisy.wav"), "wb") as file:
        file.setparams((1, 2, RATE, 0, "NONE", "not compressed"))
        file.writeframes((np.clip(noisy, -1, 1) * 32767).round().astype("<i2").tobytes())
    model = MODELS / "dtln_lstm_int8" / "dtln_noise_suppression.tflite"
    output = example("denoise", model, tmp_path / "noisy.wav", tmp_path / "clean.wav")
    assert "a new stream of the same sound gives the same" in output
    clean = samples_of(tmp_path / "clean.wav")
    assert clean.shape == speech.shape
    assert level(clean[spoken < 0.1]) < level(noisy[spoken < 0.1]) - 10, "pauses are quieter by more than 10 dB"
    assert abs(level(clean[spoken > 0.9]) - level(speech[spoken > 0.9])) < 1.5, "speech is as loud as it was"
    assert np.corrcoef(clean[spoken > 0.9], speech[spoken > 0.9])[0, 1] > 0.98
