"""The network whose plans are kept: its model, and what it computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from dovetail import LoadedNetwork

BACKENDS = (["CpuRef"], ["CpuAcc", "CpuRef"])
RANDOM = np.random.default_rng(8)
FILTER = RANDOM.standard_normal((20, 3, 3, 3)).astype(np.float32)
OTHER = RANDOM.standard_normal((20, 3, 3, 3)).astype(np.float32)
WEIGHTS = RANDOM.standard_normal((20 * 6 * 6, 10)).astype(np.float32)
IMAGE = RANDOM.standard_normal((2, 3, 6, 6)).astype(np.float32)


def convolutional(filters: np.ndarray[Any, Any] = FILTER, batch: int | str = 2) -> onnx.ModelProto:
    nodes = [
        helper.make_node("Conv", ["image", "filters"], ["conv"], name="conv", pads=[1] * 4),
        helper.make_node("Relu", ["conv"], ["act"]),
        helper.make_node("MaxPool", ["act"], ["pool"], kernel_shape=[3, 3], pads=[1] * 4),
        helper.make_node("Flatten", ["pool"], ["flat"]),
        helper.make_node("MatMul", ["flat", "weights"], ["dense"], name="dense"),
        helper.make_node("Softmax", ["dense"], ["probabilities"]),
    ]
    inputs = [helper.make_tensor_value_info("image", 1, [batch, 3, 6, 6])]
    outputs = [helper.make_tensor_value_info("probabilities", 1, None)]
    arrays = [numpy_helper.from_array(filters, "filters"), numpy_helper.from_array(WEIGHTS, "weights")]
    graph = helper.make_graph(nodes, "convolutional", inputs, outputs, arrays)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def written(path: Path, model: onnx.ModelProto) -> Path:
    path.write_bytes(model.SerializeToString())
    return path


def run(net: LoadedNetwork, image: np.ndarray[Any, Any] = IMAGE) -> np.ndarray[Any, Any]:
    return net.run({"image": image})["probabilities"]


def expected(filters: np.ndarray[Any, Any] = FILTER, image: np.ndarray[Any, Any] = IMAGE) -> np.ndarray[Any, Any]:
    """The network in float64."""
    windows = np.lib.stride_tricks.sliding_window_view(
        np.pad(image.astype(np.float64), [(0, 0), (0, 0), (1, 1), (1, 1)]), (3, 3), (2, 3)
    )
    x = np.maximum(np.einsum("nchwij,ocij->nohw", windows, filters.astype(np.float64)), 0)
    x = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)], constant_values=-np.inf)
    x = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3)).max((-2, -1))
    x = x.reshape(len(x), -1) @ WEIGHTS.astype(np.float64)
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)
