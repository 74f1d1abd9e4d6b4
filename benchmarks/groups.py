"""Measure networks of grouped convolutions beside the peers, by `models.py`.

    python3 dev.py bench groups [arguments of models]

The networks are made here, with random weights. What they are named after: the width of a group
and the size of an image of ResNeXt, RegNet and ShuffleNet; depthwise convolutions with several
filters for each channel. Products of one pixel stand around each, as in those networks.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx

Layer = tuple[int, int, int]
"""Side of the window, filters, groups."""


def bottleneck(channels: int, within: int, groups: int) -> list[Layer]:
    """Return a block: products of one pixel around a grouped window of 3 x 3."""
    return [(1, within, 1), (3, within, groups), (1, channels, 1)]


NETWORKS: dict[str, tuple[int, int, list[Layer]]] = {  # channels and size of the image, layers
    "resnext_4_56": (256, 56, 2 * bottleneck(256, 128, 32)),
    "resnext_8_28": (512, 28, 2 * bottleneck(512, 256, 32)),
    "regnet_16_14": (160, 14, 2 * bottleneck(160, 160, 10)),
    "regnet_24_14": (240, 14, 2 * bottleneck(240, 240, 10)),
    "regnet_40_14": (400, 14, 2 * bottleneck(400, 400, 10)),
    "multiplier_2_112": (32, 112, [(1, 32, 1), (3, 64, 32), (1, 32, 1)]),
    "multiplier_4_28": (64, 28, [(1, 64, 1), (3, 256, 64), (1, 64, 1)]),
    "shuffle_80_28": (240, 28, 3 * [(1, 240, 3)]),
    "shuffle_50_28": (200, 28, 3 * [(1, 200, 4)]),
}


def write(path: Path, channels: int, size: int, layers: list[Layer]) -> None:
    """Write a chain of convolutions with bias and ReLU."""
    rng = np.random.default_rng(0)
    nodes, weights = [], []
    image = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, channels, size, size])
    for number, (side, filters, groups) in enumerate(layers):
        shape = (filters, channels // groups, side, side)
        drawn = rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
        weights.append(onnx.numpy_helper.from_array(drawn.astype(np.float32), f"w{number}"))
        weights.append(onnx.numpy_helper.from_array(rng.standard_normal(filters).astype(np.float32), f"b{number}"))
        inputs = [f"y{number - 1}" if number else "x", f"w{number}", f"b{number}"]
        nodes.append(onnx.helper.make_node("Conv", inputs, [f"c{number}"], group=groups, pads=4 * [side // 2]))
        nodes.append(onnx.helper.make_node("Relu", [f"c{number}"], [f"y{number}"]))
        channels = filters
    result = onnx.helper.make_tensor_value_info(f"y{len(layers) - 1}", onnx.TensorProto.FLOAT, [1, channels, size, size])
    graph = onnx.helper.make_graph(nodes, path.stem, [image], [result], weights)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)


def main() -> None:
    """Write the networks into a folder of their own, and measure them."""
    from versus.command import command

    with tempfile.TemporaryDirectory() as folder:
        for name, network in NETWORKS.items():
            write(Path(folder, name + ".onnx"), *network)
        command([folder, *sys.argv[1:]], prog_name="dev.py bench groups")


if __name__ == "__main__":
    main()
