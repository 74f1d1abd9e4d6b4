"""What a detector found is listed and drawn; the boxes are those that it was given as anchors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result
from PIL import Image

from dovetail import Network
from dovetail_sdk.detections import Detection, detections, draw, find_detector

Invoke = Callable[..., Result]

ANCHORS = np.float32([[0.5, 0.25, 0.5, 0.25], [0.25, 0.75, 0.25, 0.25], [0.75, 0.75, 0.25, 0.25]])
"""As y and x of the center, height, width."""
SCORES = np.float32([[[0.1, 0.9], [0.6, 0.2], [0.1, 0.05]]])


def detector(*, outputs: int = 4) -> Network:
    """A network of an input of a picture, of whose detections it finds the same in each."""
    net = Network("detector")
    picture = net.input("picture", (1, 4, 4, 3))
    nothing = net.multiplication(net.mean(picture, axes=(1, 2, 3)), np.zeros((), np.float32))
    boxes = net.addition(np.zeros((1, 3, 4), np.float32), net.reshape(nothing, (1, 1, 1)))
    found = net.detection_post_process(boxes, SCORES, ANCHORS, 3, 2, score_threshold=0.01)
    for slot, name in list(zip(found, ("boxes", "classes", "scores", "count"), strict=True))[:outputs]:
        net.output(slot, name)
    return net


RESULTS = {
    "boxes": np.float32([[[0.25, 0.125, 0.75, 0.375], [0.125, 0.625, 0.375, 1.25], [0, 0, 0, 0]]]),
    "classes": np.float32([[1, 0, 0]]),
    "scores": np.float32([[0.9, 0.6, 0.0]]),
    "count": np.float32([2]),
}


def test_the_outputs_of_a_detector_are_found() -> None:
    found = find_detector(detector())
    assert found is not None
    assert found.outputs == ("boxes", "classes", "scores", "count")
    assert found.num_classes == 2


def test_no_detector() -> None:
    assert find_detector(detector(outputs=3)) is None
    net = Network()
    net.output(net.relu(net.input("x", (1, 3))), "y")
    assert find_detector(net) is None


@pytest.mark.parametrize(("output", "left"), [("boxes", 1), ("classes", 1), ("scores", 1), ("count", 0)])
def test_what_is_nan_is_not_detected(output: str, left: int) -> None:
    found = find_detector(detector())
    assert found is not None
    results = {name: array.copy() for name, array in RESULTS.items()}
    results[output].reshape(-1)[0] = np.nan
    assert len(detections(found, results)) == left
    assert len(detections(found, RESULTS)) == 2


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ((), ["class 1", "class 0"]),
        (("cat", "dog"), ["dog", "cat"]),
        (("???", "cat", "dog"), ["dog", "cat"]),
        (("cat",), ["class 1", "cat"]),
    ],
    ids=["none", "of classes", "with background", "too few"],
)
def test_labels(labels: tuple[str, ...], expected: list[str]) -> None:
    found = find_detector(detector())
    assert found is not None
    assert [one.label for one in detections(found, RESULTS, labels)] == expected


def test_detections_below_a_score_are_left_out() -> None:
    found = find_detector(detector())
    assert found is not None
    assert [one.number for one in detections(found, RESULTS, least=0.7)] == [1]


def test_boxes_in_pixels_stay_within_the_picture() -> None:
    assert Detection(0, "x", 1.0, (0.25, 0.5, 0.75, 1.0)).pixels((200, 100)) == (50, 50, 150, 100)
    assert Detection(0, "x", 1.0, (-0.1, -3.0, 1.25, 1e30)).pixels((200, 100)) == (0, 0, 200, 100)


@pytest.fixture
def shown(dovetail: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Run the command on a detector, with a white picture of 200 by 100 pixels."""
    Image.new("RGB", (200, 100), "white").save(tmp_path / "white.png")
    (tmp_path / "labels.txt").write_text("cat\ndog\n")
    (tmp_path / "detector.onnx").write_bytes(b"")

    def invoke(*options: Any, outputs: int = 4, source: Any = None) -> Result:
        monkeypatch.setattr("dovetail.parse", lambda path, limits=None: detector(outputs=outputs))
        given = source or tmp_path / "white.png"
        return dovetail("run", tmp_path / "detector.onnx", "-b", "CpuRef", "-i", given, "--layout", "nhwc", *options)

    return invoke


def test_a_table_of_detections(shown: Invoke, tmp_path: Path) -> None:
    result = shown("--labels", tmp_path / "labels.txt")
    assert result.exit_code == 0, result.output
    lines = [line.split() for line in result.stdout.splitlines()]
    assert ["0.900", "dog", "25", "25", "75", "75"] in lines
    assert ["0.600", "cat", "125", "12", "175", "38"] in lines
    assert "0.100" not in result.stdout
    assert "scores: row" not in result.stdout


def test_without_a_picture_boxes_are_parts_of_it(shown: Invoke) -> None:
    result = shown("--least", 0.8, source="random")
    assert ["0.900", "class", "1", "0.125", "0.250", "0.375", "0.750"] in [line.split() for line in result.stdout.splitlines()]


def test_nothing_is_detected(shown: Invoke) -> None:
    assert "nothing was detected with a score of 0.95 or more" in shown("--least", 0.95).stdout


def test_picture_of_16_bits_is_drawn_upon_as_it_looks(tmp_path: Path) -> None:
    Image.fromarray(np.full((40, 50), 100 << 8, np.uint16)).save(tmp_path / "deep.png")
    draw(tmp_path / "deep.png", [], tmp_path / "drawn.png")
    with Image.open(tmp_path / "drawn.png") as drawn:
        assert np.asarray(drawn).shape == (40, 50, 3)
        assert (np.asarray(drawn) == 100).all()


def test_boxes_are_drawn_on_the_picture(shown: Invoke, tmp_path: Path) -> None:
    result = shown("--labels", tmp_path / "labels.txt", "--draw", tmp_path / "found.png")
    assert result.exit_code == 0, result.output
    with Image.open(tmp_path / "found.png") as image:
        assert (image.size, image.format) == ((200, 100), "PNG")
        pixels = np.asarray(image.convert("RGB")).astype(int)
    colored = (pixels != 255).any(axis=-1)
    for left, top, right, bottom in ((25, 25, 75, 75), (125, 12, 175, 38)):
        assert colored[bottom - 1, left:right].all()
        assert colored[top:bottom, right - 1].all()
        assert not colored[top + 5 : bottom - 5, left + 5 : right - 5].all()
    assert not colored[80:, :].any()
    assert not (pixels[74, 30] == pixels[37, 130]).all(), "classes have colors of their own"


@pytest.mark.parametrize(
    ("options", "arguments", "message"),
    [
        (["found.jpg"], {}, "the suffix must be .png"),
        (["found.png"], {"outputs": 3}, "DetectionPostProcess"),
        (["found.png"], {"source": "random"}, "needs one picture"),
    ],
)
def test_what_cannot_be_drawn(
    shown: Invoke, tmp_path: Path, options: list[str], arguments: dict[str, Any], message: str
) -> None:
    result = shown("--draw", tmp_path / options[0], **arguments)
    assert result.exit_code == 2
    assert message in result.output
    assert not (tmp_path / options[0]).exists()


def test_labels_name_classes(dovetail: Invoke, classifier: Path, tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("red\ngreen\nblue\nlow\nquarter\n")
    Image.new("RGB", (8, 8), (0, 255, 0)).save(tmp_path / "green.png")
    result = dovetail(
        "run", classifier, "-b", "CpuRef", "--shape", "N=1", "-i", tmp_path / "green.png", "--labels", tmp_path / "names.txt"
    )
    assert result.exit_code == 0, result.output
    assert ["0", "1", "1", "green"] in [line.split() for line in result.stdout.splitlines()]


def test_the_command_reads_sounds(dovetail: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import wave

    with wave.open(str(tmp_path / "a.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(np.array([16384, -16384], "<i2").tobytes())
    net = Network()
    net.output(net.relu(net.input("sound", (1, 3))), "y")
    monkeypatch.setattr("dovetail.parse", lambda path, limits=None: net)
    (tmp_path / "net.onnx").write_bytes(b"")
    output = tmp_path / "y.npy"
    result = dovetail("run", tmp_path / "net.onnx", "-b", "CpuRef", "-i", tmp_path / "a.wav", "-o", output)
    assert result.exit_code == 0, result.output
    np.testing.assert_array_equal(np.load(output), [[0.5, 0, 0]])
    assert "2 samples of 16 bits at 8000 Hz, padded with silence to 3, float32 [1, 3]" in " ".join(result.stdout.split())
    refused = dovetail("run", tmp_path / "net.onnx", "-b", "CpuRef", "-i", tmp_path / "a.wav", "--rate", 16000)
    assert refused.exit_code == 2
    assert "8000 samples a second" in " ".join(refused.output.split())
