"""TFLite_Detection_PostProcess: its options, what it reads, and what LiteRT gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from flatbuffers import flexbuffers
from tflite_making import Model

import dovetail
from dovetail import DovetailError, ErrorCode
from dovetail.layers import Dequantize, DetectionPostProcess
from dovetail_tflite import TfliteParser

OPTIONS: dict[str, Any] = {
    "max_detections": 3,
    "max_classes_per_detection": 1,
    "num_classes": 2,
    "nms_score_threshold": 0.0,
    "nms_iou_threshold": 0.5,
    "y_scale": 10.0,
    "x_scale": 10.0,
    "h_scale": 5.0,
    "w_scale": 5.0,
}
ENCODED = [[0, 0, 0, 0], [0, 1, 0, 0], [0, -1, 0, 0], [0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0]]
SCORES = [[0, 0.9, 0.8], [0, 0.75, 0.72], [0, 0.6, 0.5], [0, 0.93, 0.95], [0, 0.5, 0.4], [0, 0.3, 0.2]]
ANCHORS = [[0.5, 0.5, 1, 1], [0.5, 0.5, 1, 1], [0.5, 0.5, 1, 1], [0.5, 10.5, 1, 1], [0.5, 10.5, 1, 1], [0.5, 100.5, 1, 1]]
BYTES = ((1 / 128, 128), (1 / 256, 0), (101 / 256, 0))
"""Scales and zero points of the operands in bytes."""
BOXES_OF_BYTES = [
    [-0.197265625, 10.060546875, 0.986328125, 11.244140625],
    [-0.197265625, -0.197265625, 0.986328125, 0.986328125],
    [-0.197265625, 100.013671875, 0.986328125, 101.197265625],
]
"""What LiteRT 2.3.0 finds in them."""


def model(tmp_path: Any, options: Any = OPTIONS, *, quantized: bool = False, inputs: int = 3, outputs: int = 4) -> Any:
    """Write a model of one operator with anchors that are constant."""
    made = Model("detector")
    graph = made.main
    dtype = "uint8" if quantized else "float32"
    how: list[dict[str, Any]] = [{"quantization": one} if quantized else {} for one in BYTES]
    anchors = in_bytes(ANCHORS, *BYTES[2]) if quantized else np.float32(ANCHORS)
    operands = [
        graph.input("boxes", dtype, (1, 6, 4), **how[0]),
        graph.input("scores", dtype, (1, 6, 3), **how[1]),
        graph.tensor("anchors", dtype, (6, 4), value=anchors, **how[2]),
    ]
    results = [graph.output(graph.tensor(name, "float32", ())) for name in ("where", "what", "sure", "count")[:outputs]]
    data = options if isinstance(options, bytes) else bytes(flexbuffers.Dumps(options))
    graph.operator("custom:TFLite_Detection_PostProcess", operands[:inputs], results, custom_options=data)
    path = tmp_path / "detector.tflite"
    path.write_bytes(made.build())
    return path


def in_bytes(values: Any, scale: float, zero_point: int) -> Any:
    return np.clip(np.round(np.asarray(values) / scale) + zero_point, 0, 255).astype(np.uint8)


def descriptor(tmp_path: Any, options: dict[str, Any]) -> DetectionPostProcess:
    [found] = [
        layer.descriptor
        for layer in TfliteParser().parse(model(tmp_path, options)).layers
        if isinstance(layer.descriptor, DetectionPostProcess)
    ]
    return found


def test_options(tmp_path: Any) -> None:
    more = {"detections_per_class": 7, "use_regular_nms": True, "max_classes_per_detection": 2, "w_scale": 2.5}
    assert descriptor(tmp_path, OPTIONS | more | {"nms_score_threshold": 0.1, "unknown": "text"}) == DetectionPostProcess(
        max_detections=3,
        num_classes=2,
        max_classes_per_detection=2,
        detections_per_class=7,
        regular=True,
        score_threshold=float(np.float32(0.1)),
        iou_threshold=0.5,
        scales=(10.0, 10.0, 5.0, 2.5),
    )


def test_options_left_out(tmp_path: Any) -> None:
    found = descriptor(tmp_path, {name: OPTIONS[name] for name in OPTIONS if name != "nms_score_threshold"})
    assert (found.detections_per_class, found.regular, found.score_threshold) == (100, False, 0)
    null = descriptor(tmp_path, OPTIONS | {"detections_per_class": None, "use_regular_nms": None})
    assert (null.detections_per_class, null.regular) == (100, False)


@pytest.mark.parametrize("value", [1, True, 2.0])
def test_numbers_of_other_types(tmp_path: Any, value: Any) -> None:
    found = descriptor(tmp_path, OPTIONS | {"use_regular_nms": value, "max_detections": 4.0, "y_scale": 10})
    assert (found.regular, found.max_detections, found.scales[0]) == (True, 4, 10.0)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("nms_iou_threshold", 0.0, "nms_iou_threshold of 0.0"),
        ("nms_iou_threshold", 1.1, "nms_iou_threshold of 1.1"),
        ("nms_iou_threshold", float("nan"), "nms_iou_threshold of nan"),
        ("max_detections", 2.5, "max_detections of 2.5"),
        ("max_detections", float("inf"), "max_detections of inf"),
        ("max_detections", float("nan"), "max_detections of nan"),
        ("num_classes", "many", "num_classes that is no number"),
        ("y_scale", [1, 2], "y_scale that is no number"),
    ],
)
def test_options_that_contradict_the_operator(tmp_path: Any, name: str, value: Any, text: str) -> None:
    with pytest.raises(DovetailError, match=text) as caught:
        TfliteParser().parse(model(tmp_path, OPTIONS | {name: value}))
    assert caught.value.code is ErrorCode.MODEL_MALFORMED


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("max_detections", value) for value in (0, -1, 2**31, 2**63 - 1)),
        *(("num_classes", value) for value in (0, 1, 4, 2**62)),
        *(("max_classes_per_detection", value) for value in (0, 2**31 - 1)),
        *(("detections_per_class", value) for value in (0, -(2**63))),
        *(("nms_score_threshold", value) for value in (float("nan"), float("inf"))),
        *(("h_scale", value) for value in (0.0, float("inf"), float("nan"))),
    ],
)
def test_numbers_out_of_range(tmp_path: Any, name: str, value: Any) -> None:
    with pytest.raises(DovetailError) as caught:
        dovetail.load(model(tmp_path, OPTIONS | {name: value}), backends=["CpuRef"])
    assert caught.value.code in (ErrorCode.ATTRIBUTE_INVALID, ErrorCode.SHAPE_MISMATCH)


@pytest.mark.parametrize("data", [b"", b"\0\0", b"\xff" * 40, bytes(1 << 17)], ids=["none", "short", "ones", "long"])
def test_broken_options(tmp_path: Any, data: bytes) -> None:
    with pytest.raises(DovetailError, match="broken options") as caught:
        TfliteParser().parse(model(tmp_path, data))
    assert caught.value.code is ErrorCode.MODEL_MALFORMED


@pytest.mark.parametrize("count", [{"inputs": 2}, {"outputs": 3}])
def test_other_numbers_of_slots(tmp_path: Any, count: dict[str, int]) -> None:
    with pytest.raises(DovetailError, match=r"has \d (in|out)puts, expected") as caught:
        TfliteParser().parse(model(tmp_path, **count))
    assert caught.value.code is ErrorCode.MODEL_MALFORMED


def run(path: Any, *feeds: Any) -> list[Any]:
    with dovetail.load(path, backends=["CpuRef"]) as net:
        return list(net.run(dict(zip(("boxes", "scores"), feeds, strict=True))).values())


def test_what_litert_gives(tmp_path: Any) -> None:
    """The example of TensorFlow Lite's own test of its kernel."""
    where, what, sure, count = run(model(tmp_path), np.float32([ENCODED]), np.float32([SCORES]))
    assert np.allclose(where, [[[0, 10, 1, 11], [0, 0, 1, 1], [0, 100, 1, 101]]], atol=1e-5)
    assert what.tolist() == [[1, 0, 0]]
    assert np.allclose(sure, [[0.95, 0.9, 0.3]])
    assert count.tolist() == [3]


def test_bytes_stand_for_real_numbers(tmp_path: Any) -> None:
    path = model(tmp_path, quantized=True)
    assert sum(isinstance(layer.descriptor, Dequantize) for layer in TfliteParser().parse(path).layers) == 3
    found = run(path, in_bytes([ENCODED], *BYTES[0]), in_bytes([SCORES], *BYTES[1]))
    assert np.allclose(found[0], [BOXES_OF_BYTES], rtol=1e-6)
    assert found[1].tolist() == [[1, 0, 0]]
    assert found[2].tolist() == [[243 / 256, 230 / 256, 77 / 256]]
    assert found[3].tolist() == [3]
